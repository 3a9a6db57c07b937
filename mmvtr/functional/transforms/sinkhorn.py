"""Sinkhorn-Knopp: biases with which every query and every item has its given share.

NCL (Park et al. 2022), Sec. 3.3-3.4: with rows and columns of exp((s + a_i + b_j) / temperature)
summing to given marginals, no gallery item is retrieved more often than it should be.
"""

from __future__ import annotations

import math
from numbers import Integral
from typing import Callable, Iterable, NamedTuple, Optional

import torch
from torch import Tensor

from mmvtr.functional.similarities.tiles import Tiles, as_tiles, refuse_empty
from mmvtr.functional.transforms.exp_sums import ExpSums
from mmvtr.functional.values import arrays_too, at_least_float32, check_range

__all__ = ['Biases', 'column_biases', 'sinkhorn', 'sinkhorn_by_rows']

#: Largest number of iterations: a sum to one in float32 is reached with far fewer.
MOST = 100_000
#: Scores up to this size must still be finite after the division by the temperature.
LEAST_RANGE = 1e6


class Biases(NamedTuple):
    """Additive biases in score units (NCL Eq. 6); each vector is fixed up to a constant.

    Attributes:
        rows: float [Q], a of Eq. 10.
        columns: float [N], b of Eq. 11.
    """

    rows: Tensor
    columns: Tensor


@arrays_too
def sinkhorn(
    scores: Tensor | Tiles,
    *,
    temperature: float | Tensor,
    iterations: int = 4,
    tolerance: Optional[float] = None,
    row_marginals: Optional[Tensor] = None,
    column_marginals: Optional[Tensor] = None,
    marginal_penalty: float = 1.0,
) -> Biases:
    """Return biases of rows and columns by Sinkhorn-Knopp (NCL Fig. 4, Eq. 7-11).

    With M = exp(scores / temperature): alpha = 1, beta = c / (alpha M), and ``iterations`` times
    alpha = r / (M beta), beta = c / (alpha M).  So the column marginals always hold, those of the
    rows in the limit.  0 iterations are the inverted softmax.  Costs ``iterations + 1`` passes over
    the tiles.  With coded tiles (:meth:`.Tiles.coded`) the last pass but one reads exact scores and
    the others read codes, unless a tolerance is given.  Computed in float32 or better;
    differentiable in scores and temperature.

    With ``marginal_penalty`` p below 1 the column marginals need not hold (unbalanced optimal
    transport, one side only): beta = (c / (alpha M))^p.  That is the plan P of the given row sums
    with the largest ``<P, scores> + temperature * entropy(P) - rho * KL(column sums of P, c)`` for
    ``rho = temperature * p / (1 - p)``, and in the limit ``b_j = rho * log(c_j / m_j)`` up to one
    constant, where m_j is the remaining mass of column j: an item's bias falls by rho for each
    factor e by which it is found more often than its share.  0 leaves the scores unchanged.

    Args:
        scores: float [Q, N], unscaled: the temperature divides them here.
        temperature: NCL's gamma, positive.
        iterations: largest number of iterations.
        tolerance: stop at the iteration in which all row marginals have a smaller relative error.
        row_marginals: r, float [Q], positive, summing to one; default uniform.
        column_marginals: c, float [N], likewise.
        marginal_penalty: p, 0 to 1.

    Returns:
        a = temperature * log(alpha / sum(alpha)), float [Q], and b [N] from beta likewise.

    Raises:
        ValueError: an empty matrix, a score that is not finite, marginals of another length or
            sum or with entries that are not positive, a temperature or tolerance that is not
            positive, negative iterations, a marginal penalty out of range.

    Source of the unbalanced form: Chizat, Peyre, Schmitzer and Vialard, "Scaling Algorithms for
    Unbalanced Optimal Transport Problems", 2018.

    Example:
        Both queries prefer item 0; the biases leave the second query's preference only. ::

            >>> scores = torch.tensor([[.9, .1], [.8, .7]])
            >>> biases = sinkhorn(scores, temperature=.05)
            >>> (scores + biases.columns).argmax(1).tolist()
            [0, 1]
    """
    tiles = as_tiles(scores)
    refuse_empty(tiles)
    check_iterations(iterations)
    if tolerance is not None:
        check_range('(0, inf]', tolerance=tolerance)
    check_range('[0, 1]', marginal_penalty=marginal_penalty)
    like = tiles.columns(slice(0, 1))
    scale = _inverse(temperature, like)
    log_r = _log_marginals(row_marginals, tiles.shape[0], 'row_marginals', like)
    log_c = _log_marginals(column_marginals, tiles.shape[1], 'column_marginals', like)
    sums, last = ExpSums(tiles, scale, like), None

    def row_sums(log_alpha: Tensor, rough: bool) -> Tensor:
        nonlocal last
        last = sums.of_rows(log_alpha, log_c, marginal_penalty, rough=rough)
        return last.rows

    log_alpha = _alternated(row_sums, log_r, iterations, tolerance)
    log_beta = marginal_penalty * (log_c - sums.of_columns(log_alpha, last))
    return Biases(log_alpha.log_softmax(0) / scale, log_beta.log_softmax(0) / scale)


