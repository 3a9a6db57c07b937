"""docs/benchmark.md, from the files of effects.py and nothing else."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence

from comparison.columns import (
    DETECTION,
    PAIRED,
    SCORES,
    SEMANTIC,
    Column,
    digits,
    heading,
    lower_is_better,
)
from comparison.files import MADE, Row, load_json
from comparison.pictures import AIM_COST, AIM_SHARE, PRECISION, RSUM, TRADE, write_pictures
from comparison.plan import Condition, Method
from comparison.statistics import (
    Difference,
    Found,
    View,
    make_views,
    mean_and_deviation,
    time_ratio,
)

#: Columns of a table of the grid; more points go to a further table.
WIDTH = 8
#: The conditions that say who reaches the shaded area of ``trade.png``, and what was chosen there.
HEADLINES = {
    TRADE: 'settings of ours were chosen here',
    'confirm': 'no setting was chosen here: unused seeds',
    'confirm2': 'the same, once more',
}

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
  resamples training seeds and test queries (2,000 draws, the same queries for both rows; texts of
  one video go together). Where it ends in `s`, the measure has no values by query, and the interval
  is Student's over seeds. One seed has no interval, and gets no verdict.
- The **control** of a method differs from it by its idea alone: RAN is trained with a triplet loss,
  so its control is that loss without RAN. A transform's is the same transform of the control. Where
  no other is named it is the baseline. Names after *over* are those of the files, see
  [Files](#files).
- **Closed** is the share of the oracle's gain in the aim of the condition; empty where the oracle
  itself is not measurably better than the baseline.
- Settings of ours (group *ours* in [Files](#files)) were chosen on the corpus of `ambiguity60` and
  on one more, with their test results in sight. That is why `confirm` and `confirm2` exist: other
  clips, captions and training seeds, on which no setting was chosen. (`confirm` did say that a
  predecessor of agreement fell short; `confirm2` came later, and nothing was decided by it.)
- Three seeds resampled show too little of their spread, and intervals are not corrected for their
  number: of twenty rows that do nothing, one or two look as if they did.
"""
RULE = """\
The rule, for each row and the aim of each condition: it **helps** or **harms** if the interval of
its difference in the aim excludes 0, and does *nothing* measurable otherwise. The difference is to
its control, named after *over* (of a transform, to the same transform of that); to the baseline's
raw scores where none is named, because a row has no other control or that was not run there. The
difference in paired recall (rsum, SumR), to the same row, is added where its interval excludes 0,
too; a loss of it without help is harm.
"""
TIME_NOTE = """\
Time is the CPU time of the training and its test, over that of the baseline; the median over the
seeds. It is the one figure here that varies between runs of the same code.
"""
DETECTION_NOTE = """\
How well soft positives (true but not annotated) are told from true negatives, in percent: by the
weights of the supervision (eta), and by the cosine of the same model. At break-even precision
equals recall; the last two are of what the supervision itself calls soft. Weights that need the
annotated pairs, which a test must not know, are judged on the training set in docs/agreement.md.
"""


def write_page(
    folder: Path,
    page: Path,
    methods: Mapping[str, Method],
    conditions: Mapping[str, Condition],
    shas: Optional[Mapping[tuple[str, str, int], str]] = None,
) -> None:
    """Write the page and its pictures.

    Args:
        folder: with the cells, ``conditions.json`` and ``tuning.json``; pictures go there.
        page: the Markdown file.
        methods: by name; those without cells are named as missing.
        conditions: the same; those without cells are named, too.
        shas: of the plan's configs, by condition, method and seed: cells of another one are left
            out and named. Cells that it does not hold are shown as they are.

    Raises:
        ValueError: no cells, or a file is damaged (see ``comparison.files.load_cells``).
    """
    found = make_views(folder, methods, conditions, shas or {})
    views = found.views
    if not views:
        raise ValueError(
            f'{folder}: no cell belongs to a condition and a method of the plan'
            + (f'; {len(found.older)} are of older configs' if found.older else '')
        )
    link = Path(os.path.relpath(folder, page.parent)).as_posix()
    pictures = write_pictures(folder, views)
    path = folder / 'tuning.json'
    tuning = load_json(path) if path.exists() else {}
    parts = [
        INTRODUCTION,
        _origin(found, tuning, link),
        _absent(conditions, found.views),
        _summary(views, pictures, link),
        *(_section(view, link) for view in views),
        _tuning(tuning, methods, link) if tuning else '',
        _files(views, methods),
    ]
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text('\n'.join(part for part in parts if part))


