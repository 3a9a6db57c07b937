"""How a number is spread: over kinds of things, over actions, over queries with its interval."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Mapping, NamedTuple, Sequence

import numpy as np

from mmvtr.visualization import canvas

#: Of kinds; lines differ as well.
LOOKS = ((canvas.BLUE, '-'), (canvas.ORANGE, '--'), (canvas.GREEN, '-.'), (canvas.PINK, ':'))


class Spread(NamedTuple):
    """Data of one panel.

    Attributes:
        kinds: by name the numbers of a kind, [N]; N may differ, and be 0.
        marks: by name what a vertical line marks.
        x: of the axis, with its unit.
    """

    kinds: Mapping[str, Any]
    marks: Mapping[str, float]
    x: str


def distributions(
    spreads: Sequence[Spread], *, title: str, y: str, bins: int = 60
) -> 'canvas.Figure':
    """Draw the histogram of each kind of pair.

    Args:
        spreads: a panel each.
        title: of the picture.
        y: what is 100 %.
        bins: over all kinds of a panel.

    Raises:
        ValueError: no number at all, one that is not finite, or more kinds than there are looks.
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
        axis.set_ylim(0, 1.4 * axis.get_ylim()[1])  # the legend has the room above
        canvas.style(axis, '', spread.x, y)
        axis.legend(frameon=False, loc='upper left', fontsize=9)
    return figure


if TYPE_CHECKING:
    from matplotlib.lines import Line2D

#: Verdict -> colour and marker.
VERDICTS = dict(better=(canvas.GREEN, 'o'), worse=(canvas.RED, 'v'))
OPEN = (canvas.GREY, 's')


class Difference(NamedTuple):
    """A row: a difference with its interval, and the queries gained and lost.

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


def differences(rows: Sequence[Difference], *, title: str) -> 'canvas.Figure':
    """Draw differences with their intervals, and the queries gained and lost beside them.

    Args:
        rows: the first one above.
        title: of the picture, before what the colours mean.
    """
    colours = 'green: better, red: worse, grey: not resolved'
    figure = canvas.new_figure(1.6 + 0.26 * len(rows), f'{title}: {colours}' if title else colours)
    effect, counts = figure.subplots(1, 2, sharey=True)
    for place, row in enumerate(rows):
        looks = colour, _ = VERDICTS.get(row.verdict, OPEN)
        interval(effect, place, (row.mean, row.low, row.high), looks)
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


def interval(
    axis: 'canvas.Axes',
    place: float,
    numbers: tuple[float, float, float],
    looks: tuple[str, str],
    *,
    within: tuple[float, float] = (-math.inf, math.inf),
    **marker: Any,
) -> 'Line2D | None':
    """Draw a mean and its interval on a row.

    Args:
        axis: where to draw.
        place: of the line.
        numbers: mean and ends of the interval; of infinite ends the mean alone is drawn.
        looks: colour and marker.
        within: what the axis shows; a mean outside is written at the edge, with an arrow.
        marker: further looks of the marker.

    Returns:
        The marker, or None where the mean is written.
    """
    (mean, low, high), (colour, shape), (least, most) = numbers, looks, within
    if not least < mean < most:
        edge, side, arrow = (most, 'right', '\u2192') if mean > 0 else (least, 'left', '\u2190')
        label = f'{mean:+.0f} {arrow}'
        axis.text(edge, place, label, ha=side, va='center', size=8, color=colour)
        return None
    if math.isfinite(low) and math.isfinite(high):
        ends = [max(low, least), min(high, most)]
        axis.plot(ends, [place, place], color=colour, linewidth=1.6, alpha=0.6)
    look = dict(marker=shape, color=colour, markersize=5, linestyle='') | marker
    (drawn,) = axis.plot(mean, place, **look)
    return drawn


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
