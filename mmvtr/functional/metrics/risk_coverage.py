"""Does an uncertainty know where the errors are?  Risk-coverage curves and rank correlation.

Ties get their expected value over all their orders, so an uncertainty that is the same for all
items gets the chance level.
"""

from __future__ import annotations

import torch
from torch import Tensor

from mmvtr.functional.arrays_too import arrays_too

__all__ = ['rejection_ratio', 'risk_coverage', 'spearman']


@arrays_too
def risk_coverage(uncertainty: Tensor, risk: Tensor) -> Tensor:
    """Mean risk of the k least uncertain items, for k = 1 .. N (El-Yaniv and Wiener, JMLR 2010).

    Args:
        uncertainty: float [N], higher is less certain.
        risk: float [N], e.g. 1 where the first answer is wrong.

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
    mean = torch.zeros(len(size), dtype=torch.float64, device=risk.device)
    mean = mean.index_add(0, group, risk.double()) / size
    count = torch.arange(1, len(risk) + 1, device=risk.device)
    return mean[group.sort().values].cumsum(0) / count


@arrays_too
def rejection_ratio(uncertainty: Tensor, risk: Tensor) -> Tensor:
    """How much of the possible area the uncertainty gains by dropping the uncertain items first.

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
        0-dim float64; 0 where all risks are equal, as nothing can be gained.

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
    """Spearman's rank correlation, ties at their mean rank.

    Args:
        x: float or integer [N].
        y: float or integer [N].

    Example:
        ::

            >>> spearman(torch.tensor([.1, .2, .3]), torch.tensor([10, 50, 20]))
            tensor(0.5000, dtype=torch.float64)

    Returns:
        0-dim float64 in [-1, 1]; 0 where one of them is constant.

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
