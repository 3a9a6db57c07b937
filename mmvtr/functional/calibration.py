"""From scores to the probability that a text and a video match.

A cosine of .3 says nothing by itself.  Judged pairs, or a bank with its own pairs, say which share
of the pairs with that score match: Platt's line, an isotonic step function, or a temperature.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal, NamedTuple, Optional

import torch
from torch import Tensor

from mmvtr.functional.isotonic import isotonic
from mmvtr.functional.precision import at_least_float32
from mmvtr.functional.tiles import refuse_non_finite

#: Scores at which bounds are kept.
GRID = 256
#: Temperatures that are tried, as shares of the reach.
SHARES = torch.logspace(-3, 1, 161, dtype=torch.float64)
Method = Literal['platt', 'isotonic', 'temperature']
#: Rounds of Newton's method, which needs about eight.
ROUNDS = 50


@dataclasses.dataclass(frozen=True)
class Calibration:
    """A fitted map from scores to P(match).

    Attributes:
        method: ``'platt'``: sigmoid(slope * score + offset); ``'isotonic'``: between knots, a line;
            ``'temperature'``: softmax(score / temperature) over a query's gallery, which takes it
            that one item of it matches.
        fitted: float64: (slope, offset); knots, scores [K] and probabilities [K], as [2, K]; or
            (temperature,).
        scores: float64 [G], quantiles of the scores it was fitted on, rising.
        lower, upper: float64 [G], bounds of P at these scores; of a temperature its own bounds [1].
        candidates: of a fit on all pairs of a bank: among how many items one matched, else None.
        debiased: fitted on scores with a transform, not on raw ones.
    """

    method: Method
    fitted: Tensor
    scores: Tensor
    lower: Tensor
    upper: Tensor
    candidates: Optional[int] = None
    debiased: bool = False

    def probabilities(
        self, scores: Tensor, *, log_sums: Optional[Tensor] = None, candidates: Optional[int] = None
    ) -> Tensor:
        """P(match) of scores.

        Args:
            scores: float [...]; of a temperature [Q, n].
            log_sums: of a temperature: float [Q], logsumexp of each query's scores over the
                temperature with the whole gallery; default: ``scores`` are all of it.
            candidates: size of the gallery.  Where the fit knows of how many its matches were one,
                the odds are divided by how many times larger this is.

        Returns:
            float64 [...] in [0, 1].

        Raises:
            ValueError: a score that is not finite.

        Example:
            ::

                >>> fit = fit_calibration(torch.tensor([.1, .2, .3, .4]), torch.tensor([0, 0, 1, 1]))
                >>> fit.probabilities(torch.tensor([.2, .3])).round(decimals=2)
                tensor([0.3400, 0.6600], dtype=torch.float64)
        """
        flat = scores.reshape(1, -1) if scores.numel() else scores.new_zeros(1, 1)
        refuse_non_finite(flat)
        x = scores.double()
        if self.method == 'temperature':
            scaled = x / self.temperature
            if log_sums is None:
                log_sums = scaled.logsumexp(-1)
            return (scaled - log_sums.to(scaled)[..., None]).exp()
        if self.method == 'platt':
            slope, offset = self.fitted.tolist()
            return self._shifted((slope * x + offset).sigmoid(), candidates)
        return self._shifted(interpolated(x, *self.fitted), candidates)

    @property
    def temperature(self) -> float:
        """Of the method of that name, in score units."""
        return self.fitted[0].item()

    def interval(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Bounds of P(match) (of 95 % of the bootstrap's fits), float64 [...] each.

        Raises:
            ValueError: of a temperature, whose bounds are its own (``lower`` and ``upper``).
        """
        if self.method == 'temperature':
            raise ValueError('a temperature has bounds of its own, lower and upper')
        x = scores.double()
        return tuple(interpolated(x, self.scores, y) for y in (self.lower, self.upper))

    def threshold(self, precision: float, scores: Optional[Tensor] = None) -> float:
        """The lowest score from which on a wanted share of the pairs matches, by their mean P.

        Args:
            precision: the wanted share, in (0, 1).
            scores: float [M], of the pairs that are met; default: those that it was fitted on.

        Returns:
            A score; infinite where no threshold has that precision.

        Raises:
            ValueError: a precision out of range; a calibration by temperature, whose P is not one
                of a score alone.
        """
        if not 0 < precision < 1:
            raise ValueError(f'precision must lie in (0, 1), not {precision}')
        if self.method == 'temperature':
            raise ValueError('a temperature has no threshold of scores: compare P(match) itself')
        x = (self.scores if scores is None else scores.double().flatten()).sort(descending=True)[0]
        p = self.probabilities(x)
        reached = p.cumsum(0) / torch.arange(1, len(p) + 1, device=p.device)
        last = torch.cat([x[1:] != x[:-1], x.new_ones(1, dtype=torch.bool)])  # of equal scores
        good = ((reached >= precision) & last).nonzero().flatten()
        return x[good[-1]].item() if len(good) else math.inf

    def accepts(self, scores: Tensor, *, precision: float) -> Tensor:
        """Which pairs may be shown: bool [...].

        A query without any is one to abstain from: ``~fit.accepts(scores, precision=.9).any(1)``.

        Args:
            scores: float [...].
            precision: of :meth:`threshold`.
        """
        return scores.double() >= self.threshold(precision)

    def to_dict(self) -> dict[str, Any]:
        """Numbers and lists, for json."""
        values = dataclasses.asdict(self)
        return {k: v.tolist() if isinstance(v, Tensor) else v for k, v in values.items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Calibration:
        """What :meth:`to_dict` gave.

        Raises:
            ValueError: something else (names what is wrong).
        """
        names = {field.name for field in dataclasses.fields(cls)}
        needed = {'method', 'fitted', 'scores', 'lower', 'upper'}
        if not isinstance(values, dict) or not needed <= set(values) <= names:
            raise ValueError(f'a calibration needs {sorted(needed)}, got {sorted(values)[:9]}')
        if values['method'] not in _SHAPES:
            raise ValueError(
                f'method must be one of {tuple(_SHAPES)}, not {str(values["method"])[:80]!r}'
            )
        read = {
            k: torch.tensor(v, dtype=torch.float64) if isinstance(v, list) else v
            for k, v in values.items()
        }
        dims, first = _SHAPES[read['method']]
        if read['fitted'].dim() != dims or len(read['fitted']) != first:
            raise ValueError(
                f'fitted {list(read["fitted"].shape)} does not belong to {read["method"]}'
            )
        return cls(**read)

    def _shifted(self, p: Tensor, candidates: Optional[int]) -> Tensor:
        """The odds in a gallery of another size."""
        if candidates is None or self.candidates is None or candidates == self.candidates:
            return p
        factor = max(1, candidates - 1) / max(1, self.candidates - 1)
        return p / (p + (1 - p) * factor)


#: Dimensions of ``fitted``, and its length.
_SHAPES = dict(platt=(1, 2), isotonic=(2, 2), temperature=(1, 1))


class Reliability(NamedTuple):
    """What is said and what comes true, in B bins of probability; NaN where a bin is empty.

    Attributes:
        said: float64 [B], mean P.
        true: float64 [B], share of matches.
        pairs: int64 [B].
    """

    said: Tensor
    true: Tensor
    pairs: Tensor

    @property
    def error(self) -> float:
        """Expected calibration error: the mean distance of the two, by pairs."""
        held = self.pairs > 0
        distance = (self.said - self.true).abs()[held] * self.pairs[held]
        return (distance.sum() / self.pairs.sum()).item()


def reliability(probabilities: Tensor, matches: Tensor, *, bins: int = 10) -> Reliability:
    """Compare probabilities with what came true (Guo et al. 2017).

    Args:
        probabilities: float [M] in [0, 1].
        matches: bool or float [M] in [0, 1].
        bins: of equal width.

    Raises:
        ValueError: shapes that differ, no pairs, numbers out of range.

    Example:
        ::

            >>> found = reliability(torch.tensor([.2, .2, .9]), torch.tensor([0, 1, 1]), bins=2)
            >>> found.true.tolist(), round(found.error, 3)
            ([0.5, 1.0], 0.233)
    """
    p, y = _checked(probabilities, matches, name='probabilities')
    if p.min() < 0 or p.max() > 1:
        raise ValueError('probabilities must lie in [0, 1]')
    place = (p * bins).long().clamp_max(bins - 1)
    pairs = torch.bincount(place, minlength=bins)
    said, true = (
        torch.zeros(bins, dtype=torch.float64, device=p.device).index_add_(0, place, x) / pairs
        for x in (p, y)
    )
    return Reliability(said, true, pairs)


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
        queries: int [M], of which query a pair is: the bounds then draw queries, not pairs.
        draws: of the bootstrap that gives the bounds (95 %).
        seed: of it.
        debiased: whether these are scores with a transform, which is only noted.

    Raises:
        ValueError: shapes that differ, no pairs, a score that is not finite, matches outside
            [0, 1], pairs of one class, an unknown method.

    Example:
        ::

            >>> fit = fit_calibration(torch.tensor([.1, .2, .3, .4]), torch.tensor([0, 0, 1, 1]))
            >>> fit.method, fit.threshold(.6)
            ('platt', 0.19...)
    """
    if method not in ('platt', 'isotonic'):
        raise ValueError(f"method must be 'platt' or 'isotonic', not {str(method)[:80]!r}")
    x, y = _checked(scores, matches)
    _refuse_one_class(y)
    fit = _platt if method == 'platt' else _isotonic
    fitted = fit(x, y, torch.ones_like(x))
    grid = _quantiles(x, GRID)
    random = torch.Generator().manual_seed(seed)
    group = _groups(queries, x)
    curves = []
    for _ in range(draws):
        drawn = _drawn(group, random).to(x)
        if 0 < (drawn * y).sum() < drawn.sum():
            curves.append(_curve(method, fit(x, y, drawn), grid))
    every = torch.stack(curves or [_curve(method, fitted, grid)])
    lower, upper = every.quantile(0.025, dim=0), every.quantile(0.975, dim=0)
    return Calibration(method, fitted, grid, lower, upper, debiased=debiased)


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

    What nobody annotated counts as no match: where several videos fit a text, P is too low.

    Args:
        scores: float [Q, N].
        positives: bool [Q, N]; default: text i belongs to video i.
        method: ``'platt'``, ``'isotonic'``, or ``'temperature'``, one number per gallery and a
            probability per query (a query's probabilities sum to one).
        draws, seed, debiased: as :func:`fit_calibration`; queries are drawn.

    Returns:
        A calibration that knows among how many items a match was one.

    Raises:
        ValueError: as :func:`fit_calibration`; a matrix that is not square without positives; for a
            temperature a query without a match is left out, and there must be one with.

    Example:
        ::

            >>> scores = torch.tensor([[.5, .1, .2], [.1, .4, .3], [.3, .1, .2]])
            >>> round(fit_to_pairs(scores, method='temperature').temperature, 2)
            0.13
    """
    if scores.dim() != 2 or not scores.numel():
        raise ValueError(f'scores {list(scores.shape)} must be [texts, videos], none of them 0')
    if positives is None:
        if scores.shape[0] != scores.shape[1]:
            raise ValueError(f'scores {list(scores.shape)} are not square: positives must be given')
        positives = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    if scores.shape != positives.shape:
        raise ValueError(
            f'scores {list(scores.shape)} and positives {list(positives.shape)} differ'
        )
    if method == 'temperature':
        return _fit_temperature(scores, positives.bool(), draws, seed, debiased)
    rows = torch.arange(len(scores), device=scores.device)[:, None].expand_as(scores)
    common = dict(queries=rows.flatten(), draws=draws, seed=seed, debiased=debiased)
    fit = fit_calibration(scores.flatten(), positives.flatten(), method=method, **common)
    return dataclasses.replace(fit, candidates=scores.shape[1])


def interpolated(x: Tensor, knots: Tensor, values: Tensor) -> Tensor:
    """Lines between knots, and beyond them the first and the last value.

    Args:
        x: float [...].
        knots: float [K], rising.
        values: float [K].

    Returns:
        float64 [...].

    Example:
        ::

            >>> interpolated(torch.tensor([0.0, 1.5, 9.0]), torch.tensor([1., 2.]), torch.tensor([3., 5.]))
            tensor([3., 4., 5.], dtype=torch.float64)
    """
    x = x.double()
    knots, values = (one.double().to(x.device) for one in (knots, values))
    if len(knots) == 1:
        return values.expand(x.shape).clone()
    right = torch.searchsorted(knots, x.contiguous()).clamp(1, len(knots) - 1)
    left = right - 1
    share = (x - knots[left]) / (knots[right] - knots[left]).clamp_min(1e-300)
    return torch.lerp(values[left], values[right], share.clamp(0, 1))


def _curve(method: str, fitted: Tensor, grid: Tensor) -> Tensor:
    if method == 'platt':
        return (fitted[0] * grid + fitted[1]).sigmoid()
    return interpolated(grid, *fitted)


def _platt(x: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """(slope, offset) by Newton's method, of Platt's targets, which no separable data blow up."""
    yes, total = (weight * y).sum(), weight.sum()
    no = total - yes
    target = y * (yes + 1) / (yes + 2) + (1 - y) / (no + 2)
    centre, unit = x.mean(), x.std().clamp_min(1e-12)
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
    asked = positives.any(1)
    if not asked.any() or positives.all():
        raise ValueError('a calibration needs pairs that match and pairs that do not')
    x, own = at_least_float32(scores[asked]), positives[asked]
    reach = (x.amax(1) - x.mean(1)).mean().double().item()
    if not reach > 0:
        raise ValueError('all scores of a query are one value: no temperature fits')
    tried = (SHARES * reach).to(x.device)
    losses = torch.stack([_own_loss(x / t.item(), own) for t in tried], dim=1)  # [Q, S]
    random = torch.Generator().manual_seed(seed)
    group = _groups(None, losses[:, 0])
    weights = torch.stack([_drawn(group, random) for _ in range(draws)] or [torch.ones(len(x))])
    found = _lowest(tried, weights.to(losses) @ losses / len(losses))
    fitted = _lowest(tried, losses.mean(0, keepdim=True))
    lower, upper = (found.quantile(q, dim=0, keepdim=True).reshape(1) for q in (0.025, 0.975))
    grid = _quantiles(x[own].double(), GRID)
    parts = (one.cpu() for one in (fitted, grid, lower, upper))
    return Calibration('temperature', *parts, candidates=x.shape[1], debiased=debiased)


def _own_loss(x: Tensor, own: Tensor) -> Tensor:
    matched = x.masked_fill(~own, -torch.inf).logsumexp(1)
    return (x.logsumexp(1) - matched).double()


def _lowest(tried: Tensor, losses: Tensor) -> Tensor:
    """The temperatures [R] at the lowest of losses [R, S], between those tried by a parabola."""
    place = losses.argmin(1, keepdim=True).clamp(1, len(tried) - 2)
    left, mid, right = (losses.gather(1, place + d)[:, 0] for d in (-1, 0, 1))
    curve = left - 2 * mid + right
    shift = ((left - right) / (2 * curve)).where(curve > 0, torch.zeros_like(curve)).clamp(-1, 1)
    step = (tried[1] / tried[0]).log()
    return (tried[place[:, 0]].log() + shift * step).exp()


def _checked(scores: Tensor, matches: Tensor, *, name: str = 'scores') -> tuple[Tensor, Tensor]:
    if scores.dim() != 1 or scores.shape != matches.shape or not len(scores):
        raise ValueError(
            f'{name} {list(scores.shape)} and matches {list(matches.shape)} must be [pairs] both, '
            'at least one'
        )
    refuse_non_finite(scores[None], name=name)
    y = matches.double().to(scores.device)
    if not ((y >= 0) & (y <= 1)).all():
        raise ValueError('matches must be True or False, or grades as shares in [0, 1]')
    return scores.double(), y


def _refuse_one_class(y: Tensor) -> None:
    if y.min() == y.max():
        what = 'match' if y.min() > 0.5 else 'do not match'
        raise ValueError(f'all {len(y)} pairs {what}: a calibration needs pairs of both classes')


def _quantiles(x: Tensor, most: int) -> Tensor:
    """At most so many of them, as they are, lowest to highest, a like share of x beside each."""
    ordered = x.sort().values
    if len(x) <= most:
        return ordered
    places = torch.linspace(0, len(x) - 1, most, dtype=torch.float64).round().long()
    return ordered[places.to(x.device)]


def _groups(queries: Optional[Tensor], x: Tensor) -> Tensor:
    if queries is None:
        return torch.arange(len(x))
    if queries.shape != x.shape:
        raise ValueError(f'queries {list(queries.shape)} must be [{len(x)}], one of each pair')
    return queries.cpu().unique(return_inverse=True)[1]


def _drawn(group: Tensor, random: torch.Generator) -> Tensor:
    """How often each pair is drawn in one round of the bootstrap, float64 [M]."""
    count = int(group.max()) + 1
    often = torch.bincount(torch.randint(count, (count,), generator=random), minlength=count)
    return often[group].double()
