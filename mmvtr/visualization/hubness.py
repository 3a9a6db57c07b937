"""How unevenly a gallery is found, before and after a transform of the scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping

import numpy as np
import torch

from mmvtr.functional.metrics.hubness import ErrorRates, k_occurrence, skewness
from mmvtr.visualization.canvas import GREEN, GREY, ORANGE, SKY, array, new_figure, style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Of the raw scores and of the transforms; lines differ as well.
LOOKS = (
    dict(color='black', linestyle='-'),
    dict(color=ORANGE, linestyle='-'),
    dict(color=SKY, linestyle='--'),
    dict(color=GREEN, linestyle='-.'),
    dict(color=GREY, linestyle=':'),
)
#: Bins of a distribution.
BINS = 30
#: Borders of relative mass between the bins of error rates.
MASS_EDGES = tuple(2.0**i for i in range(-4, 5))


def hubs(before: Any, after: Mapping[str, Any] = {}, *, k: int = 10) -> 'Figure':
    """Distribution of N_k, how often an item is among a query's best k, in both directions.

    A few items that everybody finds ("hubs") make a long tail, large skewness, and leave others
    that nobody finds.

    Args:
        before: raw scores [T, V].
        after: by name of a transform its scores: [T, V], or a pair of such, one a direction (text
            to video, read by rows; video to text, read by columns).
        k: items that a query finds; in a smaller gallery, all but one of them.

    Raises:
        ValueError: shapes that differ, a score that is not finite, a gallery of one item, more
            transforms than there are looks, ``k`` below 1.
    """
    raw = array('before', before, (None, None))
    if min(raw.shape) < 2:
        raise ValueError(f'before of shape {list(raw.shape)}: a gallery of one item has no hubs')
    if k < 1:
        raise ValueError(f'k must be at least 1, not {k}')
    if len(after) >= len(LOOKS):
        raise ValueError(f'{len(after)} transforms, at most {len(LOOKS) - 1} can be told apart')
    named = {'raw': (raw, raw)}
    for name, scores in after.items():
        pair = scores if isinstance(scores, tuple) else (scores, scores)
        if len(pair) != 2:
            raise ValueError(f'after {name!r}: {len(pair)} matrices, expected one or two')
        named[name] = tuple(array(f'after {name!r}', x, raw.shape) for x in pair)
    figure = new_figure(4.3 + 0.2 * len(named))
    for place, (axis, found, by) in enumerate(
        zip(figure.subplots(1, 2), ('videos', 'texts'), ('text', 'video'))
    ):
        dim = 1 - place
        most = min(k, raw.shape[dim] - 1)
        counts = {
            name: k_occurrence(torch.from_numpy(pair[place]), k=most, dim=dim)
            for name, pair in named.items()
        }
        _distributions(axis, counts)
        style(
            axis,
            f'{by} to {"video" if by == "text" else "text"}',
            f'N_{most}: how many {by}s find it among their {most} best',
            f'{found} (share of all, %)',
        )
        axis.legend(loc='upper right', fontsize=8.5, frameon=False)
    figure.suptitle('Hubs: how often each item is found, where all should be found alike',
                    fontsize=11)  # fmt: skip
    return figure


def _distributions(axis: 'Axes', counts: Mapping[str, torch.Tensor]) -> None:
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
    axis.plot((fair, fair), (0, 100), color=GREY, linewidth=1, label=f'a fair share: {fair:.1f}')
    axis.set_yscale('symlog', linthresh=1)
    axis.set_ylim(0, 100 * 10 ** (0.22 * len(counts) + 0.44))  # room for the legend
    ticks = [0, 1, 10, 100]
    axis.set_yticks(ticks, [str(tick) for tick in ticks])


def mass_errors(rates: Mapping[str, ErrorRates], *, title: str) -> 'Figure':
    """False retrievals of items by their relative mass, a panel a direction (NCL Fig. 3).

    Args:
        rates: by direction (``'text to video'``), in bins between ``MASS_EDGES``.
        title: of the picture.
    """
    figure = new_figure(4.6)
    for axis, (direction, found) in zip(figure.subplots(1, len(rates)), rates.items()):
        query, item = direction.split(' to ')
        draw_rates(axis, found, item, query)
        axis.set_title(direction, fontsize=11)
        axis.tick_params(labelsize=8)
        axis.xaxis.label.set_size(9)
        axis.get_legend().remove()
    handles = axis.get_legend_handles_labels()[0]
    labels = ('items with this mass (%)', 'false negatives: own queries that miss the item (%)',
              'false positives: queries that find it wrongly (%)')  # fmt: skip
    axes = figure.axes
    for axis in axes:
        axis.set_ylim(0, 105)
    figure.legend(handles, labels, loc='outside lower center', ncols=3, fontsize=8.5, frameon=False)
    figure.suptitle(title, fontsize=11)
    return figure


def draw_rates(axis: 'Axes', rates: ErrorRates, item: str, query: str) -> None:
    """NCL Fig. 3, and how many items each point stands for."""
    borders = [MASS_EDGES[0] / 2, *MASS_EDGES, 2 * MASS_EDGES[-1]]
    share = 100 * rates.items / rates.items.sum()
    axis.stairs(share, borders, fill=True, color='0.9', label=f'{item}s with this probability')
    mass = rates.mass.clamp(borders[0], borders[-1])
    for name, values in (
        (f'false negatives: own queries that miss the {item}', rates.false_negatives),
        (f'false positives: queries that find the {item} wrongly', rates.false_positives),
    ):
        axis.plot(mass, 100 * values, marker='o', label=name)
    axis.axvline(1, ymax=100 / 140, color='0.4', linewidth=0.8, linestyle='--')
    axis.set_xscale('log', base=2)
    axis.set_xticks(
        MASS_EDGES, [f'{edge:g}' if edge >= 1 else f'1/{1 / edge:g}' for edge in MASS_EDGES]
    )
    axis.set_yticks(range(0, 101, 20))
    axis.set_ylim(0, 140)  # the legend has the room above 100
    axis.set_ylabel('%')
    axis.set_xlabel(f'retrieval probability of a {item} over all queries (1 = fair share)')
    axis.legend(frameon=False, loc='upper left')
