"""Test-time score transforms against hubness, for the scores of any model.

Rows are queries, columns are the gallery, in one direction.  A *bank* of queries, scored against
the same gallery, tells which items are retrieved too often; transformed scores are to be compared
within a row.  A bank of test queries makes any of them transductive.

Each class is a transform, and its name that of the function that :func:`.transform` makes of it.
"""

from __future__ import annotations

import math
from typing import Any, Callable, ClassVar, Optional

import torch
from torch import Tensor

from mmvtr.functional.metrics.first_places import first_places
from mmvtr.functional.similarities.tiles import Tiles, as_tiles
from mmvtr.functional.transforms.sinkhorn import (
    Biases,
    column_biases,
    in_own_unit,
    row_sums_of,
    sinkhorn,
    sinkhorn_by_columns,
)
from mmvtr.functional.transforms.transform import (
    NEEDED,
    Transform,
    count,
    number,
    rounds,
    setting,
    temperature,
    transform,
)
from mmvtr.functional.values import arrays_too

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

_EVEN = 'the bank finds every item equally often'
_SHARE = 'share of the mean of the nearest bank scores'


def _of_bank(default: float) -> Any:
    return setting(default, 'of the bank queries, in (0, 1]', 'lie in (0, 1]', lambda x: 0 < x <= 1)


class _Plan(Transform):
    """Base class of :func:`.sinkhorn`'s variants: biases [N] from row biases [K].

    A subclass changes or fixes the options of :func:`.sinkhorn`.
    """

    temperature: float | Tensor = temperature()
    iterations: int = rounds(4)
    bank_marginals: Optional[Tensor] = setting(
        None,
        'weights of bank queries that sum to one; None: all alike',
        'be a tensor or an array',
        lambda x: isinstance(x, Tensor),
    )
    tolerance: ClassVar[Any] = None
    marginal_penalty: ClassVar[Any] = 1.0

    @classmethod
    def prepared(cls, bank: Tiles) -> Tiles:
        """Return the bank with codes for the rounds but one."""
        return bank.coded()

    def plan(self, bank: Tiles) -> Biases:
        """Return the biases of rows [K] and columns [N]."""
        return sinkhorn(
            bank,
            temperature=self.temperature,
            iterations=self.iterations,
            tolerance=self.tolerance,
            row_marginals=self.bank_marginals,
            marginal_penalty=self.marginal_penalty,
        )

    def row_sums(self, shard: Tiles, log_alpha: Tensor) -> Tensor:
        """Return the logs of the sums over items of mass one."""
        how = dict(temperature=self.temperature, marginal_penalty=self.marginal_penalty)
        return row_sums_of(shard, log_alpha, **how)

    def rows_of_shards(
        self, row_sums: Callable[[Tensor], tuple[Tensor, int]], queries: int
    ) -> Optional[Tensor]:
        """Return row biases, by one exchange an iteration."""

        def of_all(log_alpha: Tensor) -> Tensor:
            total, items = row_sums(log_alpha)
            return total - self.marginal_penalty * math.log(items)

        return sinkhorn_by_columns(
            of_all,
            queries,
            temperature=self.temperature,
            iterations=self.iterations,
            tolerance=self.tolerance,
            row_marginals=self.bank_marginals,
        )

    def fit(self, bank: Tiles, **extra: Tiles) -> tuple[Tensor, Optional[Tensor]]:
        """Return item and row biases."""
        rows, columns = self.plan(bank)
        unit = dict(temperature=self.temperature, marginal_penalty=self.marginal_penalty)
        return in_own_unit(columns, bank, rows, **unit), rows

    def further(self, bank: Tiles, rows: Optional[Tensor], **items: Tiles) -> Tensor:
        """Return the biases of further items, computed from the row biases."""
        return self.marginal_penalty * column_biases(bank, rows, temperature=self.temperature)

    def __call__(self, scores: Tensor, bank: Tiles, **extra: Tiles) -> Tensor:
        """Return scores plus column biases."""
        return scores + self.plan(bank).columns.to(scores)


@transform('sinkhorn', label='Sinkhorn', claim=_EVEN, source='NCL, Park et al. 2022, Sec. 3.4')
class sinkhorn_scores(_Plan):
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

    tolerance: Optional[float] = setting(
        None,
        'relative error of the row marginals; None: all rounds',
        'be positive',
        lambda x: x > 0,
    )


