"""Test-time score transforms against hubness, for the scores of any model.

Rows are queries, columns are the gallery, in one direction.  A *bank* of queries, scored against
the same gallery, tells which items are retrieved too often; transformed scores are to be compared
within a row.  A bank of test queries makes any of them transductive.
"""

from __future__ import annotations

import math
from typing import Any, Optional

import torch
from torch import Tensor

from mmvtr.functional.metrics.first_places import first_places
from mmvtr.functional.similarities.tiles import Tiles, as_tiles, refuse_empty, refuse_non_finite
from mmvtr.functional.transforms.sinkhorn import column_biases, sinkhorn
from mmvtr.functional.values import arrays_too, at_least_float32, check_range

__all__ = [
    'activation_set',
    'csls',
    'dual_softmax',
    'hedged_scaling',
    'inverted_softmax',
    'local_scaling',
    'nnn',
    'qb_norm',
    'sinkhorn_scores',
    'unbalanced_sinkhorn',
]


@arrays_too
def sinkhorn_scores(
    scores: Tensor,
    bank: Tensor | Tiles,
    *,
    temperature: float | Tensor,
    iterations: int = 4,
    tolerance: Optional[float] = None,
    bank_marginals: Optional[Tensor] = None,
) -> Tensor:
    """Return ``scores + b``, with b from the bank: NCL at test time (Park et al. 2022, Sec. 3.4).

    Args:
        scores: float [Q, N] of the queries asked.
        bank: float [K, N] of the bank queries with the same N gallery items, or its tiles.
        temperature: NCL's gamma, which divides scores; positive.
        iterations, tolerance: see :func:`mmvtr.functional.transforms.sinkhorn.sinkhorn`.
        bank_marginals: float [K], the weight of each bank query, summing to one; default uniform.

    Returns:
        float [Q, N] in score units, float32 or better.

    Raises:
        ValueError: a score that is not finite, a constant bank, an empty bank or gallery, a bank
            of another gallery; see also :func:`.sinkhorn`.

    Example:
        Item 0 is near to all queries of the bank, so the second query gets the other one. ::

            >>> bank = torch.tensor([[0.9, 0.1], [0.8, 0.7]])
            >>> scores = torch.tensor([[0.9, 0.2], [0.7, 0.6]])
            >>> sinkhorn_scores(scores, bank, temperature=0.1).argmax(1)
            tensor([0, 1])
    """
    options = dict(temperature=temperature, iterations=iterations, tolerance=tolerance)
    return _with_sinkhorn(scores, bank, row_marginals=bank_marginals, **options)


@arrays_too
def unbalanced_sinkhorn(
    scores: Tensor,
    bank: Tensor | Tiles,
    *,
    temperature: float | Tensor,
    strictness: float = 0.8,
    iterations: int = 10,
    bank_marginals: Optional[Tensor] = None,
) -> Tensor:
    """Return ``scores + b`` by Sinkhorn with relaxed column marginals: items may be found unevenly.

    A strict Sinkhorn forces every item to be found equally often, and so ranks right items low if
    they are right for many queries.  Here an item that is found too often is penalised in
    proportion to the logarithm of the excess only (:func:`.sinkhorn` has the equations).  On human
    judgments it gains as much paired recall and loses fewer of the right items that were not
    annotated.

    Args:
        scores: float [Q, N] of the queries asked.
        bank: float [K, N] of the bank queries with the same N gallery items, or its tiles.
        temperature: divides scores; positive.
        strictness: 1 = Sinkhorn, 0 = the scores unchanged.
        iterations: number of iterations; each multiplies the error by at most ``strictness``.
        bank_marginals: see :func:`sinkhorn_scores`.

    Returns:
        float [Q, N] in score units, float32 or better.

    Raises:
        ValueError: see :func:`sinkhorn_scores`, or a strictness out of range.

    Example:
        Item 0 is near to all queries of the bank, and half of that is corrected. ::

            >>> bank = torch.tensor([[0.9, 0.1], [0.8, 0.7]])
            >>> scores = torch.tensor([[0.9, 0.2], [0.7, 0.6]])
            >>> unbalanced_sinkhorn(scores, bank, temperature=0.1, strictness=0.5).argmax(1)
            tensor([0, 1])
    """
    options = dict(temperature=temperature, iterations=iterations, strictness=strictness)
    return _with_sinkhorn(scores, bank, row_marginals=bank_marginals, **options)


