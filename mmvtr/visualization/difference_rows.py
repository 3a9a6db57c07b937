"""A plot of differences to a control with their intervals."""

from __future__ import annotations

import math
from typing import Any, Sequence

from mmvtr.visualization import canvas

#: Verdict -> colour and marker.
VERDICTS = dict(better=(canvas.GREEN, 'o'), worse=(canvas.RED, 'v'), equivalent=(canvas.BLUE, 'D'))
OPEN = (canvas.GREY, 's')


def difference_rows(
    rows: Sequence[Any], *, level: float = 0.05, less: Sequence[str] = (), title: str = ''
) -> 'canvas.Figure':
    """Draw differences with their intervals, and the queries gained and lost if they have any.

    Args:
        rows: :class:`~mmvtr.evaluation.differences.Difference`, from top to bottom.
        level: bar of the verdicts.
        less: names of metrics whose lower values are better.
        title: title; default: the system, if there is only one.
    """
    systems = {row.system for row in rows}
    title = title or (rows[0].system if len(systems) == 1 else '')
    colours = 'green: better, red: worse, blue: equivalent, grey: not resolved'
    figure = canvas.new_figure(1.6 + 0.26 * len(rows), f'{title}: {colours}' if title else colours)
    counted = any(row.queries for row in rows)
    effect, *others = figure.subplots(1, 1 + counted, sharey=True, squeeze=False)[0]
    for place, row in enumerate(rows):
        colour, marker = VERDICTS.get(row.verdict(level, less=row.metric in less), OPEN)
        if math.isfinite(row.low) and math.isfinite(row.high):
            ends = [row.low, row.high]
            effect.plot(ends, [place, place], color=colour, linewidth=1.6, alpha=0.6)
        effect.plot(row.mean, place, marker=marker, color=colour, markersize=5, linestyle='')
        for counts in others:
            counts.barh(place, row.gained, color=colour if row.mean > 0 else '0.8')
            counts.barh(place, -row.lost, color=colour if row.mean < 0 else '0.8')
    canvas.style(effect, '', 'difference to the control, points, with 95 % interval', '')
    for counts in others:
        canvas.style(counts, '', 'queries lost (left) and gained (right)', '')
        counts.xaxis.set_major_formatter(lambda count, _: f'{abs(count):g}')
    for axis in (effect, *others):
        axis.axvline(0, color='0.3', linewidth=0.8)
        axis.grid(visible=False, axis='y')
    names = [f'{row.system}  {row.metric}' if len(systems) > 1 else row.metric for row in rows]
    effect.set_yticks(range(len(rows)), names, fontsize=8)
    effect.invert_yaxis()
    return figure
