"""Lengths of videos, action by action, in a training and in a test set (frame length paper)."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from mmvtr.visualization import canvas

#: Actions along an axis.
ACTIONS = 'actions of both sets'


def length_gaps(gaps: Any, *, unit: str, linear: float) -> 'canvas.Figure':
    """Draw the mean length in test minus train of each action, sorted (Fig. 2).

    Args:
        gaps: [A].
        unit: of the lengths.
        linear: larger differences, where there are some, are on a logarithmic scale.

    Raises:
        ValueError: no action, or a number that is not finite.
    """
    gaps = np.sort(canvas.array('gaps', gaps, (None,)))[::-1]
    figure = canvas.new_figure(4.5)
    axis = figure.subplots()
    place = np.arange(len(gaps))
    for sign, name, colour in (
        (1, 'longer in test', canvas.BLUE),
        (-1, 'longer in train', canvas.ORANGE),
    ):
        chosen = sign * gaps > 0
        label = f'{name}: {chosen.sum():,} actions'
        shown = np.where(chosen, gaps, 0)
        axis.fill_between(place, shown, step='mid', label=label, color=colour, linewidth=0)
    _ranked(axis, gaps, linear)
    axis.axhline(0, color=canvas.GREY, linewidth=0.8)
    title = 'Difference of the mean lengths of each action'
    canvas.style(axis, title, ACTIONS, f'mean length in test - train ({unit})')
    axis.legend(frameon=False, fontsize=9)
    return figure


def absolute_gaps(gaps: Any, thresholds: Sequence[float], *, unit: str) -> 'canvas.Figure':
    """Draw the absolute length difference of each action, sorted (Fig. 8).

    Args:
        gaps: [A].
        thresholds: two differences; how many actions are above the first and reach the second is
            said.
        unit: of the lengths.

    Raises:
        ValueError: no action, or a number that is not finite.
    """
    gaps = np.sort(abs(canvas.array('gaps', gaps, (None,))))[::-1]
    figure = canvas.new_figure(4.5)
    axis = figure.subplots()
    axis.fill_between(np.arange(len(gaps)), gaps, step='mid', color='0.8', linewidth=0)
    many, most = thresholds
    _ranked(axis, gaps, many)
    for gap, count, words, look in (
        (many, (gaps > many).sum(), f'more than {many:g}', '--'),
        (most, (gaps >= most).sum(), f'at least {most:.4g}', ':'),
    ):
        label = f'{words}: {count:,} actions'
        axis.axhline(gap, linewidth=1.2, linestyle=look, color='0.3', label=label)
    title = 'How much the mean lengths of each action differ'
    canvas.style(axis, title, ACTIONS, f'|mean length in test - train| ({unit})')
    axis.legend(frameon=False, fontsize=9)
    return figure


def _ranked(axis: 'canvas.Axes', gaps: np.ndarray, linear: float) -> None:
    """Set whole-number action ticks and a scale on which few large values hide no others."""
    axis.margins(x=0)
    axis.xaxis.get_major_locator().set_params(integer=True)
    if abs(gaps).max() > linear:
        axis.set_yscale('symlog', linthresh=linear)


def mean_lengths(train: Any, test: Any, *, unit: str) -> 'canvas.Figure':
    """Draw the mean length in test against train, without and with outliers (Fig. 7).

    Args:
        train, test: [A], mean lengths of the same actions.
        unit: of the lengths.

    Raises:
        ValueError: no action, lengths that differ, or a number that is not finite.
    """
    train = canvas.array('train', train, (None,))
    test = canvas.array('test', test, train.shape)
    inner = (train <= _fence(train)) & (test <= _fence(test))
    figure = canvas.new_figure(4.8)
    parts = ('without outliers', inner), ('with outliers', np.ones_like(inner))
    for axis, (name, chosen) in canvas.side_by_side(figure, parts):
        x, y = train[chosen], test[chosen]
        canvas.dots(axis, x, y, 'an action', canvas.BLUE)
        top = max([1, *x, *y])
        axis.plot([0, top], [0, top], color='0.4', linewidth=0.8, linestyle='--')
        names = (f'mean length in {which} ({unit})' for which in ('train', 'test'))
        canvas.style(axis, f'{name}: {chosen.sum():,} actions', *names)
    return figure


def _fence(x: np.ndarray) -> float:
    """Return Tukey's outlier fence: the third quartile plus 1.5 interquartile ranges."""
    first, third = np.quantile(x, (0.25, 0.75))
    return third + 1.5 * (third - first)