def _with_sinkhorn(scores: Tensor, bank: Tensor | Tiles, **options: Any) -> Tensor:
    scores, bank = checked_scores(scores, bank)
    return scores + sinkhorn(bank, **options).columns.to(scores)


@arrays_too
def inverted_softmax(
    scores: Tensor, bank: Tensor | Tiles, *, temperature: float | Tensor
) -> Tensor:
    """Return scores by inverted softmax (Smith et al. 2017; QB-Norm's IS), in log form.

    ``s_ij - T logsumexp_k(g_kj / T)``: T times the log of the published
    ``exp(s_ij / T) / sum_k exp(g_kj / T)``, ranked the same, without its overflow.

    Args:
        scores: float [Q, N], s, of the queries asked.
        bank: float [K, N], g, of the bank queries with the same items, or its tiles.
        temperature: T, which divides scores; positive.

    Returns:
        float [Q, N] in score units, float32 or better.

    Raises:
        ValueError: see :func:`sinkhorn_scores`.

    Example:
        ::

            >>> bank, scores = torch.tensor([[0.9, 0.1], [0.8, 0.7]]), torch.tensor([[0.7, 0.6]])
            >>> inverted_softmax(scores, bank, temperature=0.1)
            tensor([[-0.2313, -0.1002]])
    """
    scores, bank = checked_scores(scores, bank)
    return scores + _bank_biases(scores, bank, temperature)


@arrays_too
def qb_norm(
    scores: Tensor, bank: Tensor | Tiles, *, temperature: float | Tensor, neighbours: int = 1
) -> Tensor:
    """Return scores by dynamic inverted softmax (QB-Norm, Bogolin et al. 2022).

    :func:`inverted_softmax` for the queries whose best item is among the ``neighbours`` best of
    some bank query; the others keep their raw scores.  Rows differ in scale: compare only within a
    row.

    Args:
        scores: float [Q, N] of the queries asked.
        bank: float [K, N] of the bank queries with the same items, or its tiles.
        temperature: divides scores; positive.
        neighbours: number of best items of a bank query that count, 1 to N.

    Returns:
        float [Q, N], float32 or better.

    Raises:
        ValueError: see :func:`sinkhorn_scores`, or ``neighbours`` out of range.

    Example:
        The bank's queries all find item 0: only the first query, which finds it too, changes. ::

            >>> bank = torch.tensor([[0.9, 0.1], [0.8, 0.7]])
            >>> qb_norm(torch.tensor([[0.7, 0.6], [0.2, 0.3]]), bank, temperature=0.1)
            tensor([[-0.2313, -0.1002],
                    [ 0.2000,  0.3000]])
    """
    scores, bank = checked_scores(scores, bank)
    active = activation_set(bank, k=neighbours).to(scores.device)[scores.argmax(1)]
    return torch.where(active[:, None], scores + _bank_biases(scores, bank, temperature), scores)


