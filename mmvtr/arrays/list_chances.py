"""P(right) of the places of a list, from the lists of bank texts that were held out.

Being first is information that a function of the score alone lacks: what stands beside a place is
therefore calibrated on lists, by what ranks them.  A held-out text asks the gallery to which its
own item was added; a half of the bank gives the biases, the other half asks.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple, Optional, Sequence

import torch
from torch import Tensor

from mmvtr.arrays.inputs import Bank, Vectors, own_products, score_tiles
from mmvtr.functional.transforms.item_biases import ItemBiases, fit_biases
from mmvtr.functional.transforms.transform_table import TRANSFORMS
from mmvtr.functional.uncertainty.calibration_fits import platt_line

#: Pairs that are looked at, at most, and scores of them; a calibration of fewer pairs says nothing.
MOST, SCORES, LEAST = 2000, 2**25, 50
#: Lengths of lists for which P(one of them is right) has a line of its own.
LENGTHS = (1, 2, 3, 5, 10, 20, 50, 100)
#: Shares of the queries that may be answered, at which a precision is tested.
SHARES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
#: Steps of the search for the temperature, and its range as shares of the spread of scores.
STEPS, LOWEST, HIGHEST = 24, 1e-3, 10.0
#: Items of the gallery that score so nearly alike with a text as its own one are that one.
EQUAL = 1e-6


class ListChances(NamedTuple):
    """What places of a list are worth.

    The shares ``exp((s_j - log_sum) / temperature)`` of the places down to the k-th are summed, and
    their logit is put on a line of its own for k: P(one of the first k is right).  What a further
    place adds is P(that place is right).

    Attributes:
        temperature: divides what ranks.
        lines: float64 [L, 2], slope and offset for each of LENGTHS.
        shares: float64 [n], share of the first place of each query that tests a precision, and
        right: bool [n], whether it was right.  Their biases are of the other half of the bank.
        levels: float64, thresholds of that share that were fixed without these queries.
    """

    temperature: float
    lines: Tensor
    shares: Tensor
    right: Tensor
    levels: Tensor

    def __repr__(self) -> str:
        return f'ListChances(temperature={self.temperature:.4g}, {len(self.shares)} queries)'

    def places(self, ranked: Tensor, log_sums: Tensor) -> tuple[Tensor, Tensor]:
        """Return P(this place is right) and P(one of the places down to it is), float64 [Q, k].

        Args:
            ranked: float [Q, k], what ranks, best first.
            log_sums: float [Q], logsumexp over the temperature of what ranks the whole gallery.
        """
        shares = (ranked.double() / self.temperature - log_sums.double()[:, None]).exp()
        lengths = torch.arange(1, ranked.shape[1] + 1, dtype=torch.float64)
        lines = self._lines(lengths).to(shares.device)
        logits = _logit(shares.cumsum(1))
        both = (lines[:, 0] * logits + lines[:, 1]).sigmoid().cummax(1).values
        return both.diff(dim=1, prepend=both.new_zeros(len(both), 1)), both

    def threshold(self, precision: float, *, error: float = 0.1) -> float:
        """Return the P(first place is right) from which on answers have a wanted precision.

        Learn then Test (Angelopoulos et al. 2021, arXiv 2110.01052): each of ten thresholds, fixed
        beforehand, is tested by the exact binomial tail of the errors among held-out queries that
        it answers, with Bonferroni's correction; the lowest that passes is taken.  So with
        probability ``1 - error`` over the draw of the bank the precision holds, for queries that
        are drawn as the bank's and biases of half of it.

        Args:
            precision: wanted share of right first places among the answers, in (0, 1).
            error: how often the bound may fail, in (0, 1).

        Returns:
            P in [0, 1]; infinite where no threshold passes: then none may be answered.

        Raises:
            ValueError: out of range.
        """
        for value, name in ((precision, 'precision'), (error, 'error')):
            if not 0 < value < 1:
                raise ValueError(f'{name} must lie in (0, 1), not {value}')
        passed = []
        for level in self.levels.tolist():
            answered = self.shares >= level
            count, wrong = int(answered.sum()), int((answered & ~self.right).sum())
            if _at_most(wrong, count, 1 - precision) <= error / len(self.levels):
                passed.append(level)
        if not passed:
            return math.inf
        slope, offset = self.lines[0].tolist()
        lowest = _logit(torch.tensor(min(passed), dtype=torch.float64)).item()
        return 1 / (1 + math.exp(-(slope * lowest + offset)))

    def _lines(self, lengths: Tensor) -> Tensor:
        """Lines [k, 2] of lengths [k], between those that were fitted by the logarithm."""
        known = torch.tensor(LENGTHS, dtype=torch.float64).log()
        x = lengths.log().clamp_max(known[-1])
        right = torch.searchsorted(known, x).clamp(1, len(known) - 1)
        weight = ((x - known[right - 1]) / (known[right] - known[right - 1]))[:, None]
        return torch.lerp(self.lines[right - 1], self.lines[right], weight)


@torch.no_grad()
def fit_chances(
    bank: Optional[Bank], gallery: Vectors, fitted: Optional[ItemBiases], *, seed: int = 0
) -> ListChances:
    """Return what the places of lists are worth, by the bank's own pairs.

    Args:
        bank: with pairs.
        gallery: N items.
        fitted: what ranks them; None = raw scores.
        seed: of what is drawn.

    Raises:
        ValueError: no pairs, or too few.
    """
    if bank is None or bank.pairs is None:
        raise ValueError('P(right) needs a bank with pairs: bank=(texts, videos)')
    random = torch.Generator().manual_seed(seed)
    most = max(4 * LEAST, min(MOST, SCORES // max(1, len(gallery))))
    pairs = bank.pairs[torch.randperm(len(bank.pairs), generator=random)[:most]]
    items = pairs[:, 1].unique()
    if len(items) < LEAST:
        raise ValueError(f'{len(items)} different bank videos are too few: at least {LEAST}')
    chosen = items[torch.rand(len(items), generator=random).argsort() < len(items) // 2]
    half = torch.isin(pairs[:, 1], chosen)
    lists = [_Lists.of(bank, gallery, fitted, pairs[h], pairs[~h]) for h in (half, ~half)]
    temperature = _temperature(lists)
    cumulated = torch.cat([one.cumulated(temperature) for one in lists])
    ranks = torch.cat([one.rank for one in lists])
    lines = [
        platt_line(_logit(cumulated[:, min(k, cumulated.shape[1]) - 1]), (ranks <= k).double())
        for k in LENGTHS
    ]
    return ListChances(
        temperature, torch.stack(lines), *_tested(bank, gallery, fitted, pairs, half)
    )


def _tested(
    bank: Bank, gallery: Vectors, fitted: Optional[ItemBiases], pairs: Tensor, half: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Shares of first places and whether these are right, of one half; thresholds by the other.

    Biases, temperature and thresholds are made by the other half alone, so that what the test of a
    precision reads is independent of them.
    """
    inner = _Lists.of(bank, gallery, fitted, pairs[~half], pairs[~half])
    temperature = _temperature([inner])
    levels = inner.cumulated(temperature)[:, 0].quantile(
        1 - torch.tensor(SHARES, dtype=torch.float64)
    )
    asked = _Lists.of(bank, gallery, fitted, pairs[half], pairs[~half])
    return asked.cumulated(temperature)[:, 0], asked.rank == 1, levels


