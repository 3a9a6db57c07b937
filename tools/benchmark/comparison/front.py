"""The first page of the comparison: what each paper's method does where its problem exists."""

from __future__ import annotations

from typing import Mapping, Sequence

from comparison.columns import heading
from comparison.files import Row
from comparison.markdown import interval, table
from comparison.papers import PAPERS, Paper
from comparison.plan import is_fair
from comparison.together import unused_together
from comparison.views import View

HEADINGS = ['method', 'condition', 'over', 'aim', 'cost', 'seeds', 'verdict']


def verdict_table(
    papers: Sequence[Paper], views: Mapping[str, View], *, further: bool = False
) -> str:
    """A line for each row that a paper is judged by, of those with cells of several seeds.

    Args:
        papers: whose rows they are.
        views: by name.
        further: a line for each control, in place of the one that is named, or the first.
    """
    lines = []
    for paper in papers:
        for where, name, *named in paper.rows:
            view = views.get(where)
            if view is None or name not in view.rows or len(view.rows[name].cells) < 2:
                continue
            controls = view.controls[name]
            for control in controls if further else named or controls[:1]:
                lines.append(_line(view, view.rows[name], control))
    return table(HEADINGS, lines) if lines else ''


def _line(view: View, row: Row, control: str) -> list[str]:
    plan = view.condition
    keys = dict.fromkeys((plan.aim, plan.cost))
    told = [f'{heading(key)} {interval(view.edge(row, key, control), key)}' for key in keys]
    word = view.verdict(row, control)
    if word == 'costs':
        word = 'costs, aim not resolved'
    return [
        view.label(row.name) + (' (ours)' if _is_ours(view, row) else ''),
        plan.label + ('' if is_fair(plan) else ' (first round)'),
        view.labels[control],
        *told,
        *[''] * (2 - len(told)),
        f'{len(view.edge(row, plan.aim, control).seeds)}',
        f'**{word}**' if word in ('helps', 'harms') else word,
    ]


def _is_ours(view: View, row: Row) -> bool:
    """Whether that must be said beside its label."""
    return view.groups[row.name] == 'ours' and 'ours' not in view.labels[row.name]


def paper_sections(views: Mapping[str, View]) -> str:
    """A section a paper: its claim, what happened, and what its authors may say."""
    parts = []
    for paper in PAPERS:
        lines = verdict_table([paper], views, further=True)
        parts += [
            f'## {paper.name}\n',
            f'**Claim.** {paper.claim}\n',
            f'**Condition.** {paper.condition}\n',
            f'**What happened.**\n\n{lines}' if lines else '**What happened.** Nothing was run.\n',
            unused_together(views) if paper.together else '',
            f'**What its authors may say.** {paper.answer}\n',
        ]
    return '\n'.join(part for part in parts if part)
