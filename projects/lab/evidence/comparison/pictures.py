"""Pictures of effects.py: what is gained against what is paid, all differences, length bias."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Iterator, Mapping, NamedTuple, Optional, Sequence

import matplotlib
import numpy as np
from interval_marks import interval
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from matplotlib.text import Text

from comparison.columns import heading, lower_is_better
from comparison.statistics import Difference, mean_and_deviation
from comparison.verdicts import MATTERS
from comparison.views import View
from mmvtr.visualization import canvas

#: The condition of ``trade.png``.  Its shaded area asks for some percent of the gain of the oracle
#: for no more than this much rsum.
TRADE = 'general21'
AIM_COST = 10
#: And what is aimed at for it, in percent of the oracle's gain.
AIM_SHARE = 45
#: A row that loses more rsum stands at the edge of the picture.
FARTHEST = 40
RSUM, PRECISION = 'retrieval/rsum', 'semantic/v2t_P1'
LENGTH = 'length_bias/t2v_train_correlation'
#: Each group has a marker of its own as well.
STYLES = {
    'baseline': ('#000000', 's'),
    'paper': (canvas.BLUE, 'o'),
    'partial': (canvas.BLUE, 'd'),
    'literal': (canvas.SKY, 'v'),
    'control': (canvas.GREY, 'D'),
    'ours': (canvas.ORANGE, 'P'),
    'combination': (canvas.GREEN, '^'),
    'oracle': (canvas.PINK, '*'),
}
STYLE = {
    'font.size': 9,
    'axes.spines.top': False,
    'axes.spines.right': False,
}
#: How far from its point a label may stand, in pixels, and from where on a line joins the two.
DISTANCES = (8, 14, 22, 32, 44, 58, 74, 92, 112)
LINE_FROM = 20
AREA = '#FBF8D0'  # of what is shaded
COLOURS = 64  # of a picture, for a small file


class Point(NamedTuple):
    """Means and standard deviations of a row, and what its label says besides its name."""

    name: str
    x: float
    y: float
    x_deviation: float
    y_deviation: float
    also: str = ''


def write_pictures(folder: Path, views: Sequence[View]) -> list[str]:
    """Write ``trade.png``, ``effects.png`` and ``length.png``, those that have something to show.

    Args:
        folder: where they go.
        views: the conditions.

    Returns:
        Names of those written, without suffix.
    """
    written = []
    with matplotlib.rc_context(STYLE):
        for name, draw in (('trade', _trade), ('effects', _effects), ('length', _length)):
            figure = draw(views)
            if figure is not None:
                canvas.save(figure, folder / f'{name}.png', colours=COLOURS)
                written.append(name)
    return written


def _corner(view: View) -> Optional[tuple[float, float]]:
    """Least rsum and precision of the shaded area; None where the oracle gains nothing."""
    if not view.oracle_gains(PRECISION):
        return None
    oracle = view.rows[view.condition.oracle]
    rsum, plain, best = (
        mean_and_deviation(row.values(key).values())
        for row, key in ((view.base, RSUM), (view.base, PRECISION), (oracle, PRECISION))
    )
    if rsum is None:
        return None
    return rsum[0] - AIM_COST, plain[0] + AIM_SHARE / 100 * (best[0] - plain[0])


def _points(view: View, x: str, y: str) -> list[Point]:
    points = []
    for name, row in view.rows.items():
        across, up = (mean_and_deviation(row.values(key).values()) for key in (x, y))
        if across and up:
            points.append(Point(name, across[0], up[0], across[1], up[1]))
    return points


def _trade(views: Sequence[View]) -> Optional[Figure]:
    view = next((view for view in views if view.name == TRADE), None)
    points = _points(view, RSUM, PRECISION) if view else []
    points = [point for point in points if point.name in view.meant]
    if not points:
        return None
    if view.base is not None:
        base = next(point.x for point in points if point.name == view.base.name)
        points = [_within(point, base - FARTHEST) for point in points]
    figure = canvas.new_figure(6, width=8.6)
    axes = figure.subplots()
    _legend(figure, _scatter(axes, view, points))
    axes.set(xlabel='paired rsum', ylabel='v2t precision@1 (%)')
    axes.set_title(f'{view.condition.label}: found meanings against found pairs', loc='left')
    _place(figure, axes, view, points, _shade(axes, view))
    return figure


def _within(point: Point, least: float) -> Point:
    """A point that is too far left to be drawn at its place stands at the edge and says so."""
    if point.x >= least:
        return point
    return Point(point.name, least, point.y, 0, point.y_deviation, f' (\u2190 {point.x:.0f})')


def _shade(axes: Axes, view: View) -> list[Text]:
    """Shade the area up and right of the corner of what is aimed at; its words."""
    corner = _corner(view)
    right, top = axes.get_xlim()[1], axes.get_ylim()[1]
    if corner is None or corner[0] >= right or corner[1] >= top:
        return []
    area = Rectangle(corner, right - corner[0], top - corner[1], zorder=0)
    axes.add_patch(area).set(facecolor=AREA, linewidth=0)
    words = f'at least {AIM_SHARE} % of the gain of the oracle,'
    words += f'\nat most {AIM_COST} rsum lost'
    place = dict(xytext=(-4, -4), textcoords='offset points', ha='right', va='top')
    return [axes.annotate(words, (right, top), **place, color='#606060', size=8)]


def _length(views: Sequence[View]) -> Optional[Figure]:
    views = [view for view in views if _points(view, LENGTH, RSUM)]
    if not views:
        return None
    figure = canvas.new_figure(4.6, width=4.8 * len(views) + 0.6)
    panels = canvas.side_by_side(figure, views)
    shown: dict[str, Line2D] = {}
    for axes, view in panels:
        axes.axvline(0, color='#B0B0B0', linewidth=1, zorder=0)
        shown.update(_scatter(axes, view, _points(view, LENGTH, RSUM)))
        axes.set(xlabel='length bias (0 = none)', ylabel='paired rsum')
        axes.set_title(view.condition.label, loc='left')
    _legend(figure, shown)
    for axes, view in panels:
        _place(figure, axes, view, _points(view, LENGTH, RSUM), [])
    return figure


def _scatter(axes: Axes, view: View, points: Sequence[Point]) -> dict[str, Line2D]:
    """Draw the points and fix the limits; one marker of each group."""
    shown = {}
    for point in points:
        group = view.groups[point.name]
        color, marker = STYLES[group]
        bars = dict(xerr=point.x_deviation, yerr=point.y_deviation, elinewidth=0.8, alpha=0.35)
        axes.errorbar(point.x, point.y, color=color, linestyle='', **bars)
        size = 13 if marker == '*' else 7.5
        looks = dict(color=color, markersize=size, markeredgecolor='white', linestyle='')
        looks['label'] = group
        (shown[group],) = axes.plot(point.x, point.y, marker=marker, **looks)
    axes.margins(0.08)
    axes.set(xlim=axes.get_xlim(), ylim=axes.get_ylim())
    return shown


def _legend(figure: Figure, shown: Mapping[str, Line2D]) -> None:
    handles = [shown[group] for group in STYLES if group in shown]
    canvas.legend(figure, len(handles), handles=handles)


def _place(
    figure: Figure, axes: Axes, view: View, points: Sequence[Point], taken: Sequence[Text]
) -> None:
    """Write the name of each point near it, where it covers least; a line where that is far."""
    figure.draw_without_rendering()
    figure.set_layout_engine('none')  # the words shall not move what they were measured against
    renderer = FigureCanvasAgg(figure).get_renderer()
    centres = [axes.transData.transform((point.x, point.y)) for point in points]
    covered = [text.get_window_extent(renderer).extents for text in taken]
    covered += [np.concatenate((centre - 6, centre + 6)) for centre in centres]
    frame = axes.get_window_extent(renderer).extents
    # Crowded points come first: they have the least choice.
    for k in sorted(range(len(points)), key=lambda k: _room(centres, k)):
        name = points[k].name
        bold = view.groups[name] == 'ours' or name == view.condition.oracle
        at = dict(xy=(points[k].x, points[k].y), textcoords='offset pixels', size=8)
        at['weight'] = 'bold' if bold else 'normal'
        words = view.labels[name] + points[k].also
        text = axes.annotate(words, xytext=(0, 0), **at)
        size = text.get_window_extent(renderer).size
        text.remove()
        far, box = best_place(centres[k], size, covered, frame)
        covered.append(box)
        line = dict(arrowstyle='-', color='#909090', linewidth=0.6, shrinkA=0, shrinkB=3)
        line = line if far > LINE_FROM else None
        start = tuple(box[:2] - centres[k])
        text = axes.annotate(words, xytext=start, va='bottom', **at, arrowprops=line)
        text.set_path_effects([withStroke(linewidth=2, foreground='white', alpha=0.7)])


def _room(centres: Sequence[np.ndarray], k: int) -> float:
    """Distance of a point to the third nearest other one, or the farthest of fewer."""
    apart = sorted(math.dist(centres[k], other) for other in centres)
    return apart[min(3, len(apart) - 1)]


def best_place(
    centre: np.ndarray, size: np.ndarray, covered: Sequence[np.ndarray], frame: np.ndarray
) -> tuple[float, np.ndarray]:
    """Where words near a point cover least.

    Args:
        centre: float [2] of the point, in pixels.
        size: float [2] of the words.
        covered: boxes that are taken: left, low, right and high end.
        frame: box to stay in; what is outside counts five times.

    Returns:
        Distance from the point, and the box of the words.
    """
    others = np.vstack((*covered, frame))

    def penalty(choice: tuple[float, np.ndarray]) -> float:
        far, box = choice
        sides = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
        areas = sides.clip(min=0).prod(1)
        return far + areas[:-1].sum() + 5 * (size.prod() - areas[-1])

    return min(_boxes(centre, size), key=penalty)


def _boxes(centre: np.ndarray, size: np.ndarray) -> Iterator[tuple[float, np.ndarray]]:
    """All places, as ``best_place`` returns them."""
    for far in DISTANCES:
        for angle in range(0, 360, 30):
            along = np.array([math.cos(math.radians(angle)), math.sin(math.radians(angle))])
            start = centre + far * along - size * (1 - along) / 2
            yield far, np.concatenate((start, start + size))


def _effects(views: Sequence[View]) -> Optional[Figure]:
    views = [view for view in views if _gains(view)]
    # One training says little: it is drawn only where there is nothing else.
    several = [v for v in views if any(len(gain.seeds) > 1 for gain in _gains(v).values())]
    views = several or views
    if not views:
        return None
    across = min(2, len(views))
    down = math.ceil(len(views) / across)
    heights = [
        max(len(_gains(view)) for view in views[k * across : (k + 1) * across]) + 5
        for k in range(down)
    ]
    figure = canvas.new_figure(0.19 * sum(heights), width=6.6 * across, dpi=95)
    panels = list(figure.subplots(down, across, squeeze=False, height_ratios=heights).flat)
    shown: dict[str, Line2D] = {}
    for axes, view in zip(panels, views):
        shown.update(_bars(axes, view))
    for axes in panels[len(views) :]:
        axes.remove()
    _legend(figure, shown)
    return figure


def _gains(view: View) -> dict[str, Difference]:
    """Differences of rows to their controls; methods without the biases they need are left out."""
    rows = [row for name, row in view.rows.items() if row.transform or name in view.meant]
    gains = {row.name: view.edge(row, view.condition.aim) for row in rows}
    return {name: gain for name, gain in gains.items() if gain is not None}


def _named(view: View, name: str) -> str:
    """Label of a row, with its control where that is not the baseline, and whether it collapsed."""
    control = view.controls[name][0]
    plain = view.rows[control].method == view.condition.baseline
    over = '' if plain else f' over {control}'
    return view.labels[name] + over + (' (collapsed)' if view.collapsed(view.rows[name]) else '')


def _limits(gains: Sequence[Difference], aim: str) -> tuple[float, float]:
    """Ends of an axis that holds all intervals and what would not matter, with some room."""
    ends = [end for gain in gains for end in (gain.low, gain.high, gain.mean)]
    ends = [end for end in ends if math.isfinite(end)]
    low, high = min(ends + [-MATTERS[aim]]), max(ends + [MATTERS[aim]])
    room = 0.08 * (high - low)
    return low - room, high + room


def _bars(axes: Axes, view: View) -> dict[str, Line2D]:
    """One line for each row: the difference to its control in the aim, and its interval."""
    shown, aim = {}, view.condition.aim
    gains = _gains(view)
    limits = _limits([g for name, g in gains.items() if name not in view.oracles], aim)
    ground(axes, limits, MATTERS[aim], len(gains))
    for k, (name, gain) in enumerate(gains.items()):
        group = view.groups[name]
        size = 11 if group == 'oracle' else 7
        looks = dict(markersize=size, markeredgecolor='white', label=group)
        numbers = gain.mean, gain.low, gain.high
        drawn = interval(axes, k, numbers, STYLES[group], within=limits, **looks)
        shown.update({} if drawn is None else {group: drawn})
    axes.set_yticks(range(len(gains)), [_named(view, name) for name in gains], size=8)
    better = 'left' if lower_is_better(aim) else 'right'
    axes.set_xlabel(f'difference ({better} is better, grey: little)', size=8)
    axes.set_title(f'{view.condition.label}\n{heading(aim)}', loc='left', size=9)
    return shown


def ground(axes: Axes, limits: tuple[float, float], unit: float, count: int) -> None:
    """An empty panel of so many lines, with what would not matter in grey."""
    axes.axvspan(-unit, unit, color='#F0F0F0', zorder=0)
    axes.axvline(0, color='#606060', linewidth=1, zorder=0)
    axes.set(xlim=limits, ylim=(count - 0.4, -0.6))
    axes.tick_params(axis='y', length=0)
    axes.spines['left'].set_visible(False)
    axes.grid(axis='x', color='#E4E4E4', linewidth=0.6)
    axes.set_axisbelow(True)
