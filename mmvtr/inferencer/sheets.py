"""Pictures for a retrieval sheet: the query, and frames of each hit."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Optional

import numpy as np

from mmvtr.datasets.videos.frame_sampling import uniform
from mmvtr.datasets.videos.resizing import resize_short_side
from mmvtr.datasets.videos.video_io import read_frames
from mmvtr.storage import write_atomically

#: Pixels of the short side of a frame.
SIDE = 144


def film_strip(path: str, count: int) -> np.ndarray:
    """A few frames of a video, spread evenly: uint8 RGB [F, H, W, 3].

    Raises:
        BrokenVideoError: it cannot be read.
        FileNotFoundError: there is no such file.
    """
    images = read_frames(path, lambda times: uniform(times, count))
    return np.stack(resize_short_side(images, SIDE))


def draw_sheet(prediction: dict[str, Any], strips: dict[str, np.ndarray]) -> Any:
    """A matplotlib figure of one query and what was found.

    Args:
        prediction: as the inferencer gives it.
        strips: frames by file.
    """
    drawing = import_module('mmvtr.visualization')
    of_texts = prediction['kind'] == 'text'
    hits = [
        drawing.SheetItem(
            title=hit['id'] if of_texts else hit['item'] or hit['id'],
            frames=strips[hit['item']] if of_texts else np.zeros((0, 1, 1, 3), np.uint8),
            score=hit.get('raw_score', hit['score']),
            bias=hit.get('bias'),
            sigma=hit.get('sigma'),
            moment=hit.get('moment'),
            duration=hit.get('duration'),
        )
        for hit in prediction['hits']
    ]
    query = prediction['query'] if of_texts else strips[prediction['query']]
    return drawing.retrieval_sheet(query, hits, sigma=prediction.get('sigma'))


def files_of(prediction: dict[str, Any]) -> list[Optional[str]]:
    """The videos of a sheet; None where nobody knows one's file."""
    if prediction['kind'] == 'video':
        return [prediction['query']]
    return [hit['item'] for hit in prediction['hits']]


def save_figure(figure: Any, path: Path) -> None:
    """As png, which appears when it is complete."""
    write_atomically(path, lambda file: figure.savefig(file, format='png'))
