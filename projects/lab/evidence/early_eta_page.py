"""The page of early_eta.py, and its figure: made from the records, nobody edits them."""

from __future__ import annotations

import itertools
import statistics
from pathlib import Path
from typing import Any, Iterable, Iterator, Mapping, Sequence

from early_eta import CONDITIONS, FIGURES, METHODS, NOISE, NOISES, SEEDS, STEPS, TELLING, jobs
from seed_statistics import student, student_p

from mmvtr.evaluation.paired import holm
from mmvtr.visualization import canvas

HERE = Path(__file__).parent
PAGE, PICTURE = HERE / 'pages/early_eta.md', HERE.parents[2] / 'docs/images/early_eta.png'
#: A difference of rsum inside of this is nothing.
MATTERS = 2.0
#: Seeds below which a table is not shown.
LEAST = 3
REAL_SETS = dict(F='Flickr8k images (F)', J='1,000 judged images (J)', M='MSR-VTT frames (M)')
#: A row that is compared with a second one, too: which, and with what.
AGAIN = {
    'DVTR, early (over DVTR)': ('DVTR, early', 'DVTR'),
    'DVTR, cross-fitted (over early)': ('DVTR, cross-fitted', 'DVTR, early'),
    'DVTR, cross-fitted (over three)': ('DVTR, cross-fitted', 'InfoNCE, mean of three'),
}
#: Rows of docs/dvtr.md: how it names a condition and length, and rows of these.
SUMMARY = (
    (
        'planted, .2 %, trained long',
        '.2 %',
        'long',
        ('oracle, weight 0', 'DVTR', 'DVTR, early', 'DVTR, early, permuted'),
    ),
    ('planted, .05 %, long', '.05 %', 'long', ('DVTR, early',)),
    ('planted, 1 %, long', '1 %', 'long', ('DVTR, early',)),
    ('planted, .05 %, trained short', '.05 %', 'short', ('DVTR, early',)),
    ('planted, .2 %, short', '.2 %', 'short', ('DVTR, early',)),
    ('planted, 1 %, short', '1 %', 'short', ('DVTR, early',)),
)
WORDS = {
    'oracle, weight 0': 'oracle: weight 0 where the truth says match',
    'DVTR': 'DVTR without `belief`',
    'DVTR, early': 'DVTR, early eta',
    'DVTR, early, permuted': 'early eta, its weights permuted',
}
DVTR = HERE.parents[2] / 'docs/dvtr.md'
MARKS = '<!-- early -->', '<!-- /early -->'
#: Rows of the figure, and how they are drawn.
DRAWN = {
    'oracle, weight 0': ('o', 'weight 0 for false negatives alone'),
    'DVTR': ('s', 'DVTR without belief'),
    'DVTR, early': ('D', 'DVTR, early eta'),
    'DVTR, early, permuted': ('x', 'early eta, permuted'),
}

Records = Sequence[Mapping[str, Any]]


def page(planted: Records, real: Records) -> str:
    """Tables of the real sets and of all conditions: controls, differences to them, verdicts."""
    lines = [
        '# Sparing false negatives at real shares\n',
        'Made by `early_eta.py`, which says what was trained; nobody edits it. The '
        '[plan](early_eta_plan.md) was written before. Differences to the control (InfoNCE where '
        'none is named) with 95 % t-intervals over paired seeds. **gains**, **loses**: p < .05 '
        'after Holm over the rows of a table; *nothing*: an interval inside of 2 rsum. *Weight*: '
        'what false / true negatives weighed in the loss over the last fifth of the training.\n',
    ]
    keys = ('method', 'condition', 'length', 'seed', 'noise')
    have = {tuple(r[k] for k in keys) for r in planted}
    asked = [job for what in ('main', 'noise', 'others') for job in jobs(SEEDS, what)]
    there = sum(job in have for job in asked)
    lines.append(f"{there} of the plan's {len(asked)} planted trainings are there.\n")
    if panels(planted):
        lines.append(
            '![gain in rsum by share of false negatives, length and noise]'
            '(../../../../docs/images/early_eta.png)\n'
        )
    for name, title in REAL_SETS.items():
        some = _on(real, name)
        if len({r['seed'] for r in some}) >= LEAST:
            lines += [*_table(f'{title}, seeds that nothing was chosen on', '', some), '']
    for condition, length in itertools.product(CONDITIONS, STEPS):
        some = _of(planted, condition, length, NOISE)
        if len({r['seed'] for r in some}) >= LEAST:
            train, test = (_share(some, split) for split in ('train', 'test'))
            about = (
                f'{train:.3f} % of the unannotated training pairs are true, {test:.3f} % of those '
                'of the test.'
            )
            title = f'Planted, about {condition}, {length} training'
            lines += [*_table(title, about, some), '']
    return '\n'.join(lines)


