"""P(right) of the places of a list, calibrated on lists of held-out bank texts.

A function of the score alone does not know that a place is the first; P is therefore calibrated
on lists, from the scores that rank them.  A held-out text queries the gallery with its own item
added, under biases of nine tenths of the bank: biases of less of it rank worse.  Of the text's
further items, all right too, the list has those that the gallery holds, and of the others as many
as are expected in a gallery of its size.
"""

from __future__ import annotations

import math
import warnings
from typing import Callable, NamedTuple, Optional, Sequence

import torch
from torch import Tensor
from torch.nn.functional import pad

from mmvtr.arrays.inputs import Bank, Vectors, own_products, score_tiles
from mmvtr.arrays.shift import Asked, Shift
from mmvtr.functional.similarities.distinct import places_in_groups, row_groups
from mmvtr.functional.similarities.tiles import side_by_side, top_of_rows
from mmvtr.functional.transforms.item_biases import ItemBiases, fit_biases
from mmvtr.functional.transforms.transform_table import TRANSFORMS
from mmvtr.functional.uncertainty.calibration_fits import platt_line
from mmvtr.functional.values import check_range

#: Largest numbers of pairs and of their scores that are read, and the fewest pairs calibrated on.
MOST, SCORES, LEAST = 2000, 2**25, 50
#: Number of folds: a held-out text is scored under biases of the other folds' texts.
FOLDS = 10
#: Lengths k for which P(one of the first k is right) has its own fitted line; the slopes of lines
#: further apart are too different to interpolate.
LENGTHS = (1, 2, 3, 4, 6, 8, 11, 15, 20, 27, 36, 48, 64, 85, 113, 150, 200)
#: Shares of the queries to answer, at which a precision is tested.
SHARES = tuple(n / 20 for n in range(1, 21))
#: The first tested share is expected to hold this many times the queries that can pass.
ROOM = 1.5
#: Largest number of pairs of which it is asked whether a precision can be had from them.
NEEDED = 20_000
#: Steps of the search for the temperature, and its range as shares of the spread of scores.
STEPS, LOWEST, HIGHEST = 24, 1e-3, 10.0
#: Relative difference below which scores are equal.
EQUAL = 1e-6


class Answers(NamedTuple):
    """What may be answered at a wanted precision.

    Attributes:
        precision: wanted share of right first places among the answers.
        error: probability that it fails, over the draw of the bank.
        threshold: lowest P(first place is right) of an answer; infinite = no query is answered.
        share: share of the held-out queries that reach it.
        pairs: number of pairs at hand.
        needed: number of pairs at which a threshold is expected; None = not at NEEDED either.
        then: share of the queries that would be answered with them.
        most: number of pairs that can be read for such a gallery; 0 = not known.
    """

    precision: float
    error: float
    threshold: float
    share: float
    pairs: int
    needed: Optional[int]
    then: Optional[float]
    most: int

    def __str__(self) -> str:
        wanted = f'precision {self.precision:g} (to hold in {1 - self.error:.0%} of the banks)'
        if self.threshold < math.inf:
            return (
                f'{wanted}: answer from P {self.threshold:.3f} on, {self.share:.0%} of the queries'
            )
        said = f'no query can be answered at {wanted} from {self.pairs} pairs'
        if self.needed is None:
            return f'{said}, nor does their P promise it from {NEEDED}: ask for a lower precision'
        read = ''
        if 0 < self.most < self.needed:
            read = f', but at most {self.most} are read for a gallery of this size'
        answers = f'to answer {self.then:.0%} of the queries'
        return f'{said}: about {self.needed} are needed, {answers}{read}'


