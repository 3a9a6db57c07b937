"""How a number is spread over several kinds of things."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Sequence

import numpy as np

from mmvtr.visualization import canvas

#: Of kinds; lines differ as well.
LOOKS = ((canvas.BLUE, '-'), (canvas.ORANGE, '--'), (canvas.GREEN, '-.'), (canvas.PINK, ':'))


class Spread(NamedTuple):
    """Data of one panel.

    Attributes:
        kinds: by name the numbers of a kind, [N]; N may differ, and be 0.
        marks: by name what a vertical line marks.
        x: of the axis, with its unit.
    """

    kinds: Mapping[str, Any]
    marks: Mapping[str, float]
    x: str


def distributions(
    spreads: Sequence[Spread], *, title: str, y: str, bins: int = 60
) -> 'canvas.Figure':
    """Draw the histogram of each kind of pair.

    Args:
        spreads: a panel each.
        title: of the picture.
        y: what is 100 %.
        bins: over all kinds of a panel.

    Raises:
        ValueError: no number at all, one that is not finite, or more kinds than there are looks.
    """
    most = max(map(len, (spread.kinds for spread in spreads)))
    if most > len(LOOKS):
        raise ValueError(f'{most} kinds, at most {len(LOOKS)} can be told apart')
    figure = canvas.new_figure(4.6, title)
    for axis, spread in canvas.side_by_side(figure, spreads):
        values = np.concatenate([np.ravel(x) for x in spread.kinds.values()])
        borders = np.histogram_bin_edges(canvas.array(spread.x, values, (None,)), bins=bins)
        for (name, own), (colour, line) in zip(spread.kinds.items(), LOOKS):
            share = 100 * np.histogram(own, borders)[0] / max(len(own), 1)
            label = f'{name} ({len(own):,})'
            axis.stairs(share, borders, color=colour, linestyle=line, linewidth=1.6, label=label)
        for (name, value), line in zip(spread.marks.items(), ('--', ':')):
            axis.axvline(
                value, 0, 1 / 1.4, color=canvas.GREY, linestyle=line, linewidth=1.2, label=name
            )
        axis.set_ylim(0, 1.4 * axis.get_ylim()[1])  # the legend has the room above
        canvas.style(axis, '', spread.x, y)
        axis.legend(frameon=False, loc='upper left', fontsize=9)
    return figure
