"""The pages, from the result files: no figure of them is written by hand.

Differences are of a method to its control, seed by seed; intervals and corrections are those of
PLAN.md.  A page is a text with marks, ``<!-- real:NAME -->``, between which a table stands.
"""

from __future__ import annotations

import re
import statistics
from pathlib import Path
from typing import Any, Iterable, Mapping, NamedTuple, Optional, Sequence

from methods import METHODS
from results import AIMS, RESULTS, read_rows

from mmvtr.evaluation.paired import holm
from mmvtr.evaluation.seeds import of_seeds

ROOT = Path(__file__).resolve().parents[4]
#: What run.py made again from an empty folder.
AGAIN = RESULTS / 'again'
PAGES = (
    'README.md',
    'docs/recipe.md',
    'docs/real_data.md',
    'projects/lab/evidence/pages/real_tables.md',
)
#: Rows with levels at both epochs: set, text kind, method.
BOTH_EPOCHS = (
    *(('F', 'minilm', name) for name in ('infonce', 'dvtr', 'dvtr_early')),
    *(('J', 'minilm', name) for name in ('infonce', 'dvtr_early', 'dvtr_early_permuted')),
    *(('J', 'minilm', name) for name in ('dvtr_crossed', 'dvtr_crossed_permuted', 'oracle')),
    *(('F', 'words', name) for name in ('triplet_02', 'teachtext')),
)
KINDS = {
    ('F', 'minilm'): '6,000 images',
    ('F', 'words'): '6,000, words from scratch',
    ('J', 'minilm'): '1,000, memorised',
}
#: Numbers of a model's vector; 128 elsewhere.
NUMBERS = dict(S=384)
#: Rows of the recipe -> how many such vectors an item has.
RECIPE = dict(
    infonce=1,
    self_distilled=1,
    student=1,
    student_of_softmaxes=1,
    student_of_five=1,
    twice_the_epochs=1,
    wide=3,
    student_wide=3,
    ensemble=3,
)
#: Those of README.
SHORT_RECIPE = ('infonce', 'infonce_bank', 'student', 'student_bank')
#: Sets outside of the plan's, of which run.py has read a folder: the files' text kind, and a title.
FURTHER = dict(
    K=('minilm', '700 Flickr8k images by CLIP ViT-B/32, MiniLM'),
    G=('words', '700 MSR-VTT videos by VGG16, words from scratch'),
)
#: First seed of the recipe's rows (PLAN.md), whose trainings of InfoNCE are members.
FIRST = 20
Row = Mapping[str, Any]

