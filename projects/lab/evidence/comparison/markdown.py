"""Numbers and tables as pages/comparison_tables.md writes them."""

from __future__ import annotations

import math
from typing import Iterable, Optional, Sequence

from comparison.columns import digits, heading
from comparison.statistics import Difference, mean_and_deviation

#: Digits that are not rounding noise: a page must not depend on the machine's order of summation.
NOISE = 6


def spread(values: Iterable[float], places: int) -> str:
    """'12.3 +- 0.4'; '12.3' for one value, empty for none."""
    values = list(values)
    numbers = mean_and_deviation(values) or ()
    return ' +- '.join(f'{round(x, NOISE):.{places}f}' for x in numbers[: len(values)])


def interval(gain: Optional[Difference], key: str) -> str:
    """'+7.6 [4.1, 11.0]', with an ``s`` where it is Student's over seeds; empty for None."""
    if gain is None:
        return ''
    mean = signed(gain.mean, key)
    if math.isinf(gain.high):
        return mean
    ends = f'{mean} [{signed(gain.low, key)}, {signed(gain.high, key)}]'
    return ends if gain.of_queries else f'{ends} s'


def signed(value: float, key: str) -> str:
    """With its sign and the digits of a metric; a zero has the sign +."""
    places = digits(key)
    return f'{round(round(value, NOISE), places) + 0.0:+.{places}f}'


def named(gain: Difference, key: str) -> str:
    """'rsum -8.9'."""
    return f'{heading(key)} {signed(gain.mean, key)}'


def percent(value: Optional[float]) -> str:
    """'30 %'; empty for None."""
    return '' if value is None else f'{value:.0f} %'


def table(headings: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    rows = ['| ' + ' | '.join(row) + ' |' for row in (headings, *lines)]
    rows.insert(1, '|---' * len(headings) + '|')
    return '\n'.join(rows) + '\n'
