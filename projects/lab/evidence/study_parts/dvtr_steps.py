"""DVTR with single steps of its sound reading taken back, towards the letter or another remedy."""

from __future__ import annotations

import math
from typing import Any, Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from mmvtr.functional.uncertainty import gaussian
from mmvtr.functional.values import at_least_float32
from mmvtr.models.blocks import Pairs, of_pairs
from mmvtr.models.supervisions.dvtr import DVTRSupervision
from mmvtr.registry import MODELS
from mmvtr.structures import Levels

#: What p is trained on, see :class:`DVTRStepsSupervision`.
MATCHES = ('negatives', 'unlabelled', 'positives')
#: What Eq. 8 adds to the cosine.
DIVERGENCES = ('wasserstein', 'kl')
#: Of ``match='positives'``: an average pair has p = .12, one that is a deviation nearer .5.
BIAS = -2.0


@MODELS.register_module()
class DVTRStepsSupervision(DVTRSupervision):
    """:class:`DVTRSupervision`, of which each step from the paper's letter can be taken alone.

    It exists to tell which step matters (docs/dvtr.md, one factor at a time); its defaults are
    those of :class:`DVTRSupervision`.

    Args:
        match: what p is trained on (Eq. 11). ``'negatives'``: positives and in-batch negatives.
            ``'unlabelled'``: the same, but a negative is a pair that nobody annotated, of which a
            share ``prior`` is believed to match: the non-negative risk of Kiryo et al. (NeurIPS
            2017, Eq. 6). ``'positives'``: annotated pairs alone, as printed; so that not every pair
            becomes a match, p then reads the distance less its mean over all pairs of the joint
            batch, in deviations, by a slope and a bias that are fixed.
        prior: of ``match='unlabelled'``, in (0, 1).
        divergence: what Eq. 8 adds to the mean cosine: ``'wasserstein'``, W / D (the text below
            it), or ``'kl'``, KL(z_t || z_v) / D (its print).
        through_eta: let the loss of the scores move eta, as Eq. 13 is printed.
        **kwargs: see :class:`DVTRSupervision`.

    Attributes:
        centre, spread: mean and deviation of W / D over the last joint batch, which the test of
            ``match='positives'``, and pairs with a bank, are read by.

    Raises:
        ValueError: an argument outside its range.
    """

    def __init__(
        self,
        *,
        match: str = 'negatives',
        prior: float = 0.05,
        divergence: str = 'wasserstein',
        through_eta: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if match not in MATCHES:
            raise ValueError(f'match must be one of {MATCHES}, not {match!r}')
        if divergence not in DIVERGENCES:
            raise ValueError(f'divergence must be one of {DIVERGENCES}, not {divergence!r}')
        if not 0 < prior < 1:
            raise ValueError(f'prior must lie in (0, 1), not {prior}')
        self.match = match
        self.prior = prior
        self.divergence = divergence
        self.through_eta = through_eta
        self._of_batch: Optional[tuple[Tensor, Tensor]] = None
        self.register_buffer('centre', torch.zeros(()))
        self.register_buffer('spread', torch.ones(()))
        if match == 'positives':
            self.slope.requires_grad_(False)
            self.bias.requires_grad_(False).fill_(BIAS)

    # -- the loss of p ---------------------------------------------------------------------------

    def _match_sums(self, logits: Tensor, pairs: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        sums = super()._match_sums(logits, pairs)
        own = logits[pairs]
        return dict(sums, found=F.softplus(-own).sum(), missed=F.softplus(own).sum())

    def _match_loss(self, sums: dict[str, Tensor]) -> Tensor:
        if self.match == 'negatives':
            return super()._match_loss(sums)
        found, missed = (sums[key] / sums['positives'].clamp_min(1) for key in ('found', 'missed'))
        if self.match == 'positives':
            return found
        others = (sums['loss_match'] - sums['found']) / sums['negatives'].clamp_min(1)
        return self.prior * found + (others - self.prior * missed).clamp_min(0)

    def _probabilities(self, logits: Tensor) -> Tensor:
        return logits.sigmoid() if self.through_eta else super()._probabilities(logits)

    # -- a distance that is standardised ---------------------------------------------------------

    def begin(self, texts: Levels, videos: Levels, pairs: Pairs) -> dict[str, Tensor]:
        """As that of :class:`DVTRSupervision`; a training measures the joint batch first."""
        if self.match == 'positives' and self.training and all(pairs.shape):
            self._of_batch = _mean_and_deviation(*super()._prepared(texts, videos))
            self.centre, self.spread = (x.detach() for x in self._of_batch)
        try:
            return super().begin(texts, videos, pairs)
        finally:
            self._of_batch = None

    def _prepared(self, texts: Levels, videos: Levels) -> tuple[Tensor, Tensor]:
        """[mu, sigma], in units in which W / D has a deviation of 1; behind them, of texts, its
        mean: float [T, 2D + 1] and [V, 2D + 1]."""
        t, v = super()._prepared(texts, videos)
        if self.match != 'positives':
            return t, v
        centre, spread = self._of_batch or (self.centre, self.spread)
        t, v = (at_least_float32(x) / spread.sqrt() for x in (t, v))
        return torch.cat([t, (centre / spread).expand(len(t), 1)], 1), F.pad(v, (0, 1))

    def _logits(self, t: Tensor, v: Tensor) -> Tensor:
        if self.match != 'positives':
            return super()._logits(t, v)
        distances = gaussian.squared_distances(t[:, :-1], v[:, :-1]) / (t.shape[-1] // 2)
        return self._of_standardised(distances - t[:, -1:])

    def _logits_of_pairs(self, t: Tensor, v: Tensor) -> Tensor:
        if self.match != 'positives':
            return super()._logits_of_pairs(t, v)
        distances = (t - v)[:, :-1].square().sum(-1) / (t.shape[-1] // 2)
        return self._of_standardised(distances - t[:, -1])

    def _of_standardised(self, distances: Tensor) -> Tensor:
        return self.bias - F.softplus(self.slope) * distances

    # -- Eq. 8 -----------------------------------------------------------------------------------

    def _align(self, t: Tensor, v: Tensor, texts: Levels, videos: Levels, pairs: Pairs) -> Tensor:
        if self.match == 'positives':
            t, v = super()._prepared(texts, videos)  # in their own units
        found = super()._align(t, v, texts, videos, pairs)
        if self.divergence == 'wasserstein':
            return found
        sides = ((e.mean, e.log_std) for e in (texts[self.level], videos[self.level]))
        more = of_pairs(_kl_less_distance, *sides, pairs)
        return found + more.sum() / max(len(pairs.rows), 1)


def _mean_and_deviation(t: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Of |t - v|^2 / D over all pairs of float [T, 2D] and [V, 2D]: 0-dim each, with gradients.

    No pair is made: |t - v|^2 = |t|^2 + |v|^2 - 2 t.v, and the means of t.v, of |t|^2 t.v and of
    (t.v)^2 over all pairs are products of means over texts and over videos, the last one of second
    moments.  In float64, as a variance is the small difference of large sums.
    """
    kind, dim = at_least_float32(t).dtype, t.shape[-1] // 2
    with torch.autocast(t.device.type, enabled=False):
        t, v = t.double(), v.double()
        squared = [x.square().sum(-1) for x in (t, v)]
        means = [x.mean(0) for x in (t, v)]
        lengths = sum(x.mean() for x in squared)
        products = (means[0] * means[1]).sum()
        mean = lengths - 2 * products
        of_lengths = sum(x.square().mean() for x in squared) + 2 * math.prod(
            x.mean() for x in squared
        )
        of_both = sum(
            ((x * y[:, None]).mean(0) * other).sum()
            for x, y, other in zip((t, v), squared, reversed(means))
        )
        moments = [x.t() @ x / len(x) for x in (t, v)]
        of_products = (moments[0] * moments[1]).sum()
        variance = of_lengths - 4 * of_both + 4 * of_products - mean.square()
    spread = variance.clamp_min(1e-12).sqrt()
    return (mean / dim).to(kind), (spread / dim).to(kind)


def _kl_less_distance(mean_t: Tensor, log_t: Tensor, mean_v: Tensor, log_v: Tensor) -> Tensor:
    """KL(z_t || z_v) less W (Eq. 9), by dimension, of P pairs: float [P, D] four times -> [P]."""
    mean_t, mean_v, log_t, log_v = map(at_least_float32, (mean_t, mean_v, log_t, log_v))
    w2 = ((mean_t - mean_v).square() + (log_t.exp() - log_v.exp()).square()).sum(-1)
    return (gaussian.kl_divergence(mean_t, log_t, mean_v, log_v) - w2) / mean_t.shape[-1]
