"""Fits of P(match) to judged pairs, or to a bank with its own pairs, with bounds."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal, NamedTuple, Optional

import torch
from torch import Tensor

from mmvtr.functional.metrics.ranks import diagonal
from mmvtr.functional.similarities.tiles import refuse_non_finite
from mmvtr.functional.uncertainty.calibration import Calibration, Method
from mmvtr.functional.uncertainty.isotonic import between_knots, bin_sums, isotonic
from mmvtr.functional.uncertainty.reliability import check_pairs
from mmvtr.functional.values import arrays_too, at_least_float32, check_one_of, check_shapes

__all__ = ['fit_calibration', 'fit_to_pairs']

#: Scores at which bounds are kept.
GRID = 256
#: With more pairs than ``WHOLE`` the bootstrap reads this many bins of scores instead of pairs.
WHOLE, BINS = 2**16, 1024
#: Candidate temperatures, as shares of the score gap.
SHARES = torch.logspace(-3, 1, 161, dtype=torch.float64)
#: Largest number of rounds of Newton's method, which needs about eight.
ROUNDS = 50


@arrays_too
def fit_calibration(
    scores: Tensor,
    matches: Tensor,
    *,
    method: Literal['platt', 'isotonic'] = 'platt',
    queries: Optional[Tensor] = None,
    draws: int = 200,
    seed: int = 0,
    debiased: bool = False,
) -> Calibration:
    """Fit P(match) to judged pairs.

    Args:
        scores: float [M].
        matches: bool [M], or float in [0, 1]: a grade as the share of people who say yes.
        method: ``'platt'``: two numbers, for a hundred pairs or more; ``'isotonic'``: any rising
            function, for thousands.
        queries: int [M], the query of each pair: the bootstrap then draws queries, not pairs.
        draws: draws of the bootstrap for the bounds (95 %); with many pairs it reads bins of
            scores.
        seed: random seed of the bootstrap.
        debiased: whether these are transformed scores; it is only recorded.

    Raises:
        ValueError: shapes that differ, no pairs, a score that is not finite, matches outside
            [0, 1], pairs of one class, matches that score lower than the others, an unknown method.

    Example:
        ::

            >>> fit = fit_calibration(torch.tensor([.1, .2, .3, .4]), torch.tensor([0, 0, 1, 1]))
            >>> fit.method, round(fit.threshold(.6), 3)
            ('platt', 0.3)
    """
    check_one_of(('platt', 'isotonic'), method=method)
    x, y = check_pairs(scores, matches)
    return _fit(x, y, _groups(queries, x) if draws else None, method, draws, seed, debiased)


def _fit(
    x: Tensor,
    y: Tensor,
    groups: Optional[Tensor],
    method: str,
    draws: int,
    seed: int,
    debiased: bool,
) -> Calibration:
    """Return :func:`fit_calibration` of scores, matches and the pairs' groups from 0, [M] each."""
    if y.min() == y.max():
        what = 'match' if y.min() > 0.5 else 'do not match'
        raise ValueError(f'all {len(y)} pairs {what}: a calibration needs pairs of both classes')
    _refuse_falling(x, y)
    fit = _platt if method == 'platt' else _isotonic
    fitted = fit(x, y, torch.ones_like(x))
    grid, counts = _kept(x, GRID)
    generator = torch.Generator().manual_seed(seed)
    cells = _cells(x, y, groups) if draws else None
    curves = []
    for _ in range(draws):
        pairs, matched = cells.drawn(_drawn(cells.groups, generator))
        if 0 < matched.sum() < pairs.sum():
            shares = matched / pairs.clamp_min(1)
            curves.append(_curve(method, fit(cells.scores, shares, pairs), grid))
    every = torch.stack(curves or [_curve(method, fitted, grid)])
    lower, upper = every.quantile(0.025, dim=0), every.quantile(0.975, dim=0)
    return Calibration(method, fitted, grid, lower, upper, debiased=debiased, counts=counts)


