"""What a set says: of its files by a plain reading, of a dataset by what it has made of them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np


class Content(NamedTuple):
    """What the files of a layout say."""

    videos: list[dict[str, Any]]
    texts: list[dict[str, Any]]


def content_of(dataset: Any) -> Content:
    """What a dataset of the project says, in the same form."""
    ids = [video['video_id'] for video in dataset.videos]
    videos = []
    for v, record in enumerate(dataset.videos):
        own = {key: value for key, value in record.items() if key != 'path'}
        videos.append(dict(own, features=dataset.load_video(v)['frames'].numpy()))
    texts = []
    for record in dataset.texts:
        own = {key: value for key, value in record.items() if key != 'video_idx'}
        texts.append(dict(own, videos=[ids[v] for v in record['video_idx']]))
    return Content(videos, texts)


def difference(found: Any, right: Any, where: str = '') -> str:
    """The first place at which two contents differ, '' if there is none; numbers to 1e-9."""
    if isinstance(found, dict) and isinstance(right, dict):
        if set(found) != set(right):
            return f'{where}: {sorted(found)}, not {sorted(right)}'
        pairs = [(found[key], right[key], f'{where}.{key}') for key in right]
    elif isinstance(found, (list, tuple)) and isinstance(right, (list, tuple)):
        if len(found) != len(right):
            return f'{where}: {len(found)} of {len(right)}'
        pairs = [(a, b, f'{where}[{n}]') for n, (a, b) in enumerate(zip(found, right))]
    elif isinstance(found, np.ndarray):
        same = found.shape == right.shape and np.array_equal(found, right)
        return '' if same else f'{where}: other numbers'
    else:
        numbers = all(isinstance(x, (int, float)) for x in (found, right))
        same = math.isclose(found, right, abs_tol=1e-9) if numbers else found == right
        return '' if same else f'{where}: {found!r:.60}, not {right!r:.60}'
    return next(filter(None, (difference(*pair) for pair in pairs)), '')
