"""Differences with their intervals."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, Sequence

from mmvtr.visualization.canvas import GREEN, GREY, RED, new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Verdict -> colour and marker.
LOOKS = dict(better=(GREEN, 'o'), worse=(RED, 'v'))
OPEN = (GREY, 's')


class Difference(NamedTuple):
    """A row.

    Attributes:
        name: of what is measured.
        mean, low, high: the difference to the baseline and its interval, in points.
        gained, lost: queries that are better and worse.
        verdict: 'better', 'worse', or another word where that is not resolved.
    """

    name: str
    mean: float
    low: float
    high: float
    gained: int
    lost: int
    verdict: str


def differences(rows: Sequence[Difference], *, title: str) -> 'Figure':
    """Differences with their intervals, and beside them the queries gained and lost.

    Args:
        rows: the first one above.
        title: of the picture, before what the colours mean.
    """
    colours = 'green: better, red: worse, grey: not resolved'
    figure = new_figure(1.6 + 0.26 * len(rows), f'{title}: {colours}' if title else colours)
    effect, counts = figure.subplots(1, 2, sharey=True)
    for place, row in enumerate(rows):
        colour, marker = LOOKS.get(row.verdict, OPEN)
        interval(effect, place, row, colour, marker)
        counts.barh(place, row.gained, color=colour if row.mean > 0 else '0.8')
        counts.barh(place, -row.lost, color=colour if row.mean < 0 else '0.8')
    style(effect, '', 'difference to the baseline, points, with 95 % interval', '')
    style(counts, '', 'queries lost (left) and gained (right)', '')
    counts.xaxis.set_major_formatter(lambda count, _: f'{abs(count):g}')
    for axis in (effect, counts):
        axis.axvline(0, color='0.3', linewidth=0.8)
        axis.grid(visible=False, axis='y')
    effect.set_yticks(range(len(rows)), [row.name for row in rows], fontsize=8)
    effect.invert_yaxis()
    return figure


def interval(
    axis: 'Axes', place: float, row: Difference, colour: str, marker: str, **look: object
) -> None:
    """A mean and, where it is finite, its interval; ``look`` is that of the marker."""
    if math.isfinite(row.low) and math.isfinite(row.high):
        axis.plot([row.low, row.high], [place, place], color=colour, linewidth=1.6, alpha=0.6)
    axis.plot(row.mean, place, marker=marker, color=colour, **{'markersize': 5, **look})
