"""The section of one condition: its aim, the possible gain, its tables."""

from __future__ import annotations

from typing import Callable, Mapping, Sequence

from comparison.columns import (
    DETECTION,
    PAIRED,
    SCORES,
    SEMANTIC,
    TRUTH,
    Column,
    digits,
    heading,
    lower_is_better,
)
from comparison.files import MATCHED, RECALL, Row
from comparison.kinds import Condition
from comparison.markdown import interval, percent, spread, table
from comparison.plan import FAMILIES
from comparison.records import NAME
from comparison.statistics import mean_and_deviation, time_ratio
from comparison.verdicts import MATTERS
from comparison.views import View
from mmvtr.evaluation.seeds import seeds_needed

#: Seeds stand apart by more than this many times what would matter.
APART = 3
CHOSEN = (
    'Protocol: each row, its control and the oracle were trained with the same {count} learning '
    'rates, chosen on 1,000 clips of val by {measure}, and by paired recall where that says little.'
)
ONE_RATE = 'Protocol: all rows have one learning rate.'
CORRECTED = (
    'The last epoch is tested. Verdicts are corrected for the number of comparisons (Holm), prices '
    'are not.'
)
SECOND_LOOK = (
    ' Each p is doubled, as results had been seen when the number of trainings was settled.'
)
OTHERS_NOTE = """\
Differences in the aim to the first control: each at its own best settings by the aim; the row at
the settings that are best for its control; each at its best by paired recall. The corrected p is of
the first of these. The last column is a lower bound on the seeds that would resolve a difference
that matters in four of five experiments, by the spread of those that were trained.
"""
TIME_NOTE = """\
Time is the CPU time of the training and its test, over that of the baseline; the median over the
seeds. It is the one figure here that varies between runs of the same code.
"""
DETECTION_NOTE = """\
How well soft positives (true but not annotated) are told from true negatives, in percent: by the
uncertainty 1 - p of a supervision that has a match probability p, and by the cosine of the same
model. At break-even precision equals recall. DVTR's training weight is another number: it compares
p with what the annotated pair reaches, which a test must not know. Training weights are judged, on
the training set, in agreement.md. (As printed the weight *is* 1 - p.)
"""


def section(view: View, views: Mapping[str, View], link: str) -> str:
    """All of one condition.

    Args:
        view: the condition.
        views: all of them, by name.
        link: folder of the cells, from the page.
    """
    plan = view.condition
    oracle = view.label(plan.oracle) if plan.oracle in view.rows else 'none'
    base = view.label(plan.baseline) if view.base else f'{plan.baseline}, which has no cells'
    better = 'lower' if lower_is_better(plan.aim) else 'higher'
    head = (
        f'## {plan.label[:1].upper()}{plan.label[1:]}\n\n{plan.about}\n\n'
        f'Aim: {heading(plan.aim)} ({better} is better). Cost: {heading(plan.cost)}. '
        f'Baseline: {base}. Oracle: {oracle}.'
    )
    missing = view.missing()
    if missing:
        head += f' **Missing**: {"; ".join(missing)}.'
    paragraphs = [
        head,
        plan.why,
        _protocol(plan),
        _headroom(view),
        _without(view, views),
        _apart(view),
    ]
    parts = ['\n\n'.join(filter(None, paragraphs)) + '\n']
    source = (
        f'From `{view.name}` of `{link}/{NAME}`, and [`conditions.json`]({link}/conditions.json).\n'
    )
    tables = [
        ('What there is to win', '', _won_table(view)),
        ('Paired retrieval, and the differences that count', '', _main_table(view)),
        ('At other settings', OTHERS_NOTE, _others_table(view)),
        ('Semantic retrieval', '', metric_table(view, SEMANTIC)),
        ('Normalisation, length, time', TIME_NOTE, metric_table(view, SCORES, time=True)),
        ('Detection of soft positives', DETECTION_NOTE, metric_table(view, DETECTION)),
    ]
    for title, note, lines in tables:
        if lines:
            parts += [f'### {title} ({plan.label})\n', *filter(None, [note]), lines, source]
    return '\n'.join(parts)


