"""The first page of the comparison: what each paper's method does where its problem exists."""

from __future__ import annotations

from typing import Any, Callable, Mapping, NamedTuple, Optional, Sequence

from comparison.columns import FOUND, TRUTH, heading
from comparison.files import OWN, Row
from comparison.kinds import Condition, Method
from comparison.markdown import interval, table
from comparison.papers import PAPERS, POOLED, Paper, Place
from comparison.plan import FAMILIES
from comparison.statistics import Difference, difference, time_said
from comparison.summary import NOTED
from comparison.together import (
    LOOKS,
    gains_of,
    over_corpora,
    pooled,
    told,
    unused,
    unused_together,
)
from comparison.verdicts import MATTERS, Truth, of_aim, word_said
from comparison.views import View, word_of
from mmvtr.evaluation.paired import holm
from mmvtr.evaluation.seeds import seeds_needed

#: Of what is true and of what is annotated, by direction.
DIRECTIONS = ('true, t2v', 'true, v2t', 'annotated, t2v', 'annotated, v2t')
SHORT_HEADINGS = [
    'method',
    'condition',
    'over',
    'aim',
    'true, t2v / v2t',
    'annotated, t2v / v2t',
    'verdict',
]
HEADINGS = ['method', 'condition', 'over', 'aim', *DIRECTIONS, 'trainings', 'verdict']


class Line(NamedTuple):
    """What a row does in a condition, over one control.

    Attributes:
        label: of the row, and whose it is.
        condition: where.
        over: the control, and how long it trains where that differs.
        plan: of the condition.
        aim: difference in its aim.
        beside: differences in mAP and in R@1+5+10, t2v and v2t of each; None = not measured.
        trainings: pairs of one seed.
        word: the verdict.
        told: how a difference in a measure is written.
    """

    label: str
    condition: str
    over: str
    plan: Condition
    aim: Difference
    beside: Sequence[Optional[Difference]]
    trainings: int
    word: str
    told: Callable[[Difference, str], str] = interval


def front_ps(views: Mapping[str, View]) -> dict[Place, float]:
    """Holm's p over all rows of the first table, each times how often it was looked at.

    Returns:
        By condition, row and control; of the unused corpora by the role of its settings.
    """
    ps: dict[Place, float] = {}
    for where, name, *named in (place for paper in PAPERS for place in paper.first):
        if where == POOLED:
            role = named[0] if named else OWN
            gains = gains_of(unused(views), name, role)
            if gains and len(gains.aim) > 1:
                ps[where, name, role] = LOOKS * over_corpora(gains.aim).p
            continue
        view = views.get(where)
        if view is None or name not in view.rows:
            continue
        for control in named or view.controls[name][:1]:
            gain = view.edge(view.rows[name], view.condition.aim, control)
            if gain and (name, control) in view.corrected:
                ps[where, name, control] = view.condition.looks * gain.p
    return dict(zip(ps, (min(1.0, p) for p in holm(list(ps.values())))))


def corrected_views(views: Mapping[str, View]) -> dict[str, View]:
    """The same, where a row of the first table has the larger p of its condition's and of that
    table's correction."""
    across = front_ps(views)
    return {
        name: view._replace(
            corrected={
                (row, control): max(p, across.get((name, row, control), 0.0))
                for (row, control), p in view.corrected.items()
            }
        )
        for name, view in views.items()
    }


def verdict_lines(
    places: Sequence[Place],
    views: Mapping[str, View],
    methods: Mapping[str, Method],
    *,
    further: bool = False,
) -> list[Line]:
    """A line for each row that is named, of those with cells of several seeds.

    Args:
        places: of a paper.
        views: by name.
        methods: by name.
        further: a line for each control, in place of the one that is named, or the first.
    """
    lines = []
    if further:
        places = [place if place[0] == POOLED else place[:2] for place in places]
    for where, name, *named in dict.fromkeys(places):
        if where == POOLED:
            lines += _pooled(views, methods, name, *named)
            continue
        view = views.get(where)
        if view is None or name not in view.rows or len(view.rows[name].cells) < 2:
            continue
        controls = _apart(view, view.rows[name]) if further else named
        for control in controls or view.controls[name][:1]:
            if control in view.rows and view.edge(view.rows[name], view.condition.aim, control):
                lines.append(_line(view, methods, view.rows[name], control))
    return lines


def verdict_table(lines: Sequence[Line]) -> str:
    """Of the lines of some papers; '' for none."""
    cells = []
    for line in lines:
        aim = line.plan.aim
        cells.append(
            [
                line.label,
                line.condition,
                line.over,
                f'{heading(aim)} {line.told(line.aim, aim)}',
                *(
                    line.told(gain, key) if gain else ''
                    for gain, key in zip(line.beside, (*TRUTH, *FOUND))
                ),
                f'{line.trainings}',
                word_said(line.word, line.aim, MATTERS[line.plan.aim]),
            ]
        )
    return table(HEADINGS, cells) if cells else ''


def short_table(lines: Sequence[Line]) -> str:
    """The same without intervals: in bold what excludes 0, t2v and v2t in one cell."""
    cells = []
    for line in lines:
        keys = (*TRUTH, *FOUND)
        said = [_short(line, gain, key) if gain else '' for gain, key in zip(line.beside, keys)]
        cells.append(
            [
                line.label,
                line.condition,
                line.over,
                f'{heading(line.plan.aim)} {_short(line, line.aim, line.plan.aim)}',
                *(' / '.join(said[k : k + 2]) for k in (0, 2)),
                word_said(line.word, line.aim, MATTERS[line.plan.aim]),
            ]
        )
    return table(SHORT_HEADINGS, cells)


