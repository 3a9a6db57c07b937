"""A figure of a rehearsal: losses, judged figures, gradient norms."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Sequence

from mmvtr.visualization import canvas
from rehearsal.expectations import Check

#: Titles and judged figures of a panel, in order of preference: the first panel whose first figure
#: exists is drawn. Each member has its own line; a name that ends in _ stands for all that begin
#: so.
PANELS = (
    ('items seen by each member', ('seen',)),
    ('eta of true negatives and of soft positives', ('eta_negative', 'eta_soft')),
    (
        'ambiguous sets: % that truly hold, and by chance',
        ('sets_precision_a', 'sets_precision_b', 'soft_share'),
    ),
    ('gradient mass of each loss and kind of pair, %', ('mass_',)),
    ('relevant pairs that nobody annotated', ('relevant_share', 'overlap_share')),
    ('sigma of general and of specific texts', ('sigma_general', 'sigma_specific')),
    ('normalisation error, raw and with biases', ('error_raw', 'error_balanced')),
)
COLOURS = {
    True: (canvas.GREEN, 'met'),
    False: (canvas.RED, 'NOT MET'),
    None: (canvas.GREY, 'not reached'),
}


def draw(path: Path, title: str, narrow: dict[str, Any], checks: Sequence[Check]) -> None:
    """Write a png: losses, judged figures, scores of pairs, gradient norms, and the verdicts.

    Args:
        path: the file.
        title: the config's name.
        narrow: record of the config's own schedule.
        checks: the expectations' results.
    """
    said = f'{narrow["steps"]:,} of {narrow["total"]:,} steps of its own schedule'
    figure = canvas.new_figure(8, f'{title}: {said}', width=13)
    axes = figure.subplots(2, 3)
    losses = {name: values for name, values in narrow['curves'].items() if 'loss' in name}
    _lines(axes[0, 0], 'losses', losses)
    if spans_decades(losses):
        axes[0, 0].set_yscale('symlog', linthresh=0.01)
    judged = _judged(narrow)
    _lines(axes[0, 1], *panel(judged))
    names = ('scores_positive', 'scores_soft', 'scores_negative')
    _lines(
        axes[0, 2], 'scores of training pairs', {k: v for n in names for k, v in _with(judged, n)}
    )
    # A member has no gradient in the steps of another member.
    norms = {k: [one for one in v if one[1] > 0] for k, v in narrow['gradients'].items()}
    _lines(axes[1, 0], 'gradient norms', {k: v for k, v in norms.items() if v})
    axes[1, 0].set_yscale('log')
    if narrow.get('scatter'):
        _scatter(axes[1, 1], narrow['scatter'])
    else:
        _lines(axes[1, 1], 'R@1 among training items', dict(_with(judged, 'R1')))
    _verdicts(axes[1, 2], checks)
    canvas.save(figure, path)


def panel(judged: dict[str, list]) -> tuple[str, dict[str, list]]:
    """Return title and curves of the panel that suits the config's method."""
    for title, names in PANELS:
        if _with(judged, names[0]):
            return title, {k: v for name in names for k, v in _with(judged, name)}
    return '', {}


def spans_decades(curves: dict[str, list[tuple[int, float]]]) -> bool:
    """Return whether values span a decade or more: a log axis within one decade has no ticks."""
    sizes = [max(abs(value), 0.01) for values in curves.values() for _, value in values]
    return bool(sizes) and max(sizes) >= 10 * min(sizes)


def _judged(narrow: dict[str, Any]) -> dict[str, list[tuple[int, float]]]:
    """Return a list of (step, value) by figure."""
    curves: dict[str, list[tuple[int, float]]] = {}
    for step, figures in narrow['judged']:
        for name, value in figures.items():
            curves.setdefault(name, []).append((step, value))
    return curves


def _with(curves: dict[str, list], name: str) -> list[tuple[str, list]]:
    return [
        (k, v)
        for k, v in curves.items()
        if k == name or k.endswith('_' + name) or (name.endswith('_') and name in k)
    ]


def _lines(axis: Any, title: str, curves: dict[str, list]) -> None:
    for name, values in list(curves.items())[:12]:
        marker = 'o' if len(values) < 9 else None  # judged once if cut off early
        label = name.removeprefix('loss_')
        axis.plot(*zip(*values), label=label, linewidth=1.4, marker=marker, markersize=4)
    if curves:
        axis.legend(fontsize=8, framealpha=0.5)
    canvas.style(axis, title, 'step', '')


def _scatter(axis: Any, scatter: dict[str, Any]) -> None:
    """Draw the loss of a pair against its uncertainty (DVTR Fig. 4)."""
    for name, colour, marker in (('negative', canvas.BLUE, 'o'), ('soft', canvas.ORANGE, '^')):
        canvas.dots(axis, *scatter[name], name, colour, marker, s=8)
    axis.legend(fontsize=8, framealpha=0.9)
    cost = 'probability that the softmax gives the pair (log10)'
    canvas.style(
        axis, 'weight against loss of unannotated pairs (DVTR Fig. 4)', cost, 'weight (eta)'
    )


def _verdicts(axis: Any, checks: Sequence[Check]) -> None:
    axis.axis('off')
    y = 1.0
    for one in checks:
        colour, mark = COLOURS[one.passed]
        text = canvas.wrapped(f'{mark}: {one.name}: {one.said}', 56, 12)
        axis.text(0, y, text, va='top', fontsize=9, color=colour)
        y -= 0.045 * (1 + text.count('\n')) + 0.02
