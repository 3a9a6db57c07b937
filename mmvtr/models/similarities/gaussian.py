"""Scores of Gaussians in closed form: PCME++'s distance and ProLIP's similarity."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mmvtr.functional.uncertainty.gaussian import closed_form_distance
from mmvtr.functional.values import at_least_float32
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding, Levels


@MODELS.register_module()
class GaussianSimilarity(nn.Module):
    """Similarity of Gaussians, which is larger for closer means and smaller variances.

    Args:
        form: ``'distance'``: minus the mean squared distance of samples (PCME++;
            :func:`.closed_form_distance`).  ``'product'``: ``mu_t . mu_v - sum_d (sigma_td^2 +
            sigma_vd^2) / 2`` (ProLIP).  Of unit means the first is twice the second less 2.
        level: level made by a head (``model.heads``).

    Raises:
        ValueError: unknown form; (called) the level is no Gaussian.
    """

    needs_tokens = False

    def __init__(self, *, form: str = 'distance', level: str = 'gaussian') -> None:
        super().__init__()
        if form not in ('distance', 'product'):
            raise ValueError(f"form must be 'distance' or 'product', not {form!r}")
        self.form = form
        self.level = level

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels that it reads."""
        return (self.level,)

    def forward(self, texts: Levels, videos: Levels) -> dict[str, Tensor]:
        """Levels of T texts and of V videos -> ``'gaussian'`` and ``'scores'`` [T, V], the same."""
        t, v = self._gaussian(texts), self._gaussian(videos)
        with torch.autocast(t.mean.device.type, enabled=False):
            if self.form == 'distance':
                scores = -closed_form_distance(t.mean, t.log_std, v.mean, v.log_std)
            else:
                spread_t, spread_v = ((2 * e.log_std).exp().sum(-1) / 2 for e in (t, v))
                scores = t.mean @ v.mean.t() - spread_t[:, None] - spread_v
        return {self.level: scores, 'scores': scores}

    def _gaussian(self, items: Levels) -> Embedding:
        found = items.get(self.level)
        if found is None or found.log_std is None:
            raise ValueError(
                f'{type(self).__name__} needs sigma: level {self.level!r} '
                + ('is missing' if found is None else 'is no Gaussian')
                + "; give the model heads, as model.heads = dict(type='GaussianHead')"
            )
        return Embedding(at_least_float32(found.mean), log_std=at_least_float32(found.log_std))
