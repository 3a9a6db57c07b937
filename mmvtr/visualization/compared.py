"""Two score matrices of the same texts and videos side by side (DVTR Fig. 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Optional, Sequence

import numpy as np

from mmvtr.visualization.canvas import ORANGE, RED, array, mask, new_figure, style, words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Items of a side that there is room for, and up to which there is room for numbers in the cells.
MOST, NUMBERED = 24, 12


def compared_matrices(
    matrices: Mapping[str, Any],
    truth: Any = None,
    *,
    text_names: Optional[Sequence[str]] = None,
    video_names: Optional[Sequence[str]] = None,
) -> 'Figure':
    """N texts and their N videos; text i belongs to video i.

    The largest score of each row (what a text finds) has a red frame, that of each column (what a
    video finds) a red triangle in its corner.

    Args:
        matrices: one or two of [N, N] by the name of their model.
        truth: bool [N, N], pairs that hold; those off the diagonal get a dot.
        text_names, video_names: N names.

    Raises:
        ValueError: no or more than two matrices, matrices that are not square or not of one size,
            more than ``MOST`` items, a number that is not finite, not N names.
    """
    if not 1 <= len(matrices) <= 2:
        raise ValueError(f'{len(matrices)} matrices, expected one or two')
    drawn = {name: array(name, x, (None, None)) for name, x in matrices.items()}
    size = len(next(iter(drawn.values())))
    drawn = {name: array(name, x, (size, size)) for name, x in drawn.items()}
    if size > MOST:
        raise ValueError(f'{size} texts and videos, expected at most {MOST}')
    soft = None if truth is None else mask('truth', truth, (size, size)) & ~np.eye(size, dtype=bool)
    for kind, names in (('text_names', text_names), ('video_names', video_names)):
        if names is not None and len(names) != size:
            raise ValueError(f'{kind}: {len(names)} names, expected {size}')
    figure = new_figure(5.6 if len(drawn) == 2 else 6.6)
    # Square cells shrink the axes after they were laid out, and long names then leave the picture.
    figure.get_layout_engine().set(rect=(0, 0.035, 0.965, 0.965))
    axes = figure.subplots(1, len(drawn), sharey=True, squeeze=False)[0]
    for axis, (name, values) in zip(axes, drawn.items()):
        image = axis.imshow(values, cmap='Blues', interpolation='nearest')
        figure.colorbar(image, ax=axis, shrink=0.7, label='score', location='top')
        _mark(axis, values)
        if size <= NUMBERED:
            _numbers(axis, values)
        if soft is not None:
            row, column = soft.nonzero()
            axis.scatter(column + 0.32, row + 0.32, s=16, color=ORANGE, edgecolors='white', lw=0.5)
        t2v, v2t = (int((values.argmax(d) == np.arange(size)).sum()) for d in (1, 0))
        style(
            axis,
            f'{words(name, 42)}\nown pair first: {t2v} of {size} texts, {v2t} of {size} videos',
            'video',
            'text' if axis is axes[0] else '',
        )
        axis.grid(visible=False)
        _ticks(axis, size, text_names, video_names)
    said = ['red frame: largest of its row', 'triangle: largest of its column']
    said += [] if soft is None else ['dot: holds, not annotated']
    head = f'Scores of {size} texts with the videos of these; pairs are on the diagonal'
    figure.suptitle(f'{head}\n({"; ".join(said)})', fontsize=11)
    return figure


def _mark(axis: 'Axes', values: np.ndarray) -> None:
    """Frames around the best of each row, triangles in the best of each column."""
    from matplotlib.patches import Polygon, Rectangle

    for row, column in enumerate(values.argmax(1).tolist()):
        corner = (column - 0.47, row - 0.47)
        axis.add_patch(Rectangle(corner, 0.94, 0.94, fill=False, edgecolor=RED, linewidth=1.8))
    for column, row in enumerate(values.argmax(0).tolist()):
        left, top = column - 0.44, row - 0.44
        corners = [(left, top), (left + 0.34, top), (left, top + 0.34)]
        axis.add_patch(Polygon(corners, facecolor=RED))


def _numbers(axis: 'Axes', values: np.ndarray) -> None:
    """Each score to two digits, in ink that can be read."""
    dark = (values - values.min()) / max(float(np.ptp(values)), 1e-9)
    for (row, column), value in np.ndenumerate(values):
        ink = 'white' if dark[row, column] > 0.6 else 'black'
        text = f'{value:.2f}' if abs(value) < 10 else f'{value:.0f}'
        axis.text(column, row, text, ha='center', va='center', fontsize=6.5, color=ink)


def _ticks(
    axis: 'Axes', size: int, text_names: Optional[Sequence[str]], video_names: Optional[Sequence]
) -> None:
    texts = [words(x, 26) for x in text_names] if text_names else [str(i) for i in range(size)]
    videos = [words(x, 16) for x in video_names] if video_names else [str(i) for i in range(size)]
    axis.set_yticks(range(size), texts, fontsize=7.5)
    axis.set_xticks(range(size), videos, fontsize=7.5, rotation=90)