def _protocol(plan: Condition) -> str:
    """How its settings were chosen."""
    count = len(FAMILIES[plan.family].grid)
    chosen = CHOSEN.format(count=count, measure=heading(plan.choice)) if count > 1 else ONE_RATE
    looks = SECOND_LOOK if plan.looks > 1 else ''
    return f'{chosen} {CORRECTED}{looks}'


def _headroom(view: View) -> str:
    """Whether an oracle gains in the aim: where it does not, no method can."""
    plan = view.condition
    oracle = view.rows.get(plan.oracle or '')
    gain = view.gain(oracle, plan.aim) if oracle else None
    if gain is None or len(gain.seeds) == 1:
        return ''
    by = f'{heading(plan.aim)} {interval(gain, plan.aim)}'
    if view.oracle_gains(plan.aim):
        return f'The possible gain: the oracle gains {by}.'
    return (
        f'**There is no bias to undo here**: not even the oracle gains measurably ({by}). A row '
        'may still gain by other means, and may lose.'
    )


def _without(view: View, views: Mapping[str, View]) -> str:
    """What the bias costs the baseline: its means here, and where the bias is absent."""
    other, aim = views.get(view.condition.without), view.condition.aim
    if other is None or other.base is None or view.base is None:
        return ''
    pairs = [mean_and_deviation(v.base.values(aim).values()) for v in (view, other)]
    if None in pairs:
        return ''
    (here, _), (there, _) = pairs
    alike = other.condition.family == view.condition.family
    roughly = '' if alike else '; other frames and epochs, so the two compare roughly only'
    lost = max(0.0, there - here)
    words = (
        '**There is nothing to gain back here**: the bias costs the baseline nothing'
        if lost < MATTERS[aim]
        else f'What can be gained back: the bias costs the baseline about {lost:.0f}'
    )
    return (
        f'{words}. Its {heading(aim)} is {here:.1f} here, and {there:.1f} without the bias '
        f'(`{other.name}`{roughly}).'
    )


def _apart(view: View) -> str:
    """Rows whose means say little, as their seeds disagree."""
    aim = view.condition.aim
    apart = APART * MATTERS[aim]
    found = []
    for name, row in view.rows.items():
        values = list(row.values(aim).values())
        if values and max(values) - min(values) > apart and not view.collapsed(row):
            found.append(f'{view.label(name)} {", ".join(f"{x:.{digits(aim)}f}" for x in values)}')
    if not found:
        return ''
    return f'**Seeds apart** by more than {apart:g} in {heading(aim)}: {"; ".join(found)}.'


def _won_table(view: View) -> str:
    """Chance, baseline and oracle in all semantic measures, with the gain of the oracle."""
    oracle = view.rows.get(view.condition.oracle or '')
    if oracle is None or view.base is None:
        return ''
    lines = []
    for column in SEMANTIC:
        gain = view.gain(oracle, column.key)
        if gain is None:
            continue
        chance = view.bounds['chance'].get(column.key)
        known = '' if chance is None else f'{chance:.{column.digits}f}'
        means = [
            spread(row.values(column.key).values(), column.digits) for row in (view.base, oracle)
        ]
        lines.append([column.heading, known, *means, interval(gain, column.key)])
    headings = ['measure', 'chance', 'baseline', 'oracle', 'difference']
    return table(headings, lines) if lines else ''


