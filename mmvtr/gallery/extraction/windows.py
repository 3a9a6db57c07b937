"""The windows of a gallery's videos, encoded one by one as the gallery encodes a part of a file."""

from __future__ import annotations

from typing import Iterator, Sequence

import numpy as np
from mmengine.config import Config
from torch import nn

from mmvtr import apis
from mmvtr.datasets.videos.video_files import pictures_span
from mmvtr.gallery.store.items import Item
from mmvtr.gallery.store.moments import Windows, sliding


def encoded_windows(
    model: nn.Module, cfg: Config, items: Sequence[Item], length: float
) -> Iterator[tuple[str, Windows]]:
    """Ids of items that have a file, and their windows; one begins every half of ``length``.

    Args:
        model: a retriever in eval mode.
        cfg: its config.
        length: seconds of a window.

    Raises:
        BrokenVideoError, FileNotFoundError: a file cannot be read.
        ValueError: a length that is not positive.
    """
    videos = apis.VideoEncoder(model, cfg)
    for item in items:
        if item.path is None:
            continue
        begin, end = pictures_span(item.path)
        begin = max(begin, item.start or 0.0)
        end = end if item.end is None else min(end, item.end)
        spans = sliding(begin, end, length, length / 2)
        rows = []
        for start, stop in spans:
            found = videos(videos.read(item.path, start=start, end=stop)).levels
            rows.append(apis.vectors(model, found).cpu().numpy())
        yield item.id, Windows(*zip(*spans), np.concatenate(rows))
