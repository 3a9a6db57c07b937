"""The picture of the first page: what each row does, in units of what would matter."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Mapping, Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from comparison.front import Line
from comparison.pictures import STYLE, STYLES, save_picture
from comparison.statistics import Difference
from comparison.summary import NOTED
from comparison.verdicts import MATTERS, of_aim

#: Verdict -> whose colour and marker of ``STYLES`` it has.
LOOKS = {'helps': 'combination', 'harms': 'ours', 'nothing': 'baseline', 'not resolved': 'control'}
#: And what the legend calls it, where it is more than that.
SAID = {'harms': 'harms, or is paid'}
#: Panels end here, in units of what would matter.
LEAST, MOST = -6.0, 11.0


def write_front(path: Path, lines: Mapping[str, Sequence[Line]]) -> bool:
    """Two panels, the aim and the cost; a line a row, by paper.

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
        size = (11.0, 0.21 * len(places) + 1.1)
        figure = Figure(figsize=size, dpi=95, layout='constrained')
        aim, cost = figure.subplots(1, 2, sharey=True, width_ratios=(1.4, 1.0))
        titles = {aim: 'aim', cost: 'cost: paired recall'}
        for axes, title in titles.items():
            _ground(axes, title, len(places))
        for k, line in enumerate(places):
            if isinstance(line, str):
                for axes in titles:
                    axes.axhline(k - 0.5, color='#E4E4E4', linewidth=0.8)
                continue
            unit = MATTERS[line.plan.aim]
            word = of_aim(line.word, line.aim, unit)
            _bar(aim, k, line.aim, unit, STYLES[LOOKS.get(word, 'control')])
            if line.cost:
                paid = 'harms' if line.cost.sign < 0 else 'not resolved'
                _bar(cost, k, line.cost, MATTERS[line.plan.cost], STYLES[LOOKS[paid]])
        rows = [(line.label, line.condition) for line in places if not isinstance(line, str)]
        labels = [
            line
            if isinstance(line, str)
            else _said(line, several=rows.count((line.label, line.condition)) > 1)
            for line in places
        ]
        aim.set_yticks(range(len(places)), labels, size=8)
        for label, line in zip(aim.get_yticklabels(), places):
            label.set_fontweight('bold' if isinstance(line, str) else 'normal')
        handles = [
            Line2D(
                [],
                [],
                color=STYLES[kind][0],
                marker=STYLES[kind][1],
                linestyle='',
                label=SAID.get(word, word),
            )
            for word, kind in LOOKS.items()
        ]
        cost.legend(handles=handles, frameon=False, loc='center right', fontsize=8)
        save_picture(figure, path)
    return True


def _said(line: Line, *, several: bool) -> str:
    """Row and condition; the control, which is in the table, where a row has several."""
    row = line.label.replace(NOTED, '').strip(' *')
    return f'{row}{f" over {line.over}" if several else ""}, {line.condition}'


def _ground(axes: Axes, title: str, count: int) -> None:
    """An empty panel with what would not matter in grey."""
    axes.axvspan(-1, 1, color='#F0F0F0', zorder=0)
    axes.axvline(0, color='#606060', linewidth=1, zorder=0)
    axes.set(xlim=(LEAST, MOST), ylim=(count - 0.4, -0.6))
    axes.set_xlabel('difference, in units of what would matter', size=8)
    axes.set_title(title, loc='left', size=9)
    axes.tick_params(axis='y', length=0)
    axes.spines['left'].set_visible(False)
    axes.grid(axis='x', color='#E4E4E4', linewidth=0.6)
    axes.set_axisbelow(True)


def _bar(axes: Axes, k: int, gain: Difference, unit: float, looks: tuple[str, str]) -> None:
    """A mean and its interval; what lies outside ends at the edge with an arrow."""
    color, marker = looks
    mean, low, high = (value / unit for value in (gain.mean, gain.low, gain.high))
    if not LEAST < mean < MOST:
        edge, ha, arrow = (MOST, 'right', '\u2192') if mean > 0 else (LEAST, 'left', '\u2190')
        axes.text(edge, k, f'{mean:+.0f} {arrow}', ha=ha, va='center', size=8, color=color)
        return
    if math.isfinite(high):
        ends = [max(low, LEAST), min(high, MOST)]
        axes.plot(ends, [k, k], color=color, linewidth=1.6, alpha=0.6)
    axes.plot(mean, k, marker=marker, color=color, markeredgecolor='white', markersize=7)
