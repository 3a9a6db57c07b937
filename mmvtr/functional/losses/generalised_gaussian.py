"""Likelihood of residuals under a generalised Gaussian (ProbVLM; Upadhyay et al., ICCV 2023)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mmvtr.functional.arrays_too import arrays_too
from mmvtr.functional.precision import at_least_float32

__all__ = ['generalised_gaussian_nll', 'generalised_gaussian_std']

#: Bounds of a residual over its scale in the official code, and its constant added to 1 / alpha and
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
    if form not in ('density', 'official'):
        raise ValueError(f"form must be 'density' or 'official', not {form!r}")
    size, log_alpha = at_least_float32(residual).abs(), at_least_float32(log_alpha)
    beta = at_least_float32(beta)
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
    log_alpha, beta = at_least_float32(log_alpha), at_least_float32(beta)
    return log_alpha + (torch.lgamma(3 / beta) - torch.lgamma(1 / beta)) / 2
