"""Diagonal Gaussians: divergences of all pairs, their spread, and samples.

Spread is ``log_std``.  Divergences sum over the D dimensions; a caller that wants a size-free
number divides by D.  No T x V x D tensor is made: each divergence is a few matrix products.
"""

from __future__ import annotations

import math
from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from mmvtr.functional.values import arrays_too, at_least_float32, check_one_of, check_range, product

__all__ = [
    'bounded',
    'closed_form_distance',
    'generalised_gaussian_nll',
    'generalised_gaussian_std',
    'geometric_sigma',
    'kl_divergence',
    'kl_to_unit',
    'mean_sample_cosine',
    'mean_sample_dot',
    'mean_unit_sample',
    'sample',
    'squared_distances',
    'wasserstein2',
]


@arrays_too
def wasserstein2(mean_t: Tensor, log_std_t: Tensor, mean_v: Tensor, log_std_v: Tensor) -> Tensor:
    """Return the squared 2-Wasserstein distance of all pairs (DVTR Eq. 9).

    ``||mu_t - mu_v||^2 + ||sigma_t - sigma_v||^2``: the squared Euclidean distance of the vectors
    ``[mu, sigma]``, so one matrix product.

    Args:
        mean_t, log_std_t: float [T, D]; half precision is computed in float32.
        mean_v, log_std_v: float [V, D].

    Returns:
        float [T, V] >= 0.

    Example:
        Means 5 apart, and sigmas of 1 and 2 in both dimensions: 25 + 1 + 1. ::

            >>> mean_v, log_std_v = torch.tensor([[3.0, 4.0]]), torch.tensor([[2.0, 2.0]]).log()
            >>> wasserstein2(torch.zeros(1, 2), torch.zeros(1, 2), mean_v, log_std_v)
            tensor([[27.]])
    """
    t, v = (
        torch.cat([at_least_float32(mean), at_least_float32(log_std).exp()], -1)
        for mean, log_std in ((mean_t, log_std_t), (mean_v, log_std_v))
    )
    return squared_distances(t, v)


@arrays_too
def closed_form_distance(
    mean_t: Tensor, log_std_t: Tensor, mean_v: Tensor, log_std_v: Tensor
) -> Tensor:
    """Return the mean squared distance of samples, of all pairs (PCME++; Chun, ICLR 2024).

    ``||mu_t - mu_v||^2 + sum_d (sigma_td^2 + sigma_vd^2)``, which PCME estimates by samples.  Of
    unit means, ``1 - distance / 2`` is ProLIP's ``mu_t . mu_v - sum_d (sigma_td^2 + sigma_vd^2) /
    2`` (Chun et al., ICLR 2025): the two rank alike.

    Args:
        mean_t, log_std_t: float [T, D]; half precision is computed in float32.
        mean_v, log_std_v: float [V, D].

    Returns:
        float [T, V] >= 0.

    Example:
        Means 5 apart, and variances of 1 and 4 in both dimensions: 25 + 2 + 8. ::

            >>> mean_v, log_std_v = torch.tensor([[3.0, 4.0]]), torch.tensor([[2.0, 2.0]]).log()
            >>> closed_form_distance(torch.zeros(1, 2), torch.zeros(1, 2), mean_v, log_std_v)
            tensor([[35.]])
    """
    t, v = ((2 * at_least_float32(x)).exp().sum(-1) for x in (log_std_t, log_std_v))
    return squared_distances(mean_t, mean_v) + t[:, None] + v


@arrays_too
def squared_distances(t: Tensor, v: Tensor) -> Tensor:
    """Return squared Euclidean distances of all pairs of rows: [T, D], [V, D] -> [T, V] >= 0.

    Example:
        ::

            >>> squared_distances(torch.zeros(1, 2), torch.tensor([[3.0, 4.0], [0.0, 1.0]]))
            tensor([[25.,  1.]])
    """
    # A small difference of large sums: not a matter for half precision.
    lengths = t.square().sum(-1)[:, None] + v.square().sum(-1)[None]
    return (lengths - product(2 * t, v.t())).clamp_min(0)


@arrays_too
def kl_divergence(mean_p: Tensor, log_std_p: Tensor, mean_q: Tensor, log_std_q: Tensor) -> Tensor:
    """Return KL(p || q) row by row (DVTR Eq. 8), summed over D: float [N, D] x 4 -> [N], in nats.

    Example:
        Means 1 apart in both dimensions, unit sigmas: 1/2 + 1/2. ::

            >>> kl_divergence(torch.ones(1, 2), *torch.zeros(3, 1, 2))
            tensor([1.])
    """
    ratio = (2 * (log_std_p - log_std_q)).exp()
    distance = ((mean_p - mean_q) * (-log_std_q).exp()).square()
    return 0.5 * (ratio + distance - 1).sum(-1) + (log_std_q - log_std_p).sum(-1)


