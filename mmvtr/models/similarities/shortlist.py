"""Two-stage search: a cheap score of all videos, an expensive one of the best of them."""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor, nn

from mmvtr.errors import UserError
from mmvtr.functional.similarities.tiles import top_of_rows
from mmvtr.functional.similarities.token_interaction import below_shortlist
from mmvtr.functional.values import check_range
from mmvtr.models.layers.pooling import unit
from mmvtr.structures import Embedding, Levels


class ShortlistSimilarity(nn.Module):
    """Base class of similarities that can score only a shortlist of each text's best videos.

    Args:
        level: level whose vectors and tokens are read.
        shortlist: k: each text's k best videos by the cosine of the level's vectors are ranked by
            the scores, the others follow below in the order of that cosine; for evaluation only.
            None: all videos are ranked by the scores.

    Attributes:
        exact: whether all of the last scores were the similarity's own (no shortlist, or one with
            all videos).  Normalisation of scores over a gallery requires this.

    Raises:
        ValueError: a shortlist below 1.
    """

    needs_tokens = True

    def __init__(self, *, level: str, shortlist: Optional[int]) -> None:
        super().__init__()
        if shortlist is not None:
            check_range('[1, inf]', shortlist=shortlist)
        self.level = level
        self.shortlist = shortlist
        self.exact = shortlist is None

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels that it reads."""
        return (self.level,)

    def forward(self, texts: Levels, videos: Levels) -> dict[str, Tensor]:
        """Return score matrices of T texts with V videos, each float32 [T, V].

        They are those of :meth:`whole`. If the shortlist is shorter than V, they are ``'scores'``
        and ``'pooled'``, the cosines of the vectors.

        Raises:
            ValueError: the level has no tokens, or an item has no valid one.
            RuntimeError: a shortlist in training.
        """
        if self.shortlist is not None and self.training:
            raise UserError(
                f'shortlist={self.shortlist} is for evaluation: train without a shortlist'
            )
        t, v = texts[self.level], videos[self.level]
        self.exact = self.shortlist is None or self.shortlist >= len(v.mean)
        with torch.autocast(t.mean.device.type, enabled=False):
            if self.exact:
                return self.whole(t, v)
            pooled = unit(t.mean) @ unit(v.mean).t()
            columns = top_of_rows(pooled, self.shortlist)[1]
            scores = below_shortlist(pooled, columns, self.of_some(t, v, columns))
            return {'pooled': pooled, 'scores': scores}

    def whole(self, t: Embedding, v: Embedding) -> dict[str, Tensor]:
        """Return matrices [T, V] of all pairs by name, including ``'scores'``."""
        raise NotImplementedError(f'{type(self).__name__} must define whole()')

    def of_some(self, t: Embedding, v: Embedding, columns: Tensor) -> Tensor:
        """Score text i with the videos ``columns[i]``, int64 [T, C] -> float [T, C]."""
        raise NotImplementedError(f'{type(self).__name__} must define of_some()')