NAMES = {
    'infonce': 'InfoNCE',
    'ensemble': 'InfoNCE, mean of three trainings',
    'wide': 'InfoNCE, three times as wide',
    'twice_the_epochs': 'InfoNCE, twice the epochs',
    'student': 'student of three',
    'student_over_wide': 'student of three',
    'student_over_ensemble': 'student of three',
    'student_over_one': 'student of three',
    'self_distilled': 'student of one',
    'student_of_five': 'student of five',
    'student_of_softmaxes': "student of three's mean softmax",
    'student_wide': 'student of three, three times as wide',
    'triplet_05': 'triplet, margin .5',
    'triplet_hardest': 'triplet, hardest negatives',
    'triplet_02': 'triplet, margin .2',
    'dvtr': 'DVTR as shipped',
    'dvtr_permuted': 'DVTR, its weights permuted',
    'dvtr_floor1': 'DVTR, no weight below 1',
    'dvtr_early': 'DVTR, early eta',
    'dvtr_early_permuted': 'DVTR, early eta, permuted',
    'dvtr_early_calibrated': 'DVTR, early eta, share .2 %',
    'dvtr_crossed': 'DVTR, eta cross-fitted on halves',
    'crossed_over_early': 'DVTR, eta cross-fitted on halves',
    'crossed_over_ensemble': 'DVTR, eta cross-fitted on halves',
    'dvtr_crossed_permuted': 'DVTR, eta cross-fitted, permuted',
    'dvtr_triplet': 'DVTR on the triplet',
    'dvtr_pcme': "DVTR with PCME's probability",
    'oracle': 'oracle: weight 0 where people say match',
    'oracle_wrong': 'as many that people refused at weight 0',
    'guide': 'guide: MiniLM of captions',
    'gist': 'GIST: MiniLM of text and item',
    'hardness': 'hardness and self-mask',
    'implied': 'implied texts (ours)',
    'sure_first': 'InfoNCE, sure texts first (ours)',
    'ncl': 'NCL with its bank',
    'ncl_same_bank': 'NCL with its bank',
    'ncl_raw': 'NCL, tested raw',
    'neighborretr': 'NeighborRetr',
    'pcme': 'PCME',
    'pcmepp': 'PCME++',
    'prolip': 'ProLIP',
    'ran': 'RAN',
    'ranp': 'RANP',
    'cmgsd': 'CMGSD',
    'teachtext': 'TeachText: a second text encoder teaches',
    'pooled': 'mean of the tokens',
    'ti': 'token-wise matching (TI)',
    'dsa': 'UATVR: TI and DSA',
    'dua': 'UATVR whole (DSA, DUA, KL)',
    'dua_over_ti': 'UATVR whole (DSA, DUA, KL)',
    'all': 'all videos',
    'length_split': 'two models, split by length',
    'length_split_over_random': 'two models, split by length',
    'random_split': 'two models, split at random',
    'rmv_one': 'RmvOne: longest of one category',
    'rmv_all': 'RmvAll',
    'rmv_all_over_rand': 'RmvAll',
    'rmv_rand': 'RmvRand: as many at random',
    'mean_frame': 'mean of the frames',
    'best_frame': 'best frame',
    'arl': 'ARL, thresholds of ours',
    'arl_paper': "ARL, the paper's thresholds",
    'best_frame_own': 'best frame, by BertAdam',
    'arl_own': 'ARL, thresholds of ours, by BertAdam',
    'arl_paper_own': "ARL, the paper's thresholds, by BertAdam",
    'sinkhorn': 'Sinkhorn',
    'unbalanced_sinkhorn': 'unbalanced Sinkhorn',
    'inverted_softmax': 'inverted softmax',
    'qb_norm': 'QB-Norm',
    'csls': 'CSLS',
    'nnn': 'NNN',
    'auto': "`transform='auto'`",
}
SETS = dict(
    F='Flickr8k images',
    M='MSR-VTT frames',
    V='MSR-VTT frames, six captions a video',
    S='MSR-VTT frames, stronger model',
    J='1,000 judged images',
    T='MSR-VTT, words',
    L='MSR-VTT, lengths',
    U='Untrimmed',
)
TEXTS = dict(minilm='MiniLM', words='words from scratch', both='MiniLM and words from scratch')
#: Sets of the tables of all methods.
WIDE = (('F', 'minilm'), ('M', 'minilm'), ('J', 'minilm'))
BASELINES = (
    'infonce',
    'triplet_05',
    'triplet_02',
    'triplet_hardest',
    'pooled',
    'ti',
    'all',
    'mean_frame',
    'best_frame',
    'best_frame_own',
)
#: Rows of a training over another control than its own: method and control.
ALSO = dict(
    student_over_wide=('student', 'wide'),
    student_over_ensemble=('student', 'ensemble'),
    student_over_one=('student', 'self_distilled'),
    ncl_same_bank=('ncl', 'sinkhorn'),
    crossed_over_early=('dvtr_crossed', 'dvtr_early'),
    crossed_over_ensemble=('dvtr_crossed', 'ensemble'),
    dua_over_ti=('dua', 'ti'),
    length_split_over_random=('length_split', 'random_split'),
    rmv_all_over_rand=('rmv_all', 'rmv_rand'),
)
#: A verdict behind a difference.
SIGNS = {'gains': ' ▲', 'loses': ' ▼', 'nothing': ' ○', 'not resolved': ''}
#: A difference inside of this is nothing (PLAN.md).
MATTERS = 2.0
#: Seeds below which nothing is said.
LEAST = 3


class Change(NamedTuple):
    """Mean difference of a method to its control over S paired seeds, its interval and p."""

    mean: float
    low: float
    high: float
    p: float
    seeds: int

    def __str__(self) -> str:
        shown = f'{self.mean:+.1f}'
        if self.seeds < 2:
            return shown
        bold = '**' if self.low > 0 or self.high < 0 else ''
        return f'{bold}{shown}{bold} [{self.low:+.1f}, {self.high:+.1f}]'

    @property
    def short(self) -> str:
        """Mean and half the interval, bold where it excludes 0."""
        if self.seeds < 2:
            return f'{self.mean:+.1f}'
        bold = '**' if self.low > 0 or self.high < 0 else ''
        return f'{bold}{self.mean:+.1f}{bold}±{(self.high - self.low) / 2:.1f}'


