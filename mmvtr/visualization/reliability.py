"""Does P(match) come true?  What is said against what is found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from mmvtr.functional.uncertainty.reliability import reliability
from mmvtr.visualization.canvas import BLUE, GREY, array, new_figure, plain, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def reliability_curve(probabilities: Any, matches: Any, *, bins: int = 10) -> 'Figure':
    """Share of matches among pairs of like P(match), and how many pairs these are.

    Args:
        probabilities: [M] in [0, 1].
        matches: [M], bool or in [0, 1].
        bins: of equal width.

    Raises:
        ValueError: as :func:`mmvtr.functional.uncertainty.reliability.reliability`.
    """
    p = array('probabilities', plain(probabilities), (None,))
    y = array('matches', plain(matches), p.shape)
    found = reliability(torch.as_tensor(p), torch.as_tensor(y), bins=bins)
    held = found.pairs > 0
    said, true, pairs = (x[held].numpy() for x in found)
    figure = new_figure(4.6)
    left, right = figure.subplots(1, 2, width_ratios=(1.5, 1))
    left.plot((0, 1), (0, 1), color=GREY, linestyle='--', linewidth=1)
    spread = 1.96 * (said * (1 - said) / pairs) ** 0.5
    left.errorbar(said, true, yerr=spread, color=BLUE, marker='o', capsize=2, linewidth=1.2)
    left.set_xlim(-0.02, 1.02)
    left.set_ylim(-0.02, 1.02)
    title = f'calibration error {found.error:.3f} (noise of {len(p):,} pairs {found.noise:.3f})'
    style(left, title, 'P(match) as said', 'share of matches')
    right.bar(said, pairs, width=0.7 / bins, color=BLUE, alpha=0.6)
    right.set_xlim(-0.02, 1.02)
    style(right, f'{len(p):,} pairs', 'P(match) as said', 'pairs')
    return figure
