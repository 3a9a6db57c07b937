"""Relative mass of items, their errors and their bias (NCL Fig. 3, App. D)."""

from __future__ import annotations

from typing import Any, Mapping

import torch

from mmvtr.functional import spearman
from mmvtr.functional.metrics.hubness import ErrorRates
from mmvtr.visualization import canvas
from mmvtr.visualization.hubness import draw_rates


def mass_errors(rates: Mapping[str, ErrorRates], *, title: str) -> 'canvas.Figure':
    """Draw false retrievals of items by relative mass, a panel per direction (NCL Fig. 3).

    Args:
        rates: error rates by direction (``'text to video'``), in bins between ``MASS_EDGES``.
        title: title of the figure.
    """
    figure = canvas.new_figure(4.8, title)
    for axis, (direction, found) in canvas.side_by_side(figure, rates.items()):
        draw_rates(axis, found, direction, direction)
    return figure


def mass_by_bias(
    points: Mapping[str, Mapping[str, tuple[Any, Any]]], *, title: str
) -> 'canvas.Figure':
    """Draw relative mass of items by implicit bias (NCL App. D), a panel per kind of item.

    Args:
        points: by kind of item (``'videos'``), then by name of a model (at most two): biases over
            the temperature, and relative masses, [N] each.
        title: title of the figure.

    Raises:
        ValueError: no kinds, no models or more than two, a number that is not finite, a mass that
            is not positive, different numbers of biases and masses.
    """
    if not points or not all(1 <= len(models) <= 2 for models in points.values()):
        raise ValueError('expected kinds of items, and one or two models of each')
    figure = canvas.new_figure(4.8, title)
    for axis, (kind, models) in canvas.side_by_side(figure, points.items()):
        for (name, (bias, mass)), look in zip(
            models.items(), ((canvas.BLUE, 'o'), (canvas.ORANGE, '^'))
        ):
            bias = canvas.array(f'biases of {kind}', bias, (None,))
            mass = canvas.array(f'masses of {kind}', mass, bias.shape)
            if not (mass > 0).all():
                raise ValueError(f'masses of {kind}: {mass.min():g}, expected above 0')
            agrees = float(spearman(*map(torch.from_numpy, (bias, mass))))
            label = f'{canvas.words(name, 34)}: rank correlation {agrees:.2f}'
            canvas.dots(axis, bias, mass, label, *look)
        axis.axhline(1, color=canvas.GREY, linewidth=1, linestyle='--')
        axis.set_yscale('log', base=2)
        axis.yaxis.set_major_formatter(lambda value, _: f'{value:.3g}')
        canvas.style(
            axis, kind, 'implicit bias / temperature', 'summed probability (1 = fair share)'
        )
        axis.legend(loc='upper left', fontsize=8.5)
    return figure