class _Lists(NamedTuple):
    """Lists of held-out texts in the gallery and their own items.

    Attributes:
        own: float64 [q], what ranks each text's own item.
        others: float32 [q, N], what ranks the gallery; -inf what is equal to the own item.
        rank: int64 [q], place of the own item.
    """

    own: Tensor
    others: Tensor
    rank: Tensor

    @classmethod
    def of(
        cls,
        bank: Bank,
        gallery: Vectors,
        fitted: Optional[ItemBiases],
        asked: Tensor,
        held: Tensor,
    ) -> _Lists:
        """Lists of the pairs ``asked`` [q, 2] with biases of the pairs ``held`` [p, 2]."""
        texts, items = bank.texts[asked[:, 0]], bank.items[asked[:, 1]]
        raw = torch.cat([tile for _, tile in score_tiles(texts, gallery).parts()], dim=1)
        own = own_products(texts, items, bank.geometry)[:, None]
        same = (raw - own).abs() < EQUAL * own.abs().clamp_min(EQUAL)
        every = torch.cat([raw, own], dim=1)
        if fitted is not None:
            every = _of_half(fitted, bank, gallery, held, items).changed(every)
        own, others = every[:, -1:], every[:, :-1].masked_fill(same, -torch.inf)
        return cls(own[:, 0].double(), others, 1 + (others > own).sum(1))

    def every(self) -> Tensor:
        """What ranks the gallery and the own item, float32 [q, 1 + N]."""
        return torch.cat([self.own[:, None].to(self.others), self.others], dim=1)

    def cumulated(self, temperature: float) -> Tensor:
        """Shares of the best places, summed, float64 [q, K]."""
        every = self.every() / temperature
        top = every.topk(min(max(LENGTHS), every.shape[1]), dim=1).values
        return (top - every.logsumexp(1, keepdim=True)).double().exp().cumsum(1)