@arrays_too
def dual_softmax(scores: Tensor, bank: Tensor | Tiles, *, temperature: float | Tensor) -> Tensor:
    """Return scores by dual softmax (CAMoE, Cheng et al. 2021), as its users apply it at test time.

    ``K s_ij exp(s_ij / T) / sum_k exp(g_kj / T)``: with the scores themselves as bank,
    ``s * softmax(s / T, dim=0) * len(s)``.  If an exponential of a row exceeds 1 (possible only
    with another bank), the row is scaled down as a whole.  As published, a negative score ranks
    lower the better it fits its column, and scores 87 temperatures below the row's best vanish in
    float32.

    Args:
        scores: float [Q, N], s, of the queries asked.
        bank: float [K, N], g, of the bank queries with the same items, or its tiles.
        temperature: T, which divides scores; positive.

    Returns:
        float [Q, N], no longer in score units, float32 or better.

    Raises:
        ValueError: see :func:`sinkhorn_scores`.

    Example:
        The scores as their own bank: item 1 is found by the second query only. ::

            >>> scores = torch.tensor([[0.9, 0.1], [0.8, 0.7]])
            >>> dual_softmax(scores, scores, temperature=0.2)
            tensor([[1.1204, 0.0095],
                    [0.6041, 1.3336]])
    """
    scores, bank = checked_scores(scores, bank)
    biases = _bank_biases(scores, bank, temperature)
    exponent = (scores + biases) / torch.as_tensor(temperature).to(scores)
    return times_exp(scores, exponent) * bank.shape[0]


@arrays_too
def csls(scores: Tensor, bank: Tensor | Tiles, *, neighbours: int = 10) -> Tensor:
    """Return ``2 s_ij - r_i - r_j``: cross-domain similarity local scaling (Conneau et al. 2018).

    r_j is the mean of the ``neighbours`` highest bank scores of item j, r_i that of as many highest
    gallery scores of query i (the same for the whole row, so that it does not change ranks).

    Args:
        scores: float [Q, N], s, of the queries asked.
        bank: float [K, N] of the bank queries with the same items, or its tiles.
        neighbours: 1 to the smaller of K and N.

    Returns:
        float [Q, N] in score units, float32 or better.

    Raises:
        ValueError: see :func:`sinkhorn_scores`, or ``neighbours`` out of range.

    Example:
        The bank's best are 0.9 and 0.7, the query's is 0.7. ::

            >>> bank = torch.tensor([[0.9, 0.1], [0.8, 0.7]])
            >>> csls(torch.tensor([[0.7, 0.65]]), bank, neighbours=1)
            tensor([[-0.2000, -0.1000]])
    """
    scores, bank = checked_scores(scores, bank)
    _check_k(neighbours, bank.shape[0], 'bank queries')
    _check_k(neighbours, scores.shape[1], 'gallery items')
    own = scores.topk(neighbours, dim=1).values.mean(1, keepdim=True)
    return 2 * scores - own - nearest_mean(bank, neighbours).to(scores)


@arrays_too
def local_scaling(
    scores: Tensor, bank: Tensor | Tiles, *, strength: float = 0.5, share: float = 0.05
) -> Tensor:
    """Return scores minus a multiple of each item's mean score with its nearest bank queries.

        s_ij - strength * r_j

    r_j is the mean of the highest ``share`` of item j's bank scores, at least of one.  A positive
    strength lowers items that are near to many queries, hubs and general captions; a negative one
    raises them, and ranks what is true of many before what was written for one (docs/agreement.md).
    At the default, a half, the order is that of :func:`csls`, with a share of the queries instead
    of a number.

    Args:
        scores: float [Q, N], s, of the queries asked.
        bank: float [K, N] of the bank queries with the same items, or its tiles.
        strength: of either sign; 0 = raw scores.
        share: of the bank, in (0, 1].

    Returns:
        float [Q, N] in score units, float32 or better.

    Raises:
        ValueError: see :func:`sinkhorn_scores`; a share out of range or a strength that is not
            finite.

    Example:
        The two best of four bank scores are .9 and .7, and .2 and .2. ::

            >>> bank = torch.tensor([[0.9, 0.1], [0.7, 0.2], [0.1, 0.2], [0.2, 0.0]])
            >>> local_scaling(torch.tensor([[0.8, 0.3]]), bank, strength=0.5, share=0.5)
            tensor([[0.4000, 0.2000]])
    """
    scores, bank = checked_scores(scores, bank)
    check_local_scaling(strength, share)
    k = max(1, round(share * bank.shape[0]))
    return scores - strength * nearest_mean(bank, k).to(scores)


