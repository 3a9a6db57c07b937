"""Inclusion of one Gaussian in another: ProLIP's measure and loss (Chun et al., ICLR 2025).

``H(a in b) = log of the integral of p_a^2 p_b`` is large where b has mass at the peak of a; a is
taken to be included in b if ``H(a in b) > H(b in a)``: a general text includes its videos.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from mmvtr.functional.values import arrays_too, at_least_float32, check_one_of

__all__ = ['inclusion', 'inclusion_loss', 'inclusion_matrix']

#: Numbers of the tensor A x B x D of a block of rows.
ENTRIES = 2**22


@arrays_too
def inclusion(
    mean_a: Tensor,
    log_std_a: Tensor,
    mean_b: Tensor,
    log_std_b: Tensor,
    *,
    eps: float = 0.0,
    form: str = 'exact',
) -> Tensor:
    """Return H(a in b) of each dimension, in nats.

    Args:
        mean_a, log_std_a, mean_b, log_std_b: float, of shapes that broadcast to [..., D]; half
            precision is computed in float32.
        eps: variances are multiplied by e^-eps first; the official code has -10 or -20, which
            hides differences of the means, and 0 in its test.
        form: ``'exact'``, the integral.  ``'official'``: ProLIP's code up to a constant, which uses
            log variances as log sigmas before the exponential: a large variance is penalised twice
            as much.

    Returns:
        float [..., D]; D independent dimensions add up.

    Raises:
        ValueError: unknown form.

    Example:
        A narrow Gaussian lies in a wide one, and not the reverse. ::

            >>> wide, narrow = torch.tensor([1.0]), torch.tensor([-1.0])
            >>> mean = torch.zeros(1)
            >>> inclusion(mean, narrow, mean, wide), inclusion(mean, wide, mean, narrow)
            (tensor([-2.1890]), tensor([-3.8559]))
    """
    check_one_of(('exact', 'official'), form=form)
    # p_a^2 is 1 / sqrt(4 pi var_a) times a Gaussian of half the variance.
    x, y = (2 * at_least_float32(log_std) for log_std in (log_std_a, log_std_b))
    half, whole = (x - eps).exp() / 2, (y - eps).exp()
    distance = (mean_a - mean_b).square() / (2 * (half + whole))
    if form == 'exact':
        constant = -math.log(2) - math.log(math.pi) - 0.5 * math.log(2)
        return constant - 0.5 * (x - eps) - 0.5 * (half + whole).log() - distance
    precision = (eps - x).exp() + (eps - y).exp() / 2
    return -2 * x - y - 0.5 * precision.log() - distance


@arrays_too
def inclusion_matrix(
    mean_a: Tensor,
    log_std_a: Tensor,
    mean_b: Tensor,
    log_std_b: Tensor,
    *,
    eps: float = 0.0,
    form: str = 'exact',
) -> Tensor:
    """Return H(a in b) of all pairs, summed over D; a lies in b if it exceeds H(b in a).

    Args:
        mean_a, log_std_a: float [A, D].
        mean_b, log_std_b: float [B, D].
        eps, form: see :func:`inclusion`.

    Returns:
        float [A, B].

    Example:
        ::

            >>> mean, log_std = torch.zeros(2, 1), torch.tensor([[-1.0], [1.0]])
            >>> matrix = inclusion_matrix(mean, log_std, mean, log_std)
            >>> matrix > matrix.T
            tensor([[False,  True],
                    [False, False]])
    """
    rows = max(1, ENTRIES // max(1, mean_b.numel()))
    parts = [
        inclusion(m[:, None], s[:, None], mean_b, log_std_b, eps=eps, form=form).sum(-1)
        for m, s in zip(mean_a.split(rows), log_std_a.split(rows))
    ]
    return torch.cat(parts)


@arrays_too
def inclusion_loss(
    mean_a: Tensor,
    log_std_a: Tensor,
    mean_b: Tensor,
    log_std_b: Tensor,
    *,
    scale: float = 1.0,
    eps: float = 0.0,
    form: str = 'exact',
) -> Tensor:
    """Return the mean of ``-log sigmoid(scale (H(a in b) - H(b in a)))``: a lies in b, row by row.

    Args:
        mean_a, log_std_a, mean_b, log_std_b: float [N, D], N pairs.
        scale: factor of the difference.
        eps: see :func:`inclusion`.
        form: ``'exact'``: H of the D dimensions together.  ``'official'``: ProLIP's code, its H and
            a sigmoid for each dimension.

    Returns:
        0-dim tensor; 0 without pairs.

    Example:
        Two equal Gaussians include each other as well as not: log 2. ::

            >>> inclusion_loss(*torch.zeros(4, 1, 3))
            tensor(0.6931)
    """
    a, b, options = (mean_a, log_std_a), (mean_b, log_std_b), dict(eps=eps, form=form)
    difference = inclusion(*a, *b, **options) - inclusion(*b, *a, **options)
    if form == 'exact':
        difference = difference.sum(-1)
    return F.softplus(-scale * difference).sum() / max(difference.numel(), 1)