def _of_half(
    fitted: ItemBiases, bank: Bank, gallery: Vectors, held: Tensor, items: Tensor
) -> ItemBiases:
    """The same transform by the held pairs, for lists [q, N + 1] whose last item is the own one."""
    texts, seen = bank.texts[held[:, 0].unique()], bank.items[held[:, 1].unique()]
    of_texts, of_items = partial(score_tiles, texts), partial(score_tiles, seen)
    reads = TRANSFORMS[fitted.transform].reads
    beside, last = {}, None
    if 'bank_gallery' in reads:
        beside['bank_gallery'] = of_texts(Vectors.of(seen, bank.geometry))
    if 'item_bank' in reads:
        beside['item_bank'], last = of_items(gallery), of_items(Vectors.of(items, bank.geometry))
    options = dict(fitted.options)
    if 'neighbours' in options:
        options['neighbours'] = min(options['neighbours'], len(texts))
    half = fit_biases(fitted.transform, of_texts(gallery), beside=beside, **options)
    own = half.further(of_texts(Vectors.of(items, bank.geometry)), last)
    wide = torch.cat([half.items.expand(len(items), -1), own.to(half.items)[:, None]], dim=1)
    active = half.active
    if active is not None:  # an item that its own text finds is one that texts find
        active = torch.cat([active, active.new_ones(1)])
    return half._replace(items=wide, active=active)


def _temperature(lists: Sequence[_Lists]) -> float:
    """The one at which the own items' shares are likeliest, by golden section."""
    rows = torch.cat([one.every() for one in lists])
    rows = rows[:: max(1, rows.numel() // SCORES * 8)]
    top = rows.amax(1)
    finite = rows.masked_fill(rows.isinf(), 0)
    spread = (top - finite.mean(1)).mean().item()
    if not spread > 0:
        raise ValueError('all items score alike with the bank: no place is worth more than another')

    def loss(exponent: float) -> float:
        scaled = rows / (spread * math.exp(exponent))
        return (scaled.logsumexp(1) - scaled[:, 0]).mean().item()

    low, high = math.log(LOWEST), math.log(HIGHEST)
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(STEPS):
        first, second = high - ratio * (high - low), low + ratio * (high - low)
        if loss(first) < loss(second):
            high = second
        else:
            low = first
    return spread * math.exp((low + high) / 2)


def _at_most(wrong: int, count: int, rate: float) -> float:
    """P(at most so many errors among so many queries), each with the given rate."""
    if not count:
        return 1.0
    terms = [
        math.lgamma(count + 1)
        - math.lgamma(k + 1)
        - math.lgamma(count - k + 1)
        + k * math.log(rate)
        + (count - k) * math.log1p(-rate)
        for k in range(wrong + 1)
    ]
    highest = max(terms)
    return min(1.0, math.exp(highest) * sum(math.exp(x - highest) for x in terms))


def _logit(p: Tensor) -> Tensor:
    p = p.double().clamp(1e-12, 1 - 1e-9)
    return p.log() - torch.log1p(-p)