@arrays_too
def fit_to_pairs(
    scores: Tensor,
    positives: Optional[Tensor] = None,
    *,
    method: Method = 'platt',
    draws: int = 200,
    seed: int = 0,
    debiased: bool = False,
) -> Calibration:
    """Fit P(match) to the scores of a bank's texts with its own videos.

    Unannotated pairs count as no match: if several videos fit a text, P is too low.

    Args:
        scores: float [Q, N].
        positives: bool [Q, N]; default: text i belongs to video i.
        method: ``'platt'``, ``'isotonic'``, or ``'temperature'``, one number per gallery and a
            probability per query (a query's probabilities sum to one).
        draws, seed, debiased: see :func:`fit_calibration`; the bootstrap draws queries.

    Returns:
        A calibration that knows the size of its gallery.

    Raises:
        ValueError: see :func:`fit_calibration`; a matrix that is not square without positives; for
            a temperature, no query with a match (queries without one are left out).

    Example:
        ::

            >>> scores = torch.tensor([[.5, .1, .2], [.1, .4, .3], [.3, .1, .2]])
            >>> round(fit_to_pairs(scores, method='temperature').temperature, 2)
            0.1
    """
    if scores.dim() != 2 or not scores.numel():
        raise ValueError(f'scores {list(scores.shape)} must be [texts, videos], none of them 0')
    if positives is None:
        positives = diagonal(scores)
    check_shapes(scores=scores, positives=positives)
    if method == 'temperature':
        return _fit_temperature(scores, positives.bool(), draws, seed, debiased)
    check_one_of(('platt', 'isotonic'), method=method)
    x, y = check_pairs(scores.flatten(), positives.flatten())
    rows = torch.arange(len(scores), device=x.device).repeat_interleave(scores.shape[1])
    fit = _fit(x, y, rows, method, draws, seed, debiased)
    return dataclasses.replace(fit, candidates=scores.shape[1])


def platt_line(x: Tensor, y: Tensor) -> Tensor:
    """Return Platt's line (slope, offset) with a slope of at least 0.

    Args:
        x: float64 [M].
        y: float64 [M], 0 or 1.

    Returns:
        float64 [2]; a slope of 0 if matches do not score higher.

    Example:
        ::

            >>> x = torch.tensor([0.0, 1.0, 0.0, 1.0]).double()
            >>> (platt_line(x, x)[0] > 0).item(), platt_line(x, 1 - x)[0].item()
            (True, 0.0)
    """
    line = _platt(x, y, torch.ones_like(x))
    if line[0] > 0:
        return line
    share = (y.sum() + 1) / (len(y) + 2)
    return torch.stack([share.new_zeros(()), (share / (1 - share)).log()])


def _curve(method: str, fitted: Tensor, grid: Tensor) -> Tensor:
    if method == 'platt':
        return (fitted[0] * grid + fitted[1]).sigmoid()
    return between_knots(grid, *fitted)