def _main_table(view: View) -> str:
    aim, cost = view.condition.aim, view.condition.cost
    extra: dict[str, Callable[[Row], str]] = {
        f'difference in {heading(key)}': lambda row, key=key: interval(view.edge(row, key), key)
        for key in dict.fromkeys((aim, cost, view.condition.choice, *TRUTH))
    }
    extra['over'] = lambda row: ', '.join(view.controls[row.name][:1])
    for key in dict.fromkeys((aim, cost)):
        name = f'{heading(key)} over further controls'
        extra[name] = lambda row, key=key: _further(view, row, key)
    extra['closed'] = lambda row: _closed(view, row)
    shown = {column.key for column in PAIRED}
    more = dict.fromkeys(key for key in (aim, view.condition.choice) if key not in shown)
    columns = (*PAIRED, *(Column(key, heading(key), digits(key)) for key in more))
    return metric_table(view, columns, extra)


def _others_table(view: View) -> str:
    """Of rows that get a verdict."""
    aim, cost, lines = view.condition.aim, view.condition.cost, []
    paid = [cost] if cost != aim else []
    firsts = {name: controls[0] for name, controls in view.controls.items() if controls}
    for (name, control), p in view.corrected.items():
        if control != firsts[name]:
            continue
        row = view.rows[name]
        own = view.edge(row, aim)
        needed = seeds_needed(own.gains, MATTERS[aim]) if len(own.gains) > 1 else None
        lines.append(
            [
                view.label(name),
                interval(own, aim),
                interval(view.elsewhere(row, MATCHED), aim),
                *(interval(view.elsewhere(row, MATCHED, key), key) for key in paid),
                interval(view.elsewhere(row, RECALL), aim),
                f'{p:.3f}',
                f'{len(own.seeds)}',
                'over 99' if needed is None and len(own.gains) > 1 else f'{needed or ""}',
            ]
        )
    headings = ['row', 'own best', "control's best", *(f'{heading(key)} there' for key in paid)]
    headings += ['best by recall', 'corrected p', 'seeds', 'seeds needed']
    return table(headings, lines) if lines else ''


def _further(view: View, row: Row, key: str) -> str:
    """Differences to the controls after the first."""
    gains = {name: view.edge(row, key, name) for name in view.controls[row.name][1:]}
    return '; '.join(f'{interval(gain, key)} over {name}' for name, gain in gains.items() if gain)


def _closed(view: View, row: Row) -> str:
    """Share of the oracle's gain, of rows that are compared with the baseline."""
    known = view.condition.baseline in view.controls[row.name]
    return percent(view.share(row)) if known else ''


def metric_table(
    view: View,
    columns: Sequence[Column],
    extra: Mapping[str, Callable[[Row], str]] = {},
    *,
    time: bool = False,
) -> str:
    """Chance, ceiling and all rows that have one of the columns; without empty columns.

    Args:
        view: the condition.
        columns: metrics.
        extra: further columns, by heading, as functions of a row.
        time: whether to add the time ratio.
    """
    rows = {
        name: [spread(row.values(column.key).values(), column.digits) for column in columns]
        for name, row in view.rows.items()
    }
    rows = {name: values for name, values in rows.items() if any(values)}
    if not rows:
        return ''
    if time:
        extra = {**extra, 'time': lambda row: _time(row, view)}
    lines = []
    for bound, numbers in view.bounds.items():
        known = [f'{numbers[c.key]:.{c.digits}f}' if c.key in numbers else '' for c in columns]
        lines.append([bound, *known, *[''] * len(extra)])
    for name, values in rows.items():
        further = [function(view.rows[name]) for function in extra.values()]
        lines.append([view.label(name), *values, *further])
    bounds = len(view.bounds)
    headings = ['row', *(column.heading for column in columns), *extra]
    kept = [0, *(k for k in range(1, len(headings)) if any(line[k] for line in lines[bounds:]))]
    lines = [[line[k] for k in kept] for line in lines]
    # A bound without a number of these columns is no line.
    lines = [line for k, line in enumerate(lines) if k >= bounds or any(line[1:])]
    return table([headings[k] for k in kept], lines)


def _time(row: Row, view: View) -> str:
    ratio = time_ratio(row, view.base) if view.base and not row.transform else None
    return '' if ratio is None else f'{ratio:.2f}'
