"""TVR (Lei et al., ECCV 2020) as partially relevant video retrieval: five moments per TV clip.

Captions of all types, also those about the subtitles, are texts, as in other work.
"""

from __future__ import annotations

from mmvtr.datasets.annotation_files import read_json_lines
from mmvtr.datasets.annotation_values import (
    duration,
    field,
    identifier,
    present,
    problem,
    shown,
)
from mmvtr.datasets.formats.prvr import Official, PRVRDataset, Untrimmed, read_moment
from mmvtr.datasets.formats.published import Split
from mmvtr.registry import DATASETS

SPLITS = {
    'train': Split('TextData/tvrtrain.caption.txt', 'tvr_train_release.jsonl', 17435, 87175),
    'test': Split('TextData/tvrtest.caption.txt', 'tvr_val_release.jsonl', 2179, 10895),
}


@DATASETS.register_module()
class TVRDataset(PRVRDataset):
    """TVR: whole clips and captions of their moments.

    'test' is the public validation set: the official test sets do not say which clip a caption
    belongs to. The clips are not published, only features.

    Args:
        split: 'train' or 'test'.
        **kwargs: arguments of :class:`PRVRDataset`.
    """

    title = 'TVR'
    collection = 'tvr'
    splits = SPLITS
    layout = 'TextData/tvr{train,test}.caption.txt, tvr_train_release.jsonl, tvr_val_release.jsonl'
    example = 'friends_s01e03_seg02_clip_19'
    root = 'data/tvr'

    def read_official(self, split: str) -> Official:
        """Return the moments, one per row; a clip's rows may be scattered but state one
        duration."""
        path = self.file(SPLITS[split].source)
        videos: Official = {}
        for place, row in read_json_lines(path):
            name = field(row, 'vid_name', identifier, place)
            length = field(row, 'duration', duration, place)
            video = videos.setdefault(name, Untrimmed(length, []))
            if video.duration != length:
                what = f'{shown(name)} lasts {length:g} s here, and {video.duration:g} s before'
                raise problem(place, what)
            text, times = present(row, 'desc', place), present(row, 'ts', place)
            video.moments.append(read_moment(text, times, place))
        return videos
