"""Ranking-loss margins from the dissimilarity of two items (CMGSD; He et al., SIGIR 2021)."""

from __future__ import annotations

from typing import NamedTuple, Optional

import torch
from torch import Tensor

from mmvtr.functional.values import arrays_too, product

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
    """Return the dissimilarity of the matched items of each row and each column.

    Args:
        text_cosines: float [T, T], between texts.
        video_cosines: float [V, V], between videos.
        positives: bool [T, V].

    Returns:
        omega float [T, V], 1 - cosine of a row's matched video and the column's video; tau float
        [T, V], 1 - cosine of the row's text and the column's matched text.  With several matches
        the mean cosine is used; NaN where there is none.

    Example:
        Two pairs with identical texts and orthogonal videos. ::

            >>> alike, unlike = torch.ones(2, 2), torch.eye(2)
            >>> dissimilarities(alike, unlike, torch.eye(2).bool())
            (tensor([[0., 1.],
                    [1., 0.]]), tensor([[0., 0.],
                    [0., 0.]]))
    """
    matches = positives.to(video_cosines.dtype)
    # The mean over the matched items is a product with rows (columns) of sum 1. Near 1 half
    # precision keeps three digits of a cosine, and two of 1 - cosine.
    omega = _known(1 - product(matches, video_cosines) / _count(matches, 1), matches, 1)
    return omega, text_dissimilarities(text_cosines, positives)


@arrays_too
def text_dissimilarities(text_cosines: Tensor, positives: Tensor) -> Tensor:
    """Return the dissimilarity of each row's text and each column's matched texts.

    Args:
        text_cosines: float [T, T], between texts.
        positives: bool [T, V].

    Returns:
        tau of :func:`dissimilarities`, float [T, V].

    Example:
        ::

            >>> text_dissimilarities(torch.eye(2), torch.eye(2).bool())
            tensor([[0., 1.],
                    [1., 0.]])
    """
    matches = positives.to(text_cosines.dtype)
    return _known(1 - product(text_cosines, matches) / _count(matches, 0), matches, 0)


def _count(matches: Tensor, dim: int) -> Tensor:
    """Count the matches, 1 where there is none: 0 / 0 would have a NaN gradient."""
    return matches.sum(dim, keepdim=True).clamp_min(1)


def _known(x: Tensor, matches: Tensor, dim: int) -> Tensor:
    """Set entries without a match to NaN."""
    return x.masked_fill(matches.sum(dim, keepdim=True) == 0, torch.nan)


class Standard(NamedTuple):
    """Mean and standard deviation of dissimilarities, two 0-dim numbers of the joint batch."""

    mean: Tensor
    std: Tensor


@arrays_too
def standard(x: Tensor, pairs: Tensor, *, unbiased: bool = False) -> Optional[Standard]:
    """Return the mean and standard deviation of dissimilarities.

    Args:
        x: float [T, V]; NaN = not known.
        pairs: bool [T, V], the entries that count, if they are known.
        unbiased: divide the sum of squares by n - 1.

    Returns:
        None if no entry is known.

    Example:
        ::

            >>> standard(torch.tensor([[0.0, 0.4], [0.8, 0.0]]), ~torch.eye(2).bool())
            Standard(mean=tensor(0.6000), std=tensor(0.2000))
    """
    entries = x[pairs & ~x.isnan()]
    if not len(entries):
        return None
    std = entries.std(correction=int(unbiased and len(entries) > 1))
    least = torch.finfo(x.dtype).eps
    if not std > least:  # all are equal: the gradient of a zero deviation is 0 / 0
        std = torch.full_like(std, least)
    return Standard(entries.mean(), std)


@arrays_too
def standard_of_products(
    rows: Tensor, columns: Tensor, pairs: tuple[Tensor, Tensor], *, unbiased: bool = False
) -> Optional[Standard]:
    """Return :func:`standard` of ``1 - rows @ columns.T`` without computing that matrix.

    The sum of all products is the product of the sums, the sum of their squares is the inner
    product of two D x D moment matrices.

    Args:
        rows: float [T, D].
        columns: float [V, D].
        pairs: two int64 [P], row and column of the entries that do not count.
        unbiased: divide the sum of squares by n - 1.

    Returns:
        None if no entry counts.

    Example:
        ::

            >>> rows, columns = torch.tensor([[1.0], [0.2]]), torch.tensor([[1.0], [0.6]])
            >>> standard_of_products(rows, columns, (torch.tensor([0, 1]), torch.tensor([0, 1])))
            Standard(mean=tensor(0.6000), std=tensor(0.2000))
    """
    t, v = rows.double(), columns.double()
    left_out = (t[pairs[0]] * v[pairs[1]]).sum(-1)
    count = len(t) * len(v) - len(left_out)
    if count < 1:
        return None
    mean = (t.sum(0) @ v.sum(0) - left_out.sum()) / count
    square = (((t.t() @ t) * (v.t() @ v)).sum() - left_out.square().sum()) / count
    variance = (square - mean.square()) * (count / (count - 1) if unbiased and count > 1 else 1)
    std = variance.clamp_min(torch.finfo(rows.dtype).eps ** 2).sqrt()
    return Standard((1 - mean).to(rows.dtype), std.to(rows.dtype))


@arrays_too
def adaptive_margin(
    x: Tensor, pairs: Tensor, *, alpha: float, beta: float, unbiased: bool = False
) -> Tensor:
    """Return the margins ``[alpha + beta (x - mean x) / std x]_+`` (CMGSD).

    Args:
        x: float [T, V], dissimilarities; NaN (not known) gives alpha.
        pairs: bool [T, V], the entries over which mean and standard deviation are taken, if they
            are known.
        alpha: margin of an entry of mean dissimilarity.
        beta: change of the margin per standard deviation.
        unbiased: see :func:`standard`; False gives the population's deviation.

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
    """Return :func:`adaptive_margin` of some texts, given the mean and standard deviation of all.

    Args:
        by: statistics of the whole joint batch.
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
    x = torch.where(x.isnan(), by.mean, x)  # a NaN would spread to the gradients of other entries
    return (alpha + beta * (x - by.mean) / by.std).clamp_min(0)
