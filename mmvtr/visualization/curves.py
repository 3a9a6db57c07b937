"""Curves: a text's scores along a video, and how often pairs match at each P(match)."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
import torch

from mmvtr.functional.uncertainty.reliability import reliability
from mmvtr.visualization import canvas


def moment_curve(
    curve: Any,
    *,
    matched: Optional[tuple[float, float]] = None,
    annotated: Optional[tuple[float, float]] = None,
    duration: Optional[float] = None,
    text: str = '',
    video: str = '',
) -> 'canvas.Figure':
    """Draw a text's score with each frame of a video, and the annotated moments.

    Args:
        curve: [F], scores of F equal parts of the video.
        matched: begin and end of the moment that the model predicts, as shares of the video.
        annotated: begin and end of the annotated moment.
        duration: of the video in seconds; None = the axis has shares.
        text, video: for the title.

    Raises:
        ValueError: no frame, a number that is not finite, a moment outside the video, or a duration
            that is not positive.
    """
    curve = canvas.array('curve', curve, (None,)).astype(float)
    if duration is not None and not (np.isfinite(duration) and duration > 0):
        raise ValueError(f'duration must be positive, not {duration}')
    length = 1.0 if duration is None else float(duration)
    figure = canvas.new_figure(3.9)
    axis = figure.subplots()
    edges = np.linspace(0, length, len(curve) + 1)
    axis.stairs(
        curve, edges, baseline=None, color=canvas.BLUE, linewidth=2, label='score of a frame'
    )
    hatched = dict(facecolor='none', edgecolor=canvas.ORANGE, hatch='///', linewidth=1.5)
    for name, span, look in (
        ('annotated moment', annotated, dict(facecolor=canvas.ANNOTATED, alpha=0.22)),
        ('matched moment', matched, hatched),
    ):
        if span is None:
            continue
        begin, end = span
        if not 0 <= begin <= end <= 1.001:
            raise ValueError(f'{name} {span!r:.80} must lie within the video, [0, 1]')
        axis.axvspan(begin * length, min(end, 1.0) * length, label=name, **look)
    spread = max(float(np.ptp(curve)), 1e-6)
    axis.set(xlim=(0, length), ylim=(curve.min() - 0.1 * spread, curve.max() + 0.1 * spread))
    lines = [f'"{canvas.wrapped(text, 90, 2)}"'] if text else []
    lines += [f'along the video {canvas.words(video, 70)}'] if video else []
    where = 'share of the video' if duration is None else 'seconds of the video'
    canvas.style(axis, '\n'.join(lines) or 'A text along a video', where, 'score')
    canvas.legend(figure, 3)
    return figure


def reliability_curve(probabilities: Any, matches: Any, *, bins: int = 10) -> 'canvas.Figure':
    """Draw the share of matches per bin of P(match), and the pairs in each bin.

    Args:
        probabilities: [M] in [0, 1].
        matches: [M], bool or in [0, 1].
        bins: of equal width.

    Raises:
        ValueError: see :func:`mmvtr.functional.uncertainty.reliability.reliability`.
    """
    p = canvas.array('probabilities', probabilities, (None,))
    y = canvas.array('matches', matches, p.shape)
    curve = reliability(torch.as_tensor(p), torch.as_tensor(y), bins=bins)
    filled = curve.pairs > 0
    predicted, true, pairs = (x[filled].numpy() for x in curve)
    figure = canvas.new_figure(4.6)
    left, right = figure.subplots(1, 2, width_ratios=(1.5, 1))
    left.plot((0, 1), (0, 1), color=canvas.GREY, linestyle='--', linewidth=1)
    spread = 1.96 * (predicted * (1 - predicted) / pairs) ** 0.5
    left.errorbar(
        predicted, true, yerr=spread, color=canvas.BLUE, marker='o', capsize=2, linewidth=1.2
    )
    left.set_xlim(-0.02, 1.02)
    left.set_ylim(-0.02, 1.02)
    title = f'calibration error {curve.error:.3f} (noise of {len(p):,} pairs {curve.noise:.3f})'
    canvas.style(left, title, 'P(match) as said', 'share of matches')
    right.bar(predicted, pairs, width=0.7 / bins, color=canvas.BLUE, alpha=0.6)
    right.set_xlim(-0.02, 1.02)
    canvas.style(right, f'{len(p):,} pairs', 'P(match) as said', 'pairs')
    return figure
