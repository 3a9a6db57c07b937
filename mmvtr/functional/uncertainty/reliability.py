"""How well probabilities are calibrated, and whether an uncertainty predicts errors."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from mmvtr.functional.similarities.tiles import refuse_non_finite
from mmvtr.functional.uncertainty.isotonic import bin_sums
from mmvtr.functional.values import arrays_too

__all__ = ['Reliability', 'rejection_ratio', 'reliability', 'risk_coverage', 'spearman']


class Reliability(NamedTuple):
    """Predicted and observed shares of matches, in B bins of probability; NaN where empty.

    Attributes:
        predicted: float64 [B], mean P.
        true: float64 [B], share of matches.
        pairs: int64 [B].
    """

    predicted: Tensor
    true: Tensor
    pairs: Tensor

    @property
    def noise(self) -> float:
        """Expected :attr:`error` with this many pairs if every probability is right.

        An error near it is no evidence of miscalibration.
        """
        spread = (
            (2 / math.pi * self.predicted * (1 - self.predicted) / self.pairs).clamp_min(0).sqrt()
        )
        filled = self.pairs > 0
        return ((spread * self.pairs)[filled].sum() / self.pairs.sum()).item()

    @property
    def error(self) -> float:
        """Expected calibration error: the mean distance of the two, weighted by pairs."""
        filled = self.pairs > 0
        distance = (self.predicted - self.true).abs()[filled] * self.pairs[filled]
        return (distance.sum() / self.pairs.sum()).item()


@arrays_too
def reliability(probabilities: Tensor, matches: Tensor, *, bins: int = 10) -> Reliability:
    """Return predicted and observed shares of matches by bin (Guo et al. 2017).

    Args:
        probabilities: float [M] in [0, 1].
        matches: bool or float [M] in [0, 1].
        bins: of equal width.

    Raises:
        ValueError: shapes that differ, no pairs, numbers out of range.

    Example:
        ::

            >>> found = reliability(torch.tensor([.2, .2, .9]), torch.tensor([0, 1, 1]), bins=2)
            >>> found.true.tolist(), round(found.error, 3)
            ([0.5, 1.0], 0.233)
    """
    p, y = check_pairs(probabilities, matches, name='probabilities')
    if p.min() < 0 or p.max() > 1:
        raise ValueError('probabilities must lie in [0, 1]')
    place = (p * bins).long().clamp_max(bins - 1)
    pairs = torch.bincount(place, minlength=bins)
    predicted, true = (bin_sums(x, place, bins) / pairs for x in (p, y))
    return Reliability(predicted, true, pairs)


def check_pairs(scores: Tensor, matches: Tensor, *, name: str = 'scores') -> tuple[Tensor, Tensor]:
    """Return scores and matches of judged pairs, float64 [M] each, or raise ValueError.

    Args:
        scores: float [M].
        matches: bool [M], or float in [0, 1].
        name: name of the scores in errors.

    Raises:
        ValueError: shapes that differ, no pairs, a score that is not finite, matches out of range.

    Example:
        ::

            >>> check_pairs(torch.tensor([.5]), torch.tensor([True]))
            (tensor([0.5000], dtype=torch.float64), tensor([1.], dtype=torch.float64))
    """
    if scores.dim() != 1 or scores.shape != matches.shape or not len(scores):
        raise ValueError(
            f'{name} {list(scores.shape)} and matches {list(matches.shape)} must be [pairs] both, '
            'at least one'
        )
    refuse_non_finite(scores[None], name=name)
    y = matches.double().to(scores.device)
    if not ((y >= 0) & (y <= 1)).all():
        raise ValueError('matches must be True or False, or grades as shares in [0, 1]')
    return scores.double(), y


@arrays_too
def risk_coverage(uncertainty: Tensor, risk: Tensor) -> Tensor:
    """Return the mean risk of the k least uncertain items, k = 1 .. N (El-Yaniv and Wiener, 2010).

    Args:
        uncertainty: float [N], higher is less certain.
        risk: float [N], e.g. 1 if the first answer is wrong.

    Example:
        The error is the most uncertain of three. ::

            >>> risk_coverage(torch.tensor([.1, .2, .9]), torch.tensor([0., 0., 1.]))
            tensor([0.0000, 0.0000, 0.3333], dtype=torch.float64)

    Returns:
        float64 [N]; the last entry is the mean risk. Its mean is the area under the curve (AURC),
        which is the mean risk by chance.

    Raises:
        ValueError: no items, lengths that differ, or a NaN.
    """
    _check(uncertainty, risk)
    _, group, size = uncertainty.unique(return_inverse=True, return_counts=True)
    mean = bin_sums(risk.double(), group, len(size)) / size
    count = torch.arange(1, len(risk) + 1, device=risk.device)
    return mean[group.sort().values].cumsum(0) / count


@arrays_too
def rejection_ratio(uncertainty: Tensor, risk: Tensor) -> Tensor:
    """Return the share of the possible area gained by dropping the uncertain items first.

    ``(chance - area) / (chance - best)`` with the areas of :func:`risk_coverage`, the best one
    that of the risk itself as the uncertainty: 1 = all errors are the most uncertain items,
    0 = chance, negative = the errors are the most certain ones.  After the rejection ratio of
    Malinin et al. (ACL 2017).

    Args:
        uncertainty: float [N], higher is less certain.
        risk: float [N].

    Example:
        ::

            >>> risk = torch.tensor([0., 1., 1., 0.])
            >>> rejection_ratio(torch.tensor([.1, .9, .8, .2]), risk)
            tensor(1., dtype=torch.float64)

    Returns:
        0-dim float64; 0 if all risks are equal, as nothing can be gained.

    Raises:
        ValueError: no items, lengths that differ, or a NaN.
    """
    curve = risk_coverage(uncertainty, risk)
    if (risk == risk[0]).all():
        return torch.zeros_like(curve[0])
    gain, best = (curve[-1] - x.mean() for x in (curve, risk_coverage(risk, risk)))
    return gain / best


@arrays_too
def spearman(x: Tensor, y: Tensor) -> Tensor:
    """Return Spearman's rank correlation, ties at their mean rank.

    Args:
        x: float or integer [N].
        y: float or integer [N].

    Example:
        ::

            >>> spearman(torch.tensor([.1, .2, .3]), torch.tensor([10, 50, 20]))
            tensor(0.5000, dtype=torch.float64)

    Returns:
        0-dim float64 in [-1, 1]; 0 if one of them is constant.

    Raises:
        ValueError: no items, lengths that differ, or a NaN.
    """
    _check(x, y)
    x, y = (_mean_ranks(z) for z in (x, y))
    x, y = x - x.mean(), y - y.mean()
    norm = x.norm() * y.norm()
    return x @ y / norm.where(norm > 0, 1)


def _mean_ranks(x: Tensor) -> Tensor:
    _, group, size = x.unique(return_inverse=True, return_counts=True)
    return (size.cumsum(0) - (size - 1) / 2)[group].double()


def _check(x: Tensor, y: Tensor) -> None:
    if x.shape != y.shape or x.ndim != 1 or not len(x):
        raise ValueError(
            f'need two vectors of N > 0 items, got {list(x.shape)} and {list(y.shape)}'
        )
    if x.isnan().any() or y.isnan().any():
        raise ValueError('uncertainty or risk is NaN')
