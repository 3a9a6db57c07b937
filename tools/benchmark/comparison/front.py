"""The first page of the comparison: what each paper's method does where its problem exists."""

from __future__ import annotations

from typing import Mapping, Sequence

from comparison.columns import heading
from comparison.files import Row
from comparison.kinds import Method
from comparison.markdown import interval, table
from comparison.papers import PAPERS, Paper
from comparison.plan import is_fair
from comparison.together import unused_together
from comparison.views import View

HEADINGS = ['method', 'condition', 'over', 'aim', 'cost', 'seeds', 'verdict']


def verdict_table(
    papers: Sequence[Paper], views: Mapping[str, View], methods: Mapping[str, Method]
) -> str:
    """A line for each row that a paper is judged by, of those with cells of several seeds."""
    lines = [
        _line(views[where], views[where].rows[name])
        for paper in papers
        for where, name in paper.rows
        if where in views and name in views[where].rows and len(views[where].rows[name].cells) > 1
    ]
    return table(HEADINGS, lines) if lines else ''


def _line(view: View, row: Row) -> list[str]:
    plan, controls = view.condition, view.controls[row.name]
    keys = dict.fromkeys((plan.aim, plan.cost))
    told = [f'{heading(key)} {interval(view.edge(row, key), key)}' for key in keys]
    word = view.verdict(row)
    if word == 'costs':
        word = 'costs, aim not resolved'
    return [
        view.label(row.name) + (' (ours)' if _is_ours(view, row) else ''),
        plan.label + ('' if is_fair(plan) else ' (first round)'),
        view.labels[controls[0]] if controls else '',
        *told,
        *[''] * (2 - len(told)),
        f'{len(row.cells)}',
        f'**{word}**' if word in ('helps', 'harms') else word,
    ]


def _is_ours(view: View, row: Row) -> bool:
    """Whether that must be said beside its label."""
    return view.groups[row.name] == 'ours' and 'ours' not in view.labels[row.name]


def paper_sections(views: Mapping[str, View], methods: Mapping[str, Method]) -> str:
    """A section a paper: its claim, what happened, and what its authors may say."""
    parts = []
    for paper in PAPERS:
        lines = verdict_table([paper], views, methods)
        parts += [
            f'## {paper.name}\n',
            f'**Claim.** {paper.claim}\n',
            f'**Condition.** {paper.condition}\n',
            f'**What happened.**\n\n{lines}' if lines else '**What happened.** Nothing was run.\n',
            unused_together(views) if paper.together else '',
            f'**What its authors may say.** {paper.answer}\n',
        ]
    return '\n'.join(part for part in parts if part)
