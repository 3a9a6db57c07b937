"""Relevance of a query's first hits in two models (frame length, Fig. 5 and 11)."""

from __future__ import annotations

from typing import Any, NamedTuple, Sequence

import numpy as np

from mmvtr.visualization import canvas


class RelevanceStrip(NamedTuple):
    """A query and the relevance of each model's hits.

    Attributes:
        query: its text, or the caption of the query video.
        rows: float [K] in [0, 1] by name of a model, the best hit first.
        ndcg: nDCG of the strip in percent, by name of a model.
    """

    query: str
    rows: dict[str, Any]
    ndcg: dict[str, float]


def relevance_strips(
    columns: dict[str, Sequence[RelevanceStrip]], *, title: str
) -> 'canvas.Figure':
    """Draw strips of cells, darker for more relevant hits, one strip per model.

    Args:
        columns: queries by direction (``'text to video'``), the same number in each.
        title: title of the figure.

    Raises:
        ValueError: no query, different numbers per direction, a relevance outside [0, 1].
    """
    counts = {name: len(strips) for name, strips in columns.items()}
    if not counts or len(set(counts.values())) != 1 or not next(iter(counts.values())):
        raise ValueError(f'as many queries of each direction expected, got {counts}')
    (rows,) = set(counts.values())
    models = max(len(strip.rows) for strips in columns.values() for strip in strips)
    figure = canvas.new_figure(rows * (0.62 + 0.34 * models) + 1.6, title)
    axes = figure.subplots(rows, len(columns), squeeze=False)
    image = None
    for column, (direction, strips) in enumerate(columns.items()):
        for row, strip in enumerate(strips):
            axis = axes[row, column]
            values = [
                canvas.array(f'{name} of {strip.query[:40]!r}', x, (None,))
                for name, x in strip.rows.items()
            ]
            if min(x.min() for x in values) < 0 or max(x.max() for x in values) > 1:
                raise ValueError(f'{strip.query[:60]!r}: relevances must lie in [0, 1]')
            look = dict(cmap='Blues', vmin=0, vmax=1, aspect='auto', interpolation='nearest')
            image = axis.imshow(np.stack(values), **look)
            depth = len(values[0])
            head = f'{direction}\n' if row == 0 else ''
            last = row == rows - 1
            canvas.style(
                axis, f'{head}"{canvas.wrapped(strip.query, 52, 2)}"', 'rank' if last else '', ''
            )
            axis.title.set_fontsize(9)
            axis.grid(visible=False)
            labels = [
                f'{canvas.wrapped(name, 20, 2)}\nnDCG {strip.ndcg[name]:.0f} %'
                for name in strip.rows
            ]
            axis.set_yticks(range(len(labels)), labels, fontsize=7.5)
            ticks = sorted({0, *range(9, depth, 10), depth - 1} if depth > 9 else {0, depth - 1})
            axis.set_xticks(ticks, [str(i + 1) for i in ticks], fontsize=8)
            for border in range(1, len(values)):
                axis.axhline(border - 0.5, color='white', linewidth=3)
    bar = figure.colorbar(image, ax=axes, location='bottom', shrink=0.45, aspect=40)
    bar.set_label('relevance of the hit to the query', fontsize=9)
    return figure
