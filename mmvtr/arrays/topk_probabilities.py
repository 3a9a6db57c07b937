"""P(right) of the places of a list."""

from __future__ import annotations

import math
import warnings
from typing import NamedTuple, Optional

import torch
from torch import Tensor

from mmvtr.arrays.answers import NEEDED, Answers, lowest_level
from mmvtr.arrays.shift import Asked, Shift
from mmvtr.functional.values import check_range

#: Fewest pairs calibrated on.
LEAST = 50
#: Lengths k for which P(one of the first k is right) has its own fitted line; the slopes of lines
#: further apart are too different to interpolate.
LENGTHS = (1, 2, 3, 4, 6, 8, 11, 15, 20, 27, 36, 48, 64, 85, 113, 150, 200)


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
        logits = logit(shares.cumsum(1))
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
        answers = self.answers(precision, error=error)
        if answers.threshold == math.inf:
            warnings.warn(str(answers), stacklevel=2)
        return answers.threshold

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
        place = lowest_level(counts.tolist(), wrong.tolist(), tested, precision, error)
        needed, then = self._needed(reached, precision, error)
        how = dict(pairs=2 * tested, needed=needed, then=then, most=self.most)
        if place is None:
            return Answers(precision, error, math.inf, 0.0, **how)
        lowest = self._first(self.levels[place]).item()
        return Answers(precision, error, lowest, counts[place].item() / tested, **how)

    def _first(self, shares: Tensor) -> Tensor:
        """Return P(first place is right) of its share."""
        slope, offset = self.lines[0]
        return (slope * logit(shares) + offset).sigmoid()

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
            place = lowest_level(
                count.int().tolist(), wrong.int().tolist(), tested, precision, error
            )
            if place is not None:
                return 2 * tested, share[place].item()
        return None, None

    def _lines(self, lengths: Tensor) -> Tensor:
        """Return the lines [k, 2] of lengths [k], interpolated in the log of the length."""
        knots = torch.tensor(LENGTHS, dtype=torch.float64).log()
        x = lengths.log().clamp_max(knots[-1])
        right = torch.searchsorted(knots, x).clamp(1, len(knots) - 1)
        weight = ((x - knots[right - 1]) / (knots[right] - knots[right - 1]))[:, None]
        return torch.lerp(self.lines[right - 1], self.lines[right], weight)


def logit(p: Tensor) -> Tensor:
    """Return log(p / (1 - p)), float64, of probabilities held off 0 and 1."""
    p = p.double().clamp(1e-12, 1 - 1e-9)
    return p.log() - torch.log1p(-p)