def sinkhorn_by_columns(
    row_sums: Callable[[Tensor], Tensor],
    rows: int,
    *,
    temperature: float,
    iterations: int = 4,
    tolerance: Optional[float] = None,
    row_marginals: Optional[Tensor] = None,
) -> Tensor:
    """Return :func:`sinkhorn`'s row biases of blocks of columns, which several processes may hold.

    Args:
        row_sums: from log alpha, float32 [Q], to the logs of the row sums over all columns, [Q]:
            log-sum-exp of :func:`row_sums_of` the blocks, minus ``marginal_penalty * log(N)``.
        rows: Q.
        temperature, iterations, tolerance, row_marginals: see :func:`sinkhorn`.

    Returns:
        float32 [Q], in score units, from which :func:`column_biases` gives those of any column.

    Raises:
        ValueError: see :func:`sinkhorn`.

    Example:
        ::

            >>> scores = torch.tensor([[.9, .1], [.8, .7]])
            >>> def row_sums(log_alpha):
            ...     left, right = (
            ...         row_sums_of(x, log_alpha, temperature=.05) for x in scores.split(1, dim=1)
            ...     )
            ...     return torch.logaddexp(left, right) - torch.tensor(2.0).log()
            >>> found = sinkhorn_by_columns(row_sums, 2, temperature=.05)
            >>> torch.allclose(found, sinkhorn(scores, temperature=.05).rows)
            True
    """
    check_iterations(iterations)
    like = torch.zeros(0)
    log_r = _log_marginals(row_marginals, rows, 'row_marginals', like)
    log_alpha = _alternated(lambda x, rough: row_sums(x), log_r, iterations, tolerance)
    return log_alpha.log_softmax(0) / _inverse(temperature, like)


def row_sums_of(
    block: Tensor | Tiles,
    log_alpha: Tensor,
    *,
    temperature: float,
    marginal_penalty: float = 1.0,
) -> Tensor:
    """Return the logs of the row sums of diag(alpha) M diag(beta) over a block of columns whose
    masses are one, float [Q].

    Args:
        block: float [Q, n], or its tiles.
        log_alpha: float [Q].
        temperature, marginal_penalty: see :func:`sinkhorn`.

    Raises:
        ValueError: see :func:`sinkhorn`.

    Example:
        ::

            >>> row_sums_of(torch.zeros(2, 3), torch.zeros(2), temperature=1.0).exp()
            tensor([1.5000, 1.5000])
    """
    tiles = as_tiles(block)
    refuse_empty(tiles)
    like = tiles.columns(slice(0, 1))
    sums = ExpSums(tiles, _inverse(temperature, like), like)
    log_c = like.new_zeros(tiles.shape[1])
    return sums.of_rows(log_alpha.to(like), log_c, marginal_penalty).rows


