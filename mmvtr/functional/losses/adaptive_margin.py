"""Margins of a ranking loss from how unlike two items are (CMGSD; He et al., SIGIR 2021)."""

from __future__ import annotations

from typing import NamedTuple, Optional

import torch
from torch import Tensor

from mmvtr.functional.arrays_too import arrays_too
from mmvtr.functional.precision import at_least_float32

__all__ = [
    'Standard',
    'adaptive_margin',
    'dissimilarities',
    'margins_by',
    'standard',
    'standard_of_products',
    'text_dissimilarities',
]


@arrays_too
def dissimilarities(
    text_cosines: Tensor, video_cosines: Tensor, positives: Tensor
) -> tuple[Tensor, Tensor]:
    """How unlike the owners of each row and each column are.

    Args:
        text_cosines: float [T, T], of the texts with each other.
        video_cosines: float [V, V], of the videos with each other.
        positives: bool [T, V].

    Returns:
        omega float [T, V], 1 - cosine of a row's own video and the column's; tau float [T, V], 1 -
        cosine of the row's text and the column's own.  Of several own ones the mean cosine counts;
        NaN where there is none.

    Example:
        Two pairs whose texts are alike and whose videos are not. ::

            >>> alike, unlike = torch.ones(2, 2), torch.eye(2)
            >>> dissimilarities(alike, unlike, torch.eye(2).bool())
            (tensor([[0., 1.],
                    [1., 0.]]), tensor([[0., 0.],
                    [0., 0.]]))
    """
    video_cosines = at_least_float32(video_cosines)
    own = positives.to(video_cosines.dtype)
    # A mean over the own ones is a product with rows (columns) of sum 1.
    # Near 1 half precision knows three digits of a cosine, and two of what is left of it.
    with torch.autocast(own.device.type, enabled=False):
        omega = _known(1 - (own @ video_cosines) / _count(own, 1), own, 1)
    return omega, text_dissimilarities(text_cosines, positives)


@arrays_too
def text_dissimilarities(text_cosines: Tensor, positives: Tensor) -> Tensor:
    """How unlike the text of each row and the own texts of each column are.

    Args:
        text_cosines: float [T, T], of the texts with each other.
        positives: bool [T, V].

    Returns:
        tau of :func:`dissimilarities`, float [T, V].

    Example:
        ::

            >>> text_dissimilarities(torch.eye(2), torch.eye(2).bool())
            tensor([[0., 1.],
                    [1., 0.]])
    """
    text_cosines = at_least_float32(text_cosines)
    own = positives.to(text_cosines.dtype)
    with torch.autocast(own.device.type, enabled=False):
        return _known(1 - (text_cosines @ own) / _count(own, 0), own, 0)


def _count(own: Tensor, dim: int) -> Tensor:
    """How many own ones there are, 1 where there is none: 0 / 0 would have a NaN as gradient."""
    return own.sum(dim, keepdim=True).clamp_min(1)


def _known(x: Tensor, own: Tensor, dim: int) -> Tensor:
    """NaN where there are no own ones."""
    return x.masked_fill(own.sum(dim, keepdim=True) == 0, torch.nan)


class Standard(NamedTuple):
    """What dissimilarities are measured by, two 0-dim numbers of the whole joint batch."""

    mean: Tensor
    std: Tensor


@arrays_too
def standard(x: Tensor, pairs: Tensor, *, unbiased: bool = False) -> Optional[Standard]:
    """Mean and standard deviation of dissimilarities.

    Args:
        x: float [T, V]; NaN = not known.
        pairs: bool [T, V], the entries that count, as far as they are known.
        unbiased: divide squares by one less than there are.

    Returns:
        None where nothing is known.

    Example:
        ::

            >>> standard(torch.tensor([[0.0, 0.4], [0.8, 0.0]]), ~torch.eye(2).bool())
            Standard(mean=tensor(0.6000), std=tensor(0.2000))
    """
    known = x[pairs & ~x.isnan()]
    if not len(known):
        return None
    std = known.std(correction=int(unbiased and len(known) > 1))
    least = torch.finfo(x.dtype).eps
    if not std > least:  # all are alike: the gradient of such a deviation is 0 / 0
        std = torch.full_like(std, least)
    return Standard(known.mean(), std)


