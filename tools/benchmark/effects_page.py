"""docs/benchmark.md, from the files of effects.py and nothing else."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence

from effects_columns import (
    DETECTION,
    PAIRED,
    SCORES,
    SEMANTIC,
    Column,
    digits,
    heading,
    lower_is_better,
)
from effects_files import Cell, Row, load_json
from effects_pictures import AIM_COST, AIM_SHARE, TRADE, in_aim, write_pictures
from effects_plan import Condition, Method
from effects_statistics import (
    Difference,
    View,
    make_views,
    mean_and_deviation,
    time_ratio,
)

#: Columns of a table of the grid; more points go to a further table.
WIDTH = 8

INTRODUCTION = """\
# Does debiasing debias?

Every method of this house and its controls, on planted corpora whose truth is known. Made by
`tools/benchmark/effects.py` from the files that it wrote; do not edit. How to read it:

- **Paired recall** (R@1, rsum) counts the annotated match only: it punishes a right answer that
  nobody annotated. **Semantic measures** (P@1, mAP, nDCG@50) count what is really true of a clip.
- **Chance** is what equal scores give, the **ceiling** what perfect semantics gives.
- *Rows in italics are oracles*: they know what no method may know, and show what is to be won.
- Figures are means +- standard deviation over training seeds; the corpus is the same for all.
- **Differences** are to the baseline of the same seed, with a 95 % interval in brackets that
  resamples training seeds and test queries (2,000 draws, the same queries for both rows). Where it
  ends in `s`, the measure has no values by query, and the interval is Student's over seeds.
- **Closed** is the share of the oracle's gain in the aim of the condition; empty where the oracle
  itself gains nothing measurable.
- Three seeds resampled show too little of their spread, and intervals are not corrected for their
  number: of twenty rows that do nothing, one or two look as if they did.