@arrays_too
def sinkhorn_by_rows(
    blocks: Callable[[], Iterable[Tensor]],
    *,
    temperature: float | Tensor,
    iterations: int = 4,
    column_marginals: Optional[Tensor] = None,
    whole: Callable[[Tensor], Tensor] = lambda rows: rows,
    joint: Callable[[Tensor], Tensor] = lambda log_sums: log_sums,
) -> Biases:
    """Return :func:`sinkhorn` of blocks of rows, which several processes may share.

    Each iteration is one pass: for the current beta the alpha of a block's rows is exact at once,
    and the block's share of the column sums is added in the same pass.

    Args:
        blocks: called for each pass; returns the float scores [q, N] of this process' rows.
        temperature, iterations, column_marginals: see :func:`sinkhorn`; rows are uniform.
        whole: maps a float [own rows] to that of all rows [Q], over processes.
        joint: maps the logs of column sums over own rows, float [N], to those over all rows.

    Returns:
        Biases of all Q rows and of N columns, float32 or better; not finite if a score is not.

    Raises:
        ValueError: no block, negative iterations; see :func:`sinkhorn`.

    Example:
        ::

            >>> scores = torch.tensor([[.9, .1], [.8, .7]])
            >>> biases = sinkhorn_by_rows(lambda: scores.split(1), temperature=.05)
            >>> torch.allclose(biases.columns, sinkhorn(scores, temperature=.05).columns)
            True
    """
    check_iterations(iterations)
    log_sums, log_alpha = [], []
    for block in map(at_least_float32, blocks()):
        scale = _inverse(temperature, block)
        log_sums.append((block * scale).logsumexp(0))
        log_alpha.append(block.new_zeros(len(block)))
    if not log_sums:
        raise ValueError('there is no block of scores')
    total = joint(torch.stack(log_sums).logsumexp(0))
    log_c = _log_marginals(column_marginals, len(total), 'column_marginals', total)
    for _ in range(iterations):
        log_beta, log_sums, log_alpha = log_c - total, [], []
        for block in map(at_least_float32, blocks()):
            x = block * scale
            log_alpha.append(-(x + log_beta).logsumexp(1))
            log_sums.append((x + log_alpha[-1][:, None]).logsumexp(0))
        total = joint(torch.stack(log_sums).logsumexp(0))
    rows = whole(torch.cat(log_alpha))
    return Biases(rows.log_softmax(0) / scale, (log_c - total).log_softmax(0) / scale)


@arrays_too
def column_biases(
    scores: Tensor | Tiles,
    row_biases: Tensor,
    *,
    temperature: float | Tensor,
    column_marginals: Optional[Tensor] = None,
) -> Tensor:
    """Return the column biases for fixed row biases: one half-step of Sinkhorn-Knopp.

    ``b_j = temperature * (log c_j - logsumexp_i((s_ij + a_i) / temperature))``.  A column's bias
    depends on that column only, so further gallery items get theirs without a new fit of the
    others.  For the row biases of :func:`sinkhorn` these are its column biases up to one
    constant.

    Args:
        scores: float [Q, N].
        row_biases: float [Q], in score units; zeros give the inverted softmax.
        temperature: positive.
        column_marginals: c, float [N], positive, in any unit that all calls to be compared share;
            default 1 for every column.

    Returns:
        float [N], in score units, not shifted.

    Raises:
        ValueError: see :func:`sinkhorn`.

    Example:
        Item 0, which both queries are near to, gets the lower bias. ::

            >>> scores = torch.tensor([[.9, .1], [.8, .7]])
            >>> column_biases(scores, torch.zeros(2), temperature=.1)
            tensor([-0.9313, -0.7002])
    """
    tiles = as_tiles(scores)
    refuse_empty(tiles)
    like = tiles.columns(slice(0, 1))
    scale = _inverse(temperature, like)
    _check_length(row_biases, tiles.shape[0], 'row_biases')
    log_beta = -ExpSums(tiles, scale, like).of_columns(row_biases.to(like) * scale)
    if column_marginals is not None:
        log_beta = log_beta + _log_masses(column_marginals, len(log_beta), 'column_marginals', like)
    return log_beta / scale


