"""Score matrices with annotated and true pairs, and the weights of the pairs."""

from __future__ import annotations

from typing import Any, Optional, Sequence

import numpy as np

from mmvtr.visualization import canvas

#: Largest number of texts, and of videos, in a picture.
MOST = 48
#: Largest numbers of texts, and of videos in one panel or in each of two, that are drawn with
#: names.
NAMED, NAMED_VIDEOS = 30, (30, 20)
#: Number of places that get a tick if names are not drawn.
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
) -> 'canvas.Figure':
    """Draw a score matrix with annotated pairs outlined, and the pairs' weights beside it.

    Args:
        scores: [T, V].
        positives: bool [T, V], annotated pairs.
        weights: [T, V], weight of each pair as a negative, 1 = full; or None.  Those of annotated
            pairs are not drawn.
        truth: bool [T, V]: true pairs; those that are not annotated get a dot.
        rows, columns: places of the texts and videos to draw, in this order; default the first
            ``MOST`` of each.  A note gives the size of the whole matrix.
        text_names, video_names: T and V names; drawn if there is room for them.
        whole: numbers of texts and videos of the whole matrix, if ``scores`` are a part of it.

    Raises:
        ValueError: shapes that do not fit, a number that is not finite, nothing to draw, a place
            outside the matrix, or more than ``MOST`` texts or videos.
    """
    scores = canvas.array('scores', scores, (None, None))
    shape = scores.shape
    positives = canvas.mask('positives', positives, shape)
    weights = None if weights is None else canvas.array('weights', weights, shape)
    soft = None if truth is None else canvas.mask('truth', truth, shape) & ~positives
    chosen = _places('rows', rows, shape[0]), _places('columns', columns, shape[1])
    names = (
        checked_names('text_names', text_names, shape[0]),
        checked_names('video_names', video_names, shape[1]),
    )
    room = NAMED, NAMED_VIDEOS[weights is not None]
    # Names if there is room for them, else numbers of some places in the whole matrix.
    named = [
        [of_side[place] for place in places] if of_side and len(places) <= most else None
        for of_side, places, most in zip(names, chosen, room)
    ]
    block = np.ix_(*chosen)
    panels = [('score', scores[block])]
    if weights is not None:  # an annotated pair is not a negative
        others = np.ma.masked_where(positives[block], weights[block])
        panels.append(('weight as a negative', others))
    tall, wide = panels[0][1].shape
    side = (7.6 if named[0] is None else 5.4) / len(panels)
    height = np.clip(side * tall / wide, 2.0, 7.5) + (1.2 if named[1] is None else 2.0)
    whole = whole or shape
    cut = '' if (tall, wide) == tuple(whole) else f', cut from {whole[0]:,} x {whole[1]:,}'
    legend = ['outlined: annotated'] + ([] if soft is None else ['dot: true, not annotated'])
    figure = canvas.new_figure(height, f'{tall} texts x {wide} videos{cut} ({"; ".join(legend)})')
    width = 2.0 if max(tall, wide) <= NAMED else 1.2
    for axis, (title, values) in canvas.side_by_side(figure, panels, sharey=True):
        limits = {} if title == 'score' else dict(vmin=0.0, vmax=max(1.0, weights.max()))
        image = axis.imshow(values, cmap='Blues', aspect='auto', interpolation='nearest', **limits)
        figure.colorbar(image, ax=axis, shrink=0.8).ax.tick_params(labelsize=8)
        cells(axis, title, first=title == 'score')
        axis.set_facecolor('0.9')
        for row, column in np.argwhere(positives[block]).tolist():
            frame(axis, row, column, 1.0, edgecolor=canvas.GREEN, linewidth=width)
        if soft is not None:
            row, column = soft[block].nonzero()
            axis.scatter(column, row, s=14, color=canvas.ORANGE, edgecolors='white', linewidths=0.5)
        _label(axis, chosen, named)
    return figure


def _label(
    axis: 'canvas.Axes', chosen: Sequence[list[int]], named: Sequence[Optional[list[str]]]
) -> None:
    """Write names of texts and videos if there is room, else numbers of some places."""
    for set_ticks, places, names, letters, turned in zip(
        (axis.set_yticks, axis.set_xticks), chosen, named, (34, 16), (0, 90)
    ):
        if names is not None:
            labels = [canvas.words(name, letters) for name in names]
            set_ticks(range(len(names)), labels, fontsize=8, rotation=turned)
        else:
            some = range(0, len(places), -(-len(places) // TICKS))
            set_ticks(some, [f'{places[i]:,}' for i in some], fontsize=8)


def _places(name: str, chosen: Optional[Sequence[int]], size: int) -> list[int]:
    if chosen is None:
        return list(range(min(size, MOST)))
    places = [int(place) for place in chosen]
    outside = [place for place in places if not 0 <= place < size]
    if outside:
        raise ValueError(f'{name}: place {outside[0]}, expected 0 to {size - 1}')
    if not 0 < len(places) <= MOST:
        raise ValueError(f'{name}: {len(places)} asked for, expected 1 to {MOST}')
    return places


def checked_names(kind: str, names: Optional[Sequence[str]], size: int) -> Optional[list[str]]:
    """Return the names of a side as a list, or None if there are none."""
    if names is None:
        return None
    if len(names) != size:
        raise ValueError(f'{kind}: {len(names)} names, expected {size}')
    return list(names)


def cells(axis: 'canvas.Axes', title: str, *, first: bool) -> None:
    """Set the titles of a panel of cells without a grid; the first panel names its rows."""
    canvas.style(axis, title, 'video', 'text' if first else '')
    axis.grid(visible=False)


def frame(axis: 'canvas.Axes', row: int, column: int, size: float, **look: Any) -> None:
    """Draw a frame around a cell."""
    from matplotlib.patches import Rectangle

    corner = (column - size / 2, row - size / 2)
    axis.add_patch(Rectangle(corner, size, size, fill=False, **look))