@arrays_too
def standard_of_products(
    rows: Tensor, columns: Tensor, pairs: tuple[Tensor, Tensor], *, unbiased: bool = False
) -> Optional[Standard]:
    """:func:`standard` of ``1 - rows @ columns.T`` without that matrix.

    The sum of all products is the product of the sums, that of their squares the inner product of
    two D x D matrices of moments.

    Args:
        rows: float [T, D].
        columns: float [V, D].
        pairs: two int64 [P], the entries that do not count.
        unbiased: divide squares by one less than there are.

    Returns:
        None where no entry counts.

    Example:
        ::

            >>> rows, columns = torch.tensor([[1.0], [0.2]]), torch.tensor([[1.0], [0.6]])
            >>> standard_of_products(rows, columns, (torch.tensor([0, 1]), torch.tensor([0, 1])))
            Standard(mean=tensor(0.6000), std=tensor(0.2000))
    """
    t, v = rows.double(), columns.double()
    own = (t[pairs[0]] * v[pairs[1]]).sum(-1)
    count = len(t) * len(v) - len(own)
    if count < 1:
        return None
    mean = (t.sum(0) @ v.sum(0) - own.sum()) / count
    square = (((t.t() @ t) * (v.t() @ v)).sum() - own.square().sum()) / count
    variance = (square - mean.square()) * (count / (count - 1) if unbiased and count > 1 else 1)
    std = variance.clamp_min(torch.finfo(rows.dtype).eps ** 2).sqrt()
    return Standard((1 - mean).to(rows.dtype), std.to(rows.dtype))


@arrays_too
def adaptive_margin(
    x: Tensor, pairs: Tensor, *, alpha: float, beta: float, unbiased: bool = False
) -> Tensor:
    """``[alpha + beta (x - mean x) / std x]_+`` (CMGSD).

    Args:
        x: float [T, V], dissimilarities; NaN (not known) gives alpha.
        pairs: bool [T, V], the entries over which mean and standard deviation are taken, as far as
            they are known.
        alpha: margin of an entry of mean dissimilarity.
        beta: how far one standard deviation moves it.
        unbiased: see :func:`standard`; False: that of the population.

    Returns:
        float [T, V] >= 0.

    Example:
        ::

            >>> x = torch.tensor([[0.0, 0.4], [0.8, 0.0]])
            >>> adaptive_margin(x, ~torch.eye(2).bool(), alpha=0.2, beta=0.1)
            tensor([[0.0000, 0.1000],
                    [0.3000, 0.0000]])
    """
    return margins_by(standard(x, pairs, unbiased=unbiased), x, alpha=alpha, beta=beta)


@arrays_too
def margins_by(by: Optional[Standard], x: Tensor, *, alpha: float, beta: float) -> Tensor:
    """:func:`adaptive_margin` of some texts, by the mean and standard deviation of all.

    Args:
        by: of the whole joint batch.
        x: float [R, V].
        alpha, beta: see :func:`adaptive_margin`.

    Example:
        ::

            >>> by = Standard(torch.tensor(0.6), torch.tensor(0.2))
            >>> margins_by(by, torch.tensor([[0.4, 0.8]]), alpha=0.2, beta=0.1)
            tensor([[0.1000, 0.3000]])
    """
    if by is None:
        return torch.full_like(x, alpha)
    x = torch.where(x.isnan(), by.mean, x)  # a NaN would reach the gradient of the others
    return (alpha + beta * (x - by.mean) / by.std).clamp_min(0)