@arrays_too
def nnn(
    scores: Tensor, bank: Tensor | Tiles, *, neighbours: int = 16, alpha: float = 0.75
) -> Tensor:
    """Return ``s_ij - alpha * r_j``: nearest neighbour normalisation (NNN; Chowdhury et al. 2024).

    r_j is the mean of item j's ``neighbours`` highest bank scores: :func:`local_scaling` with a
    number of queries instead of a share.  The paper chooses both by validation; the authors' code
    starts with 256 neighbours and alpha = .5.

    Args:
        scores: float [Q, N], s, of the queries asked.
        bank: float [K, N] of the bank queries with the same items, or its tiles.
        neighbours: 1 to K.
        alpha: strength; 0 = raw scores.

    Returns:
        float [Q, N] in score units, float32 or better.

    Raises:
        ValueError: see :func:`sinkhorn_scores`; ``neighbours`` out of range, an alpha that is not
            finite.

    Example:
        The two best of three bank scores are .9 and .7, and .2 and .2. ::

            >>> bank = torch.tensor([[0.9, 0.1], [0.7, 0.2], [0.1, 0.2]])
            >>> nnn(torch.tensor([[0.8, 0.3]]), bank, neighbours=2, alpha=0.5)
            tensor([[0.4000, 0.2000]])
    """
    scores, bank = checked_scores(scores, bank)
    _check_k(neighbours, bank.shape[0], 'bank queries')
    if not math.isfinite(alpha):
        raise ValueError(f'alpha must be finite, not {alpha}')
    return scores - alpha * nearest_mean(bank, neighbours).to(scores)


@arrays_too
def hedged_scaling(
    scores: Tensor,
    bank: Tensor | Tiles,
    *,
    first: float,
    strength: float,
    places: int = 1,
    share: float = 0.05,
) -> Tensor:
    """Return scores by :func:`local_scaling` with one strength for the first places, another below.

        1. the ``places`` highest of s_ij - first * r_j, in that order
        2. all others by s_ij - strength * r_j

    With ``first`` below 0 and ``strength`` above it, a list begins with what is true of many and
    continues with what was written for one (docs/agreement.md).  Precision at 1 depends on the
    first place only, recall at 5 and 10 on the others.

    Args:
        scores: float [Q, N], s, of the queries asked.
        bank: float [K, N] of the bank queries with the same items, or its tiles; r as in
            :func:`local_scaling`.
        first: strength for the first places, of either sign.
        strength: strength for the others.
        places: number of first places, 1 to N.  Among equals the lowest index comes first.
        share: of the bank, in (0, 1].

    Returns:
        float [Q, N], float32 or better: s_ij - strength * r_j, with values above the row's highest
        for the first places.

    Raises:
        ValueError: see :func:`local_scaling`; ``places`` out of range.

    Example:
        Item 0 is near to many queries of the bank: it comes first, and then item 2. ::

            >>> bank = torch.tensor([[0.9, 0.1, 0.3], [0.8, 0.2, 0.1]])
            >>> scores = torch.tensor([[0.5, 0.2, 0.3]])
            >>> hedged_scaling(scores, bank, first=-0.3, strength=0.6).argsort(1, descending=True)
            tensor([[0, 2, 1]])
            >>> local_scaling(scores, bank, strength=0.6).argsort(1, descending=True)
            tensor([[2, 1, 0]])
    """
    scores, bank = checked_scores(scores, bank)
    for one in (first, strength):
        check_local_scaling(one, share)
    near = nearest_mean(bank, max(1, round(share * bank.shape[0]))).to(scores)
    return first_places(scores - strength * near, scores - first * near, places=places)


def times_exp(scores: Tensor, exponent: Tensor) -> Tensor:
    """Return scores * exp(exponent), [Q, N]; a row with exponentials above 1 is scaled down.

    Example:
        ::

            >>> times_exp(torch.tensor([[0.5, 0.5]]), torch.tensor([[100.0, 99.0]]))
            tensor([[0.5000, 0.1839]])
    """
    return scores * (exponent - exponent.amax(1, keepdim=True).clamp_min(0)).exp()


