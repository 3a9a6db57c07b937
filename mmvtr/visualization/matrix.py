"""A score matrix: what a model says of texts and videos, and what is known of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional, Sequence

import numpy as np

from mmvtr.visualization.canvas import GREEN, ORANGE, array, mask, new_figure, style, words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Texts and videos that a picture has room for.
MOST = 48
#: Of how many texts, of how many videos in one panel and in each of two there is room for names.
NAMED, NAMED_VIDEOS = 30, (30, 20)
#: Places that are numbered where there is no room for names.
TICKS = 12


def score_matrix(
    scores: Any,
    positives: Any,
    weights: Any = None,
    *,
    truth: Any = None,
    rows: Optional[Sequence[int]] = None,
    columns: Optional[Sequence[int]] = None,
    text_names: Optional[Sequence[str]] = None,
    video_names: Optional[Sequence[str]] = None,
    whole: Optional[tuple[int, int]] = None,
) -> 'Figure':
    """Scores, darker for more, annotated pairs outlined; weights of the pairs beside them.

    Args:
        scores: [T, V].
        positives: bool [T, V], annotated pairs.
        weights: [T, V], how hard each pair is pushed as a negative, 1 = in full; or None.  Those of
            annotated pairs are not drawn.
        truth: bool [T, V]: pairs that truly hold; those that nobody annotated get a dot.
        rows, columns: places of the texts and videos to draw, in this order; default the first
            ``MOST`` of each.  A note says what the picture was cut from.
        text_names, video_names: T and V names; drawn where there is room for them.
        whole: numbers of texts and videos of the matrix, where ``scores`` are a part of it already.

    Raises:
        ValueError: shapes that do not fit, a number that is not finite, nothing to draw, a place
            outside the matrix, or more than ``MOST`` of a side.
    """
    scores = array('scores', scores, (None, None))
    shape = scores.shape
    positives = mask('positives', positives, shape)
    weights = None if weights is None else array('weights', weights, shape)
    soft = None if truth is None else mask('truth', truth, shape) & ~positives
    chosen = _places('rows', rows, shape[0]), _places('columns', columns, shape[1])
    room = NAMED_VIDEOS[weights is not None]
    names = [
        _names('text_names', text_names, shape[0], chosen[0], room=NAMED, letters=34),
        _names('video_names', video_names, shape[1], chosen[1], room=room, letters=16),
    ]
    block = np.ix_(*chosen)
    panels = [('score', scores[block])]
    if weights is not None:  # an annotated pair is no negative
        others = np.ma.masked_where(positives[block], weights[block])
        panels.append(('weight as a negative', others))
    tall, wide = panels[0][1].shape
    side = (7.6 if names[0] is None else 5.4) / len(panels)
    height = np.clip(side * tall / wide, 2.0, 7.5) + (1.2 if names[1] is None else 2.0)
    figure = new_figure(float(height))
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axis, (title, values) in zip(axes, panels):
        limits = {} if axis is axes[0] else dict(vmin=0.0, vmax=max(1.0, weights.max()))
        image = axis.imshow(values, cmap='Blues', aspect='auto', interpolation='nearest', **limits)
        figure.colorbar(image, ax=axis, shrink=0.8).ax.tick_params(labelsize=8)
        style(axis, title, 'video', 'text' if axis is axes[0] else '')
        axis.grid(visible=False)
        axis.set_facecolor('0.9')
        _outline(axis, positives[block])
        if soft is not None:
            row, column = soft[block].nonzero()
            axis.scatter(column, row, s=14, color=ORANGE, edgecolors='white', linewidths=0.5)
        _ticks(axis, chosen, names)
    whole = whole or shape
    cut = '' if (tall, wide) == tuple(whole) else f', cut from {whole[0]:,} x {whole[1]:,}'
    said = ['outlined: annotated'] + ([] if soft is None else ['dot: true, not annotated'])
    figure.suptitle(f'{tall} texts x {wide} videos{cut} ({"; ".join(said)})', fontsize=11)
    return figure


def _places(name: str, given: Optional[Sequence[int]], size: int) -> list[int]:
    if given is None:
        return list(range(min(size, MOST)))
    places = [int(place) for place in given]
    outside = [place for place in places if not 0 <= place < size]
    if outside:
        raise ValueError(f'{name}: place {outside[0]}, expected 0 to {size - 1}')
    if not 0 < len(places) <= MOST:
        raise ValueError(f'{name}: {len(places)} asked for, expected 1 to {MOST}')
    return places


def _names(
    kind: str,
    given: Optional[Sequence[str]],
    size: int,
    places: Sequence[int],
    *,
    room: int,
    letters: int,
) -> Optional[list[str]]:
    if given is None:
        return None
    if len(given) != size:
        raise ValueError(f'{kind}: {len(given)} names, expected {size}')
    return [words(given[place], letters) for place in places] if len(places) <= room else None


def _outline(axis: 'Axes', positives: np.ndarray) -> None:
    """A frame around each annotated cell."""
    from matplotlib.patches import Rectangle

    width = 2.0 if max(positives.shape) <= NAMED else 1.2
    for row, column in np.argwhere(positives).tolist():
        corner = (column - 0.5, row - 0.5)
        axis.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor=GREEN, linewidth=width))


def _ticks(
    axis: 'Axes', chosen: Sequence[Sequence[int]], names: Sequence[Optional[list[str]]]
) -> None:
    """Names, or some of the places in the whole matrix."""
    for set_ticks, places, named, turned in zip(
        (axis.set_yticks, axis.set_xticks), chosen, names, (0, 90)
    ):
        if named is not None:
            set_ticks(range(len(named)), named, fontsize=8, rotation=turned)
        else:
            some = range(0, len(places), -(-len(places) // TICKS))
            set_ticks(some, [f'{places[i]:,}' for i in some], fontsize=8)