def write(planted: Records, real: Records) -> None:
    """Write the page and the figure."""
    PAGE.write_text(page(planted, real))
    before, rest = DVTR.read_text().split(MARKS[0])
    table = '\n'.join(summary(planted))
    made = f'{MARKS[0]}\n\n{table}\n\n{MARKS[1]}'
    DVTR.write_text(before + made + rest.split(MARKS[1])[1])
    if panels(planted):
        canvas.save(figure(planted), PICTURE)


def summary(planted: Records) -> Iterator[str]:
    """Rows of docs/dvtr.md: rsum over InfoNCE at best and at last, with the verdicts' signs."""
    yield _line('trained on', 'with', 'seeds', 'epoch that val chooses', 'last epoch')
    yield '|' + '---|' * 5
    signs = {'**gains**': ' ▲', '**loses**': ' ▼', 'nothing': ' ○'}
    for words, where, length, shown in SUMMARY:
        by = _by(_of(planted, where, length, NOISE))
        rows = [x for x in dict.fromkeys(x for x, _ in by) if x != 'limits']
        for row in shown:
            cells = []
            for when in ('best', 'last'):
                values = _paired(by, row, when, 'rsum')
                said = _verdicts(by, rows, when).get(row, '')
                cells.append(_difference(values) + signs.get(said, ''))
            if len(values) >= LEAST:
                yield _line(words, WORDS[row], len(values), *cells)


def _on(real: Records, name: str) -> Records:
    return [r for r in real if r['set'] == name]


def panels(planted: Records) -> dict[str, dict[float, Records]]:
    """By name what the figure shows: records by share of false negatives, or by noise.

    What was trained with at least :data:`LEAST` seeds; of noise where there are two values.
    """
    conditions = [c for c in CONDITIONS if _of(planted, c, 'long', NOISE)]
    shares = {c: _share(_of(planted, c, 'long', NOISE), 'train') for c in conditions}
    found = {
        f'{length} training': {shares[c]: _of(planted, c, length, NOISE) for c in conditions}
        for length in STEPS
    }
    found['noise'] = {noise: _of(planted, TELLING, 'long', noise) for noise in NOISES}
    shown = {
        name: {x: some for x, some in points.items() if len({r['seed'] for r in some}) >= LEAST}
        for name, points in found.items()
    }
    return {name: points for name, points in shown.items() if len(points) > (name == 'noise')}


def figure(planted: Records, when: str = 'best') -> canvas.Figure:
    """Gain in rsum by the share of false negatives, trained long and short, and by noise."""
    shown = panels(planted)
    widest = sorted(shown['long training'])
    made = canvas.new_figure(3.6, dpi=150)
    for axis, (name, points) in canvas.side_by_side(made, shown.items(), sharey=True):
        _panel(axis, points, 1.06 if name != 'noise' else 1.02, when)
        x = 'false negatives, % of pairs'
        if name == 'noise':
            name, x = f'about {TELLING}, long training', 'noise on the clips'
        else:
            axis.set_xscale('log')
            axis.set_xticks([*points], [f'{x:.2g}' for x in points])
            axis.set_xlim(0.7 * widest[0], 1.6 * widest[-1])
            axis.minorticks_off()
        canvas.style(axis, name, x, f'rsum over InfoNCE, {when} epoch')
        axis.label_outer()
    made.legend(*axis.get_legend_handles_labels(), loc='outside lower center', ncols=4, fontsize=9)
    return made


def _panel(axis: Any, points: Mapping[float, Records], shift: float, when: str) -> None:
    """Means and 95 % intervals of the rows by x, one row beside the other."""
    for number, (row, (mark, words)) in enumerate(DRAWN.items()):
        values = {x: _paired(_by(some), row, when, 'rsum') for x, some in points.items()}
        values = {x: some for x, some in values.items() if len(some) >= LEAST}
        means = [statistics.mean(some) for some in values.values()]
        half = [statistics.mean(some) - student(some)[0] for some in values.values()]
        axis.errorbar(
            [x * shift**number for x in values], means, half,
            marker=mark, color=canvas.COLOURS[number + 1], label=words, capsize=2, lw=1, ms=5,
        )  # fmt: skip
    axis.axhline(0, color=canvas.GREY, lw=1)


