"""Token-wise and vector similarity: two matrices and their mean."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from mmvtr.models.similarities.cosine import CosineSimilarity
from mmvtr.models.similarities.token import TokenSimilarity
from mmvtr.registry import MODELS
from mmvtr.structures import Levels


@MODELS.register_module()
class TokenVectorSimilarity(TokenSimilarity):
    """A :class:`TokenSimilarity` beside the cosine of the level's vectors.

    NeighborRetr's two matrices: tokens are its local level, vectors its global one.

    Args:
        **kwargs: see :class:`TokenSimilarity`; no ``shortlist``.

    Raises:
        ValueError: a shortlist.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if self.shortlist is not None:
            raise ValueError('TokenVectorSimilarity has no shortlist: leave it out')
        self.vectors = CosineSimilarity(levels=(self.level,))

    @property
    def cosines(self) -> dict[str, tuple[str, ...]]:
        """Matrices that are cosines, and of which level."""
        return {'global': (self.level,)}

    def forward(self, texts: Levels, videos: Levels) -> dict[str, Tensor]:
        """Levels of T texts and of V videos -> ``'token'``, ``'global'`` and ``'scores'``, their
        mean, [T, V] each, in float32."""
        token = super().forward(texts, videos)['token']
        whole = self.vectors(texts, videos)['scores']
        return {'token': token, 'global': whole, 'scores': (token + whole) / 2}
