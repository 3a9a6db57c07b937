"""Transforms that also read items: with two banks, of queries and of items, and InvGC.

A gallery item may be a hub because it is near to many queries, or because it is near to many items
that answer them.  The second bank is of items, such as those that the bank's queries find in the
training set; it separates the two cases.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Mapping, Optional

import torch
from torch import Tensor

from mmvtr.functional.similarities.tiles import ENTRIES, Tiles, refuse_empty, side_by_side
from mmvtr.functional.transforms.score_transforms import activation_set, times_exp
from mmvtr.functional.transforms.sinkhorn import column_biases, sinkhorn
from mmvtr.functional.transforms.transform import (
    Transform,
    count,
    rounds,
    setting,
    temperature,
    transform,
)
from mmvtr.functional.values import arrays_too, at_least_float32, check_range

__all__ = ['db_norm', 'dbsn', 'inverse_convolution', 'invgc']


@transform(
    'dbsn',
    label='DBSN',
    claim='Sinkhorn in which queries also have their own items',
    source='Pan et al. 2025, arXiv 2508.02538',
)
class dbsn(Transform):
    """Return ``scores + b`` by dual bank Sinkhorn (DBSN; Pan et al. 2025, arXiv 2508.02538).

    Sinkhorn of the bank's queries with the gallery *and* the bank's own items, [K, N + M]: the mass
    that a query gives to its own items is not given to the gallery.  ``b`` is that of the N items;
    the others' and the rows' are dropped.  A round begins with the rows (all items alike at first),
    as published; :func:`.sinkhorn_scores` begins with the columns, and both have the same limit.

    Args:
        scores: float [Q, N] of the queries asked.
        bank: float [K, N] of the bank queries with the same N gallery items, or its tiles.
        bank_gallery: float [K, M] of the same bank queries with M items seen before, or its tiles.
        temperature: divides scores; positive.
        iterations: rounds, 1 or more; sharp temperatures (.01 of cosines) need more than 10.

    Returns:
        float [Q, N] in score units, float32 or better.  The constant in b, which does not change
        ranks, is chosen so that b stays the same if every item of both kinds occurs twice.

    Raises:
        ValueError: see :func:`.sinkhorn_scores`; banks of different queries, no round.

    Example:
        The first bank query has an item of its own, so item 0 is less of a hub than item 1. ::

            >>> bank = torch.tensor([[0.8, 0.2], [0.2, 0.8]])
            >>> own = torch.tensor([[0.9], [0.1]])
            >>> scores = torch.tensor([[0.6, 0.62]])
            >>> dbsn(scores, bank, bank_gallery=own, temperature=0.1).argmax(1)
            tensor([0])
    """

    reads = ('bank', 'bank_gallery')
    temperature: float | Tensor = temperature()
    iterations: int = rounds(10, least=1)

    @classmethod
    def prepared(cls, bank: Tiles) -> Tiles:
        """Return the bank; a large one with 8-bit codes, which all rounds but one read."""
        return bank.coded()

    def fit(self, bank: Tiles, **extra: Tiles) -> tuple[Tensor, Optional[Tensor]]:
        """Return item and row biases."""
        how = dict(temperature=self.temperature, iterations=self.iterations)
        rows = _dbsn_rows(bank, extra['bank_gallery'], **how)
        return self.further(bank, rows), rows

    def further(self, bank: Tiles, rows: Optional[Tensor], **items: Tiles) -> Tensor:
        """Return the biases of further items, computed from the row biases."""
        return column_biases(bank, rows, temperature=self.temperature)


def _dbsn_rows(
    bank: Tiles, bank_gallery: Tiles, *, temperature: float | Tensor, iterations: int
) -> Tensor:
    """Return the row biases from which :func:`.column_biases` gives the biases of :func:`dbsn`.

    Further items thus get biases without a new fit of the others.

    Args:
        bank, bank_gallery, temperature, iterations: see :func:`dbsn`.

    Returns:
        float [K], in score units, float32 or better; exp(rows / temperature) sums to one.

    Raises:
        ValueError: see :func:`dbsn`.
    """
    refuse_empty(bank_gallery)
    if bank_gallery.shape[0] != bank.shape[0]:
        raise ValueError(
            f'bank_gallery has {bank_gallery.shape[0]} bank queries, but bank has {bank.shape[0]}'
        )
    both = side_by_side(bank.finite(), bank_gallery.finite(), 'bank and bank_gallery')
    # The first round's row step is moved into the scores: sinkhorn then begins with its column
    # step.
    first = _row_excess(both, temperature)
    shifted = both._replace(columns=lambda part: both.columns(part) - first[:, None])
    rows = sinkhorn(shifted, temperature=temperature, iterations=iterations - 1).rows - first
    scale = torch.as_tensor(temperature).to(first)
    return (rows / scale).log_softmax(0) * scale


@transform(
    'db_norm',
    label='DBNorm',
    claim='items near many queries or many items are lowered',
    source='Wang et al. 2023, arXiv 2310.11612',
)
class db_norm(Transform):
    """Return scores by DBNorm (Wang et al. 2023, arXiv 2310.11612), static or dynamic.

    The product of two inverted softmaxes, DualIS, over the bank's queries g and over items h seen
    before, at temperatures T and U::

        exp(s_ij / T) / sum_k exp(g_kj / T) * exp(s_ij / U) / sum_m exp(h_mj / U)

    Its logarithm times T U / (T + U) is returned, which is s plus a bias of each item and ranks
    alike.  The dynamic form, DualDIS, applies each factor to the queries whose best item is in that
    bank's :func:`.activation_set`.  With both factors a row is as above; with one it is the
    published product of s and that factor, scaled down as a whole if it would exceed 1 (a negative
    score then ranks lower the better it fits its column); with none the scores are unchanged, while
    the product would be their square.  Rows differ in scale: compare only within a row.

    Args:
        scores: float [Q, N], s, of the queries asked.
        bank: float [K, N], g, of the bank queries with the same items, or its tiles.
        item_bank: float [M, N], h, similarities of M items seen before with the same items (videos
            with videos), or its tiles.
        temperature: T, which divides s and g; positive.
        item_temperature: U, which divides s and h; positive; None = 16 T times the ratio of the
            items' :func:`.score_gap` to the bank's (:func:`_own_share`): the items then have little
            influence, as a larger one loses ranks on real scores.
        dynamic: DualDIS.
        neighbours: number of best items of a bank row that are active, 1 to N; read if ``dynamic``.

    Returns:
        float [Q, N], float32 or better; in score units unless ``dynamic``.

    Raises:
        ValueError: see :func:`.sinkhorn_scores`, for either bank; ``neighbours`` out of range.

    Example:
        Item 0 is near to all queries of the bank, item 1 to all items seen before. ::

            >>> bank = torch.tensor([[0.9, 0.1], [0.8, 0.1]])
            >>> items = torch.tensor([[0.1, 0.5], [0.2, 0.4]])
            >>> scores = torch.tensor([[0.7, 0.4]])
            >>> both = dict(item_bank=items, temperature=0.1, item_temperature=0.1)
            >>> db_norm(scores, bank, **both)
            tensor([[0.1187, 0.0497]])
            >>> db_norm(scores, bank, **both, dynamic=True)
            tensor([[0.0069, 0.4000]])
    """

    reads = ('bank', 'row', 'item_bank')
    temperature: float | Tensor = temperature()
    item_temperature: Optional[float | Tensor] = setting(
        None,
        "units of scores; None: 16 times the share of the items' score gap",
        'be a positive number in units of scores',
        lambda x: not isinstance(x, str) and 0 < float(x) < math.inf,
    )
    dynamic: bool = setting(False, 'bool', 'be True or False', lambda x: True)
    neighbours: int = count(1, 'best items of a bank query')

    @classmethod
    def resolved(cls, options: Mapping[str, Any], gap: Callable[[str], float]) -> dict[str, Any]:
        """Return options with both temperatures in units of scores."""
        options = super().resolved(options, gap)
        if options['item_temperature'] is None:
            options['item_temperature'] = _own_share(options['temperature'], gap)
        return options

    def check_fit(self) -> None:
        """Raise ValueError for the dynamic form."""
        if self.dynamic:
            raise ValueError(
                'the dynamic form of db_norm does not give one bias per item: call '
                'mmvtr.functional.db_norm'
            )

    def biases(self, bank: Tiles, **items: Tiles) -> Tensor:
        """Return the mean of both banks' biases, weighted by the other's temperature."""
        of_queries, of_items = self._two(bank, items['item_bank'])
        t, u = (
            torch.as_tensor(x).to(of_queries) for x in (self.temperature, self.item_temperature)
        )
        return (u * of_queries + t * of_items.to(of_queries)) / (t + u)

    def _two(self, bank: Tiles, items: Tiles) -> tuple[Tensor, Tensor]:
        both = ((bank, self.temperature), (items, self.item_temperature))
        return tuple(column_biases(x, torch.zeros(x.shape[0]), temperature=t) for x, t in both)

    def __call__(self, scores: Tensor, bank: Tiles, **extra: Tiles) -> Tensor:
        """Return the static or the dynamic form."""
        raw, items = scores, extra['item_bank']
        whole = raw + self.biases(bank, item_bank=items).to(raw)
        if not self.dynamic:
            return whole
        of_queries, of_items = (x.to(raw) for x in self._two(bank, items))
        t, u = (torch.as_tensor(x).to(raw) for x in (self.temperature, self.item_temperature))
        best = raw.argmax(1)
        active, active_items = (
            activation_set(x, neighbours=self.neighbours).to(raw.device)[best][:, None]
            for x in (bank, items)
        )
        scaled = torch.where(active, times_exp(raw, (raw + of_queries) / t), raw)
        scaled = torch.where(active_items, times_exp(raw, (raw + of_items) / u), scaled)
        return torch.where(active & active_items, whole, scaled)


#: Factor of the items' default temperature: the best of 1, 2, 4, 8, 16 on any five of six cells of
#: real scores.
MILDER = 16


def _own_share(temperature: float | Tensor, gap: Callable[[str], float]) -> float | Tensor:
    """Return :data:`MILDER` times a temperature, converted from the bank's score gap to the items'.

    If the bank or the items have no gap it is not converted.

    Args:
        temperature: divides scores of the bank; positive.
        gap: the score gap of ``'bank'`` and ``'item_bank'``.
    """
    of_bank, of_items = gap('bank'), gap('item_bank')
    ratio = of_items / of_bank if of_bank > 0 and of_items > 0 else 1.0
    return MILDER * temperature * ratio


def _row_excess(tiles: Tiles, temperature: float | Tensor) -> Tensor:
    """Return T log sum_j exp(s_kj / T), [K]."""
    total = None
    for _, tile in tiles.parts():
        scale = torch.as_tensor(temperature).to(tile)
        part = (tile / scale).logsumexp(1)
        total = part if total is None else torch.logaddexp(total, part)
    return total * scale


@arrays_too
def inverse_convolution(
    gallery: Tensor, bank: Tensor, *, strength: float, share: Optional[float] = None
) -> Tensor:
    """Return vectors after one step of InvGC (Jian and Wang 2023), against one bank.

    With similarities ``c_ij = x_i . b_j``, whose mean over all i and j is m::

        x_i - strength / M * sum_j (c_ij - m) b_j            share=None, AvgPool
        x_i - strength / k * sum_(j of the k highest) c_ij b_j    LocalAdj, k = floor(share * M)

    The mean is subtracted only in the first form, as in the published code.  Similarities are
    computed for a few items at a time, 16 MiB of float32.

    Args:
        gallery: float [N, D], x.
        bank: float [M, D], b, of either modality.
        strength: the paper's r; 0 = the gallery unchanged.
        share: of the bank, in (0, 1], at least one vector of it; None = all of the bank.

    Returns:
        float [N, D], float32 or better, of any length.

    Raises:
        ValueError: not matrices of one width, or empty; a strength that is not finite; a share
            outside (0, 1], or of less than one vector.

    Example:
        Both items lose what they share with the one vector that is near to them. ::

            >>> gallery = torch.tensor([[1.0, 0.2], [0.0, 1.0]])
            >>> inverse_convolution(gallery, gallery[:1], strength=0.5, share=1.0)
            tensor([[ 0.4800,  0.0960],
                    [-0.1000,  0.9800]])
    """
    gallery, bank = _checked(gallery, bank)
    if not math.isfinite(strength):
        raise ValueError(f'strength must be finite, not {strength}')
    k = None if share is None else _neighbours(share, len(bank))
    mean = gallery.mean(0) @ bank.mean(0)  # of all similarities
    rows = max(1, ENTRIES // len(bank))
    shared = torch.cat([_shared(part, bank, mean, k) for part in gallery.split(rows)])
    return gallery - strength * shared


@arrays_too
def invgc(
    gallery: Tensor,
    *,
    items: Tensor,
    queries: Tensor,
    item_strength: float,
    query_strength: float,
    share: Optional[float] = None,
) -> Tensor:
    """Return a gallery moved by a bank of items and one of queries (InvGC; Jian and Wang 2023).

    The mean of the unit vectors of :func:`inverse_convolution` against each bank, normalised again.
    Queries are not changed.

    Args:
        gallery: float [N, D].
        items: float [M, D], seen before, of the gallery's modality.
        queries: float [K, D], seen before, of the other modality.
        item_strength, query_strength: the paper's r_g and r_q.
        share: of each bank, see :func:`inverse_convolution` (LocalAdj); None = AvgPool.

    Returns:
        float [N, D], unit vectors, float32 or better.

    Raises:
        ValueError: see :func:`inverse_convolution`.

    Example:
        ::

            >>> gallery, seen = torch.eye(2), torch.tensor([[0.8, 0.6]])
            >>> invgc(gallery, items=seen, queries=seen, item_strength=1.0, query_strength=0.0)
            tensor([[ 0.9995, -0.0326],
                    [ 0.0377,  0.9993]])
    """
    moved = (
        inverse_convolution(gallery, bank, strength=strength, share=share)
        for bank, strength in ((items, item_strength), (queries, query_strength))
    )
    halves = [torch.nn.functional.normalize(x, dim=1) / 2 for x in moved]
    return torch.nn.functional.normalize(sum(halves), dim=1)


def _shared(gallery: Tensor, bank: Tensor, mean: Tensor, k: Optional[int]) -> Tensor:
    """Return the similarity-weighted mean of the bank (or of its k nearest) for items, [n, D]."""
    similar = gallery @ bank.t()
    if k is None:
        return (similar - mean) @ bank / len(bank)
    best = similar.topk(k, dim=1)
    return torch.zeros_like(similar).scatter(1, best.indices, best.values) @ bank / k


def _neighbours(share: float, size: int) -> int:
    check_range('(0, 1]', share=share)
    k = int(share * size)
    if k < 1:
        raise ValueError(f'a share of {share} of {size} vectors is less than one vector')
    return k


def _checked(gallery: Tensor, bank: Tensor) -> tuple[Tensor, Tensor]:
    fits = gallery.dim() == bank.dim() == 2 and gallery.shape[1] == bank.shape[1]
    if not fits or not gallery.numel() or not bank.numel():
        raise ValueError(
            f'gallery {list(gallery.shape)} and bank {list(bank.shape)} must be [N, D] and [M, D], '
            'none of them 0'
        )
    gallery = at_least_float32(gallery)
    return gallery, bank.to(gallery)