def change(values: Sequence[float]) -> Change:
    """Of paired differences."""
    found = of_seeds(values)
    return Change(found.mean, *found.interval, found.p, len(values))


class Table:
    """All rows of a set and a text kind: figures by method and seed, at the rate that val chose."""

    def __init__(self, rows: Iterable[Row], name: str, text: str) -> None:
        own = [row for row in rows if row['set'] == name and row['text'] == text]
        self.name, self.text, self.aim = name, text, AIMS.get(name, 'rsum')
        self.runs: dict[str, dict[int, Row]] = {}
        for method in dict.fromkeys(row['method'] for row in own):
            mine = [row for row in own if row['method'] == method]
            first = [row for row in mine if row['seed'] == 0]
            chosen = max(first, key=lambda row: row['val']) if first else mine[0]  # one rate alone
            rate = chosen['rate']
            self.runs[method] = {row['seed']: row for row in mine if row['rate'] == rate}

    def figures(self, method: str, when: str) -> dict[int, Row]:
        """By seed; of a transform those of InfoNCE's training."""
        if method == 'ncl_raw':
            rows = self.runs.get('ncl', {}).items()
            return {seed: row[when]['raw'] for seed, row in rows if 'raw' in row[when]}
        if method in ALSO:
            return self.figures(ALSO[method][0], when)
        if method in self.runs:
            return {seed: row[when] for seed, row in self.runs[method].items()}
        trained, bank = method.removesuffix('_bank'), 'unbalanced_sinkhorn'
        if trained != method:
            return {
                seed: row[when]['transforms'][bank]
                for seed, row in self.runs.get(trained, {}).items()
                if bank in row[when].get('transforms', {})
            }
        return {
            seed: row[when]['transforms'][method]
            for seed, row in self.runs.get('infonce', {}).items()
            if when == 'best' and method in row[when].get('transforms', {})
        }

    def control(self, method: str) -> str:
        if method in ALSO:
            return ALSO[method][1]
        return METHODS[method].control if method in METHODS else 'infonce'

    def listed(self) -> list[str]:
        """Methods with :data:`LEAST` seeds that their control has, too, as :data:`NAMES`."""
        return [
            name for name in NAMES if self.control(name) and len(self.paired(name, 'best')) >= LEAST
        ]

    def paired(self, method: str, when: str, over: str = '') -> list[tuple[Row, Row]]:
        mine, theirs = (self.figures(x, when) for x in (method, over or self.control(method)))
        return [(mine[seed], theirs[seed]) for seed in sorted(mine.keys() & theirs.keys())]

    def change(self, method: str, key: str, when: str = 'best', over: str = '') -> Optional[Change]:
        """Of a figure; 'people.auc' is one within another."""
        pairs = self.paired(method, when, over)
        return change([_at(a, key) - _at(b, key) for a, b in pairs]) if pairs else None

    def verdicts(self, when: str = 'best') -> dict[str, str]:
        """By the rule of PLAN.md, over all rows of this set; '' of what has no figure then."""
        changes = {name: self.change(name, self.aim, when) for name in self.listed()}
        changes = {name: x for name, x in changes.items() if x}
        corrected = dict(zip(changes, holm([x.p for x in changes.values()])))
        found = {}
        for name, x in changes.items():
            if corrected[name] < 0.05:
                found[name] = 'gains' if x.mean > 0 else 'loses'
            elif -MATTERS < x.low and x.high < MATTERS:
                found[name] = 'nothing'
            else:
                found[name] = 'not resolved'
        return found


def _at(row: Row, key: str) -> float:
    for part in key.split('.'):
        row = row[part]
    return row


def main_table(table: Table) -> str:
    """Differences in both directions, best and last, with the verdict."""
    ways = [f'{way} R@1' for way in ('t2v', 'v2t')]
    lines = _head(['method', 'seeds', *ways, *(f'{table.aim}, {x}' for x in ('best', 'last'))])
    for name in table.listed():
        firsts = [table.change(name, f'{way}_R1') for way in ('t2v', 'v2t')]
        aims = [judged(table, name, when) for when in ('best', 'last')]
        lines.append(_line(_over(table, name), firsts[0].seeds, *(x.short for x in firsts), *aims))
    return '\n'.join(lines)