def _origin(found: Found, tuning: Mapping[str, Any], link: str) -> str:
    """How to make the page again; when, where and from what it was made."""
    cells = found.cells
    made = {name: sorted({cell.made[name] for cell in cells}) for name in MADE}
    dates = ' to '.join(dict.fromkeys((made['date'][0], made['date'][-1])))
    tuned = _tuning_only(tuning, {cell.config_sha for cell in cells})
    times = [cell.cpu_seconds for cell in cells if cell.cpu_seconds is not None] + tuned
    lines = [
        '## Make it again\n',
        '```bash',
        'python tools/benchmark/effects.py           # trains what has no file yet; this page',
        'python tools/benchmark/effects.py --smoke   # all of it, tiny',
        '```\n',
        f'{len(times)} trainings ({len(tuned)} of them for tuning only), {sum(times) / 3600:.1f} '
        f'hours of CPU time, {dates}; commit {", ".join(made["commit"])}; '
        f'{"; ".join(made["machine"])}; features by frame tower {", ".join(made["tower"])}. Each '
        f'test has one file in [`{link}/`]({link}), with the command of its training; delete it to '
        'train it again.',
    ]
    if found.strangers:
        names = sorted({f'`{cell.condition}/{cell.method}`' for cell in found.strangers})
        lines.append(f'\nFiles of no row of the plan, not shown: {", ".join(names)}.')
    if found.older:
        names = [f'`{cell.condition}/{cell.method}_{cell.seed}`' for cell in found.older]
        lines.append(f'\nOlder cells, not shown: {", ".join(names)}. The plan has other configs.')
    return '\n'.join(lines) + '\n'


def _absent(conditions: Mapping[str, Condition], views: Sequence[View]) -> str:
    """Conditions of the plan of which nothing can be shown."""
    shown = {view.name for view in views}
    absent = [plan.label for name, plan in conditions.items() if name not in shown]
    return f'**No cells yet**: {"; ".join(absent)}.\n' if absent else ''


def _tuning_only(tuning: Mapping[str, Any], shas: set[str]) -> list[float]:
    """CPU seconds of the points of the grid whose training has no cell of one of ``shas``."""
    grids = [choice['grid'] for choices in tuning.values() for choice in choices.values()]
    # By sha: a training that two methods share is one.
    times = {
        entry['sha']: entry['cpu_seconds']
        for grid in grids
        for entry in grid
        if {'sha', 'cpu_seconds'} <= entry.keys()
    }
    return [seconds for sha, seconds in times.items() if sha not in shas]


def _summary(views: Sequence[View], pictures: Sequence[str], link: str) -> str:
    """What each row does in each condition."""
    labels = {name: view.label(name) for view in views for name in view.rows}
    headings = [f'{view.condition.label}: {heading(view.condition.aim)}' for view in views]
    lines = [
        [label, *(_verdict(view, view.rows[name]) if name in view.rows else '' for view in views)]
        for name, label in labels.items()
    ]
    parts = ['## Does it help?\n', RULE, _table(['row', *headings], lines), _plainly(views, labels)]
    parts += [_headline(view) for view in views if _has_headline(view)]
    titles = dict(
        trade='Paired rsum and v2t precision@1',
        effects='Difference to the baseline in the aim of each condition',
        length='Paired recall against length bias',
    )
    parts += [f'![{titles[name]}]({link}/{name}.png)\n' for name in titles if name in pictures]
    return '\n'.join(parts)


