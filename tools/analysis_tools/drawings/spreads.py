"""Plots of the analysis tools: distributions over pairs, actions and gallery items."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Sequence

import numpy as np

from mmvtr.functional.metrics.hubness import ErrorRates, k_occurrence
from mmvtr.visualization import canvas
from mmvtr.visualization.hubness import DIRECTIONS, draw_rates

#: Colour and line style per kind.
LOOKS = ((canvas.BLUE, '-'), (canvas.ORANGE, '--'), (canvas.GREEN, '-.'), (canvas.PINK, ':'))


class Spread(NamedTuple):
    """Data of one panel.

    Attributes:
        kinds: numbers [N] by name of a kind; N may differ, and be 0.
        marks: positions of vertical lines by name.
        x: label of the axis, with its unit.
    """

    kinds: Mapping[str, Any]
    marks: Mapping[str, float]
    x: str


def distributions(
    spreads: Sequence[Spread], *, title: str, y: str, bins: int = 60
) -> 'canvas.Figure':
    """Draw the histogram of each kind of pair.

    Args:
        spreads: data of each panel.
        title: title of the figure.
        y: label of the y axis, which says what is 100 %.
        bins: number of bins over all kinds of a panel.

    Raises:
        ValueError: no numbers, a number that is not finite, or more kinds than styles.
    """
    most = max(map(len, (spread.kinds for spread in spreads)))
    if most > len(LOOKS):
        raise ValueError(f'{most} kinds, at most {len(LOOKS)} can be told apart')
    figure = canvas.new_figure(4.6, title)
    for axis, spread in canvas.side_by_side(figure, spreads):
        values = np.concatenate([np.ravel(x) for x in spread.kinds.values()])
        borders = np.histogram_bin_edges(canvas.array(spread.x, values, (None,)), bins=bins)
        for (name, own), (colour, line) in zip(spread.kinds.items(), LOOKS):
            share = 100 * np.histogram(own, borders)[0] / max(len(own), 1)
            label = f'{name} ({len(own):,})'
            axis.stairs(share, borders, color=colour, linestyle=line, linewidth=1.6, label=label)
        for (name, value), line in zip(spread.marks.items(), ('--', ':')):
            axis.axvline(
                value, 0, 1 / 1.4, color=canvas.GREY, linestyle=line, linewidth=1.2, label=name
            )
        axis.set_ylim(0, 1.4 * axis.get_ylim()[1])  # room for the legend
        canvas.style(axis, '', spread.x, y)
        axis.legend(frameon=False, loc='upper left', fontsize=9)
    return figure


#: Label of an axis of actions.
ACTIONS = 'actions of both sets'


def length_gaps(gaps: Any, *, unit: str, linear: float) -> 'canvas.Figure':
    """Draw the mean length in test minus train of each action, sorted (Fig. 2).

    Args:
        gaps: [A].
        unit: unit of the lengths.
        linear: larger differences, if any, are on a logarithmic scale.

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
        thresholds: two differences; the plot states how many actions exceed the first and reach
            the second.
        unit: unit of the lengths.

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
    """Set whole-number action ticks, and a log scale beyond ``linear`` for outliers."""
    axis.margins(x=0)
    axis.xaxis.get_major_locator().set_params(integer=True)
    if abs(gaps).max() > linear:
        axis.set_yscale('symlog', linthresh=linear)


def mean_lengths(train: Any, test: Any, *, unit: str) -> 'canvas.Figure':
    """Draw the mean length in test against train, without and with outliers (Fig. 7).

    Args:
        train, test: [A], mean lengths of the same actions.
        unit: unit of the lengths.

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


def occurrence_and_errors(
    matrices: Mapping[str, tuple[Any, Any]], rates: Mapping[str, ErrorRates], *, k: int, title: str
) -> 'canvas.Figure':
    """Draw how often items are retrieved and the related errors, one row per direction.

    Args:
        matrices: scores [T, V] of both directions by name (text to video, read by rows; video to
            text, read by columns); 'raw' is drawn as bars.
        rates: error rates by direction of ``DIRECTIONS``, in bins between ``MASS_EDGES``.
        k: number of items that a query finds, if there are as many.
        title: title of the figure.
    """
    figure = canvas.new_figure(8.5, title, width=11)
    for place, (axes, direction) in enumerate(zip(figure.subplots(2, 2), DIRECTIONS)):
        dim, (query, item) = 1 - place, direction.split(' to ')
        most = min(k, matrices['raw'][place].shape[dim])
        counts = {
            name: k_occurrence(pair[place], k=most, dim=dim).numpy()
            for name, pair in matrices.items()
        }
        _occurrences(axes[0], counts)
        canvas.style(
            axes[0],
            f'{direction}: how often a {item} is found',
            f'{query} queries that have a {item} among their {most} best',
            f'{item}s (%)',
        )
        axes[0].legend(frameon=False, fontsize=9)
        draw_rates(axes[1], rates[direction], direction, f'{direction}: errors of the raw scores')
    return figure


def _occurrences(axis: 'canvas.Axes', counts: Mapping[str, np.ndarray]) -> None:
    """Draw the share of items per doubling class of N_k, raw as bars and others as lines."""
    tops = [0, *(2**i for i in range(int(max(x.max() for x in counts.values())).bit_length() + 1))]
    borders = [-0.5, *(top + 0.5 for top in tops)]  # ties leave fractions of an occurrence
    for name, x in counts.items():
        share = 100 * np.histogram(x, borders)[0] / len(x)
        if name == 'raw':
            axis.bar(range(len(tops)), share, color='0.8', label=name)
        else:
            axis.plot(range(len(tops)), share, marker='o', markersize=3.5, label=name)
    ranges = [f'{low + 1}-{top}' if top > low + 1 else f'{top}' for low, top in zip(tops, tops[1:])]
    axis.set_xticks(range(len(tops)), ['0', *ranges], rotation=30)
