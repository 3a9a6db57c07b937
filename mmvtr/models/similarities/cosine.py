"""Cosine similarity of the embeddings of T texts and V videos, and of Gaussians in closed form."""

from __future__ import annotations

from typing import Optional, Sequence

import torch
from torch import Tensor, nn

from mmvtr.functional.uncertainty.gaussian import closed_form_distance
from mmvtr.functional.values import at_least_float32, check_one_of, product
from mmvtr.models.layers.pooling import unit
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding, Levels


@MODELS.register_module()
class CosineSimilarity(nn.Module):
    """Cosine of the global vectors, level by level, and their weighted mean.

    Args:
        levels: the levels to compare; CLIP2Video has ``('global', 'aligned')``.
        weights: one per level, default equal; normalised to sum to 1.
    """

    #: Whether ``forward`` reads ``Embedding.tokens`` (evaluation keeps them only then).
    needs_tokens = False

    def __init__(
        self, *, levels: Sequence[str] = ('global',), weights: Optional[Sequence[float]] = None
    ) -> None:
        super().__init__()
        self.weights = level_weights(levels, weights)

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels that it reads."""
        return tuple(self.weights)

    @property
    def cosines(self) -> dict[str, tuple[str, ...]]:
        """Names of the matrices that are cosines -> the levels of each."""
        return {**{name: (name,) for name in self.weights}, 'scores': self.levels}

    def flat(self, items: Levels) -> Tensor:
        """Return one vector per item, whose inner products are the scores: levels of N -> [N, D'].

        A nearest-neighbour index stores it; both sides are scaled by the square root of the level's
        weight.
        """
        units = [unit(items[name].mean) * weight**0.5 for name, weight in self.weights.items()]
        return torch.cat(units, -1)

    def forward(self, texts: Levels, videos: Levels) -> dict[str, Tensor]:
        """Map levels of T texts, V videos -> ``{level: [T, V]}`` and ``'scores'``, in float32."""
        return self.compare(self.prepare(texts), self.prepare(videos))

    def prepare(self, items: Levels) -> Levels:
        """Compute the per-item part: unit vectors of the levels that are read, in float32."""
        return {name: Embedding(unit(items[name].mean)) for name in self.weights}

    def compare(self, texts: Levels, videos: Levels) -> dict[str, Tensor]:
        """Return the matrices of :meth:`forward` from prepared levels."""
        matrices = {n: product(texts[n].mean, videos[n].mean.t()) for n in self.weights}
        if len(matrices) == 1:
            matrices['scores'] = next(iter(matrices.values()))
        else:
            matrices['scores'] = sum(w * matrices[name] for name, w in self.weights.items())
        return matrices


def level_weights(
    levels: Sequence[str], weights: Optional[Sequence[float]] = None
) -> dict[str, float]:
    """Return one weight per level, normalised to sum to 1; equal by default.

    Raises:
        ValueError: not one weight per level, or weights without a positive sum.
    """
    weights = weights or [1.0] * len(levels)
    if len(weights) != len(levels) or not sum(weights) > 0:
        raise ValueError(
            f'one weight per level expected, with a positive sum, got {weights} for {levels}'
        )
    return {name: w / sum(weights) for name, w in zip(levels, weights)}


def token_levels(similarity: nn.Module) -> tuple[str, ...]:
    """Return the names of the levels whose tokens a similarity reads."""
    return tuple(similarity.levels) if similarity.needs_tokens else ()


@MODELS.register_module()
class GaussianSimilarity(nn.Module):
    """Similarity of Gaussians, which is larger for closer means and smaller variances.

    Args:
        form: ``'distance'``: minus the mean squared distance of samples (PCME++;
            :func:`.closed_form_distance`).  ``'product'``: ``mu_t . mu_v - sum_d (sigma_td^2 +
            sigma_vd^2) / 2`` (ProLIP).  For unit means the first is twice the second minus 2.
        level: level made by a head (``model.heads``).

    Raises:
        ValueError: unknown form; (called) the level is not a Gaussian.
    """

    needs_tokens = False

    def __init__(self, *, form: str = 'distance', level: str = 'gaussian') -> None:
        super().__init__()
        check_one_of(('distance', 'product'), form=form)
        self.form = form
        self.level = level

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels that it reads."""
        return (self.level,)

    def forward(self, texts: Levels, videos: Levels) -> dict[str, Tensor]:
        """Map levels of T texts, V videos -> ``'gaussian'`` and ``'scores'`` [T, V], the same."""
        t, v = self._gaussian(texts), self._gaussian(videos)
        if self.form == 'distance':
            scores = -closed_form_distance(t.mean, t.log_std, v.mean, v.log_std)
        else:
            spread_t, spread_v = ((2 * e.log_std).exp().sum(-1) / 2 for e in (t, v))
            scores = product(t.mean, v.mean.t()) - spread_t[:, None] - spread_v
        return {self.level: scores, 'scores': scores}

    def _gaussian(self, items: Levels) -> Embedding:
        level = items.get(self.level)
        if level is None or level.log_std is None:
            raise ValueError(
                f'{type(self).__name__} needs sigma: level {self.level!r} '
                + ('is missing' if level is None else 'is not Gaussian')
                + "; give the model heads, as model.heads = dict(type='GaussianHead')"
            )
        return Embedding(at_least_float32(level.mean), log_std=at_least_float32(level.log_std))