def _platt(x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """Return (slope, offset) by Newton's method; Platt's targets keep them finite."""
    yes, total = (weight * y).sum(), weight.sum()
    no = total - yes
    target = y * (yes + 1) / (yes + 2) + (1 - y) / (no + 2)
    centre, unit = x.mean(), x.std(correction=0).clamp_min(1e-12)
    z = (x - centre) / unit
    design = torch.stack([z, torch.ones_like(z)])
    beta = torch.stack([z.new_zeros(()), ((yes + 1) / (no + 1)).log()])
    loss = _loss(design, target, weight, beta)
    for _ in range(ROUNDS):
        p = (beta @ design).sigmoid()
        slope = design @ (weight * (p - target))
        curve = (design * (weight * p * (1 - p))) @ design.t()
        curve = curve + 1e-9 * total * torch.eye(2).to(curve)
        step = torch.linalg.solve(curve, slope)
        while (after := _loss(design, target, weight, beta - step)) > loss + 1e-12:
            step = step / 2
            if step.abs().max() < 1e-12:
                break
        beta, loss = beta - step, after
        if step.abs().max() < 1e-10:
            break
    return torch.stack([beta[0] / unit, beta[1] - beta[0] * centre / unit])


def _loss(design: Tensor, target: Tensor, weight: Tensor, beta: Tensor) -> Tensor:
    logit = beta @ design
    return (weight * (torch.nn.functional.softplus(logit) - target * logit)).sum() / weight.sum()


def _isotonic(x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    return torch.stack(isotonic(x, y, weight))


def _fit_temperature(
    scores: Tensor, positives: Tensor, draws: int, seed: int, debiased: bool
) -> Calibration:
    refuse_non_finite(scores)
    answerable = positives.any(1)
    if not answerable.any() or positives.all():
        raise ValueError('a calibration needs pairs that match and pairs that do not')
    x, matches = at_least_float32(scores[answerable]), positives[answerable]
    _refuse_falling(x.double().flatten(), matches.double().flatten())
    gap = (x.amax(1) - x.mean(1)).mean().double().item()
    if not gap > 0:
        raise ValueError('all scores of a query are one value: no temperature fits')
    tried = (SHARES * gap).to(x.device)
    losses = torch.stack([_own_loss(x / t.item(), matches) for t in tried], dim=1)  # [Q, S]
    generator = torch.Generator().manual_seed(seed)
    weights = torch.stack([_drawn(len(x), generator) for _ in range(draws)] or [torch.ones(len(x))])
    drawn = _lowest(tried, weights.to(losses) @ losses / len(losses))
    fitted = _lowest(tried, losses.mean(0, keepdim=True))
    lower, upper = (drawn.quantile(q, dim=0, keepdim=True).reshape(1) for q in (0.025, 0.975))
    grid, counts = _kept(x[matches].double(), GRID)
    *parts, counts = (part.cpu() for part in (fitted, grid, lower, upper, counts))
    size = dict(candidates=x.shape[1], counts=counts)
    return Calibration('temperature', *parts, debiased=debiased, **size)


def _own_loss(x: Tensor, matches: Tensor) -> Tensor:
    matched = x.masked_fill(~matches, -torch.inf).logsumexp(1)
    return (x.logsumexp(1) - matched).double()


def _lowest(tried: Tensor, losses: Tensor) -> Tensor:
    """Return the temperatures [R] of lowest loss, losses [R, S], refined by a parabola."""
    place = losses.argmin(1, keepdim=True).clamp(1, len(tried) - 2)
    left, mid, right = (losses.gather(1, place + d)[:, 0] for d in (-1, 0, 1))
    curve = left - 2 * mid + right
    shift = ((left - right) / (2 * curve)).where(curve > 0, torch.zeros_like(curve)).clamp(-1, 1)
    step = (tried[1] / tried[0]).log()
    return (tried[place[:, 0]].log() + shift * step).exp()


def _refuse_falling(x: Tensor, y: Tensor) -> None:
    """Raise ValueError if matches score lower: then Platt's line, whose loss is convex, falls."""
    matched, others = ((w * x).sum() / w.sum() for w in (y, 1 - y))
    if matched < others:
        raise ValueError(
            f'matches score {matched:.4g} on average, pairs that do not match {others:.4g}: are '
            'these distances? Higher must be better: give -x (if not, the scores do not tell '
            'matches apart, and no calibration can)'
        )


def _kept(x: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Return at most ``most`` of M scores, increasing, and how many each represents; sums to M.

    Half of them are evenly spaced.  The others are denser the higher they are, as few of all pairs
    of a bank match: the n-th, the n * 1.1-th ... from the top.
    """
    ordered = x.sort().values
    size = len(x)
    if size <= most:
        return ordered, torch.ones_like(ordered)
    even = torch.linspace(0, size - 1, most // 2, dtype=torch.float64)
    high = size - torch.logspace(0, math.log10(size), most - most // 2, dtype=torch.float64)
    places = torch.cat([even, high]).round().long().clamp(0, size - 1).unique()
    counts = places.diff(append=places.new_tensor([size]))
    return ordered[places.to(x.device)], counts.to(ordered)


def _groups(queries: Optional[Tensor], x: Tensor) -> Tensor:
    if queries is None:
        return torch.arange(len(x))
    if queries.shape != x.shape:
        raise ValueError(f'queries {list(queries.shape)} must be [{len(x)}], one for each pair')
    return queries.cpu().unique(return_inverse=True)[1]


def _drawn(count: int, generator: torch.Generator) -> Tensor:
    """Return how often each of ``count`` is drawn in a bootstrap round, float64 [count]."""
    drawn = torch.randint(count, (count,), generator=generator)
    return torch.bincount(drawn, minlength=count).double()


class _Cells(NamedTuple):
    """Numbers of pairs of each group in each bin of scores, which the bootstrap reads.

    Attributes:
        scores: float64 [B], mean of each bin.
        groups: number of groups.
        group, bin: int64 [C], group and bin of each cell.
        pairs, matched: float64 [C], its number of pairs, and the sum of their matches.
    """

    scores: Tensor
    groups: int
    group: Tensor
    bin: Tensor
    pairs: Tensor
    matched: Tensor

    def drawn(self, often: Tensor) -> tuple[Tensor, Tensor]:
        """Return pairs and matches per bin, float64 [B] each, with groups drawn ``often`` [G]."""
        weight = often.to(self.pairs)[self.group]
        return tuple(
            bin_sums(weight * x, self.bin, len(self.scores)) for x in (self.pairs, self.matched)
        )


def _cells(x: Tensor, y: Tensor, group: Tensor) -> _Cells:
    """Return the cells of scores, matches and groups [M]; few scores are a bin each."""
    edges = (x if len(x) <= WHOLE else _kept(x, BINS)[0]).unique()
    place = torch.searchsorted(edges, x, right=True) - 1
    pairs = torch.bincount(place, minlength=len(edges))
    key = group.to(x.device) * len(edges) + place
    keys, cell, inside = key.unique(return_inverse=True, return_counts=True)
    return _Cells(
        scores=bin_sums(x, place, len(edges)) / pairs,
        groups=int(group.max()) + 1,
        group=keys // len(edges),
        bin=keys % len(edges),
        pairs=inside.double(),
        matched=bin_sums(y, cell, len(keys)),
    )
