"""Eta of a query's negatives, and the loss of each (DVTR Fig. 4)."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from mmvtr.visualization import canvas

#: The paper's threshold of eta for a sure negative.
SURE = 0.9
#: Smaller losses are drawn at this value, as the axis is logarithmic.
LEAST = 1e-6
BINS = 40


def negatives_of_query(
    eta: Any,
    plain: Any,
    debiased: Any,
    all_eta: Any,
    truth: Any = None,
    *,
    query: str = '',
    queries: Optional[int] = None,
) -> 'canvas.Figure':
    """Draw the loss of a query's negatives against eta, and the spread of eta (DVTR Fig. 4).

    Args:
        eta: [N] in [0, 1], weight of each of the query's negatives.
        plain: [N], loss of each with all weights 1; in nats, at least 0.
        debiased: [N], the same with eta as the weight.
        all_eta: [M], eta of the negatives of many queries.
        truth: bool [N], whether a negative is a true match; None = unknown.
        query: the query, for the title.
        queries: number of queries of ``all_eta``.

    Raises:
        ValueError: different lengths, a number that is not finite, or a loss below 0.
    """
    eta = canvas.array('eta', eta, (None,))
    plain, debiased = (
        canvas.array(name, x, eta.shape) for name, x in (('plain', plain), ('debiased', debiased))
    )
    if min(plain.min(), debiased.min()) < 0:
        raise ValueError(f'a loss of {min(plain.min(), debiased.min()):g}, expected at least 0')
    spread = canvas.array('all_eta', np.ravel(all_eta), (None,))
    holds = np.zeros(eta.shape, bool) if truth is None else canvas.mask('truth', truth, eta.shape)
    asks = f' "{canvas.wrapped(query, 95, 2)}"' if query else ''
    figure = canvas.new_figure(4.9, f'How hard is a negative pushed?{asks}')
    left, right = figure.subplots(1, 2, width_ratios=(1.5, 1))
    _losses(left, eta, plain, debiased, holds, known=truth is not None)
    _spread(right, spread, queries)
    canvas.legend(figure, 2, left)
    return figure


def _losses(
    axis: 'canvas.Axes',
    eta: np.ndarray,
    plain: np.ndarray,
    debiased: np.ndarray,
    holds: np.ndarray,
    *,
    known: bool,
) -> None:
    """Draw losses: hollow with equal weights, filled with eta as weights."""
    kinds = [('true negatives' if known else 'negatives', ~holds, canvas.OTHER, 'o')]
    kinds += [('true, not annotated', holds, canvas.TRUE, '^')] if known else []
    for name, members, colour, marker in kinds:
        if not members.any():
            continue
        x = eta[members]
        before, after = (np.maximum(y[members], LEAST) for y in (plain, debiased))
        axis.vlines(x, after, before, color=colour, alpha=0.25, linewidth=0.8)
        look = dict(s=22, linewidths=0.9)
        label = f'{name} ({members.sum():,}), all alike'
        canvas.dots(axis, x, before, label, colour, marker, facecolors='none', alpha=0.7, **look)
        canvas.dots(axis, x, after, f'{name}, weighed by eta', colour, marker, alpha=0.8, **look)
    axis.set_yscale('log')
    axis.set_xlim(-0.03, 1.03)
    canvas.style(
        axis,
        f'{len(eta):,} negatives of the query',
        'eta: uncertainty of the mismatch, 1 = surely none',
        'loss of a negative (nats)',
    )


def _spread(axis: 'canvas.Axes', spread: np.ndarray, queries: Optional[int]) -> None:
    edges = np.linspace(0, 1, BINS + 1)
    share = 100 * np.histogram(spread.clip(0, 1), edges)[0] / len(spread)
    axis.stairs(share, edges, fill=True, color=canvas.BLUE, alpha=0.6)
    axis.axvline(SURE, color=canvas.GREY, linestyle='--', linewidth=1)
    axis.set_yscale('symlog', linthresh=0.1)
    axis.set_ylim(0, 130)
    axis.set_yticks((0, 0.1, 1, 10, 100), ('0', '0.1', '1', '10', '100'))
    sure = 100 * float((spread > SURE).mean())
    whose = f'{queries:,} queries' if queries else 'many queries'
    canvas.style(
        axis,
        f'{len(spread):,} negatives of {whose}\n{sure:.1f} % above {SURE:g}',
        'eta',
        'share of the negatives (%)',
    )
