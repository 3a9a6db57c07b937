"""Find when in a video a text matches best, even for models that score a video as a whole."""

from __future__ import annotations

import copy
import os
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union

import torch
from mmengine.config import Config
from torch import nn

from mmvtr import apis
from mmvtr.datasets.videos.video_files import pictures_span
from mmvtr.engine.hooks.moments_hook import matches_of
from mmvtr.engine.loops.evaluation import Encoded
from mmvtr.models.similarities.best_frame import BestFrameSimilarity
from mmvtr.structures import Levels
from mmvtr_gallery.store import Item

#: Number of videos whose encoded frames are cached.
KEPT = 256


class Moment(NamedTuple):
    """Where a text matches, and where the item itself lies, in seconds of the file."""

    start: float
    end: float
    item_start: float
    item_end: float


class Frames(NamedTuple):
    """The frames of an item, before or after encoding.

    Attributes:
        key: file, its modification time, and the item's start and end.
        content: the batch of frames, or the model's output for it.
        begin: begin of the item, in seconds of the file.
        length: length of the item in seconds.
    """

    key: tuple
    content: Union[dict[str, Any], Encoded]
    begin: float
    length: float


class Moments:
    """Finds the frame of a video that best matches a text: :meth:`read`, and then a call.

    If the model's similarity locates a frame (``paired_matches``), it is that one.  For a model
    that averages its frames (a cosine of the level ``'global'``, whose tokens are frames) it is the
    frame with the largest cosine, as in ``mmvtr find_moments`` with ``BestFrameSimilarity``.

    Args:
        model: a retriever in eval mode.
        cfg: its config.
    """

    def __init__(self, model: nn.Module, cfg: Config) -> None:
        self._model = model
        if not hasattr(model.similarity, 'paired_matches'):
            # Share the weights but use another similarity; the model itself stays unchanged.
            self._model = copy.copy(model)
            self._model._modules = dict(model._modules, similarity=BestFrameSimilarity())
        self._encode_text = apis.TextEncoder(self._model, cfg)
        self._videos = apis.VideoEncoder(self._model, cfg)
        self._kept: OrderedDict[tuple, Frames] = OrderedDict()
        self._lock = threading.Lock()

    def read(self, item: Item, path: Path) -> Frames:
        """Return the frames of an item, cached or read from its file; callable from any thread.

        Raises:
            BrokenVideoError, FileNotFoundError: the file cannot be read.
        """
        key = (path, os.stat(path).st_mtime_ns, item.start, item.end)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        batch = self._videos.read(path, start=item.start, end=item.end)
        begin, end = pictures_span(str(path))
        begin = max(begin, item.start or 0.0)
        end = end if item.end is None else min(end, item.end)
        return Frames(key, batch, begin, end - begin)

    @torch.no_grad()
    def __call__(self, text: str, frames: Frames) -> Optional[Moment]:
        """Return where a text matches; None: this model's videos have no frame-level features.

        To be called in the model's thread.

        Raises:
            KeyError: a word is not in a closed vocabulary.
        """
        video = self._levels(frames)
        names = self._model.similarity.levels
        tokens = [video[name].tokens for name in names if name in video]
        if len(tokens) < len(names) or any(one is None for one in tokens):
            return None
        query = self._encode_text([text]).levels
        first = torch.zeros(1, dtype=torch.long)
        span = matches_of(self._model, query, video, first, first).span[0].tolist()
        return Moment(*(frames.begin + share * frames.length for share in (*span, 0.0, 1.0)))

    def _levels(self, frames: Frames) -> Levels:
        if not isinstance(frames.content, Encoded):
            frames = frames._replace(content=self._videos(frames.content))
            with self._lock:
                self._kept[frames.key] = frames
                if len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
        return frames.content.levels
