"""From scores to the probability that a text and a video match.

A cosine of .3 means nothing by itself.  Judged pairs, or a bank with its own pairs, tell which
share of the pairs with that score match: Platt's line, an isotonic step function, or a temperature.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal, Optional

import torch
from torch import Tensor

from mmvtr.functional.similarities.tiles import refuse_non_finite
from mmvtr.functional.uncertainty.isotonic import between_knots
from mmvtr.functional.values import arrays_too, check_range

__all__ = ['Calibration']

Method = Literal['platt', 'isotonic', 'temperature']


@dataclasses.dataclass(frozen=True, repr=False)
class Calibration:
    """A fitted map from scores to P(match).

    Attributes:
        method: ``'platt'``: sigmoid(slope * score + offset); ``'isotonic'``: linear between knots;
            ``'temperature'``: softmax(score / temperature) over a query's gallery, which assumes
            that exactly one of its items matches.
        fitted: float64: (slope, offset); knots, scores [K] and probabilities [K], as [2, K]; or
            (temperature,).
        scores: float64 [G], some of the scores it was fitted on, increasing; denser at the upper
            end.
        lower, upper: float64 [G], bounds of P at these scores; for a temperature, its bounds [1].
        candidates: if fitted to all pairs of a bank, the size of its gallery, else None.
        debiased: fitted on transformed scores, not on raw ones.
        counts: float64 [G], number of pairs that each of ``scores`` represents, up to the next
            higher one; None: one each.

    Example:
        ::

            >>> steps = torch.tensor([[0.2, 0.4], [0.1, 0.9]])
            >>> fit = Calibration('isotonic', steps, steps[0], steps[1], steps[1])
            >>> fit.probabilities(torch.tensor([0.0, 0.3]))
            tensor([0.1000, 0.5000], dtype=torch.float64)
    """

    method: Method
    fitted: Tensor
    scores: Tensor
    lower: Tensor
    upper: Tensor
    candidates: Optional[int] = None
    debiased: bool = False
    counts: Optional[Tensor] = None

    def __repr__(self) -> str:
        kind = 'debiased' if self.debiased else 'raw'
        return f'Calibration({self.method!r}, {len(self.scores)} {kind} scores)'

    @arrays_too
    def probabilities(
        self, scores: Tensor, *, log_sums: Optional[Tensor] = None, candidates: Optional[int] = None
    ) -> Tensor:
        """Return P(match) of scores.

        Args:
            scores: float [...]; for a temperature [Q, n].
            log_sums: for a temperature: float [Q], logsumexp over the whole gallery of each query's
                scores / temperature; default: ``scores`` are the whole gallery.
            candidates: size of the gallery.  If the fit knows its own gallery's size, the odds are
                divided by the ratio of the two.

        Returns:
            float64 [...] in [0, 1].

        Raises:
            ValueError: a score that is not finite.

        Example:
            ::

                >>> bounds = torch.zeros(3, 1)
                >>> line = Calibration('platt', torch.tensor([10.0, -3.0]), *bounds)
                >>> line.probabilities(torch.tensor([0.3, 0.5]))
                tensor([0.5000, 0.8808], dtype=torch.float64)
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
        return self._shifted(between_knots(x, *self.fitted), candidates)

    @property
    def temperature(self) -> float:
        """The temperature of that method, in score units."""
        return self.fitted[0].item()

    @arrays_too
    def interval(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Return 95 % bounds of P(match) over the bootstrap's fits, float64 [...] each.

        Raises:
            ValueError: the method is a temperature, which has its own bounds (``lower``,
                ``upper``).
        """
        if self.method == 'temperature':
            raise ValueError(
                'a temperature has no bounds of P(match): see its own, lower and upper'
            )
        x = scores.double()
        return tuple(between_knots(x, self.scores, y) for y in (self.lower, self.upper))

    @arrays_too
    def threshold(
        self, precision: float, scores: Optional[Tensor] = None, *, candidates: Optional[int] = None
    ) -> float:
        """Return the lowest score above which the wanted share of pairs matches, by their mean P.

        Args:
            precision: the wanted share, in (0, 1).
            scores: float [M], scores of the pairs to expect; default: those that it was fitted on.
            candidates: size of the gallery, see :meth:`probabilities`.

        Returns:
            A score.  Platt's line always gives a finite one, which may exceed all scores, so that
            no pair is accepted.  Infinite if an isotonic fit never reaches the precision.

        Raises:
            ValueError: a precision out of range; a calibration by temperature, whose P does not
                depend on one score alone.
        """
        check_range('(0, 1)', precision=precision)
        if self.method == 'temperature':
            raise ValueError('a temperature has no threshold of scores: compare P(match) itself')
        x, order = (self.scores if scores is None else scores.double().flatten()).sort(
            descending=True, stable=True
        )
        counts = torch.ones_like(x)
        if scores is None and self.counts is not None:
            counts = self.counts[order]
        pairs, matches = counts.cumsum(0), _trapezoids(self.probabilities(x), counts).cumsum(0)
        # A larger gallery has more pairs that do not match.
        reached = matches / (matches + (pairs - matches) * self._growth(candidates))
        last = torch.cat([x[1:] != x[:-1], x.new_ones(1, dtype=torch.bool)])  # among equal scores
        good = ((reached >= precision) & last).nonzero().flatten()
        return x[good[-1]].item() if len(good) else self._beyond(precision, candidates)

    def _beyond(self, precision: float, candidates: Optional[int]) -> float:
        """Return the score, above all known ones, at which Platt's line itself has a precision."""
        if self.method != 'platt' or not self.fitted[0] > 0:
            return math.inf
        slope, offset = self.fitted.tolist()
        odds = precision / (1 - precision) * self._growth(candidates)
        return (math.log(odds) - offset) / slope

    @arrays_too
    def accepts(
        self, scores: Tensor, *, precision: float, candidates: Optional[int] = None
    ) -> Tensor:
        """Return which pairs reach the precision's threshold: bool [...].

        Abstain from queries without one: ``~fit.accepts(scores, precision=.9).any(1)``.

        Args:
            scores: float [...].
            precision, candidates: see :meth:`threshold`.
        """
        return scores.double() >= self.threshold(precision, candidates=candidates)

    def to_dict(self) -> dict[str, Any]:
        """Return numbers and lists, for json."""
        values = dataclasses.asdict(self)
        return {k: v.tolist() if isinstance(v, Tensor) else v for k, v in values.items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Calibration:
        """Return the calibration that :meth:`to_dict` wrote.

        Raises:
            ValueError: malformed values (names what is wrong).
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
        for name in ('fitted', 'scores', 'lower', 'upper'):
            if not isinstance(read[name], Tensor) or not read[name].isfinite().all():
                raise ValueError(f'{name} must be a list of finite numbers')
        fit = cls(**read)
        if fit.fitted.dim() != dims or len(fit.fitted) != first:
            raise ValueError(f'fitted {list(fit.fitted.shape)} does not belong to {fit.method}')
        bounds = (1,) if fit.method == 'temperature' else fit.scores.shape
        if fit.scores.dim() != 1 or not fit.lower.shape == fit.upper.shape == bounds:
            raise ValueError('scores, lower and upper must be lists of one length')
        _refuse_values(fit)
        if fit.counts is not None:
            one_each = isinstance(fit.counts, Tensor) and fit.counts.shape == fit.scores.shape
            if not one_each or not (fit.counts.isfinite() & (fit.counts > 0)).all():
                raise ValueError('counts must be positive numbers, one for each score')
        if type(fit.debiased) is not bool:
            raise ValueError(f'debiased must be a bool, not {str(fit.debiased)[:80]!r}')
        size = fit.candidates
        if size is not None and (type(size) is not int or size < 1):
            raise ValueError(f'candidates must be 1 or more, not {str(size)[:80]!r}')
        return fit

    def _shifted(self, p: Tensor, candidates: Optional[int]) -> Tensor:
        """Return P after scaling its odds to a gallery of another size."""
        return p / (p + (1 - p) * self._growth(candidates))

    def _growth(self, candidates: Optional[int]) -> float:
        """Return the ratio of non-matching items in a gallery to those in the fitted one."""
        if candidates is None or self.candidates is None:
            return 1.0
        return max(1, candidates - 1) / max(1, self.candidates - 1)


def _trapezoids(p: Tensor, counts: Tensor) -> Tensor:
    """Return sums of interpolated P over the pairs that each decreasing score represents, [G]."""
    above = torch.cat([p[:1], p[:-1]])
    return counts * (above + p) / 2 + (p - above) / 2


def _refuse_values(fit: Calibration) -> None:
    """Raise ValueError if a list has values that no fit produces."""
    if (fit.scores.diff() < 0).any():
        raise ValueError('scores must not decrease')
    if (fit.lower > fit.upper).any():
        raise ValueError('lower must not lie above upper')
    bounds = torch.stack([fit.lower, fit.upper])
    if fit.method == 'temperature':
        if not (fit.fitted > 0).all() or not (bounds > 0).all():
            raise ValueError('a temperature and its bounds must be positive')
        return
    if fit.method == 'isotonic':
        if (fit.fitted.diff() < 0).any():
            raise ValueError('fitted: neither the knots nor their probabilities may decrease')
        bounds = torch.cat([bounds.flatten(), fit.fitted[1]])
    if ((bounds < 0) | (bounds > 1)).any():
        raise ValueError('probabilities and their bounds must lie in [0, 1]')


#: Number of dimensions of ``fitted``, and its length.
_SHAPES = dict(platt=(1, 2), isotonic=(2, 2), temperature=(1, 1))