def judged(table: Table, name: str, when: str) -> str:
    """Difference of the aim with its sign; '' where there is none."""
    found = table.change(name, table.aim, when) if name in table.listed() else None
    return found.short + SIGNS[table.verdicts(when)[name]] if found else ''


def _title(name: str) -> str:
    trained = name in METHODS or name in ALSO or name == 'ncl_raw'
    return NAMES[name] if trained else f'{NAMES[name]} at test time'


def _over(table: Table, name: str) -> str:
    """Its title, with what it is compared with unless that is InfoNCE."""
    over = table.control(name)
    return _title(name) if over == 'infonce' else f'{_title(name)}, over {_title(over)}'


def level_table(tables: Sequence[Table]) -> str:
    """How good the baselines are."""
    lines = _head(['set', 'trained with', 'seeds', 't2v R@1', 'v2t R@1', 'rsum best', 'last'])
    for table in tables:
        for name in BASELINES:
            runs, ends = (table.figures(name, when).values() for when in ('best', 'last'))
            if runs:
                best = [_mean(runs, key) for key in ('t2v_R1', 'v2t_R1', 'rsum')]
                kind = f'{SETS.get(table.name, table.name)}, {_kind(table)}'
                cells = (f'{x:.1f}' for x in (*best, _mean(ends, 'rsum')))
                lines.append(_line(kind, NAMES[name], len(runs), *cells))
    return '\n'.join(lines)


def _mean(rows: Iterable[Row], key: str) -> float:
    return statistics.mean(_at(row, key) for row in rows)


def _kind(table: Table) -> str:
    return TEXTS[table.text]


def again_table(rows: Sequence[Row], again: Sequence[Row]) -> str:
    """What was made again from an empty folder, minus what the files hold of the same training."""
    keys = ('set', 'text', 'method', 'seed', 'rate')
    known = {tuple(row[key] for key in keys): row for row in rows}
    lines = _head(['set', 'trainings', 'in the files', 'rsum, best', 'last', 'largest'])
    for name in dict.fromkeys(row['set'] for row in again):
        mine = [row for row in again if row['set'] == name]
        pairs = [(row, known.get(tuple(row[key] for key in keys))) for row in mine]
        pairs = [(new, old) for new, old in pairs if old]
        moved = {w: [a[w]['rsum'] - b[w]['rsum'] for a, b in pairs] for w in ('best', 'last')}
        cells = [change(x).short if len(x) > 1 else '' for x in moved.values()]
        largest = max(map(abs, moved['best']), default=0.0)
        lines.append(_line(SETS[name], len(mine), len(pairs), *cells, f'{largest:.1f}'))
    return '\n'.join(lines)


def zoo_table(tables: Sequence[Table]) -> str:
    """Measured rows of the model zoo: MSR-VTT alone."""
    head = [
        'trained with the parts of',
        'seeds',
        't2v R@1/5/10',
        'v2t R@1/5/10',
        '1k-A (476 of 1,000)',
    ]
    lines = _head(head)
    for table in tables:
        for name, runs in table.runs.items():
            if name not in METHODS or len(runs) < LEAST:
                continue
            cells = [
                ' / '.join(
                    f'{statistics.mean(r["best"][f"{x}_R{k}"] for r in runs.values()):.1f}'
                    for k in (1, 5, 10)
                )
                for x in ('t2v', 'v2t')
            ]
            part = [r['best']['1ka'] for r in runs.values() if '1ka' in r['best']]
            cells.append(
                ' / '.join(
                    f'{statistics.mean(r[f"t2v_R{k}"] for r in part):.1f}' for k in (1, 5, 10)
                )
            )
            method = METHODS[name]
            lines.append(_line(f'{NAMES[name]} (`{method.config}.py`)', len(runs), *cells))
    return '\n'.join(lines)


def short_table(tables: Sequence[Table]) -> str:
    """One table of all sets: the aim at best and at last, with the verdicts' signs."""
    looks = [(table, when) for table in tables for when in ('best', 'last')]
    columns = [f'{SETS[table.name]}, {when}' for table, when in looks]
    lines = _head(['method', 'seeds, set by set', *columns])
    for name in NAMES:
        cells = [judged(table, name, when) for table, when in looks]
        if any(cells):
            seeds = '/'.join(str(len(x.paired(name, 'best')) or '·') for x in tables)
            lines.append(_line(_over(tables[0], name), seeds, *cells))
    return '\n'.join(lines)