"""
RULE = """\
The rule, for each row and the aim of each condition: it **helps** or **harms** if the interval of
its difference in the aim excludes 0, and does *nothing measurable* otherwise. What it costs or
gains in paired recall is added where that interval excludes 0, too; a cost without help is harm.
"""
TIME_NOTE = """\
Time is the CPU time of the training and its test, over that of the baseline; the median over the
seeds. It is the one figure here that varies between runs of the same code.
"""
DETECTION_NOTE = """\
How well soft positives (true but not annotated) are told from true negatives, in percent: by the
weights of the supervision (eta), and by the cosine of the same model. At break-even precision
equals recall; the last two are of what the supervision itself calls soft.
"""


def write_page(
    folder: Path, page: Path, methods: Mapping[str, Method], conditions: Mapping[str, Condition]
) -> None:
    """Write the page and its pictures.

    Args:
        folder: with the cells, ``conditions.json`` and ``tuning.json``; pictures go there.
        page: the Markdown file.
        methods: by name; those without cells are left out.
        conditions: the same.

    Raises:
        ValueError: no cells, or a file is damaged (see ``effects_files.load_cells``).
    """
    views, cells, strangers = make_views(folder, methods, conditions)
    if not views:
        raise ValueError(f'{folder}: no cell belongs to a condition and a method of the plan')
    link = Path(os.path.relpath(folder, page.parent)).as_posix()
    pictures = write_pictures(folder, views)
    path = folder / 'tuning.json'
    parts = [
        INTRODUCTION,
        _origin(cells, strangers, link),
        _summary(views, pictures, link),
        *(_section(view, link) for view in views),
        _tuning(load_json(path), methods, link) if path.exists() else '',
        _files(views, methods),
    ]
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text('\n'.join(part for part in parts if part))


def _origin(cells: Sequence[Cell], strangers: Sequence[Cell], link: str) -> str:
    """How to make the page again; when, where and from what it was made."""
    made = {
        name: sorted({cell.made[name] for cell in cells}) for name in ('date', 'commit', 'machine')
    }
    dates = ' to '.join(dict.fromkeys((made['date'][0], made['date'][-1])))
    times = [cell.cpu_seconds for cell in cells if cell.cpu_seconds is not None]
    hours = sum(times) / 3600
    lines = [
        '## Make it again\n',
        '```bash',
        'python tools/benchmark/effects.py           # trains what has no file yet; this page',
        'python tools/benchmark/effects.py --smoke   # all of it, tiny',
        '```\n',
        f'{len(times)} trainings, {hours:.1f} hours of CPU time, {dates}; '
        f'commit {", ".join(made["commit"])}; {"; ".join(made["machine"])}. '
        f'Each has one file in [`{link}/`]({link}), with its command; delete it to train it again.',
    ]
    if strangers:
        names = sorted({f'`{cell.condition}/{cell.method}`' for cell in strangers})
        lines.append(f'\nFiles of no row of the plan, not shown: {", ".join(names)}.')
    return '\n'.join(lines) + '\n'


def _summary(views: Sequence[View], pictures: Sequence[str], link: str) -> str:
    """What each row does in each condition."""
    labels = {name: view.label(name) for view in views for name in view.rows}
    headings = [f'{view.condition.label}: {heading(view.condition.aim)}' for view in views]
    lines = [
        [label, *(_verdict(view, view.rows[name]) if name in view.rows else '' for view in views)]
        for name, label in labels.items()
    ]
    parts = ['## Does it help?\n', RULE, _table(['row', *headings], lines), _plainly(views, labels)]
    if 'trade' in pictures:
        parts.append(_trade(views, link))
    if 'effects' in pictures:
        parts.append(f'![Difference in the aim of each condition]({link}/effects.png)\n')
    if 'length' in pictures:
        parts.append(f'![Paired recall against length bias]({link}/length.png)\n')
    return '\n'.join(parts)


def _verdict(view: View, row: Row) -> str:
    """In plain words with figures."""
    if row is view.base:
        return 'baseline'
    word, aim = view.verdict(row), view.condition.aim
    gain, paid = view.gain(row, aim), view.gain(row, view.cost)
    if word == 'unknown':
        return 'not measured' if gain is None else 'one seed, no verdict'
    also = ''
    if paid is not None and paid.sign and aim != view.cost:
        verb = 'costs' if paid.sign < 0 else 'gains'
        also = f', {verb} {abs(paid.mean):.1f} {heading(view.cost)}'
    return {
        'helps': f'**helps** {_signed(gain.mean, aim)}{also}',
        'harms': f'**harms** {_signed(gain.mean, aim)}{also}',
        'costs': f'**harms**{also.removeprefix(",")}, gains nothing',
        'nothing': f'nothing measurable{also}',
    }[word]


def _plainly(views: Sequence[View], labels: Mapping[str, str]) -> str:
    """Who helps, who harms and who does nothing, without the oracles."""
    found: dict[str, dict[str, list[str]]] = {}
    oracles = {name for view in views for name in view.oracles}
    for name in labels:
        for view in views:
            if name in view.rows and name not in oracles and view.rows[name] is not view.base:
                word = view.verdict(view.rows[name])
                word = 'harms' if word == 'costs' else word
                found.setdefault(name, {}).setdefault(word, []).append(view.condition.label)
    helps, harms = (
        [
            f'{labels[name]} ({", ".join(found[name][word])})'
            for name in labels
            if word in found.get(name, ())
        ]
        for word in ('helps', 'harms')
    )
    nothing = [labels[name] for name in labels if found.get(name, {}).keys() == {'nothing'}]
    lines = (('Helps', helps), ('Harms', harms), ('Does nothing measurable anywhere', nothing))
    return '\n'.join(f'- **{head}**: {"; ".join(those) or "none"}.' for head, those in lines) + '\n'


def _trade(views: Sequence[View], link: str) -> str:
    """The picture of paired against semantic retrieval, and who reaches its shaded area."""
    view = next(view for view in views if view.name == TRADE)
    text = f'![Paired rsum and v2t precision@1, {view.condition.label}]({link}/trade.png)\n'
    if view.condition.oracle not in view.rows:
        return text
    inside = [
        view.label(name) for name in view.rows if name not in view.oracles and in_aim(view, name)
    ]
    return (
        f'{text}\nAt least {AIM_SHARE} % of the gain of the oracle in v2t P@1 for at most '
        f'{AIM_COST} rsum, by the means ({view.condition.label}): {"; ".join(inside) or "none"}.\n'
    )


def _section(view: View, link: str) -> str:
    """All tables of one condition."""
    plan = view.condition
    oracle = view.label(plan.oracle) if plan.oracle in view.rows else 'none'
    base = view.label(plan.baseline) if view.base else f'{plan.baseline}, which has no cells'
    better = 'lower' if lower_is_better(plan.aim) else 'higher'
    head = (
        f'## {plan.label[:1].upper()}{plan.label[1:]}\n\n{plan.about}\n\n'
        f'Aim: {heading(plan.aim)} ({better} is better). Baseline: {base}. Oracle: {oracle}.'
    )
    missing = view.missing()
    if missing:
        head += f' **Missing**: {"; ".join(missing)}.'
    source = (
        f'From [`{link}/{view.name}/`]({link}/{view.name}) and '
        f'[`conditions.json`]({link}/conditions.json).\n'
    )
    tables = [
        ('Paired retrieval, and the differences that count', '', _main_table(view)),
        ('Semantic retrieval', '', _metric_table(view, SEMANTIC)),
        ('Normalisation, length, time', TIME_NOTE, _metric_table(view, SCORES, time=True)),
        ('Detection of soft positives', DETECTION_NOTE, _metric_table(view, DETECTION)),
    ]
    parts = [head + '\n']
    for title, note, table in tables:
        if table:
            parts += [f'### {title} ({plan.label})\n', *filter(None, [note]), table, source]
    return '\n'.join(parts)


def _main_table(view: View) -> str:
    aim, cost = view.condition.aim, view.cost
    extra: dict[str, Callable[[Row], str]] = {
        f'difference in {heading(cost)}': lambda row: _gain(view.gain(row, cost), cost),
        f'difference in {heading(aim)}': lambda row: _gain(view.gain(row, aim), aim),
        'closed': lambda row: _percent(view.share(row)),
    }
    shown = {column.key for column in PAIRED}
    columns = PAIRED if aim in shown else (*PAIRED, Column(aim, heading(aim), digits(aim)))
    return _metric_table(view, columns, extra)


def _metric_table(
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
        name: [_spread(row.values(column.key).values(), column.digits) for column in columns]
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
    return _table([headings[k] for k in kept], lines)


def _time(row: Row, view: View) -> str:
    ratio = time_ratio(row, view.base) if view.base and not row.transform else None
    return '' if ratio is None else f'{ratio:.2f}'


def _tuning(tuning: Mapping[str, Any], methods: Mapping[str, Method], link: str) -> str:
    """The grid and what was chosen."""
    parts = [
        '## Tuning\n',
        'The same grid for every method, each point trained once and judged by paired rsum on val; '
        'the best one (bold) was taken for all conditions of the family.\n',
    ]
    for family, choices in tuning.items():
        points = {_point(entry['point']) for choice in choices.values() for entry in choice['grid']}
        of = sorted(
            {f'{choice["condition"]}, seed {choice["seed"]}' for choice in choices.values()}
        )
        parts.append(f'### {family} (tuned on {"; ".join(of)})\n')
        ordered = sorted(points)
        for k in range(0, len(ordered), WIDTH):
            some = ordered[k : k + WIDTH]
            lines = [
                [methods[name].label if name in methods else name, *_grid_line(choice, some)]
                for name, choice in choices.items()
            ]
            parts.append(_table(['method', *some], [line for line in lines if any(line[1:])]))
        parts.append(f'From [`tuning.json`]({link}/tuning.json).\n')
    return '\n'.join(parts)


def _grid_line(choice: Mapping[str, Any], points: Sequence[str]) -> list[str]:
    values = {_point(entry['point']): f'{entry["val"]:.1f}' for entry in choice['grid']}
    best = _point(choice['chosen'])
    return [
        f'**{values[point]}**' if point == best and point in values else values.get(point, '')
        for point in points
    ]


def _point(options: Mapping[str, Any]) -> str:
    """'lr 0.001, temperature 0.07': by the last part of each option that says something."""
    words = []
    for option, value in options.items():
        parts = [part for part in option.split('.') if part not in ('init', 'value')]
        words.append(f'{parts[-1]} {value}')
    return ', '.join(words)


def _files(views: Sequence[View], methods: Mapping[str, Method]) -> str:
    """Which files and which config belong to which row."""
    names = dict.fromkeys(row.method for view in views for row in view.rows.values())
    lines = []
    for name in names:
        method = methods[name]
        options = ', '.join(f'`{key}={value}`' for key, value in method.options.items())
        lines.append([method.label, f'`{name}_*.json`', f'`{method.config}`', options])
    text = 'A row of a transform is in the files of its method, under keys with its name in front.'
    return f'## Files\n\n{text}\n\n' + _table(['method', 'files', 'config', 'options'], lines)


def _spread(values: Iterable[float], digits: int) -> str:
    """'12.3 +- 0.4'; empty for no values."""
    numbers = mean_and_deviation(values)
    return '' if numbers is None else ' +- '.join(f'{x:.{digits}f}' for x in numbers)


def _gain(gain: Optional[Difference], key: str) -> str:
    """'+7.6 [4.1, 11.0]'."""
    if gain is None:
        return ''
    mean = _signed(gain.mean, key)
    if math.isinf(gain.high):
        return mean
    ends = f'{mean} [{_signed(gain.low, key)}, {_signed(gain.high, key)}]'
    return ends if gain.of_queries else f'{ends} s'


def _signed(value: float, key: str) -> str:
    """With its sign and the digits of a metric; a zero has the sign +."""
    places = digits(key)
    return f'{round(value, places) + 0.0:+.{places}f}'


def _percent(value: Optional[float]) -> str:
    return '' if value is None else f'{value:.0f} %'


def _table(headings: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rows = ['| ' + ' | '.join(row) + ' |' for row in (headings, *lines)]
    rows.insert(1, '|---' * len(headings) + '|')
    return '\n'.join(rows) + '\n'
