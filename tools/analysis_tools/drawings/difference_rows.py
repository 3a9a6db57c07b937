"""A plot of differences between systems with their intervals."""

from __future__ import annotations

import math
from typing import NamedTuple, Sequence

from mmvtr.visualization import canvas

#: Verdict -> colour and marker.
VERDICTS = dict(better=(canvas.GREEN, 'o'), worse=(canvas.RED, 'v'))
OPEN = (canvas.GREY, 's')


class Difference(NamedTuple):
    """A row: a difference with its interval, and the queries gained and lost.

    Attributes:
        name: name of the metric.
        mean, low, high: the difference to the baseline and its interval, in points.
        gained, lost: numbers of queries that are better and worse.
        verdict: 'better', 'worse', or another word if not resolved.
    """

    name: str
    mean: float
    low: float
    high: float
    gained: int
    lost: int
    verdict: str


def differences(rows: Sequence[Difference], *, title: str) -> 'canvas.Figure':
    """Draw differences with their intervals, and the queries gained and lost beside them.

    Args:
        rows: rows from top to bottom.
        title: title, printed before the legend of the colours.
    """
    colours = 'green: better, red: worse, grey: not resolved'
    figure = canvas.new_figure(1.6 + 0.26 * len(rows), f'{title}: {colours}' if title else colours)
    effect, counts = figure.subplots(1, 2, sharey=True)
    for place, row in enumerate(rows):
        colour, marker = VERDICTS.get(row.verdict, OPEN)
        if math.isfinite(row.low) and math.isfinite(row.high):
            ends = [row.low, row.high]
            effect.plot(ends, [place, place], color=colour, linewidth=1.6, alpha=0.6)
        effect.plot(row.mean, place, marker=marker, color=colour, markersize=5, linestyle='')
        counts.barh(place, row.gained, color=colour if row.mean > 0 else '0.8')
        counts.barh(place, -row.lost, color=colour if row.mean < 0 else '0.8')
    canvas.style(effect, '', 'difference to the baseline, points, with 95 % interval', '')
    canvas.style(counts, '', 'queries lost (left) and gained (right)', '')
    counts.xaxis.set_major_formatter(lambda count, _: f'{abs(count):g}')
    for axis in (effect, counts):
        axis.axvline(0, color='0.3', linewidth=0.8)
        axis.grid(visible=False, axis='y')
    effect.set_yticks(range(len(rows)), [row.name for row in rows], fontsize=8)
    effect.invert_yaxis()
    return figure
