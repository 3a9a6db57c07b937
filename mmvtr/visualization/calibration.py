"""How often pairs match that are said to match with some probability."""

from __future__ import annotations

from typing import Any

import torch

from mmvtr.functional.uncertainty.reliability import reliability
from mmvtr.visualization import canvas


def reliability_curve(probabilities: Any, matches: Any, *, bins: int = 10) -> 'canvas.Figure':
    """Draw the share of matches per bin of P(match), and the pairs in each bin.

    Args:
        probabilities: [M] in [0, 1].
        matches: [M], bool or in [0, 1].
        bins: of equal width.

    Raises:
        ValueError: as :func:`mmvtr.functional.uncertainty.reliability.reliability`.
    """
    p = canvas.array('probabilities', probabilities, (None,))
    y = canvas.array('matches', matches, p.shape)
    found = reliability(torch.as_tensor(p), torch.as_tensor(y), bins=bins)
    held = found.pairs > 0
    predicted, true, pairs = (x[held].numpy() for x in found)
    figure = canvas.new_figure(4.6)
    left, right = figure.subplots(1, 2, width_ratios=(1.5, 1))
    left.plot((0, 1), (0, 1), color=canvas.GREY, linestyle='--', linewidth=1)
    spread = 1.96 * (predicted * (1 - predicted) / pairs) ** 0.5
    left.errorbar(
        predicted, true, yerr=spread, color=canvas.BLUE, marker='o', capsize=2, linewidth=1.2
    )
    left.set_xlim(-0.02, 1.02)
    left.set_ylim(-0.02, 1.02)
    title = f'calibration error {found.error:.3f} (noise of {len(p):,} pairs {found.noise:.3f})'
    canvas.style(left, title, 'P(match) as said', 'share of matches')
    right.bar(predicted, pairs, width=0.7 / bins, color=canvas.BLUE, alpha=0.6)
    right.set_xlim(-0.02, 1.02)
    canvas.style(right, f'{len(p):,} pairs', 'P(match) as said', 'pairs')
    return figure