@arrays_too
def kl_to_unit(mean: Tensor, log_std: Tensor) -> Tensor:
    """Return KL(p || N(0, I)) by row (UATVR Eq. 12), summed over D: [N, D] x 2 -> [N], in nats.

    The official codes of PCME and UATVR take log sigma for the log *variance*; that is this
    function of ``log_std / 2``.

    Example:
        ::

            >>> kl_to_unit(torch.tensor([[1.0, 1.0], [0.0, 0.0]]), torch.zeros(2, 2))
            tensor([1., 0.])
    """
    return 0.5 * (mean.square() + torch.expm1(2 * log_std)).sum(-1) - log_std.sum(-1)


@arrays_too
def geometric_sigma(log_std: Tensor) -> Tensor:
    """Return the geometric mean of sigma over D (UATVR Fig. 3): float [N, D] -> [N].

    Example:
        ::

            >>> geometric_sigma(torch.tensor([[1.0, 4.0]]).log())
            tensor([2.])
    """
    return log_std.mean(-1).exp()


@arrays_too
def sample(
    mean: Tensor, log_std: Tensor, num_samples: int, generator: Optional[torch.Generator] = None
) -> Tensor:
    """Return reparameterised samples ``mean + exp(log_std) * eps`` (UATVR Eq. 10).

    Args:
        mean: float [N, D].
        log_std: float [N, D].
        num_samples: S.
        generator: a CPU generator, so that the draw does not depend on the device.

    Returns:
        float [N, S, D].

    Raises:
        ValueError: ``num_samples`` is less than 1.

    Example:
        A sigma of 0 leaves the mean. ::

            >>> sample(torch.tensor([[1.0, 2.0]]), torch.full((1, 2), -torch.inf), 2)
            tensor([[[1., 2.],
                     [1., 2.]]])
    """
    check_range('[1, inf]', num_samples=num_samples)
    noise = torch.randn(
        len(mean), num_samples, mean.shape[-1], generator=generator, dtype=mean.dtype
    )
    return mean[:, None] + log_std.exp()[:, None] * noise.to(mean.device)


@arrays_too
def mean_unit_sample(
    mean: Tensor,
    log_std: Tensor,
    num_samples: int,
    generator: torch.Generator,
    *,
    entries: int = 2**22,
) -> Tensor:
    """Return the mean of an item's unit samples; the inner product of two items' is Eq. 8's.

    The mean cosine over all S x S sample pairs of two items is the inner product of these means.
    Many items are processed in parts, which are drawn again in the backward pass: the samples of
    all are never held.  The random numbers equal those of a single draw.

    Args:
        mean, log_std, num_samples, generator: see :func:`sample`.
        entries: largest number of entries of a part's samples; a part has 16 items at least.

    Returns:
        float [N, D].

    Example:
        A sigma of 0 leaves the mean's direction. ::

            >>> mean, log_std = torch.tensor([[3.0, 4.0]]), torch.full((1, 2), -torch.inf)
            >>> mean_unit_sample(mean, log_std, 2, torch.Generator().manual_seed(0))
            tensor([[0.6000, 0.8000]])
    """
    # 16 items: torch draws normal numbers 16 at a time, so parts get the same numbers as the whole.
    size = 16 * max(1, entries // max(1, 16 * num_samples * mean.shape[-1]))

    def draw(mean: Tensor, log_std: Tensor, state: Tensor) -> Tensor:
        generator.set_state(state)
        return F.normalize(sample(mean, log_std, num_samples, generator), dim=-1).mean(1)

    if len(mean) <= size:
        return draw(mean, log_std, generator.get_state())
    parts = []
    for part in zip(mean.split(size), log_std.split(size)):
        parts.append(checkpoint(draw, *part, generator.get_state(), use_reentrant=False))
    return torch.cat(parts)


@arrays_too
def mean_sample_cosine(t: Tensor, v: Tensor) -> Tensor:
    """Return the mean cosine over all S x S samples of matched rows: [N, S, D] x 2 -> [N].

    DVTR Eq. 7-8 read soundly.  The mean of cosines is the inner product of the mean unit vectors,
    so S + S vectors are averaged and no S x S product is made.

    Example:
        ::

            >>> mean_sample_cosine(3 * torch.eye(2)[None], torch.eye(2)[None])
            tensor([0.5000])
    """
    return (F.normalize(t, dim=-1).mean(1) * F.normalize(v, dim=-1).mean(1)).sum(-1)


@arrays_too
def mean_sample_dot(t: Tensor, v: Tensor) -> Tensor:
    """Return the mean inner product of all S x S sample pairs (DVTR Eq. 8): [N, S, D] x 2 -> [N].

    Example:
        ::

            >>> mean_sample_dot(3 * torch.eye(2)[None], torch.eye(2)[None])
            tensor([1.5000])
    """
    return (t.mean(1) * v.mean(1)).sum(-1)


@arrays_too
def bounded(x: Tensor, low: float, high: float) -> Tensor:
    """Return ``x.clamp(low, high)`` with gradients back into the range: float [...] -> [...].

    Outside the range the plain clamp has no gradient, so a log_std that once left it would stay
    there.  Here a gradient passes if descending along it leads back to the range.

    Example:
        Descending leads -9 further away, and 9 back. ::

            >>> x = torch.tensor([-9.0, 0.5, 9.0], requires_grad=True)
            >>> bounded(x, -1.0, 1.0).sum().backward()
            >>> x.grad
            tensor([0., 1., 1.])
    """
    return _Bounded.apply(x, low, high)


class _Bounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor, low: float, high: float) -> Tensor:
        # A float32 value stored at its limit is at it in any type and on any device.
        kind = torch.float32 if x.dtype == torch.float64 else x.dtype
        low_end, high_end = torch.tensor([low, high], dtype=kind).tolist()
        ctx.save_for_backward(x.to(kind) < low_end, x.to(kind) > high_end)
        return x.clamp(low, high)

    @staticmethod
    def backward(ctx, grad: Tensor) -> tuple[Tensor, None, None]:
        below, above = ctx.saved_tensors
        further = (below & (grad > 0)) | (above & (grad < 0))
        return grad.masked_fill(further, 0.0), None, None


