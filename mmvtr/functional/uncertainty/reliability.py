"""What is said and what comes true: how well probabilities are calibrated."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from mmvtr.functional.arrays_too import arrays_too
from mmvtr.functional.similarities.tiles import refuse_non_finite

__all__ = ['Reliability', 'reliability']


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
        """The error that is expected of this many pairs if all that is said is true.

        An :attr:`error` near it says that no more can be seen, not that something is wrong.
        """
        spread = (
            (2 / math.pi * self.predicted * (1 - self.predicted) / self.pairs).clamp_min(0).sqrt()
        )
        held = self.pairs > 0
        return ((spread * self.pairs)[held].sum() / self.pairs.sum()).item()

    @property
    def error(self) -> float:
        """Expected calibration error: the mean distance of the two, by pairs."""
        held = self.pairs > 0
        distance = (self.predicted - self.true).abs()[held] * self.pairs[held]
        return (distance.sum() / self.pairs.sum()).item()


@arrays_too
def reliability(probabilities: Tensor, matches: Tensor, *, bins: int = 10) -> Reliability:
    """Compare probabilities with what came true (Guo et al. 2017).

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
    predicted, true = (
        torch.zeros(bins, dtype=torch.float64, device=p.device).index_add_(0, place, x) / pairs
        for x in (p, y)
    )
    return Reliability(predicted, true, pairs)


def check_pairs(scores: Tensor, matches: Tensor, *, name: str = 'scores') -> tuple[Tensor, Tensor]:
    """Scores and matches of judged pairs, float64 [M] each.

    Args:
        scores: float [M].
        matches: bool [M], or float in [0, 1].
        name: what errors call the scores.

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