def _short(line: Line, gain: Difference, key: str) -> str:
    mean = line.told(gain, key).split(' ')[0]
    return f'**{mean}**' if gain.sign else mean


def _apart(view: View, row: Row) -> list[str]:
    """Its controls, without those that are an earlier one under another name."""
    kept: list[str] = []
    for name in view.controls[row.name]:
        gains = (
            difference(view.rows[name], view.rows[other], view.condition.aim, view.text_videos)
            for other in kept
        )
        if all(gain is None or any(gain.gains) for gain in gains):
            kept.append(name)
    return kept


def _line(view: View, methods: Mapping[str, Method], row: Row, control: str) -> Line:
    plan = view.condition
    aim = view.edge(row, plan.aim, control)
    return Line(
        _label(view, methods, row),
        plan.label,
        view.labels[control] + time_said(row, view.rows[control]),
        plan,
        aim,
        [view.edge(row, key, control) for key in (*TRUTH, *FOUND)],
        len(aim.seeds),
        view.verdict(row, control),
    )


def _pooled(
    views: Mapping[str, View], methods: Mapping[str, Method], name: str, role: str = OWN
) -> list[Line]:
    """One line for all unused corpora; none before the row was trained on two of them."""
    those, across = unused(views), front_ps(views)
    found = [line for line in pooled(those) if (line.name, line.role) == (name, role)]
    lines = []
    for _, _, gains, p in found:
        view = next(view for view in those if name in view.rows)
        row, control = view.rows[name], view.rows[view.controls[name][0]]
        aim, cost = over_corpora(gains.aim), over_corpora(gains.cost)
        beside = [gains.of(key) for key in (*TRUTH, *FOUND)]
        p = max(p, across.get((POOLED, name, role), 0.0))
        rate = '' if role == OWN else f', at the rate of {view.labels[control.name]}'
        lines.append(
            Line(
                _label(view, methods, row),
                f'general captions, {len(gains.aim)} unused corpora{rate}',
                view.labels[control.name] + time_said(row, control),
                view.condition,
                aim,
                beside,
                gains.trainings,
                word_of(view.condition, aim, cost, Truth(*beside[:2]), p),
                told,
            )
        )
    return lines


def _label(view: View, methods: Mapping[str, Method], row: Row) -> str:
    """Whose it is, and a mark where there is more to be said."""
    ours = view.groups[row.name] == 'ours' and 'ours' not in view.labels[row.name]
    noted = f' {NOTED}' if methods[row.method].note else ''
    return view.label(row.name) + (' (ours)' if ours else '') + noted


def paper_sections(
    views: Mapping[str, View], methods: Mapping[str, Method], tuning: Mapping[str, Any]
) -> str:
    """A section a paper: its claim, what happened, and what its authors may say."""
    parts = []
    for paper in PAPERS:
        places = [*paper.first, *paper.rows]
        lines = verdict_table(verdict_lines(places, views, methods, further=True))
        parts += [
            f'## {paper.name}\n',
            f'**Claim.** {paper.claim}\n',
            f'**Condition.** {paper.condition}\n',
            f'**What happened.**\n\n{lines}' if lines else '**What happened.** Nothing was run.\n',
            what_it_takes(verdict_lines(places, views, methods)),
            edges(paper, views, methods, tuning) if lines else '',
            unused_together(views) if paper.together else '',
            f'**What its authors may say.** {paper.answer}\n',
        ]
    return '\n'.join(part for part in parts if part)


def what_it_takes(lines: Sequence[Line]) -> str:
    """How many trainings would resolve what is not resolved.  Ladders are left out: they explain,
    and confirm nothing."""
    found = []
    for line in lines:
        open_ = of_aim(line.word, line.aim, MATTERS[line.plan.aim]) == 'not resolved'
        tuned = len(FAMILIES[line.plan.family].grid) > 1
        if open_ and tuned and line.aim.seeds:
            needed = seeds_needed(line.aim.gains, MATTERS[line.plan.aim])
            name = line.label.replace(f' {NOTED}', '')
            over = f'{name} over {line.over} ({line.condition})'
            found.append(f'{over} {f"about {needed}" if needed else "over 99"}')
    if not found:
        return ''
    return (
        '**What a verdict would take**, by how far the trainings there lie apart (for a difference '
        f'that would matter, in four of five experiments): trainings of {"; of ".join(found)}.\n'
    )


def edges(
    paper: Paper,
    views: Mapping[str, View],
    methods: Mapping[str, Method],
    tuning: Mapping[str, Any],
) -> str:
    """Rows whose learning rate is an end of the grid: it may not be best."""
    found: dict[str, None] = {}
    for where, name, *_ in (*paper.first, *paper.rows):
        having = (view for view in unused(views) if name in view.rows)
        view = next(having, None) if where == POOLED else views.get(where)
        if view is None or name not in view.rows:
            continue
        plan = view.condition
        grid = FAMILIES[plan.family].grid
        for row in (name, *view.controls[name]):
            method = row.split('/')[0]
            chosen = tuning.get(plan.family, {}).get(method, {}).get('chosen')
            if len(grid) < 3 or chosen not in (grid[0], grid[-1]):
                continue
            (rate,) = chosen.values()
            end = 'lowest' if chosen == grid[0] else 'highest'
            found[f'{methods[method].label} ({plan.family}: {rate:g}, the {end})'] = None
    if not found:
        return ''
    return (
        '**At an end of the grid** of learning rates, so that a better one may lie beyond: '
        f'{"; ".join(found)}.\n'
    )
