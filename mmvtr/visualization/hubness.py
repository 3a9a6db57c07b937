"""How unevenly a gallery is found, before and after a transform of the scores."""

from __future__ import annotations

from typing import Any, Mapping

import numpy as np
import torch

from mmvtr.functional.metrics.hubness import ErrorRates, k_occurrence, skewness
from mmvtr.functional.values import check_range
from mmvtr.visualization import canvas

#: Line styles of the raw scores and of the transforms.
LOOKS = (
    dict(color='black', linestyle='-'),
    dict(color=canvas.ORANGE, linestyle='-'),
    dict(color=canvas.SKY, linestyle='--'),
    dict(color=canvas.GREEN, linestyle='-.'),
    dict(color=canvas.GREY, linestyle=':'),
)
DIRECTIONS = ('text to video', 'video to text')
#: Bins of a histogram.
BINS = 30
#: Bin edges of relative mass for the error rates.
MASS_EDGES = tuple(2.0**i for i in range(-4, 5))


def hubs(before: Any, after: Mapping[str, Any] = {}, *, k: int = 10) -> 'canvas.Figure':
    """Draw the distribution of N_k, how often an item is in a top-k list, in both directions.

    A few items that many queries find ("hubs") make a long tail, large skewness, and leave other
    items that no query finds.

    Args:
        before: raw scores [T, V].
        after: scores by name of a transform: [T, V], or a pair of matrices, one a direction (text
            to video, read by rows; video to text, read by columns).
        k: length of the lists; in a smaller gallery, all items but one.

    Raises:
        ValueError: shapes that differ, a score that is not finite, a gallery of one item, more
            transforms than line styles, ``k`` below 1.
    """
    raw = canvas.array('before', before, (None, None))
    if min(raw.shape) < 2:
        raise ValueError(f'before of shape {list(raw.shape)}: a gallery of one item has no hubs')
    check_range('[1, inf]', k=k)
    if len(after) >= len(LOOKS):
        raise ValueError(f'{len(after)} transforms, at most {len(LOOKS) - 1} can be told apart')
    named = {'raw': (raw, raw)}
    for name, scores in after.items():
        pair = scores if isinstance(scores, tuple) else (scores, scores)
        if len(pair) != 2:
            raise ValueError(f'after {name!r}: {len(pair)} matrices, expected one or two')
        named[name] = tuple(canvas.array(f'after {name!r}', x, raw.shape) for x in pair)
    title = 'Hubs: how often each item is found, where all should be found alike'
    figure = canvas.new_figure(4.3 + 0.2 * len(named), title)
    for place, (axis, direction) in enumerate(canvas.side_by_side(figure, DIRECTIONS)):
        dim, (by, item) = 1 - place, direction.split(' to ')
        most = min(k, raw.shape[dim] - 1)
        counts = {
            name: k_occurrence(torch.from_numpy(pair[place]), k=most, dim=dim)
            for name, pair in named.items()
        }
        _distributions(axis, counts)
        canvas.style(
            axis,
            direction,
            f'N_{most}: how many {by}s find it among their {most} best',
            f'{item}s (share of all, %)',
        )
        axis.legend(loc='upper right', fontsize=8.5, frameon=False)
    return figure


def _distributions(axis: 'canvas.Axes', counts: Mapping[str, torch.Tensor]) -> None:
    top = max(float(x.max()) for x in counts.values())
    fair = float(next(iter(counts.values())).mean())
    width = max(1.0, np.ceil((top + 1) / BINS))
    edges = np.arange(0, top + width + 1e-9, width) - 0.5
    edges = edges if edges[-1] > top else np.append(edges, edges[-1] + width)
    for look, (name, x) in zip(LOOKS, counts.items()):
        share = 100 * np.histogram(x.numpy(), edges)[0] / len(x)
        never = 100 * float((x == 0).double().mean())
        label = f'{name}: skewness {float(skewness(x)):.2f}, most {float(x.max()):.0f}, ' \
                f'never {never:.0f} %'  # fmt: skip
        axis.stairs(share, edges, label=label, linewidth=1.7, **look)
    axis.plot(
        (fair, fair), (0, 100), color=canvas.GREY, linewidth=1, label=f'a fair share: {fair:.1f}'
    )
    axis.set_yscale('symlog', linthresh=1)
    axis.set_ylim(0, 100 * 10 ** (0.22 * len(counts) + 0.44))  # room for the legend
    ticks = [0, 1, 10, 100]
    axis.set_yticks(ticks, [str(tick) for tick in ticks])


def draw_rates(axis: 'canvas.Axes', rates: ErrorRates, direction: str, title: str) -> None:
    """Draw both error rates by relative mass, and the number of items at each point."""
    item = direction.split(' to ')[1]
    borders = [MASS_EDGES[0] / 2, *MASS_EDGES, 2 * MASS_EDGES[-1]]
    share = 100 * rates.items / rates.items.sum()
    axis.stairs(share, borders, fill=True, color='0.9', label=f'{item}s with this probability')
    mass = rates.mass.clamp(borders[0], borders[-1])
    for name, values, colour, marker in (
        (
            f'false negatives: own queries that miss the {item}',
            rates.false_negatives,
            canvas.BLUE,
            'o',
        ),
        (
            f'false positives: queries that find the {item} wrongly',
            rates.false_positives,
            canvas.ORANGE,
            '^',
        ),
    ):
        axis.plot(mass, 100 * values, color=colour, marker=marker, label=name)
    axis.axvline(1, ymax=100 / 140, color='0.4', linewidth=0.8, linestyle='--')
    label = f'retrieval probability of a {item}, summed (1 = fair share)'
    canvas.style(axis, title, label, '%')
    axis.set_xscale('log', base=2)
    ticks = [f'{edge:g}' if edge >= 1 else f'1/{1 / edge:g}' for edge in MASS_EDGES]
    axis.set_xticks(MASS_EDGES, ticks)
    axis.set_yticks(range(0, 101, 20))
    axis.set_ylim(0, 140)  # the legend has the room above 100
    axis.legend(frameon=False, loc='upper left', fontsize=8.5)
