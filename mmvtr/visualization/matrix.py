"""Score matrices: what a model says of texts and videos, what is known of them, two together."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence

import numpy as np

from mmvtr.visualization import canvas

#: Texts and videos that a picture has room for.
MOST = 48
#: Of how many texts, of how many videos in one panel and in each of two there is room for names.
NAMED, NAMED_VIDEOS = 30, (30, 20)
#: Places that are numbered where there is no room for names.
TICKS = 12
#: Items of a side of compared matrices, and up to which there is room for numbers in the cells.
COMPARED, NUMBERED = 24, 12


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
    scores = canvas.array('scores', scores, (None, None))
    shape = scores.shape
    positives = canvas.mask('positives', positives, shape)
    weights = None if weights is None else canvas.array('weights', weights, shape)
    soft = None if truth is None else canvas.mask('truth', truth, shape) & ~positives
    chosen = _places('rows', rows, shape[0]), _places('columns', columns, shape[1])
    names = _names('text_names', text_names, shape[0]), _names('video_names', video_names, shape[1])
    room = NAMED, NAMED_VIDEOS[weights is not None]
    # Names where there is room for them, else some of the places in the whole matrix.
    named = [
        [own[place] for place in places] if own and len(places) <= most else None
        for own, places, most in zip(names, chosen, room)
    ]
    block = np.ix_(*chosen)
    panels = [('score', scores[block])]
    if weights is not None:  # an annotated pair is no negative
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
        _cells(axis, title, first=title == 'score')
        axis.set_facecolor('0.9')
        for row, column in np.argwhere(positives[block]).tolist():
            _frame(axis, row, column, 1.0, edgecolor=canvas.GREEN, linewidth=width)
        if soft is not None:
            row, column = soft[block].nonzero()
            axis.scatter(column, row, s=14, color=canvas.ORANGE, edgecolors='white', linewidths=0.5)
        for set_ticks, places, own, letters, turned in zip(
            (axis.set_yticks, axis.set_xticks), chosen, named, (34, 16), (0, 90)
        ):
            if own is not None:
                labels = [canvas.words(name, letters) for name in own]
                set_ticks(range(len(own)), labels, fontsize=8, rotation=turned)
            else:
                some = range(0, len(places), -(-len(places) // TICKS))
                set_ticks(some, [f'{places[i]:,}' for i in some], fontsize=8)
    return figure


def compared_matrices(
    matrices: Mapping[str, Any],
    truth: Any = None,
    *,
    text_names: Optional[Sequence[str]] = None,
    video_names: Optional[Sequence[str]] = None,
) -> 'canvas.Figure':
    """Draw the scores of N texts and their N videos in several models (DVTR Fig. 3).

    The largest score of each row (what a text finds) has a red frame, that of each column (what a
    video finds) a red triangle in its corner.

    Args:
        matrices: one or two of [N, N] by the name of their model.
        truth: bool [N, N], pairs that hold; those off the diagonal get a dot.
        text_names, video_names: N names.

    Raises:
        ValueError: no or more than two matrices, matrices that are not square or not of one size,
            more than ``COMPARED`` items, a number that is not finite, not N names.
    """
    if not 1 <= len(matrices) <= 2:
        raise ValueError(f'{len(matrices)} matrices, expected one or two')
    drawn = {name: canvas.array(name, x, (None, None)) for name, x in matrices.items()}
    size = len(next(iter(drawn.values())))
    drawn = {name: canvas.array(name, x, (size, size)) for name, x in drawn.items()}
    if size > COMPARED:
        raise ValueError(f'{size} texts and videos, expected at most {COMPARED}')
    soft = (
        None
        if truth is None
        else canvas.mask('truth', truth, (size, size)) & ~np.eye(size, dtype=bool)
    )
    numbers = [str(i) for i in range(size)]
    texts = _names('text_names', text_names, size) or numbers
    videos = _names('video_names', video_names, size) or numbers
    legend = ['red frame: largest of its row', 'triangle: largest of its column']
    legend += [] if soft is None else ['dot: holds, not annotated']
    head = f'Scores of {size} texts with the videos of these; pairs are on the diagonal'
    height = 5.6 if len(drawn) == 2 else 6.6
    figure = canvas.new_figure(height, f'{head}\n({"; ".join(legend)})')
    # Square cells shrink the axes after they were laid out, and long names then leave the picture.
    figure.get_layout_engine().set(rect=(0, 0.035, 0.965, 0.965))
    for axis, (name, values) in canvas.side_by_side(figure, drawn.items(), sharey=True):
        image = axis.imshow(values, cmap='Blues', interpolation='nearest')
        figure.colorbar(image, ax=axis, shrink=0.7, label='score', location='top')
        _mark(axis, values)
        if size <= NUMBERED:
            _numbers(axis, values)
        if soft is not None:
            row, column = soft.nonzero()
            axis.scatter(
                column + 0.32, row + 0.32, s=16, color=canvas.ORANGE, edgecolors='white', lw=0.5
            )
        t2v, v2t = (int((values.argmax(d) == np.arange(size)).sum()) for d in (1, 0))
        own = f'own pair first: {t2v} of {size} texts, {v2t} of {size} videos'
        _cells(axis, f'{canvas.words(name, 42)}\n{own}', first=axis is figure.axes[0])
        axis.set_yticks(range(size), [canvas.words(x, 26) for x in texts], fontsize=7.5)
        axis.set_xticks(
            range(size), [canvas.words(x, 16) for x in videos], fontsize=7.5, rotation=90
        )
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


def _names(kind: str, given: Optional[Sequence[str]], size: int) -> Optional[list[str]]:
    """Set the names of a side, if any."""
    if given is None:
        return None
    if len(given) != size:
        raise ValueError(f'{kind}: {len(given)} names, expected {size}')
    return list(given)


def _cells(axis: 'canvas.Axes', title: str, *, first: bool) -> None:
    """Set the titles of a panel of cells without a grid; the first panel names its rows."""
    canvas.style(axis, title, 'video', 'text' if first else '')
    axis.grid(visible=False)


def _frame(axis: 'canvas.Axes', row: int, column: int, size: float, **look: Any) -> None:
    """Draw a frame around a cell."""
    from matplotlib.patches import Rectangle

    corner = (column - size / 2, row - size / 2)
    axis.add_patch(Rectangle(corner, size, size, fill=False, **look))


def _mark(axis: 'canvas.Axes', values: np.ndarray) -> None:
    """Draw frames around each row's best cell and triangles in each column's best cell."""
    from matplotlib.patches import Polygon

    for row, column in enumerate(values.argmax(1).tolist()):
        _frame(axis, row, column, 0.94, edgecolor=canvas.RED, linewidth=1.8)
    for column, row in enumerate(values.argmax(0).tolist()):
        left, top = column - 0.44, row - 0.44
        corners = [(left, top), (left + 0.34, top), (left, top + 0.34)]
        axis.add_patch(Polygon(corners, facecolor=canvas.RED))


def _numbers(axis: 'canvas.Axes', values: np.ndarray) -> None:
    """Write each score with two digits, in a colour of enough contrast."""
    dark = (values - values.min()) / max(float(np.ptp(values)), 1e-9)
    for (row, column), value in np.ndenumerate(values):
        ink = 'white' if dark[row, column] > 0.6 else 'black'
        text = f'{value:.2f}' if abs(value) < 10 else f'{value:.0f}'
        axis.text(column, row, text, ha='center', va='center', fontsize=6.5, color=ink)
