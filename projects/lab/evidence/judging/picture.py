"""Fronts: what each transform gains in paired recall, and what that costs in right items."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping, Sequence

from judging.measures import DIRECTIONS
from mmvtr.visualization import canvas

COLOURS = dict(
    csls='C0',
    qb_norm='C5',
    inverted_softmax='C1',
    dual_softmax='C8',
    sinkhorn='C3',
    shrunk_sinkhorn='C4',
    unbalanced_sinkhorn='C2',
)
ASKS = dict(t2v='text asks', v2t='item asks')
FROM = dict(test='bank: the test queries (transductive)', bank='bank: train queries')


def draw(path: Path, fronts: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]) -> None:
    """A panel for each direction and bank, on the half that nothing was chosen on."""
    figure = canvas.new_figure(8.5, width=11)
    axes = figure.subplots(2, 2)
    for row, direction in zip(axes, DIRECTIONS):
        for axis, source in zip(row, FROM):
            _panel(axis, fronts[source]['other'], direction)
            axis.set_title(f'{ASKS[direction]}; {FROM[source]}')
    axes[0, 0].legend(frameon=False, fontsize=8)
    canvas.save(figure, path)


def _panel(axis: Any, points: Sequence[Mapping[str, Any]], direction: str) -> None:
    for name, colour in COLOURS.items():
        own = [p for p in points if p['transform'] == name]
        # one line a temperature where a second setting varies
        for share in dict.fromkeys(p['share'] if p['other'] else 0 for p in own):
            line = [p for p in own if not p['other'] or p['share'] == share]
            xy = [(p[f'{direction}_R1'][0], p[f'{direction}_AP'][0]) for p in line]
            first = share == next(iter(dict.fromkeys(p['share'] if p['other'] else 0 for p in own)))
            label = name.replace('_', ' ') if first else None
            axis.plot(*zip(*xy), marker='o', markersize=3.5, color=colour, label=label, linewidth=1)
    axis.plot(0, 0, marker='*', color='k', markersize=10)
    axis.axhline(0, color='0.7', linewidth=0.7)
    axis.axvline(0, color='0.7', linewidth=0.7)
    axis.set_ylim(bottom=-10)
    axis.set_xlim(left=-4)
    axis.set_xlabel('paired R@1, points above raw')
    axis.set_ylabel('AP of EXTRA, points above raw')