#: Bounds of residual / scale in the official code, and the constant that it adds to 1 / alpha and
#: beta.
BOUNDS, EPS = (1e-4, 1e3), 1e-4


@arrays_too
def generalised_gaussian_nll(
    residual: Tensor, log_alpha: Tensor, beta: Tensor, *, form: str = 'density'
) -> Tensor:
    """Return the negative log likelihood with ``p = beta / (2 alpha Gamma(1 / beta)) e^-x``.

    ``x = (|residual| / alpha)^beta``: a Laplacian at beta 1, a Gaussian of sigma
    ``alpha / sqrt(2)`` at beta 2.

    Args:
        residual: float [...], mean minus target; half precision is computed in float32.
        log_alpha: float [...], log of the scale.
        beta: float [...] > 0, the shape.
        form: ``'density'``, the equation.  ``'official'``: ProbVLM's code, in which the residual is
            multiplied by beta, ``x = |residual| beta / alpha`` within 1e-4 and 1e3, 1e-4 is added
            to 1 / alpha and to beta, and log 2 is left out.

    Returns:
        float [...], in nats.

    Raises:
        ValueError: unknown form.

    Example:
        With beta 2 and sigma 1, the normal density at 0: log sqrt(2 pi). ::

            >>> log_alpha, beta = torch.tensor(2.0).log() / 2, torch.tensor(2.0)
            >>> generalised_gaussian_nll(torch.tensor(0.0), log_alpha, beta)
            tensor(0.9189)
    """
    check_one_of(('density', 'official'), form=form)
    size = residual.abs()
    if form == 'official':
        inverse, beta = (-log_alpha).exp() + EPS, beta + EPS
        x = (size * inverse * beta).clamp(*BOUNDS)
        return x - inverse.log() + torch.lgamma(1 / beta) - beta.log()
    # A power of 0 has no derivative in beta, so a residual is at least 1e-12 of alpha.
    ratio = (size.clamp_min(1e-30).log() - log_alpha).clamp_min(math.log(1e-12))
    return (beta * ratio).exp() + log_alpha + math.log(2) + torch.lgamma(1 / beta) - beta.log()


@arrays_too
def generalised_gaussian_std(log_alpha: Tensor, beta: Tensor) -> Tensor:
    """Return the log standard deviation.

    Args:
        log_alpha: float [...].
        beta: float [...] > 0.

    Returns:
        float [...].

    Example:
        A Laplacian of scale 1 has a variance of 2. ::

            >>> generalised_gaussian_std(torch.tensor(0.0), torch.tensor(1.0)).exp()
            tensor(1.4142)
    """
    return log_alpha + (torch.lgamma(3 / beta) - torch.lgamma(1 / beta)) / 2
