"""DiDeMo (Hendricks et al., ICCV 2017) as paragraph retrieval.

Each row of the json describes a moment; all rows of a video, joined by a space in the order of the
file, are one text for the whole video (Zhang et al., ECCV 2018; Collaborative Experts).
"""

from __future__ import annotations

from typing import Any, Iterator

from mmvtr.datasets.annotation_files import read_rows
from mmvtr.datasets.annotation_values import Place, caption, field, identifier, string
from mmvtr.datasets.folders import file_of
from mmvtr.datasets.formats.published import Annotations, Captions, PublishedDataset, Split
from mmvtr.registry import DATASETS

#: Annotators saw six segments of five seconds; nothing after them is described.
SECONDS = 30.0

LISTS = 'collaborative-experts'
SPLITS = {
    'train': Split(f'{LISTS}/train_list.txt', 'train_data.json', 8392, 8392),
    'val': Split(f'{LISTS}/val_list.txt', 'val_data.json', 1065, 1065),
    'test': Split(f'{LISTS}/test_list.txt', 'test_data.json', 1004, 1004),
}


@DATASETS.register_module()
class DiDeMoDataset(PublishedDataset):
    """DiDeMo: the first 30 s of videos and their paragraphs.

    The videos are those of Collaborative Experts' lists or, without a list, all of the json. A text
    has the id of its video, a file name such as ``USER_NUMBER_HASH.mov``.

    Args:
        split: 'train', 'val' or 'test'.
        video_suffix: replaces the video's own suffix, for a folder of converted files; '' = its
            own.
        **kwargs: arguments of :class:`PublishedDataset`.
    """

    title = 'DiDeMo'
    splits = SPLITS
    layout = f'train_data.json, val_data.json, test_data.json; {LISTS}/*_list.txt'
    example = '10015567@N08_3655084291_d8b58466fa.mov'
    root = 'data/didemo'
    suffix = ''

    def read_split(self) -> Annotations:
        """Return the videos of the split's list, or all videos of its json, in order."""
        sentences: dict[str, list[str]] = {}
        path = self.file(SPLITS[self.split].source)
        for place, row in read_rows(path):
            sentence = field(row, 'description', string, place).strip()
            sentences.setdefault(field(row, 'video', identifier, place), []).append(sentence)
        captions: Captions = {
            video: [(video, caption(' '.join(descriptions), Place(path).key(video)))]
            for video, descriptions in sentences.items()
        }
        return self.listed(captions)

    def held_out(self) -> Iterator[tuple[str, list[str]]]:
        """Return the videos in the json files of val and test."""
        for name in ('val_data.json', 'test_data.json'):
            if (self.ann_root / name).is_file():
                rows = read_rows(self.ann_root / name)
                yield name, [field(row, 'video', identifier, place) for place, row in rows]

    def video_record(self, name: str) -> dict[str, Any]:
        """Return the record of a video file, cut at second 30."""
        stem = (self.video_suffix and name.rpartition('.')[0]) or name
        path = file_of(self.video_dir, stem, self.video_suffix)
        return dict(video_id=name, path=str(path), end=SECONDS)
