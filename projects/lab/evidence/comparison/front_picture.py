"""The picture of the first page: what each row does, in units of what would matter."""

from __future__ import annotations

from pathlib import Path
from typing import Mapping, Sequence

import matplotlib
from interval_marks import interval
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from comparison.columns import FOUND, TRUTH
from comparison.front import DIRECTIONS, Line
from comparison.pictures import COLOURS, STYLE, STYLES, ground
from comparison.statistics import Difference
from comparison.summary import NOTED
from comparison.verdicts import MATTERS, of_aim
from mmvtr.visualization import canvas

#: Verdict -> whose colour and marker of ``STYLES`` it has.
LOOKS = {'helps': 'combination', 'harms': 'ours', 'nothing': 'baseline', 'not resolved': 'control'}
#: And what the legend calls it.
SAID = dict(helps='gains', harms='loses', nothing='nothing', **{'not resolved': 'not resolved'})
#: Of the panels, the aim first.
WIDTHS = (1.4, 1.0, 1.0, 1.0, 1.0)
#: Panels end here, in units of what would matter.
WITHIN = (-6.0, 9.0)


def write_front(path: Path, lines: Mapping[str, Sequence[Line]]) -> bool:
    """The aim, and what is true and annotated in both directions; a line a row, by paper.

    Args:
        path: of the png.
        lines: by name of the paper.

    Returns:
        Whether there was a row to draw.
    """
    places: list[Line | str] = []
    for name, those in lines.items():
        places += [name, *those] if those else []
    if not places:
        return False
    with matplotlib.rc_context(STYLE):
        figure = canvas.new_figure(0.21 * len(places) + 1.1, width=14.0, dpi=95)
        titles = ('aim', *DIRECTIONS)
        panels = canvas.side_by_side(figure, titles, sharey=True, width_ratios=WIDTHS)
        for axes, title in panels:
            ground(axes, WITHIN, 1, len(places))
            axes.set_title(title, loc='left', size=9)
        first, *others = (axes for axes, _ in panels)
        for k, line in enumerate(places):
            if isinstance(line, str):
                for axes in (first, *others):
                    axes.axhline(k - 0.5, color='#E4E4E4', linewidth=0.8)
                continue
            unit = MATTERS[line.plan.aim]
            _bar(first, k, line.aim, unit, of_aim(line.word, line.aim, unit))
            for axes, gain, key in zip(others, line.beside, (*TRUTH, *FOUND)):
                if gain:
                    _bar(axes, k, gain, MATTERS[key], _word(gain, MATTERS[key]))
        rows = [(line.label, line.condition) for line in places if not isinstance(line, str)]
        labels = [
            line
            if isinstance(line, str)
            else _said(line, several=rows.count((line.label, line.condition)) > 1)
            for line in places
        ]
        first.set_yticks(range(len(places)), labels, size=8)
        for label, line in zip(first.get_yticklabels(), places):
            label.set_fontweight('bold' if isinstance(line, str) else 'normal')
        handles = [
            Line2D([], [], color=colour, marker=marker, linestyle='', label=SAID[word])
            for word, (colour, marker) in ((word, STYLES[kind]) for word, kind in LOOKS.items())
        ]
        others[1].set_xlabel('difference, in units of what would matter (grey: less)', size=8)
        canvas.legend(figure, 4, handles=handles)
        canvas.save(figure, path, colours=COLOURS)
    return True


def _word(gain: Difference, unit: float) -> str:
    """What one interval says, without a correction."""
    if gain.sign:
        return 'helps' if gain.sign > 0 else 'harms'
    return 'nothing' if max(-gain.low, gain.high) <= unit else 'not resolved'


def _said(line: Line, *, several: bool) -> str:
    """Row and condition; the control, which is in the table, where a row has several."""
    row = line.label.replace(NOTED, '').strip(' *')
    return f'{row}{f" over {line.over}" if several else ""}, {line.condition}'


def _bar(axes: Axes, k: int, gain: Difference, unit: float, word: str) -> None:
    """A mean and its interval, in units of what would matter."""
    numbers = tuple(value / unit for value in (gain.mean, gain.low, gain.high))
    looks = STYLES[LOOKS.get(word, 'control')]
    interval(axes, k, numbers, looks, within=WITHIN, markersize=7, markeredgecolor='white')