def _verdict(view: View, row: Row) -> str:
    """In plain words with figures; short, as the table is wide."""
    if row is view.base:
        return 'baseline'
    word, aim = view.verdict(row), view.condition.aim
    gain, paid = view.edge(row, aim), view.edge(row, view.cost)
    if word == 'unknown':
        return 'not measured' if gain is None else 'one seed, no verdict'
    words = {'costs': '**harms**', 'nothing': 'nothing'}.get(word)
    parts = [words or f'**{word}** {_signed(gain.mean, aim)}']
    if view.over(row):
        parts.append(f'over {view.rows[view.over(row)].method}')
    also = ''
    if paid is not None and paid.sign and aim != view.cost:
        also = f'; {heading(view.cost)} {_signed(paid.mean, view.cost)}'
    return ' '.join(parts) + also


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


def _has_headline(view: View) -> bool:
    plan = view.condition
    return view.name in HEADLINES and plan.aim == PRECISION and view.oracle_gains(PRECISION)


def _headline(view: View) -> str:
    """Who reaches the shaded area of ``trade.png``, with figures."""
    inside = []
    for name, row in view.rows.items():
        closed, paid = view.share(row), view.gain(row, RSUM)
        if name in view.oracles or closed is None or paid is None:
            continue
        if closed >= AIM_SHARE and paid.mean >= -AIM_COST:
            inside.append(f'{view.label(name)} ({closed:.0f} %, rsum {_gain(paid, RSUM)})')
    return (
        f'**{view.condition.label}** ({HEADLINES[view.name]}): at least {AIM_SHARE} % of the gain '
        f'of the oracle in v2t P@1 for at most {AIM_COST} rsum, by the means: '
        f'{"; ".join(inside) or "none"}.\n'
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
        f'difference in {heading(aim)} to the control': lambda row: _over(view, row),
        'closed': lambda row: _percent(view.share(row)),
    }
    shown = {column.key for column in PAIRED}
    columns = PAIRED if aim in shown else (*PAIRED, Column(aim, heading(aim), digits(aim)))
    return _metric_table(view, columns, extra)


def _over(view: View, row: Row) -> str:
    """Difference in the aim to a control that is not the baseline."""
    gain = view.edge(row, view.condition.aim) if view.over(row) else None
    return '' if gain is None else f'{_gain(gain, view.condition.aim)} over {view.over(row)}'


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
    names = dict.fromkeys(name for choices in tuning.values() for name in choices)
    normalised = [
        methods[name].label for name in names if name in methods and methods[name].chosen_by != RSUM
    ]
    text = (
        'The grid is the learning rate and nothing else, the same for every method; all other '
        "settings are the configs' own. Each point was trained once and judged by paired rsum on "
        'val, and so was each epoch of a training; the best point (bold) was taken for all '
        'conditions of the family.'
    )
    if normalised:
        text += (
            f' Those trained with NCL ({", ".join(normalised)}) are judged by rsum after Sinkhorn '
            'instead, points and epochs: NCL is meant to be tested with its biases.'
        )
    parts = ['## Tuning\n', text + '\n']
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
        control = f'`{method.control}`' if method.control else ''
        files = [f'`{name}_*.json`', f'`{method.config}`', options]
        lines.append([method.label, *files, method.group, control])
    text = 'A row of a transform is in the files of its method, under keys with its name in front.'
    return f'## Files\n\n{text}\n\n' + _table(
        ['method', 'files', 'config', 'options', 'group', 'control'], lines
    )


def _spread(values: Iterable[float], digits: int) -> str:
    """'12.3 +- 0.4'; '12.3' for one value, empty for none."""
    values = list(values)
    numbers = mean_and_deviation(values) or ()
    return ' +- '.join(f'{x:.{digits}f}' for x in numbers[: len(values)])


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
