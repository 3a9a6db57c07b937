"""Scores of some texts and their videos in two models (DVTR Fig. 3)."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence

import numpy as np

from mmvtr.visualization import canvas
from mmvtr.visualization.matrix import cells, checked_names, frame

#: Maximal number of items per side, and the number up to which cells show numbers.
COMPARED, NUMBERED = 24, 12


def compared_matrices(
    matrices: Mapping[str, Any],
    truth: Any = None,
    *,
    text_names: Optional[Sequence[str]] = None,
    video_names: Optional[Sequence[str]] = None,
) -> 'canvas.Figure':
    """Draw the scores of N texts and their N videos in several models (DVTR Fig. 3).

    The largest score of each row (a text's top video) has a red frame, that of each column (a
    video's top text) a red triangle in its corner.

    Args:
        matrices: one or two matrices [N, N] by the name of their model.
        truth: bool [N, N], true pairs; those off the diagonal get a dot.
        text_names, video_names: N names.

    Raises:
        ValueError: no or more than two matrices, matrices that are not square or of different
            sizes, more than ``COMPARED`` items, a number that is not finite, not N names.
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
    texts = checked_names('text_names', text_names, size) or numbers
    videos = checked_names('video_names', video_names, size) or numbers
    legend = ['red frame: largest of its row', 'triangle: largest of its column']
    legend += [] if soft is None else ['dot: holds, not annotated']
    head = f'Scores of {size} texts with the videos of these; pairs are on the diagonal'
    height = 5.6 if len(drawn) == 2 else 6.6
    figure = canvas.new_figure(height, f'{head}\n({"; ".join(legend)})')
    # Square cells shrink the axes after the layout, so that long names would leave the figure.
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
        cells(axis, f'{canvas.words(name, 42)}\n{own}', first=axis is figure.axes[0])
        axis.set_yticks(range(size), [canvas.words(x, 26) for x in texts], fontsize=7.5)
        axis.set_xticks(
            range(size), [canvas.words(x, 16) for x in videos], fontsize=7.5, rotation=90
        )
    return figure


def _mark(axis: 'canvas.Axes', values: np.ndarray) -> None:
    """Draw frames around each row's best cell and triangles in each column's best cell."""
    from matplotlib.patches import Polygon

    for row, column in enumerate(values.argmax(1).tolist()):
        frame(axis, row, column, 0.94, edgecolor=canvas.RED, linewidth=1.8)
    for column, row in enumerate(values.argmax(0).tolist()):
        left, top = column - 0.44, row - 0.44
        corners = [(left, top), (left + 0.34, top), (left, top + 0.34)]
        axis.add_patch(Polygon(corners, facecolor=canvas.RED))


def _numbers(axis: 'canvas.Axes', values: np.ndarray) -> None:
    """Write each score with two digits, in a contrasting colour."""
    dark = (values - values.min()) / max(float(np.ptp(values)), 1e-9)
    for (row, column), value in np.ndenumerate(values):
        ink = 'white' if dark[row, column] > 0.6 else 'black'
        text = f'{value:.2f}' if abs(value) < 10 else f'{value:.0f}'
        axis.text(column, row, text, ha='center', va='center', fontsize=6.5, color=ink)