@transform(
    'unbalanced_sinkhorn',
    label='UnbalancedSinkhorn',
    claim='items found too often are lowered, in part',
    source='ours, after Chizat et al. 2018',
)
class unbalanced_sinkhorn(_Plan):
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
        marginal_penalty: 1 = Sinkhorn, 0 = the scores unchanged.
        iterations: number of iterations; each multiplies the error by at most ``marginal_penalty``.
        bank_marginals: see :func:`sinkhorn_scores`.

    Returns:
        float [Q, N] in score units, float32 or better.

    Raises:
        ValueError: see :func:`sinkhorn_scores`, or a marginal penalty out of range.

    Example:
        Item 0 is near to all queries of the bank, and half of that is corrected. ::

            >>> bank = torch.tensor([[0.9, 0.1], [0.8, 0.7]])
            >>> scores = torch.tensor([[0.9, 0.2], [0.7, 0.6]])
            >>> unbalanced_sinkhorn(scores, bank, temperature=0.1, marginal_penalty=0.5).argmax(1)
            tensor([0, 1])
    """

    marginal_penalty: float = setting(
        0.8, '0 (raw) to 1 (Sinkhorn)', 'be 0 to 1', lambda x: 0 <= x <= 1
    )
    iterations = rounds(10)


@transform(
    'inverted_softmax',
    label='InvertedSoftmax',
    claim='scores of an item are normalised over the bank',
    source='Smith et al. 2017',
)
class inverted_softmax(_Plan):
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

    iterations = 0
    bank_marginals = None

    def __call__(self, scores: Tensor, bank: Tiles, **extra: Tiles) -> Tensor:
        """Return the published logarithm."""
        return scores + _inverted(bank, self.temperature).to(scores)


@transform(
    'dual_softmax',
    label='DualSoftmax',
    claim='scores are weighted by the softmax over the bank',
    source='CAMoE, Cheng et al. 2021',
)
class dual_softmax(Transform):
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

    form = 'row'
    temperature: float | Tensor = temperature()

    def biases(self, bank: Tiles, **items: Tiles) -> Tensor:
        """Return those of the inverted softmax."""
        return _inverted(bank, self.temperature)

    def apply(self, raw: Tensor, items: Tensor, active: Optional[Tensor]) -> Tensor:
        """Return scores times the softmax over the bank, without the factor K."""
        return times_exp(raw, (raw + items) / torch.as_tensor(self.temperature).to(raw))

    def of_a_part(self, items: Tensor, share: float) -> Tensor:
        """Return biases as of the whole bank: scores grow as the sum over the bank shrinks."""
        return items + self.temperature * math.log(share)

    def __call__(self, scores: Tensor, bank: Tiles, **extra: Tiles) -> Tensor:
        """Return the published product."""
        return super().__call__(scores, bank) * bank.shape[0]


@transform(
    'qb_norm',
    label='QBNorm',
    claim='inverted softmax, only where the first item is a hub',
    source='Bogolin et al. 2022',
)
class qb_norm(Transform):
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

    reads = ('bank', 'row')
    form = 'gated'
    temperature: float | Tensor = temperature()
    neighbours: int = count(1, 'best items of a bank query')

    def biases(self, bank: Tiles, **items: Tiles) -> Tensor:
        """Return those of the inverted softmax."""
        return _inverted(bank, self.temperature)

    def active(self, bank: Tiles) -> Tensor:
        """Return the items that are among the best of a bank query."""
        return activation_set(bank, neighbours=self.neighbours)

    def apply(self, raw: Tensor, items: Tensor, active: Optional[Tensor]) -> Tensor:
        """Return scores plus biases where the best item is active, else raw scores."""
        best = raw.argmax(1, keepdim=True)
        gate = active.to(raw.device).expand_as(raw).gather(1, best)[:, 0]
        return torch.where(gate[:, None], raw + items, raw)


@transform(
    'csls', label='CSLS', claim='items near many queries are lowered', source='Conneau et al. 2018'
)
class csls(Transform):
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

    reads = ('bank', 'row')
    neighbours: int = count(10, 'bank queries')

    def biases(self, bank: Tiles, **items: Tiles) -> Tensor:
        """Return half of -r_j, for scores that are not doubled."""
        return -0.5 * _nearest_mean(bank, self.neighbours)

    def __call__(self, scores: Tensor, bank: Tiles, **extra: Tiles) -> Tensor:
        """Return the published sum."""
        items = self.biases(bank).to(scores)
        check_neighbours(self.neighbours, scores.shape[1], 'gallery items')
        of_query = scores.topk(self.neighbours, dim=1).values.mean(1, keepdim=True)
        return 2 * scores - of_query + 2 * items


@transform(
    'local_scaling',
    label='LocalScaling',
    claim='CSLS, to an adjustable degree',
    source='ours, after CSLS',
)
class local_scaling(Transform):
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

    strength: float = number(0.5, f'{_SHARE}, of either sign')
    share: float = _of_bank(0.05)

    def biases(self, bank: Tiles, **items: Tiles) -> Tensor:
        """Return for each item -strength times the mean of its highest bank scores (``share``)."""
        return -self.strength * _nearest_share(bank, self.share)


@transform(
    'nnn', label='NNN', claim='items near many queries are lowered', source='Chowdhury et al. 2024'
)
class nnn(Transform):
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

    neighbours: int = count(16, 'bank queries')
    alpha: float = number(0.75, _SHARE)

    def biases(self, bank: Tiles, **items: Tiles) -> Tensor:
        """Return -alpha times r_j."""
        return -self.alpha * _nearest_mean(bank, self.neighbours)


@transform(
    'hedged_scaling',
    label='HedgedScaling',
    claim='general items first, then specific ones',
    source='ours',
)
class hedged_scaling(Transform):
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

    reads = ('bank', 'row')
    form = 'row'
    first: float = number(NEEDED, 'as strength, of the first places')
    strength: float = number(NEEDED, f'{_SHARE}, of either sign')
    places: int = count(1, 'items')
    share: float = _of_bank(0.05)

    def biases(self, bank: Tiles, **items: Tiles) -> Tensor:
        """Return -r_j."""
        return -_nearest_share(bank, self.share)

    def apply(self, raw: Tensor, items: Tensor, active: Optional[Tensor]) -> Tensor:
        """Return the list that begins with the leaders."""
        leaders = raw + self.first * items
        return first_places(raw + self.strength * items, leaders, places=self.places)


def times_exp(scores: Tensor, exponent: Tensor) -> Tensor:
    """Return scores * exp(exponent), [Q, N]; a row with exponentials above 1 is scaled down.

    Example:
        ::

            >>> times_exp(torch.tensor([[0.5, 0.5]]), torch.tensor([[100.0, 99.0]]))
            tensor([[0.5000, 0.1839]])
    """
    return scores * (exponent - exponent.amax(1, keepdim=True).clamp_min(0)).exp()


def _nearest_mean(bank: Tensor | Tiles, neighbours: int) -> Tensor:
    """Return the mean of the highest bank scores of each item, [N].

    Args:
        bank: float [K, N], or its tiles.
        neighbours: number of bank scores, 1 to K.

    Raises:
        ValueError: ``neighbours`` out of range, a score that is not finite.
    """
    tiles = as_tiles(bank)
    check_neighbours(neighbours, tiles.shape[0], 'bank queries')
    return tiles.finite().per_column(lambda tile: tile.topk(neighbours, dim=0).values.mean(0))


@arrays_too
def activation_set(bank: Tensor | Tiles, *, neighbours: int = 1) -> Tensor:
    """Return which items are among the ``neighbours`` best of a bank query (QB-Norm), bool [N].

    Args:
        bank: float [K, N], or its tiles.
        neighbours: 1 to N.

    Raises:
        ValueError: ``neighbours`` out of range, or a score that is not finite.

    Example:
        ::

            >>> activation_set(torch.tensor([[0.9, 0.1], [0.8, 0.7]]))
            tensor([ True, False])
    """
    bank = as_tiles(bank)
    check_neighbours(neighbours, bank.shape[1], 'gallery items')
    items = bank.finite().best(neighbours)[1]
    active = torch.zeros(bank.shape[1], dtype=torch.bool, device=items.device)
    active[items.flatten()] = True
    return active


def check_neighbours(k: int, available: int, what: str) -> None:
    """Raise ValueError unless a number, 0-dim, is 1 to the number available.

    Example:
        ::

            >>> check_neighbours(2, 3, 'bank queries')
    """
    if not 1 <= k <= available:
        raise ValueError(f'neighbours must be 1 to {available}, the number of {what}, not {k}')


def _inverted(bank: Tiles, temperature: float | Tensor) -> Tensor:
    """Return -T logsumexp_k(g_kj / T), [N]."""
    return column_biases(bank, torch.zeros(bank.shape[0]), temperature=temperature)


def _nearest_share(bank: Tiles, share: float) -> Tensor:
    return _nearest_mean(bank, max(1, round(share * bank.shape[0])))
