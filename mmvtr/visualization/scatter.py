"""Scatter plots of a model's own uncertainty: eta of pairs, sigma of texts."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from mmvtr.functional.metrics.relevance import auc
from mmvtr.functional.uncertainty.reliability import spearman
from mmvtr.visualization import canvas

#: Largest number of points of a kind; more are sampled.
MOST = 3000
#: Number of groups of texts whose median is drawn.
GROUPS = 8


def eta_against_loss(
    eta: Any, loss: Any, positives: Any, truth: Any = None, *, seed: int = 0
) -> 'canvas.Figure':
    """Draw the matching uncertainty of pairs against their loss as matches.

    A detector by small loss sees only the horizontal axis.  If the truth is known, the title gives
    the area under the ROC curve with which each of the two separates true pairs that are not
    annotated from true negatives.

    Args:
        eta: N numbers in any shape, DVTR's eta (1 = surely no match, 0 = surely a match).
        loss: N, -log of the probability that the model gives the pair, as a match.
        positives: bool, N, annotated pairs.
        truth: bool, N, true pairs; None = not known.
        seed: random seed of the sample if there are more than ``MOST`` points of a kind.

    Raises:
        ValueError: different numbers of entries, one that is not finite, no pairs.
    """
    eta = canvas.array('eta', np.ravel(canvas.plain(eta)), (None,))
    loss = canvas.array('loss', np.ravel(canvas.plain(loss)), eta.shape)
    annotated = canvas.mask('positives', np.ravel(canvas.plain(positives)), eta.shape)
    if truth is None:
        kinds = [('not annotated', ~annotated, canvas.OTHER, '.')]
    else:
        holds = canvas.mask('truth', np.ravel(canvas.plain(truth)), eta.shape)
        kinds = [
            ('true negatives', ~holds & ~annotated, canvas.OTHER, '.'),
            ('true, not annotated', holds & ~annotated, canvas.TRUE, '^'),
        ]
    kinds.append(('annotated', annotated, canvas.ANNOTATED, 's'))
    generator = np.random.default_rng(seed)
    figure = canvas.new_figure(5.2)
    axis = figure.subplots()
    for name, members, colour, marker in kinds:
        places = np.flatnonzero(members)
        if not len(places):
            continue
        drawn = np.sort(generator.permutation(places)[:MOST])
        some = f'{len(drawn):,} of ' if len(drawn) < len(places) else ''
        label = f'{name} ({some}{len(places):,})'
        look = dict(s=16, alpha=0.4) if marker == '.' else dict(s=22, alpha=0.65)
        canvas.dots(axis, loss[drawn], eta[drawn], label, colour, marker, **look)
    title = 'What DVTR down-weights (small eta) and what a small-loss detector would take'
    if truth is not None and kinds[0][1].any() and kinds[1][1].any():
        areas = [_area(-x, kinds[1][1], kinds[0][1]) for x in (eta, loss)]
        title += (
            '\ntrue, not annotated pairs told from true negatives: '
            f'AUC {areas[0]:.3f} by eta, {areas[1]:.3f} by loss'
        )
    canvas.style(
        axis, title, 'loss of the pair as a match (nats)', 'eta: uncertainty of the mismatch'
    )
    canvas.legend(figure, 3)
    return figure


def sigma_against_generality(sigma: Any, generality: Any, *, measured_by: str) -> 'canvas.Figure':
    """Draw each text's sigma against its generality.

    Args:
        sigma: [T], predicted uncertainty.
        generality: [T], the number of videos that a text fits, or how general its scores are;
            positive.
        measured_by: name of this measure, for the axis.

    Raises:
        ValueError: lengths that differ, a number that is not finite, a generality that is not
            positive, no texts.
    """
    sigma = canvas.array('sigma', sigma, (None,))
    generality = canvas.array('generality', generality, sigma.shape)
    if not (generality > 0).all():
        text = int(np.flatnonzero(generality <= 0)[0])
        raise ValueError(f'generality of text {text} is {generality[text]:g}, expected above 0')
    from matplotlib.ticker import LogLocator

    rank = float(spearman(*map(torch.from_numpy, (generality, sigma))))
    figure = canvas.new_figure(4.8)
    axis = figure.subplots()
    canvas.dots(axis, generality, sigma, 'a text', canvas.BLUE)
    groups = _groups(generality)
    middle = [[np.median(x[group]) for group in groups] for x in (generality, sigma)]
    label = f'medians of {len(groups)} groups of texts'
    axis.plot(*middle, color=canvas.ORANGE, marker='o', markersize=5, linewidth=1.6, label=label)
    if generality.max() > 3 * generality.min():
        axis.set_xscale('log')
        axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.xaxis.set_major_formatter('{x:g}')
        axis.xaxis.set_minor_formatter('')
    canvas.style(
        axis,
        f"Is the model less certain of general texts? Spearman's rank correlation {rank:+.2f} "
        f'({len(sigma):,} texts)',
        measured_by,
        'sigma of the text',
    )
    canvas.legend(figure, 2)
    return figure


def _groups(x: np.ndarray) -> list[np.ndarray]:
    """Return places of at most ``GROUPS`` groups of neighbours; equal numbers stay together."""
    borders = np.unique(np.quantile(x, np.arange(1, GROUPS) / GROUPS))
    group = np.searchsorted(borders, x, side='left')
    return [np.flatnonzero(group == number) for number in np.unique(group)]


def _area(score: np.ndarray, right: np.ndarray, wrong: np.ndarray) -> float:
    return float(auc(*(torch.from_numpy(score[members]) for members in (right, wrong))))
