"""The joint space of texts and videos, projected to two dimensions (NCL Fig. 7 and 8)."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import numpy as np

from mmvtr.visualization import canvas

#: Number of pairs that are joined by a line.
JOINED = 60
METHODS = ('pca', 'tsne')


def modality_plane(
    spaces: Mapping[str, tuple[Any, Any]], positives: Any, *, method: str = 'pca', seed: int = 0
) -> 'canvas.Figure':
    """Draw unit vectors of texts and videos in two dimensions, their means, and some joined pairs.

    Args:
        spaces: one or two by name, each (texts [T, D], videos [V, D]); D may differ between them.
        positives: bool [T, V], matching pairs.
        method: ``'pca'``, the two directions of largest variance of both together (which
            approximate distances), or ``'tsne'``, as in the paper, which preserves neighbours and
            needs scikit-learn.
        seed: seed of t-SNE and of the joined pairs.

    Raises:
        ValueError: an unknown method, no or more than two spaces, fewer than two items of a kind, a
            vector of norm 0, a number that is not finite.
        ImportError: t-SNE without scikit-learn.
    """
    if method not in METHODS:
        raise ValueError(f'method must be one of {METHODS}, not {method!r:.80}')
    if not 1 <= len(spaces) <= 2:
        raise ValueError(f'{len(spaces)} spaces, expected one or two')
    figure = canvas.new_figure(4.9 if len(spaces) == 2 else 6.2)
    for axis, (name, sides) in canvas.side_by_side(figure, spaces.items()):
        texts, videos = (
            _units(f'{kind} of {name}', x) for kind, x in zip(('texts', 'videos'), sides)
        )
        known = canvas.mask('positives', positives, (len(texts), len(videos)))
        points, labels = _flat(np.concatenate([texts, videos]), method, seed)
        t, v = points[: len(texts)], points[len(texts) :]
        pairs = np.argwhere(known)
        pairs = np.random.default_rng(seed).permutation(pairs)[:JOINED]
        for row, column in pairs:
            axis.plot(
                *zip(t[row], v[column]), color=canvas.GREY, linewidth=0.6, alpha=0.5, zorder=1
            )
        kinds = (
            (t, f'texts ({len(t):,})', canvas.BLUE, 'o'),
            (v, f'videos ({len(v):,})', canvas.ORANGE, '^'),
        )
        for where, label, colour, marker in kinds:
            canvas.dots(axis, *where.T, label, colour, marker, zorder=2)
        mean = dict(s=150, alpha=1.0, edgecolors='black', linewidths=1.5, zorder=3)
        for where, label, colour, marker in kinds:
            canvas.dots(
                axis, *where.mean(0), f'mean of the {label.split()[0]}', colour, marker, **mean
            )
        gap = float(np.linalg.norm(texts.mean(0) - videos.mean(0)))
        cosines = (texts[pairs[:, 0]] * videos[pairs[:, 1]]).sum(1)
        cosine = float(cosines.mean()) if len(pairs) else 0
        subtitle = f'means {gap:.2f} apart, cosine of a pair {cosine:.2f}'
        canvas.style(axis, f'{canvas.words(name, 44)}\n{subtitle}', *labels)
        axis.set_aspect('equal', adjustable='datalim')
    canvas.legend(figure, 4, axis)
    subtitle = f'lines join {len(pairs)} pairs'
    figure.suptitle(f'Texts and videos in their common space ({subtitle})', fontsize=11)
    return figure


def _units(name: str, x: Any) -> np.ndarray:
    """Return rows scaled to unit length, float64 [N, D]."""
    x = canvas.array(name, x, (None, None)).astype(np.float64)
    if len(x) < 2:
        raise ValueError(f'{name}: {len(x)} of them, at least two are needed')
    norms = np.linalg.norm(x, axis=1, keepdims=True)
    if not norms.all():
        raise ValueError(f'{name}: row {int((norms == 0).argmax())} has the norm 0: no direction')
    return x / norms


def _flat(x: np.ndarray, method: str, seed: int) -> tuple[np.ndarray, tuple[str, str]]:
    """Return points projected from [N, D] to [N, 2], and the names of the two axes."""
    if method == 'tsne':
        from sklearn.manifold import TSNE

        made = TSNE(2, random_state=seed, perplexity=min(30, (len(x) - 1) / 3), init='pca')
        return made.fit_transform(x), ('t-SNE 1 (no unit)', 't-SNE 2 (no unit)')
    x = x - x.mean(0)
    _, size, axes = np.linalg.svd(x, full_matrices=False)
    if len(size) < 2:
        raise ValueError(f'vectors of {x.shape[1]} dimension: a plane has two')
    share = 100 * size**2 / max((size**2).sum(), 1e-30)
    names = [f'principal component {i + 1} ({share[i]:.0f} % of the variance)' for i in range(2)]
    return x @ axes[:2].T, (names[0], names[1])


def bars(
    groups: Mapping[str, Sequence[float]],
    names: Sequence[str],
    *,
    title: str,
    y: str,
) -> 'canvas.Figure':
    """Draw grouped bars with their numbers (NCL Fig. 2 and 8).

    Args:
        groups: a number for each of ``names``, by name of the group (a colour).
        names: names along the x axis.
        title, y: title of the figure, and label of its axis.

    Raises:
        ValueError: no group or more than there are colours, not one number per name, or a number
            that is not finite.
    """
    if not groups:
        raise ValueError('no bars to draw')
    if len(groups) > len(canvas.COLOURS):
        raise ValueError(
            f'{len(groups)} groups of bars, at most {len(canvas.COLOURS)} can be told apart'
        )
    values = {name: canvas.array(name, x, (len(names),)) for name, x in groups.items()}
    figure = canvas.new_figure(4.4)
    axis = figure.subplots()
    width = 0.8 / len(values)
    for place, ((name, x), colour) in enumerate(zip(values.items(), canvas.COLOURS)):
        left = np.arange(len(names)) - 0.4 + width * (place + 0.5)
        made = axis.bar(left, x, 0.92 * width, color=colour, label=canvas.words(name, 40))
        axis.bar_label(made, [f'{value:.2f}' for value in x], fontsize=8.5, padding=2)
    axis.axhline(0, color='black', linewidth=0.8)
    axis.set_xticks(range(len(names)), names)
    low, high = min(0, *(x.min() for x in values.values())), max(x.max() for x in values.values())
    axis.set_ylim(low - (0.12 * (high - low) if low < 0 else 0), high + 0.12 * (high - low) + 1e-9)
    canvas.style(axis, title, '', y)
    axis.grid(visible=False, axis='x')
    canvas.legend(figure, 3)
    return figure
