"""FIRE: published human judgments of unannotated pairs of MSR-VTT."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Union

import numpy as np

from mmvtr.datasets.annotation_files import read_json
from mmvtr.datasets.annotation_values import (
    Place,
    field,
    listing,
    mapping,
    problem,
    shown,
    string,
    wrong,
)
from mmvtr.datasets.pair_values import PairValues, read_qrels
from mmvtr.registry import TASK_UTILS

TASK_UTILS.register_module(module=read_qrels)
#: The published ``fire_msrvtt_dataset.json``.
FIRE_BYTES, FIRE_SHA = 6_809_410, 'db0fff43'


@TASK_UTILS.register_module()
def read_fire(path: Union[str, Path], *, dataset: str, check: bool = True) -> PairValues:
    """Read ``fire_msrvtt_dataset.json``: judged pairs of MSR-VTT; 1 = relevant, else 0.

    Rodriguez et al., "Fighting FIRe with FIRE" (2022). The texts are captions, for a dataset's
    ``judgments=dict(type='read_fire', ...)``. A pair repeated with the same label counts once.

    Args:
        path: the file.
        dataset: required value of the field 'dataset'; other pairs are left out.
        check: whether to verify its size and the beginning of its sha256.

    Raises:
        FileNotFoundError: no such file.
        ValueError: another version, a git LFS pointer, another format, a pair with two labels, or
            no pair of the dataset.
    """
    path = Path(path)
    if check:
        _check_fire(path)
    place, labels = Place(path), dict(relevant=1.0, irrelevant=0.0)
    values: dict[tuple[str, str], float] = {}
    for n, entry in enumerate(listing(read_json(path, ('annotations',))['annotations'], place)):
        row = place.at(f'annotation {n}')
        text, video, label, of = (
            field(mapping(entry, row), key, string, row)
            for key in ('query', 'video_id', 'label', 'dataset')
        )
        if label not in labels:
            raise wrong(row, "'relevant' or 'irrelevant'", label)
        if of != dataset:
            continue
        if values.setdefault((text.strip(), video), labels[label]) != labels[label]:
            raise problem(row, f'a second label of {shown(text)} and video {shown(video)}')
    if not values:
        raise problem(place, f'has no pair of dataset {shown(dataset)}')
    texts, videos = zip(*values)
    return PairValues(texts, videos, np.array([*values.values()]), str(path), by_caption=True)


def _check_fire(path: Path) -> None:
    content = path.read_bytes()
    where = 'it is kept in git LFS, in mm-retrieval-evaluation of facebookresearch: git lfs pull'
    if content.startswith(b'version https://git-lfs'):
        raise problem(Place(path), f"is git LFS's pointer to a file, not the file; {where}")
    sha = hashlib.sha256(content).hexdigest()
    if len(content) != FIRE_BYTES or not sha.startswith(FIRE_SHA):
        raise problem(
            Place(path),
            f'has {len(content)} bytes and sha256 {sha[:8]}..., expected {FIRE_BYTES} and '
            f'{FIRE_SHA}...: another version; {where}, or check=False',
        )
