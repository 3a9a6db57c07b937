"""The picture of the first page: what each row does, in units of what would matter."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Mapping, Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from comparison.columns import FOUND, TRUTH
from comparison.front import DIRECTIONS, Line
from comparison.pictures import STYLE, STYLES, save_picture
from comparison.statistics import Difference
from comparison.summary import NOTED
from comparison.verdicts import MATTERS, of_aim

#: Verdict -> whose colour and marker of ``STYLES`` it has.
LOOKS = {'helps': 'combination', 'harms': 'ours', 'nothing': 'baseline', 'not resolved': 'control'}
#: And what the legend calls it.
SAID = dict(helps='gains', harms='loses', nothing='nothing', **{'not resolved': 'not resolved'})
#: Of the panels, the aim first.
WIDTHS = (1.4, 1.0, 1.0, 1.0, 1.0)
#: Panels end here, in units of what would matter.
LEAST, MOST = -6.0, 9.0


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
        size = (14.0, 0.21 * len(places) + 1.1)
        figure = Figure(figsize=size, dpi=95, layout='constrained')
        panels = figure.subplots(1, 1 + len(DIRECTIONS), sharey=True, width_ratios=WIDTHS)
        for axes, title in zip(panels, ('aim', *DIRECTIONS)):
            _ground(axes, title, len(places))
        for k, line in enumerate(places):
            if isinstance(line, str):
                for axes in panels:
                    axes.axhline(k - 0.5, color='#E4E4E4', linewidth=0.8)
                continue
            unit = MATTERS[line.plan.aim]
            word = of_aim(line.word, line.aim, unit)
            _bar(panels[0], k, line.aim, unit, STYLES[LOOKS.get(word, 'control')])
            for axes, gain, key in zip(panels[1:], line.beside, (*TRUTH, *FOUND)):
                if gain:
                    _bar(axes, k, gain, MATTERS[key], STYLES[LOOKS[_word(gain, MATTERS[key])]])
        rows = [(line.label, line.condition) for line in places if not isinstance(line, str)]
        labels = [
            line
            if isinstance(line, str)
            else _said(line, several=rows.count((line.label, line.condition)) > 1)
            for line in places
        ]
        panels[0].set_yticks(range(len(places)), labels, size=8)
        for label, line in zip(panels[0].get_yticklabels(), places):
            label.set_fontweight('bold' if isinstance(line, str) else 'normal')
        handles = [
            Line2D(
                [],
                [],
                color=STYLES[kind][0],
                marker=STYLES[kind][1],
                linestyle='',
                label=SAID[word],
            )
            for word, kind in LOOKS.items()
        ]
        panels[2].set_xlabel('difference, in units of what would matter (grey: less)', size=8)
        figure.legend(
            handles, list(SAID.values()), frameon=False, loc='outside lower center', ncols=4
        )
        save_picture(figure, path)
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


def _ground(axes: Axes, title: str, count: int) -> None:
    """An empty panel with what would not matter in grey."""
    axes.axvspan(-1, 1, color='#F0F0F0', zorder=0)
    axes.axvline(0, color='#606060', linewidth=1, zorder=0)
    axes.set(xlim=(LEAST, MOST), ylim=(count - 0.4, -0.6))
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
