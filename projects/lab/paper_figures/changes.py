"""Plots of changing ranks and uncertainty: between two models, and over the epochs of one."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy as np

from mmvtr.visualization import canvas


def moved_ranks(before: Any, after: Any, *, names: tuple[str, str], title: str) -> 'canvas.Figure':
    """Draw each query's match rank in two models; points below the diagonal improved.

    Args:
        before, after: [Q], ranks, at least 1.
        names: names of the two models.
        title: which queries these are.

    Raises:
        ValueError: lengths that differ, no query, a rank below 1.
    """
    before = canvas.array('before', before, (None,)).astype(float)
    after = canvas.array('after', after, before.shape).astype(float)
    if min(before.min(), after.min()) < 1:
        raise ValueError('ranks start at 1')
    figure = canvas.new_figure(5.4)
    axis = figure.subplots()
    most = 1.3 * max(before.max(), after.max())
    axis.plot((0.8, most), (0.8, most), color=canvas.GREY, linewidth=1, label='the same rank')
    for label, members, colour, marker in (
        ('better', after < before, canvas.GREEN, 'o'),
        ('worse', after > before, canvas.ORANGE, '^'),
        ('as before', after == before, canvas.BLUE, 's'),
    ):
        if members.any():
            moved = abs(after - before)[members].sum()
            legend = f'{label}: {members.sum():,}' + (
                f', {moved:,.0f} ranks in all' if moved else ''
            )
            canvas.dots(
                axis, before[members], after[members], legend, colour, marker, s=26, alpha=0.6
            )
    axis.set(xscale='log', yscale='log', xlim=(0.8, most), ylim=(0.8, most))
    for side in (axis.xaxis, axis.yaxis):
        side.set_major_formatter('{x:g}')
    canvas.style(axis, title, f'rank of the match, {names[0]}', f'rank of the match, {names[1]}')
    canvas.legend(figure, 2)
    return figure


def sigma_over_epochs(
    epochs: Sequence[int], directions: Mapping[str, tuple[Any, Any]]
) -> 'canvas.Figure':
    """Draw R@1 and the mean sigma of the queries by epoch (UATVR Fig. 3).

    Args:
        epochs: E >= 2 epochs, ascending.
        directions: R@1 [E] in percent and mean sigma [E] by name (``'text to video'``).

    Raises:
        ValueError: fewer than two epochs, not ascending, or not one number per epoch.
    """
    epochs = list(epochs)
    if len(epochs) < 2 or sorted(set(epochs)) != epochs:
        raise ValueError(f'two epochs or more expected, each once and in order, not {epochs!r:.80}')
    figure = canvas.new_figure(4.2, 'Uncertainty and recall in the course of a training')
    for axis, (name, sides) in canvas.side_by_side(figure, directions.items()):
        recall, sigma = (canvas.array(name, x, (len(epochs),)) for x in sides)
        right_axis = axis.twinx()
        axis.plot(epochs, recall, color=canvas.BLUE, marker='o', label='R@1 (left axis)')
        label = 'mean sigma of the queries (right axis)'
        right_axis.plot(epochs, sigma, color=canvas.ORANGE, marker='^', linestyle='--', label=label)
        moved = np.corrcoef(recall, sigma)[0, 1] if min(np.ptp(recall), np.ptp(sigma)) else np.nan
        known = len(epochs) > 3 and not np.isnan(moved)
        label = f', correlation {moved:+.2f}' if known else ''
        canvas.style(axis, f'{name}{label}', 'epoch', 'R@1 (%)')
        axis.yaxis.label.set_color(canvas.BLUE)
        right_axis.set_ylabel('sigma (geometric mean)', color=canvas.ORANGE, fontsize=10)
        right_axis.tick_params(labelsize=9)
        axis.xaxis.get_major_locator().set_params(integer=True)
    canvas.legend(figure, 2, axis, right_axis)
    return figure


def recall_by_size(
    sizes: Sequence[int],
    directions: Mapping[str, Sequence[float]],
    raw: Mapping[str, float],
    *,
    title: str,
) -> 'canvas.Figure':
    """Draw R@1 of a test-time transform by the number of stored queries (NCL Fig. 5).

    Args:
        sizes: S sizes, ascending.
        directions: R@1 [S] in percent by name (``'t2v'``).
        raw: R@1 without the transform, by the same names.
        title: title of the figure.

    Raises:
        ValueError: no sizes, sizes that are not ascending, or not one number per size.
    """
    if not sizes or sorted(set(sizes)) != list(sizes):
        raise ValueError(f'sizes must rise, not {sizes!r:.80}')
    figure = canvas.new_figure(4.2, title)
    for axis, (name, values) in canvas.side_by_side(figure, directions.items()):
        values = canvas.array(name, values, (len(sizes),))
        axis.plot(sizes, values, color=canvas.BLUE, marker='o', label='with the queue')
        axis.axhline(raw[name], color=canvas.GREY, linestyle='--', label='raw scores')
        axis.set_xscale('log', base=2)
        axis.xaxis.set_major_formatter('{x:,.0f}')
        canvas.style(axis, name, 'train queries in the queue', 'R@1 (%)')
    canvas.legend(figure, 2, axis)
    return figure