def first_table(tables: Sequence[Table]) -> str:
    """One table of all sets: R@1 of both directions at best."""
    looks = [(table, way) for table in tables for way in ('t2v', 'v2t')]
    lines = _head(['method', *(f'{SETS[table.name]}, {way}' for table, way in looks)])
    for name in NAMES:
        cells = [
            table.change(name, f'{way}_R1').short if name in table.listed() else ''
            for table, way in looks
        ]
        if any(cells):
            lines.append(_line(_over(tables[0], name), *cells))
    return '\n'.join(lines)


def both_epochs(tables: Mapping[tuple[str, str], Table]) -> str:
    """A few rows in both directions, at the best and at the last epoch; levels first."""
    keys = [(key, when) for when in ('best', 'last') for key in ('t2v_R1', 'v2t_R1', 'rsum')]
    names = dict(t2v_R1='t2v R@1', v2t_R1='v2t R@1', rsum='rsum')
    columns = [f'{names[key]}, {when}' for key, when in keys]
    lines = _head(['trained on', 'method', *columns, "rsum, last over the control's best"])
    for place, text, name in BOTH_EPOCHS:
        table = tables[place, text]
        control = table.control(name)
        if control:
            cells = [table.change(name, key, when).short for key, when in keys]
            last, best = table.figures(name, 'last'), table.figures(control, 'best')
            both = sorted(last.keys() & best.keys())
            cells.append(change([last[x]['rsum'] - best[x]['rsum'] for x in both]).short)
            lines.append(_line(KINDS[place, text], _over(table, name), *cells))
        else:
            cells = [f'{_mean(table.figures(name, w).values(), key):.1f}' for key, w in keys]
            lines.append(_line(KINDS[place, text], f'*{NAMES[name]}: level*', *cells, ''))
    return '\n'.join(lines)


def recipe_tables(tables: Sequence[Table]) -> str:
    """The recipe's rows, a table a set: levels, and changes of rsum over InfoNCE."""
    parts = []
    for table in tables:
        columns = ['', 'numbers an item', 'seeds', 'R@1 t2v / v2t', 'rsum, best', 'last']
        lines = _head([*columns, 'best, with a bank'])
        numbers = NUMBERS.get(table.name, 128)
        for name, vectors in RECIPE.items():
            best, last, bank = (
                _recipe_rows(table, x, when)
                for x, when in ((name, 'best'), (name, 'last'), (f'{name}_bank', 'best'))
            )
            if len(best) >= LEAST:
                cells = [_firsts(best), *(_levelled(table, x) for x in (best, last, bank))]
                lines.append(_line(NAMES[name], vectors * numbers, len(best), *cells))
        parts.append('\n'.join([f'**{place_name(table)}**', '', *lines]))
    return '\n\n'.join(parts)


def short_recipe(tables: Sequence[Table]) -> str:
    """Four rows of README: R@1 of both directions, rsum and its change over InfoNCE, by set."""
    lines = _head(['', *map(place_name, tables)])
    for name in SHORT_RECIPE:
        cells = []
        for table in tables:
            rows = _recipe_rows(table, name, 'best')
            cells.append(f'{_firsts(rows)}; {_levelled(table, rows)}')
        trained = name.removesuffix('_bank')
        title = NAMES[trained] + (' with a bank' if trained != name else '')
        lines.append(_line(title, *cells))
    return '\n'.join(lines)


def further_table(rows: Sequence[Row]) -> str:
    """Students on sets that are not of the plan: levels, changes over InfoNCE by seed."""
    lines = _head(['trained on', 'InfoNCE: rsum, best / last', 'student, best', 'last', 'seeds'])
    for name, (text, title) in FURTHER.items():
        table = Table(rows, name, text)
        if 'student' not in table.runs:
            continue
        levels = [
            f'{_mean(table.figures("infonce", when).values(), "rsum"):.1f}'
            for when in ('best', 'last')
        ]
        moved = [table.change('student', 'rsum', when) for when in ('best', 'last')]
        cells = [' / '.join(levels), *(x.short for x in moved), moved[0].seeds]
        lines.append(_line(title, *cells))
    return '\n'.join(lines)


