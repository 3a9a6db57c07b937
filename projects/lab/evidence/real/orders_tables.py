"""Tables and picture of orders.py's results, between marks of two pages."""

from __future__ import annotations

import re
from typing import Sequence

import matplotlib
import numpy as np
from methods import ROOT
from results import RESULTS, Result, read_rows

from mmvtr.evaluation.paired import holm
from mmvtr.evaluation.seeds import of_seeds

matplotlib.use('Agg')
from matplotlib import pyplot as plt  # noqa: E402

PAGES = ('projects/lab/evidence/pages/orders.md', 'docs/how_sure.md')
IMAGE = ROOT / 'docs/images/how_sure.png'
NAMES = dict(
    best_score='best score',
    margin='margin over the second',
    softmax='softmax, own temperature',
    calibrated='P of `calibrate`',
    ensemble="ensemble's probability of this answer",
    disagreement="ensemble's disagreement",
    carried="carried: regression of the ensemble's probability",
    labels='the same regression of labels',
    sigma_query='sigma of the query',
    sigma_answer='sigma of the answer',
    sigma_both='sigma of both',
    sigma_permuted='sigma of the query, permuted',
    probvlm_query="ProbVLM's sigma of the query",
    probvlm_answer="ProbVLM's sigma of the answer",
    probvlm_both="ProbVLM's sigma of both",
    probvlm_permuted="ProbVLM's sigma of the query, permuted",
    short_first='fewest words first',
    long_first='most words first',
)
#: Sets with tables, and those in the short one by their words.
SETS = ('F', 'J', 'M', 'S', 'T')
NAMED = dict(F='Flickr8k', J='judged images', M='MSR-VTT frames', S='the same, stronger model')
DRAWN = dict(best_score='#9e9e9e', softmax='#7fa7d6', calibrated='#2c5aa0', ensemble='#1b7837')


def chosen(rows: Sequence[Result], **key: str) -> list[Result]:
    return sorted(
        (row for row in rows if all(row[name] == x for name, x in key.items())),
        key=lambda row: row['seed'],
    )


def mean(runs: Sequence[Result], side: str, order: str, figure: str) -> float:
    return float(np.mean([run[side][order][figure] for run in runs]))


def recall(runs: Sequence[Result], side: str, order: str, tenth: int) -> float:
    return float(np.mean([run[side][order]['recalls'][tenth - 1] for run in runs]))


def over(runs: Sequence[Result], side: str, order: str, base: str):
    """Rejection ratio of an order minus that of another, of the same answers."""
    pairs = [run[side][order]['rejection'] - run[side][base]['rejection'] for run in runs]
    return of_seeds(pairs)


def table(rows: Sequence[Result], name: str, side: str) -> str:
    """All orders of a set and direction; verdicts by Holm within them."""
    lines = [
        '| row, seeds | order | rejection ratio | AURC | recall@1 at 50 % | 80 % | 100 % | '
        'over softmax [95 %] | |',
        '|---' * 9 + '|',
    ]
    cells = []
    for method in dict.fromkeys(row['method'] for row in rows if row['set'] == name):
        runs = [run for run in chosen(rows, set=name, method=method) if side in run]
        for order in NAMES:
            some = [run for run in runs if order in run[side]]
            if some:
                cells.append((method, order, some))
    tested = [
        i for i, (_, order, runs) in enumerate(cells) if order != 'best_score' and len(runs) > 2
    ]
    found = [over(cells[i][2], side, cells[i][1], 'best_score') for i in tested]
    corrected = dict(zip(tested, zip(found, holm([x.p for x in found]))))
    for i, (method, order, runs) in enumerate(cells):
        change = ''
        if order != 'softmax' and len(runs) > 1:
            x = over(runs, side, order, 'softmax')
            change = f'{x.mean:+.1f} [{x.interval[0]:+.1f}, {x.interval[1]:+.1f}]'
        verdict = ''
        if i in corrected:
            estimate, p = corrected[i]
            verdict = 'not resolved' if estimate.interval[0] > 0 else 'gains nothing'
            if p < 0.05 and estimate.mean > 0:
                verdict = '**gains**'
        recalls = ' | '.join(f'{recall(runs, side, order, n):.1f}' for n in (5, 8, 10))
        figures = [f'{mean(runs, side, order, x):.1f}' for x in ('rejection', 'aurc')]
        lines.append(
            f'| {method}, {len(runs)} | {NAMES[order]} | {" | ".join(figures)} | {recalls} | '
            f'{change} | {verdict} |'
        )
    return '\n'.join(lines)


def short(rows: Sequence[Result]) -> str:
    """InfoNCE's orders by set, for a user."""
    places = [
        (name, side)
        for name in NAMED
        for side in ('t2v', 'v2t')
        if chosen(rows, set=name, method='infonce')
    ]
    heads = ' | '.join(f'{NAMED[name]}, {side}' for name, side in places)
    lines = [f'| the surest by | {heads} |', '|---' * (1 + len(places)) + '|']
    for order in ('best_score', 'margin', 'softmax', 'calibrated', 'probvlm_query', 'ensemble'):
        cells = []
        for name, side in places:
            runs = chosen(rows, set=name, method='infonce')
            some = [run for run in runs if order in run[side]]
            found = mean(some, side, order, 'rejection')
            cells.append(f'{found:.0f} ({recall(some, side, order, 5):.0f})')
        lines.append(f'| {NAMES[order]} | {" | ".join(cells)} |')
    runs = [(chosen(rows, set=name, method='infonce'), side) for name, side in places]
    every = ' | '.join(f'({recall(some, side, "softmax", 10):.0f})' for some, side in runs)
    return '\n'.join([*lines, f'| all are answered | {every} |'])


def draw(rows: Sequence[Result]) -> None:
    """Share of right answers by share of the queries that are answered, F, both directions."""
    runs = chosen(rows, set='F', method='infonce')
    figure, axes = plt.subplots(1, 2, figsize=(7.2, 2.8))
    for axis, side, title in zip(axes, ('t2v', 'v2t'), ('texts ask', 'images ask')):
        for order, color in DRAWN.items():
            some = np.array([run[side][order]['recalls'] for run in runs if order in run[side]])
            x = 10 * np.arange(1, 11)
            axis.plot(x, some.mean(0), color=color, label=NAMES[order])
            axis.fill_between(x, some.min(0), some.max(0), color=color, alpha=0.15, lw=0)
        axis.set(xlabel='% of the queries answered, surest first', title=title)
        axis.spines[['top', 'right']].set_visible(False)
    axes[0].set_ylabel('% of the answers right')
    axes[0].legend(frameon=False, fontsize=7)
    figure.tight_layout()
    figure.savefig(IMAGE, dpi=150, metadata=dict(Software=None))
    plt.close(figure)


def write_page() -> None:
    rows = read_rows(RESULTS / 'orders')
    found = {f'{name}-{side}': table(rows, name, side) for name in SETS for side in ('t2v', 'v2t')}
    if chosen(rows, set='F', method='infonce'):
        found['F-people'] = table(rows, 'F', 'people')
        draw(rows)
    found['short'] = short(rows)
    for page in PAGES:
        path = ROOT / page
        text = path.read_text()
        parts = re.split(r'<!-- orders:([\w-]+) -->.*?<!-- /orders -->', text, flags=re.S)
        for n in range(1, len(parts), 2):
            made = found[parts[n]]
            parts[n] = f'<!-- orders:{parts[n]} -->\n\n{made}\n\n<!-- /orders -->'
        path.write_text(''.join(parts))
        print(page)