class TopKProbabilities(NamedTuple):
    """Calibrated probabilities of the places of a list.

    The shares ``exp((s_j - log_sum) / temperature)`` of the first k places are summed, and a line
    fitted for this k maps the logit of the sum to the logit of P(one of the first k is right).  Its
    increase at a place is P(this place is right, and none before it): of a text with one right
    item, P(this place is right).  Places beyond the longest of LENGTHS have its line.

    Attributes:
        temperature: divides the ranking scores.
        lines: float64 [L, 2], slope and offset for each of LENGTHS.
        shares: float64 [n], share of the first place of each query on which a precision is tested,
        right: bool [n], whether it was right.  Their biases are of the other half of the bank.
        levels: float64, candidate thresholds of that share, fixed without these queries.
        depth: number of best places that the sums read; 0 = the whole gallery.
        items: number of items of the gallery at that time; 0 = not known.
        most: number of pairs that can be read for such a gallery; 0 = not known.
        asked: texts of the bank that served queries are held against; None = not known.
    """

    temperature: float
    lines: Tensor
    shares: Tensor
    right: Tensor
    levels: Tensor
    depth: int = 0
    items: int = 0
    most: int = 0
    asked: Optional[Asked] = None

    def __repr__(self) -> str:
        return f'TopKProbabilities(temperature={self.temperature:.4g}, {len(self.shares)} queries)'

    def places(self, ranked: Tensor, log_sums: Tensor) -> tuple[Tensor, Tensor]:
        """Return P(this place is the first right one) and P(a place up to it is right), float64
        [Q, k] each.

        Args:
            ranked: float [Q, k], ranking scores, best first.
            log_sums: float [Q], logsumexp over the gallery of ranking scores / temperature.
        """
        shares = (ranked.double() / self.temperature - log_sums.double()[:, None]).exp()
        lengths = torch.arange(1, ranked.shape[1] + 1, dtype=torch.float64)
        lines = self._lines(lengths).to(shares.device)
        logits = _logit(shares.cumsum(1))
        both = (lines[:, 0] * logits + lines[:, 1]).sigmoid().cummax(1).values
        return both.diff(dim=1, prepend=both.new_zeros(len(both), 1)), both

    def threshold(
        self, precision: float, *, error: float = 0.1, shift: Optional[Shift] = None
    ) -> float:
        """Return the lowest P(first place is right) at which answers have the wanted precision.

        It is :attr:`Answers.threshold` of :meth:`answers`; a warning says what is needed if it is
        infinite.

        Args:
            precision, error: see :meth:`answers`.
            shift: of the queries that are to be answered (:attr:`Retrieved.shift`).

        Returns:
            P in [0, 1]; infinite if no threshold passes: then no query may be answered.

        Raises:
            ValueError: out of range; the queries are not like the bank's.
        """
        if shift is not None and shift.noticed:
            raise ValueError(f'no threshold: {shift}')
        found = self.answers(precision, error=error)
        if found.threshold == math.inf:
            warnings.warn(str(found), stacklevel=2)
        return found.threshold

    def answers(self, precision: float, *, error: float = 0.1) -> Answers:
        """Return the threshold at which answers have the wanted precision, and what it needs.

        Learn then Test (Angelopoulos et al. 2021, arXiv 2110.01052) with a fixed sequence: twenty
        thresholds, fixed beforehand, are tested downwards from the highest that enough queries
        reach, each by the exact binomial tail of the errors among the held-out queries that it
        answers, until one fails; the lowest that passes is returned.  With probability
        ``1 - error`` over the draw of the bank the precision holds, for queries drawn like the
        bank's and biases of half of it.

        Args:
            precision: wanted share of right first places among the answers, in (0, 1).
            error: probability that the bound fails, in (0, 1).

        Raises:
            ValueError: out of range.
        """
        check_range('(0, 1)', precision=precision, error=error)
        reached = self.shares >= self.levels[:, None]
        counts, wrong = reached.sum(1), (reached & ~self.right).sum(1)
        tested = len(self.shares)
        place = _lowest_level(counts.tolist(), wrong.tolist(), tested, precision, error)
        needed, then = self._needed(reached, precision, error)
        how = dict(pairs=2 * tested, needed=needed, then=then, most=self.most)
        if place is None:
            return Answers(precision, error, math.inf, 0.0, **how)
        lowest = self._first(self.levels[place]).item()
        return Answers(precision, error, lowest, counts[place].item() / tested, **how)

    def _first(self, shares: Tensor) -> Tensor:
        """Return P(first place is right) of its share."""
        slope, offset = self.lines[0]
        return (slope * _logit(shares) + offset).sigmoid()

    def _needed(
        self, reached: Tensor, precision: float, error: float
    ) -> tuple[Optional[int], Optional[float]]:
        """Return the number of pairs at which a threshold is expected to pass, though the errors
        are a standard deviation more than P says, and the share of the queries that reach it."""
        counts = reached.sum(1)
        sums = (reached * self._first(self.shares)).sum(1)
        right, share = sums / counts.clamp_min(1), counts / len(self.shares)
        for tested in range(LEAST // 2, NEEDED // 2, LEAST // 2):
            count = (share * tested).round()
            more = (right * (1 - right) * count).sqrt()
            wrong = ((1 - right) * count + more).round().clamp_max(count)
            place = _lowest_level(
                count.int().tolist(), wrong.int().tolist(), tested, precision, error
            )
            if place is not None:
                return 2 * tested, share[place].item()
        return None, None

    def _lines(self, lengths: Tensor) -> Tensor:
        """Return the lines [k, 2] of lengths [k], interpolated in the log of the length."""
        known = torch.tensor(LENGTHS, dtype=torch.float64).log()
        x = lengths.log().clamp_max(known[-1])
        right = torch.searchsorted(known, x).clamp(1, len(known) - 1)
        weight = ((x - known[right - 1]) / (known[right] - known[right - 1]))[:, None]
        return torch.lerp(self.lines[right - 1], self.lines[right], weight)


def _lowest_level(
    counts: Sequence[int], wrong: Sequence[int], tested: int, precision: float, error: float
) -> Optional[int]:
    """Return the last level that passes the tests of a fixed sequence; None = none.

    Args:
        counts: held-out queries that reach each level, and
        wrong: those of them whose first place is wrong.
        tested: number of held-out queries.
    """
    least, passed = ROOM * math.log(error) / math.log(precision), None
    for place, share in enumerate(SHARES):
        if share * tested < least:
            continue
        if _at_most(wrong[place], counts[place], 1 - precision) > error:
            break
        passed = place
    return passed


@torch.no_grad()
def fit_topk_probabilities(
    bank: Optional[Bank],
    gallery: Vectors,
    fitted: Optional[ItemBiases],
    *,
    seed: int = 0,
    depth: int = 0,
) -> TopKProbabilities:
    """Return place probabilities calibrated on the bank's own pairs.

    Args:
        bank: a bank with pairs.
        gallery: N items.
        fitted: the biases that rank them; None = raw scores.
        seed: random seed.
        depth: number of best places that sums read, if an engine returns no more; 0 = all.

    Raises:
        ValueError: no pairs, or too few.
    """
    if bank is None or bank.pairs is None:
        raise ValueError('P(right) needs a bank with pairs: bank=(texts, videos)')
    items = len(bank.items)
    if items < LEAST:
        raise ValueError(f'{items} different bank videos are too few: at least {LEAST}')
    generator = torch.Generator().manual_seed(seed)
    columns = len(gallery) + int(bank.pairs[:, 0].bincount().max())
    most = max(4 * LEAST, min(MOST, SCORES // columns))
    order = torch.randperm(len(bank.texts), generator=generator)[bank.pairs[:, 0]]
    pairs = bank.pairs[order.argsort(stable=True)]  # those of a text stay together
    half = torch.rand(items, generator=generator).argsort() < items // 2
    first = half[_leads(pairs)]
    asked = torch.arange(len(pairs)) < most

    def of(asked: Tensor, known: Tensor) -> _Judged:
        held = known[~_shared(known, asked)]
        return _Judged.of(bank, gallery, fitted, asked, held, generator).cut(depth)

    found = _fitted(
        _folded(of, pairs[:most], pairs),
        _folded(of, pairs[first & asked], pairs[first]),
        of(pairs[~first & asked], pairs[first]),
        generator,
    )
    asked_texts = Asked.of(bank, torch.Generator().manual_seed(seed))
    return found._replace(depth=depth, items=len(gallery), most=most, asked=asked_texts)


def calibrate_topk(scores: Tensor, right: Tensor, *, seed: int = 0) -> TopKProbabilities:
    """Return place probabilities calibrated on judged lists of any ranker.

    Args:
        scores: float [Q, K], ranking scores in any order; -inf where a list is shorter.
        right: bool [Q, K]; a list may have several right places, or none.
        seed: random seed of the halves.

    Raises:
        ValueError: shapes that differ, too few lists, or a half of them without a right place.
    """
    if scores.dim() != 2 or scores.shape != right.shape:
        raise ValueError(f'scores {[*scores.shape]} and right {[*right.shape]} must be [Q, K]')
    if len(scores) < LEAST:
        raise ValueError(f'{len(scores)} lists are too few: at least {LEAST}')
    generator = torch.Generator().manual_seed(seed)
    half = torch.rand(len(scores), generator=generator).argsort() < len(scores) // 2
    parts = (_Judged(scores[rows].float(), right[rows].bool()) for rows in (half, ~half))
    first, second = parts
    if not (first.right.any() and second.right.any()):
        raise ValueError('in one half of the lists no place is right')
    return _fitted([first, second], [first], second, generator)


def _fitted(
    whole: Sequence[_Judged], first: Sequence[_Judged], tested: _Judged, generator: torch.Generator
) -> TopKProbabilities:
    """Fit lines to all lists; temperature and thresholds to one half, tested on the other half.

    The tested lists influence neither the tested share nor its thresholds; and as the line from
    share to P is increasing, it moves no query over a threshold.
    """
    temperature = _temperature(first)
    shares = torch.cat([one.cumulated(temperature)[:, 0] for one in first])
    levels = shares.quantile(1 - torch.tensor(SHARES, dtype=torch.float64))
    cumulated = torch.cat([one.cumulated(temperature) for one in whole])
    ranks = torch.cat([one.ranks(generator) for one in whole])
    lines = [
        platt_line(_logit(cumulated[:, min(k, cumulated.shape[1]) - 1]), (ranks <= k).double())
        for k in LENGTHS
    ]
    share = tested.cumulated(temperature)[:, 0]
    return TopKProbabilities(
        temperature, torch.stack(lines), share, tested.ranks(generator) == 1, levels
    )


def _folded(of: Callable[..., _Judged], asked: Tensor, held: Tensor) -> list[_Judged]:
    """Return cross-fitted lists of the pairs ``asked``: biases of the other folds' held pairs."""
    leads = _leads(asked)
    items = leads.unique()
    folds = min(FOLDS, math.ceil(FOLDS * len(items) / len(_leads(held).unique())))
    found = []
    for number in range(folds):
        out = asked[torch.isin(leads, items[number::folds])]
        if len(out) and not _shared(held, out).all():
            found.append(of(out, held))
    return found


def _leads(pairs: Tensor) -> Tensor:
    """Return the first item of the text of each pair, int64 [p]: it decides the text's part."""
    texts = pairs[:, 0].unique(return_inverse=True)[1]
    first = pairs.new_zeros(len(pairs)).scatter_reduce(
        0, texts, pairs[:, 1], 'amin', include_self=False
    )
    return first[texts]


def _shared(pairs: Tensor, asked: Tensor) -> Tensor:
    """Return which pairs have a text or an item of the pairs ``asked``, bool [p]."""
    return torch.isin(pairs[:, 0], asked[:, 0]) | torch.isin(pairs[:, 1], asked[:, 1])


class _Judged(NamedTuple):
    """Lists with known right places.

    Attributes:
        every: float32 [q, K], ranking scores; -inf = not in the list.
        right: bool [q, K].
    """

    every: Tensor
    right: Tensor

    @classmethod
    def of(
        cls,
        bank: Bank,
        gallery: Vectors,
        fitted: Optional[ItemBiases],
        asked: Tensor,
        held: Tensor,
        generator: torch.Generator,
    ) -> _Judged:
        """Return lists [q, N + m] of the pairs ``asked`` [q, 2]: the gallery and, last, the items
        of the pair's text, with biases of the pairs ``held`` [p, 2]."""
        texts, items = bank.texts[asked[:, 0]], bank.items[asked[:, 1]]
        raw = torch.cat([tile for _, tile in score_tiles(texts, gallery).parts()], dim=1)
        own = own_products(texts, items, bank.geometry)
        rows, places = _copies(raw, own, items, gallery)
        text, mates = _mates(asked[:, 0], int(bank.pairs[:, 0].bincount().max()))
        known = mates >= 0
        number = torch.arange(len(asked))
        mates = torch.where(known, mates, number[:, None])
        copy = torch.full((len(asked),), -1)
        copy[rows] = places
        share = len(gallery) / len(bank.items)
        drawn = torch.rand(mates.shape, generator=generator) < share
        known &= (mates == number[:, None]) | (copy[mates] >= 0) | drawn
        every = torch.cat(
            [raw, torch.where(known.to(raw.device), own[mates], raw.amin(1, True))], 1
        )
        if fitted is not None:
            own_items = asked[mates, 1]
            part = _of_part(fitted, bank, gallery, held, own_items, copy[mates])
            every = part.transform_scores(every)
        right = torch.zeros_like(every, dtype=torch.bool)
        right[:, len(gallery) :] = known.to(right.device)
        copied = torch.zeros(len(asked), len(gallery), dtype=torch.bool)
        copied[text[rows], places] = True
        out = torch.cat([copied[text], ~known], dim=1).to(every.device)
        return cls(every.masked_fill_(out, -torch.inf), right)

    def cut(self, depth: int) -> _Judged:
        """Return the ``depth`` best places of each list; all if it is 0."""
        if not 0 < depth < self.every.shape[1]:
            return self
        every, places = top_of_rows(self.every, depth)
        return _Judged(every, self.right.gather(1, places))

    def ranks(self, generator: torch.Generator) -> Tensor:
        """Return the place of the best right item, int64 [q], at random among items of its score;
        the largest int64 if no item is right."""
        best = self.every.masked_fill(~self.right, -torch.inf).amax(1, keepdim=True)
        above = self.every - best
        equal = EQUAL * best.abs()
        higher = ((above > equal) & ~self.right).sum(1)
        alike = ((above.abs() <= equal) & ~self.right).sum(1)
        drawn = torch.rand(len(alike), generator=generator).to(alike.device)
        found = 1 + higher + (drawn * (alike + 1)).long()
        return found.masked_fill(~self.right.any(1), torch.iinfo(torch.int64).max)

    def losses(self, temperature: float) -> Tensor:
        """Return -log of the right items' share, float32 [q], of lists with a right item."""
        scaled = self.every / temperature
        return scaled.logsumexp(1) - scaled.masked_fill(~self.right, -torch.inf).logsumexp(1)

    def cumulated(self, temperature: float) -> Tensor:
        """Return the cumulated shares of the best places, float64 [q, L]."""
        every = self.every / temperature
        top = every.topk(min(max(LENGTHS), every.shape[1]), dim=1).values
        return (top - every.logsumexp(1, keepdim=True)).double().exp().cumsum(1)


def _mates(texts: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Return the number of each pair's text, int64 [q], and the pairs of this text, int64
    [q, most], filled up with -1."""
    different, text = texts.unique(return_inverse=True)
    order = text.argsort(stable=True)
    pairs = torch.full((len(different), most), -1)
    pairs[text[order], places_in_groups(text[order])] = order
    return text, pairs[text]


def _copies(raw: Tensor, own: Tensor, items: Tensor, gallery: Vectors) -> tuple[Tensor, Tensor]:
    """Return rows and places, int64 [c] each, at which the gallery holds a row's own item.

    Args:
        raw: float [q, N], scores of the texts with the gallery.
        own: float [q], with their own items; a copy scores alike.
        items: float [q, ...], the own items.
        gallery: N items.
    """
    near = (raw - own[:, None]).abs() <= EQUAL * own.abs().clamp_min(EQUAL)[:, None]
    rows, places = near.nonzero().cpu().T
    some = places.unique()
    if not len(some):
        return rows, places
    held = gallery.unit(some).to(items.device)
    longest = max(held.shape[1], items.shape[1])  # tokens
    both = [x if x.dim() == 2 else pad(x, (0, 0, 0, longest - x.shape[1])) for x in (items, held)]
    groups = row_groups(torch.cat(both).cpu())
    same = groups[rows] == groups[len(items) + torch.searchsorted(some, places)]
    return rows[same], places[same]


def _of_part(
    fitted: ItemBiases, bank: Bank, gallery: Vectors, held: Tensor, own: Tensor, copy: Tensor
) -> ItemBiases:
    """Return the transform fitted to the held pairs, for lists [q, N + m] with own items last.

    The own items are fitted together with the gallery: an item added afterwards gets a smaller
    bias, as Sinkhorn's row sums do not count it.

    Args:
        own: int64 [q, m], the own items of each list.
        copy: int64 [q, m], their places in the gallery; -1 = not there.
    """
    asked = held[:, 0].unique()
    texts, seen = bank.texts[asked], bank.items[held[:, 1].unique()]
    items, place = own.unique(return_inverse=True)
    further = Vectors.of(bank.items[items], bank.geometry)
    reads, extra = TRANSFORMS[fitted.transform].reads, {}
    if 'bank_gallery' in reads:
        extra['bank_gallery'] = score_tiles(texts, Vectors.of(seen, bank.geometry))
    if 'item_bank' in reads:
        extra['item_bank'] = side_by_side(
            score_tiles(seen, gallery), score_tiles(seen, further), 'item_bank'
        )
    options = dict(fitted.options)
    if 'neighbours' in options and fitted.active is None:  # else a number of items
        options['neighbours'] = min(options['neighbours'], len(texts))
    if options.get('bank_marginals') is not None:
        weights = options['bank_marginals'][asked]
        options['bank_marginals'] = weights / weights.sum()
    both = side_by_side(score_tiles(texts, gallery), score_tiles(texts, further), 'bank')
    part = fit_biases(fitted.transform, both, extra_inputs=extra, **options)
    biases, active = part.items, part.active
    biases = part.fitted_transform.of_a_part(biases, len(texts) / len(bank.texts))
    mine = biases[len(gallery) + place]
    wide = torch.cat([biases[: len(gallery)].expand(len(own), -1), mine], dim=1)
    if active is not None:
        # A text of an item that the gallery holds finds it: as in the whole fit.
        mine = active[len(gallery) + place]
        mine = torch.where((copy < 0).to(mine.device), mine, fitted.active.to(mine.device)[copy])
        active = torch.cat([active[: len(gallery)].expand(len(own), -1), mine], dim=1)
    return part._replace(items=wide, active=active)


def _temperature(lists: Sequence[_Judged]) -> float:
    """Return the temperature of the highest likelihood of the right items, by golden section."""
    every = torch.cat([one.every for one in lists])
    step = min(every.numel() // SCORES * 8, len(every) // LEAST)  # at least LEAST lists
    rows = slice(None, None, max(1, step))
    right = torch.cat([one.right for one in lists])[rows]
    some = _Judged(every[rows][right.any(1)], right[right.any(1)])
    known = some.every.isfinite()
    mean = some.every.where(known, 0).sum(1) / known.sum(1)
    spread = (some.every.amax(1) - mean).mean().item()
    if not spread > 0:
        raise ValueError('all items score alike with the bank: no place is worth more than another')

    def loss(exponent: float) -> float:
        return some.losses(spread * math.exp(exponent)).mean().item()

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
    """Return P(at most ``wrong`` errors among ``count`` queries) at an error rate."""
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