def _recipe_rows(table: Table, name: str, when: str) -> dict[int, Row]:
    """Figures by seed of the recipe's trainings (PLAN.md) alone."""
    return {seed: row for seed, row in table.figures(name, when).items() if seed >= FIRST}


def _firsts(rows: Mapping[int, Row]) -> str:
    return ' / '.join(f'{_mean(rows.values(), key):.1f}' for key in ('t2v_R1', 'v2t_R1'))


def _levelled(table: Table, rows: Mapping[int, Row]) -> str:
    """Mean rsum, and its change over InfoNCE's best epoch with half the interval."""
    if len(rows) < LEAST:
        return ''
    level, moved = f'{_mean(rows.values(), "rsum"):.1f}', _moved(table, rows)
    return f'{level} ({change(moved).short})' if any(moved) else level


def _moved(table: Table, rows: Mapping[int, Row]) -> list[float]:
    """Changes of rsum over InfoNCE's best epoch."""
    base = _recipe_rows(table, 'infonce', 'best')
    return [row['rsum'] - base[seed]['rsum'] for seed, row in rows.items()]


def change_over_infonce(table: Table, name: str) -> Optional[Change]:
    """Of the recipe's rows at their best epoch; None of too few."""
    rows = _recipe_rows(table, name, 'best')
    return change(_moved(table, rows)) if len(rows) >= LEAST else None


def taught_tables(rows: Sequence[Row]) -> list[Table]:
    """Tables of the sets that have a student."""
    kinds = {(row['set'], row['text']) for row in rows}
    tables = [Table(rows, name, text) for text in TEXTS for name in SETS if (name, text) in kinds]
    return [x for x in tables if len(_recipe_rows(x, 'student', 'best')) >= LEAST]


def place_name(table: Table) -> str:
    """A set, and what its texts are unless they are MiniLM's."""
    kind = '' if table.text != 'words' else f', {TEXTS["words"]}'
    return SETS[table.name] + kind


def _head(columns: Sequence[str]) -> list[str]:
    return [_line(*columns), '|' + '---|' * len(columns)]


def _line(*cells: object) -> str:
    return '| ' + ' | '.join(map(str, cells)) + ' |'


def blocks(rows: Sequence[Row]) -> dict[str, str]:
    """All tables by the name of their mark."""
    kinds = dict.fromkeys((row['set'], row['text']) for row in rows)
    order = [(name, text) for text in TEXTS for name in SETS if (name, text) in kinds]
    tables = {kind: Table(rows, *kind) for kind in order}
    found = {f'{name}-{text}': main_table(x) for (name, text), x in tables.items()}
    wide = [x for x in tables.values() if x.listed() and (x.name, x.text) in WIDE]
    found['short'], found['first'] = short_table(wide), first_table(wide)
    found['levels'] = level_table([*tables.values()])
    found['both'] = both_epochs(tables)
    taught = taught_tables(rows)
    found['recipe'] = recipe_tables(taught)
    found['recipe-short'] = short_recipe([x for x in taught if x.text != 'words'])
    further = read_rows(RESULTS / 'further')
    if further:
        found['recipe-further'] = further_table(further)
    found['words'] = short_table([x for x in tables.values() if x.text == 'words'])
    if ('F', 'minilm') in tables:
        from people_tables import people_blocks

        again = read_rows(AGAIN)
        found.update(people_blocks(tables['F', 'minilm'], tables.get(('F', 'words')), again))
        found['again'] = again_table(rows, again)
    found['zoo'] = zoo_table([x for x in tables.values() if x.name in 'MT' and x.text == 'minilm'])
    return found


def write_pages(rows: Sequence[Row]) -> None:
    """Put the tables between their marks; says which marks have no table."""
    found = blocks(rows)
    for page in PAGES:
        path = ROOT / page
        text = path.read_text()
        missing = {*re.findall(r'<!-- real:([\w-]+) -->', text)} - found.keys()
        if missing:
            raise KeyError(f'{page}: no results for the tables {sorted(missing)}')
        marked = re.compile(r'<!-- real:([\w-]+) -->.*?<!-- /real -->', flags=re.S)
        path.write_text(marked.sub(lambda match: _block(match[1], found[match[1]]), text))
        print(page)


def _block(name: str, table: str) -> str:
    return f'<!-- real:{name} -->\n\n{table}\n\n<!-- /real -->'
