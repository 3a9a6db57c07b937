"""When in a video a text matches best, also of models that score a video as a whole."""

from __future__ import annotations

import copy
from collections import OrderedDict
from typing import NamedTuple, Optional

import torch
from mmengine.config import Config
from torch import nn

from mmvtr import apis
from mmvtr.datasets.videos.durations import duration_of
from mmvtr.engine.moments import matches_of
from mmvtr.models.similarities.best_frame import BestFrameSimilarity
from mmvtr.store import Item
from mmvtr.structures import Levels

#: Videos whose frames are kept.
KEPT = 256


class Moment(NamedTuple):
    """Where a text matches and where the item itself is, in seconds of the file."""

    begin: float
    end: float
    item_begin: float
    item_end: float


class Moments:
    """The frame of a video that fits a text best.

    Of a model that matches at a frame (``paired_matches``) it is that one.  Of one that averages
    its frames (a cosine of the level ``'global'``, whose tokens are frames) it is the frame with
    the largest cosine, as ``tools/find_moments.py`` with ``BestFrameSimilarity``.

    Args:
        model: a retriever in eval mode.
        cfg: its config.
    """

    def __init__(self, model: nn.Module, cfg: Config) -> None:
        self._cfg = cfg
        self._model = model
        if not hasattr(model.similarity, 'paired_matches'):
            # The same weights under another similarity, and the model itself as it was.
            self._model = copy.copy(model)
            self._model._modules = dict(model._modules, similarity=BestFrameSimilarity())
        self._kept: OrderedDict[tuple, tuple[Levels, float, float]] = OrderedDict()

    @torch.no_grad()
    def __call__(self, text: str, item: Item) -> Optional[Moment]:
        """None: this model's videos have no frames of their own.

        Raises:
            BrokenVideoError, FileNotFoundError: the file cannot be read.
            KeyError: a word that a closed vocabulary lacks.
        """
        video, begin, length = self._frames(item)
        names = self._model.similarity.levels
        frames = [video[name].tokens for name in names if name in video]
        if len(frames) < len(names) or any(tokens is None for tokens in frames):
            return None
        query = apis.encode_texts(self._model, self._cfg, [text]).levels
        first = torch.zeros(1, dtype=torch.long)
        span = matches_of(self._model, query, video, first, first).span[0].tolist()
        return Moment(*(begin + share * length for share in (*span, 0.0, 1.0)))

    def _frames(self, item: Item) -> tuple[Levels, float, float]:
        """Its levels, where it begins in its file, and how long it is."""
        key = (item.path, item.start, item.end)
        if key not in self._kept:
            span = (item.start, item.end)
            found = apis.encode_videos(
                self._model, self._cfg, [item.path], ids=[item.id], spans=[span]
            )
            begin = item.start or 0.0
            end = duration_of(item.path) if item.end is None else item.end
            self._kept[key] = (found.levels, begin, end - begin)
        self._kept.move_to_end(key)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return self._kept[key]
