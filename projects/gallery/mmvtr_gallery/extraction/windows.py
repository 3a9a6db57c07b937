"""Encode the windows of a gallery's videos one by one, as the gallery encodes a part of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Optional, Union

import numpy as np
from mmengine.config import Config
from torch import nn

from mmvtr import apis
from mmvtr.datasets.videos.video_files import pictures_span
from mmvtr_gallery.store.moments import Windowing, Windows, sliding

#: A function that encodes a part of a file: path, start and end in seconds -> float32 [D].
Encode = Callable[[Union[str, Path], float, float], np.ndarray]


def windows_of(
    path: Union[str, Path],
    start: Optional[float],
    end: Optional[float],
    windowing: Windowing,
    encode: Encode,
) -> Windows:
    """Return the encoded windows of a file, or of a part of it.

    Args:
        path: the file.
        start, end: seconds of the part; None: the file begins, or ends, there.
        windowing: length and stride of the windows.
        encode: returns the vector of one window.

    Raises:
        BrokenVideoError, FileNotFoundError: the file cannot be read.
        ValueError: the file ends before the part begins, or too many windows; names the file.
    """
    begin, last = pictures_span(str(path))
    begin = max(begin, start or 0.0)
    last = last if end is None else min(last, end)
    try:
        spans = sliding(begin, last, *windowing)
    except ValueError as error:
        raise ValueError(f'{path}: {error}') from error
    return Windows(*zip(*spans), np.stack([encode(path, *span) for span in spans]))


def encoder_of_parts(model: nn.Module, cfg: Config) -> Encode:
    """Return an encoder of parts of files, for use in this thread only.

    Args:
        model: a retriever in eval mode.
        cfg: its config.
    """
    videos = apis.VideoEncoder(model, cfg)

    def encode(path: Any, start: float, end: float) -> np.ndarray:
        found = videos(videos.read(path, start=start, end=end)).levels
        return apis.vectors(model, found)[0].cpu().numpy()

    return encode