def in_own_unit(
    columns: Tensor,
    scores: Tiles,
    rows: Tensor,
    *,
    temperature: float | Tensor,
    marginal_penalty: float,
) -> Tensor:
    """Return column biases shifted to ``marginal_penalty *`` those of :func:`column_biases`.

    The column biases of :func:`sinkhorn` are normalised over the columns, so all fall by
    ``temperature * log(2)`` if each column occurs twice.  The shifted ones do not.

    Args:
        columns: float [N], such biases up to one constant.
        scores: tiles of float [Q, N], of which one column is read.
        rows: float [Q], in score units, with exp(rows / temperature) of sum one.
        temperature: positive.
        marginal_penalty: 0 to 1.

    Returns:
        float [N], in score units.

    Example:
        ::

            >>> scores, rows = as_tiles(torch.tensor([[.9, .1], [.8, .7]])), torch.zeros(2)
            >>> how = dict(temperature=.1, marginal_penalty=1.0)
            >>> in_own_unit(torch.tensor([1.0, 2.0]), scores, rows, **how)
            tensor([-0.9313,  0.0687])
    """
    first = column_biases(scores.columns(slice(0, 1)), rows, temperature=temperature)
    return columns + (marginal_penalty * first - columns[:1])


def check_iterations(iterations: int) -> None:
    """Raise ValueError unless a number of iterations, 0-dim, is 0 to :data:`MOST`.

    Example:
        ::

            >>> check_iterations(4)
    """
    whole = isinstance(iterations, Integral) and not isinstance(iterations, bool)
    if not whole or not 0 <= iterations <= MOST:
        raise ValueError(f'iterations must be 0 to {MOST:,}, not {iterations!r}')


def _alternated(
    row_sums: Callable[[Tensor, bool], Tensor],
    log_r: Tensor,
    iterations: int,
    tolerance: Optional[float],
) -> Tensor:
    """Return log alpha after some rounds; ``row_sums`` also gets whether it may be rough."""
    log_alpha = torch.zeros_like(log_r)
    for left in reversed(range(iterations)):
        log_excess = row_sums(log_alpha, left > 0 and tolerance is None) - log_r
        log_alpha = log_alpha - log_excess
        if tolerance is not None and log_excess.expm1().abs().max() < tolerance:
            break
    return log_alpha


def _inverse(temperature: float | Tensor, like: Tensor) -> Tensor:
    check_range('(0, inf)', temperature=temperature)
    value = float(temperature)
    # Scores are divided by it: if that overflows the biases are NaN.
    if value * torch.finfo(like.dtype).max < LEAST_RANGE:
        raise ValueError(f'temperature {value} is too small for {like.dtype}: scores overflow')
    return 1 / torch.as_tensor(temperature, dtype=like.dtype, device=like.device)


def _log_marginals(marginals: Optional[Tensor], length: int, name: str, like: Tensor) -> Tensor:
    if marginals is None:
        return like.new_full((length,), -math.log(length))
    total = marginals.double().sum().item()
    logs = _log_masses(marginals, length, name, like)
    if not math.isclose(total, 1, rel_tol=1e-4):
        raise ValueError(f'{name} must sum to one, not {total:.6g}')
    return logs


def _log_masses(masses: Tensor, length: int, name: str, like: Tensor) -> Tensor:
    _check_length(masses, length, name)
    wrong = (~((masses > 0) & masses.isfinite())).nonzero().flatten().tolist()
    if wrong:
        raise ValueError(
            f'{name}[{wrong[0]}] is {masses[wrong[0]].item()}, expected positive numbers'
        )
    return masses.to(like).log()


def _check_length(x: Tensor, length: int, name: str) -> None:
    if x.shape != (length,):
        raise ValueError(f'{name} {list(x.shape)} must have shape [{length}]')
