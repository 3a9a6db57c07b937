"""Means with their intervals on the rows of a picture."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.lines import Line2D

    from mmvtr.visualization import canvas


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