def _of(records: Records, condition: str, length: str, noise: float) -> Records:
    here = (condition, length, noise)
    return [r for r in records if (r['condition'], r['length'], r['noise']) == here]


def _share(records: Records, split: str) -> float:
    """Of the unannotated pairs of a split, how many are true: mean of the corpora, in percent."""
    return statistics.mean(dict((r['seed'], r[f'share_{split}']) for r in records).values())


def _by(records: Records) -> dict[tuple[str, int], Mapping[str, Any]]:
    found = {(r['method'], r['seed']): r for r in records}
    for name, (row, _) in AGAIN.items():
        found.update({(name, r['seed']): r for r in records if r['method'] == row})
    return found


def _table(title: str, about: str, records: Records) -> Iterator[str]:
    by = _by(records)
    rows = [row for row in dict.fromkeys(row for row, _ in by) if row != 'limits']
    seeds = sorted({seed for _, seed in by})
    yield f'## {title}\n'
    yield f'{about} Seeds: {", ".join(map(str, seeds))}.\n'.lstrip()
    heads = [f'{when}: {h}' for when in ('best', 'last') for h in ('t2v R@1', 'v2t R@1', 'rsum')]
    heads.insert(3, 'verdict')
    yield '| ' + ' | '.join(['row', 'seeds', *heads, 'verdict', 'weight', 'spared a text']) + ' |'
    yield '|' + '---|' * 12
    for name, words in (('alike', 'true pairs alike'), ('paired', 'best paired scorer')):
        found = [r[name] for r in records if r['method'] == 'limits']
        if found:
            cells = [f'{statistics.mean(r[k] for r in found):.1f}' for k in FIGURES]
            yield _line(f'limit: {words}', len(found), *cells, *[''] * 7)
    verdicts = {when: _verdicts(by, rows, when) for when in ('best', 'last')}
    for row in rows:
        mine, over = [r for (name, _), r in by.items() if name == row], control_of(row)
        if over and not _paired(by, row, 'best', 'rsum'):
            continue
        if over:
            cells = []
            for when, found in verdicts.items():
                cells += [_difference(_paired(by, row, when, k)) for k in FIGURES]
                cells.append(found[row])
        else:
            cells = [
                '' if k is None else f'{statistics.mean(r[when][k] for r in mine):.1f}'
                for when in verdicts
                for k in (*FIGURES, None)
            ]
        named = row if over in ('', 'InfoNCE') or row in AGAIN else f'{row} (over {over})'
        yield _line(named, len(mine), *cells, _mean(mine, 'weight_false', 'weight_true'),
                    _mean(mine, 'spared_per_text'))  # fmt: skip


def control_of(row: str) -> str:
    """The row that it is compared with; '' of one that is none's method."""
    if row in AGAIN:
        return AGAIN[row][1]
    return METHODS[row].control if row in METHODS else 'InfoNCE'


def _paired(by: Mapping[tuple, Mapping], row: str, when: str, key: str) -> list[float]:
    over = control_of(row)
    both = sorted(seed for name, seed in by if name == row and (over, seed) in by)
    return [by[row, s][when][key] - by[over, s][when][key] for s in both]


def _verdicts(by: Mapping[tuple, Mapping], rows: Iterable[str], when: str) -> dict[str, str]:
    """Of each row, over all rows of a table."""
    values = {row: _paired(by, row, when, 'rsum') for row in rows if control_of(row)}
    values = {row: x for row, x in values.items() if len(x) > 1}
    found = dict.fromkeys(rows, '')
    for (row, some), p in zip(values.items(), holm([student_p(x) for x in values.values()])):
        low, high = student(some)
        if p < 0.05:
            found[row] = '**gains**' if low > 0 else '**loses**'
        else:
            found[row] = 'nothing' if -MATTERS < low and high < MATTERS else 'not resolved'
    return found


def _difference(values: Sequence[float]) -> str:
    if len(values) < 2:
        return f'{values[0]:+.1f}' if values else ''
    low, high = student(values)
    cell = f'{statistics.mean(values):+.1f} [{low:+.1f}, {high:+.1f}]'
    return f'**{cell}**' if low > 0 or high < 0 else cell


def _mean(records: Records, *names: str) -> str:
    some = [[r[name] for r in records if name in r] for name in names]
    return ' / '.join(f'{statistics.mean(x):.2f}' for x in some if x)


def _line(*cells: Any) -> str:
    return '| ' + ' | '.join(map(str, cells)) + ' |'
