"""Charades-STA (Gao et al., ICCV 2017) as partially relevant video retrieval."""

from __future__ import annotations

import re
from pathlib import Path

from mmvtr.datasets.annotation_files import read_lines, read_table
from mmvtr.datasets.annotation_values import (
    duration,
    field,
    problem,
    shown,
    unique_in,
    wrong,
)
from mmvtr.datasets.formats.prvr import Official, PRVRDataset, Untrimmed, read_moment
from mmvtr.datasets.formats.published import Split
from mmvtr.registry import DATASETS

# MS-SL prints 5,538 training videos; its 12,408 captions belong to 5,338, as in Charades-STA.
SPLITS = {
    'train': Split('TextData/charadestrain.caption.txt', 'charades_sta_train.txt', 5338, 12408),
    'test': Split('TextData/charadestest.caption.txt', 'charades_sta_test.txt', 1334, 3720),
}


@DATASETS.register_module()
class CharadesSTADataset(PRVRDataset):
    """Charades-STA: whole videos and captions of their moments.

    The times come from ``charades_sta_*.txt``, the lengths of the videos from Charades' own
    ``Charades_v1_*.csv``. Every seventh moment ends up to 1.5 s after its video.

    Args:
        split: 'train' or 'test'.
        **kwargs: arguments of :class:`PRVRDataset`.

    Raises:
        ValueError: see :class:`PRVRDataset`; a video that the csv file lacks.
    """

    title = 'Charades-STA'
    collection = 'charades'
    splits = SPLITS
    layout = (
        'TextData/charades{train,test}.caption.txt, '
        'charades_sta_{train,test}.txt with Charades_v1_{train,test}.csv'
    )
    example = '3MSZA'
    root = 'data/charades'

    def read_official(self, split: str) -> Official:
        """Return the moments from lines ``VIDEO start end##caption``."""
        lengths = _read_lengths(self.file(f'Charades_v1_{split}.csv'))
        path = self.file(SPLITS[split].source)
        videos: Official = {}
        for place, line in read_lines(path):
            match = re.fullmatch(r'(\S+) (\S+) (\S+?)##(.*)', line)
            if match is None:
                raise wrong(place, "'VIDEO start end##caption'", line)
            name, start, end, text = match.groups()
            if name not in lengths:
                raise problem(place, f'Charades_v1_{split}.csv has no video {shown(name)}')
            video = videos.setdefault(name, Untrimmed(lengths[name], []))
            video.moments.append(read_moment(text, (start, end), place))
        return videos


def _read_lengths(path: Path) -> dict[str, float]:
    rows = read_table(path, ('id', 'length'))
    names = unique_in(rows, 'id', 'video')
    lengths = [field(row, 'length', duration, place) for place, row in rows]
    return dict(zip(names, lengths))