def nearest_mean(bank: Tensor | Tiles, neighbours: int) -> Tensor:
    """Return the mean of the highest bank scores of each item, [N].

    Args:
        bank: float [K, N], or its tiles.
        neighbours: number of bank scores, 1 to K.

    Raises:
        ValueError: ``neighbours`` out of range, a score that is not finite.

    Example:
        ::

            >>> nearest_mean(torch.tensor([[0.9, 0.1], [0.7, 0.2]]), 1)
            tensor([0.9000, 0.2000])
    """
    tiles = as_tiles(bank)
    _check_k(neighbours, tiles.shape[0], 'bank queries')
    return tiles.finite().per_column(lambda tile: tile.topk(neighbours, dim=0).values.mean(0))


def check_local_scaling(strength: float, share: float) -> None:
    """Raise ValueError if arguments of :func:`local_scaling` are out of range.

    Args:
        strength: of either sign, a number.
        share: of a bank, a number.

    Raises:
        ValueError: a strength that is not finite, a share outside (0, 1].

    Example:
        ::

            >>> check_local_scaling(-0.15, 0.05)
    """
    if not math.isfinite(strength):
        raise ValueError(f'strength must be finite, not {strength}')
    check_range('(0, 1]', share=share)


@arrays_too
def activation_set(bank: Tensor | Tiles, *, k: int = 1) -> Tensor:
    """Return the items that are among the ``k`` best of some bank query (QB-Norm): bool [N].

    Args:
        bank: float [K, N], or its tiles.
        k: 1 to N.

    Raises:
        ValueError: ``k`` out of range, or a score that is not finite.

    Example:
        ::

            >>> activation_set(torch.tensor([[0.9, 0.1], [0.8, 0.7]]))
            tensor([ True, False])
    """
    bank = as_tiles(bank)
    _check_k(k, bank.shape[1], 'gallery items')
    items = bank.finite().best(k)[1]
    active = torch.zeros(bank.shape[1], dtype=torch.bool, device=items.device)
    active[items.flatten()] = True
    return active


def _bank_biases(scores: Tensor, bank: Tiles, temperature: float | Tensor) -> Tensor:
    """Return -T logsumexp_k(g_kj / T), [N]."""
    biases = column_biases(bank, torch.zeros(bank.shape[0]), temperature=temperature)
    return biases.to(scores)


def checked_scores(scores: Tensor, bank: Tensor | Tiles) -> tuple[Tensor, Tiles]:
    """Return scores in float32 or better and tiles of the bank; raise ValueError unless they fit.

    Args:
        scores: float [Q, N].
        bank: float [K, N], or its tiles.

    Raises:
        ValueError: see :func:`sinkhorn_scores`; scores of the bank are checked when they are used.

    Example:
        ::

            >>> checked_scores(torch.eye(2), torch.ones(3, 4))
            Traceback (most recent call last):
            ValueError: bank covers 4 gallery items, but the scores cover 2
    """
    bank, own = as_tiles(bank)._replace(name='bank'), as_tiles(scores)
    refuse_empty(bank)
    if own.shape[1] != bank.shape[1]:
        raise ValueError(
            f'bank covers {bank.shape[1]} gallery items, but the scores cover {own.shape[1]}'
        )
    refuse_non_finite(scores)
    _refuse_constant(bank)
    return at_least_float32(scores), bank


def _refuse_constant(tiles: Tiles) -> None:
    """Raise ValueError if all scores are equal; mostly one tile is read."""
    if tiles.shape[0] * tiles.shape[1] < 2:
        return
    value = tiles.columns(slice(0, 1))[0, 0]
    if all((tile == value).all() for _, tile in tiles.parts()):
        raise ValueError(
            f'{tiles.name} {list(tiles.shape)} is all one value ({value.item():g}): nothing to rank'
        )


def _check_k(k: int, available: int, what: str) -> None:
    if not 1 <= k <= available:
        raise ValueError(f'neighbours must be 1 to {available}, the number of {what}, not {k}')
