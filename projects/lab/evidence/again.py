"""Rows of the comparison on a corpus that nobody has named: do the page's intervals hold there?

    python projects/lab/evidence/again.py SEED [--conditions general24 hubs_again ...]
                                    [--methods dvtr_floor0 ncl ...] [--seeds N] [--jobs 2]

Clips, captions and trainings of a condition are drawn anew from SEED.  Rows and their controls have
the settings of the page (cells/effects/tuning.json): nothing is chosen here, and nothing of the
page is changed.  Prints each difference to a control as the page has it and as it is on this
corpus, and whether the two intervals overlap; a row of the corpora that the page takes together
stands beside their line as well.  What is done is not done again.

A row of general captions takes about five CPU minutes with its control and the clips, and the first
call trains a frame tower, for two more.
"""

from __future__ import annotations

import argparse
import os
import shutil
import time
from pathlib import Path
from typing import Mapping, NamedTuple, Optional, Sequence

import effects
from comparison.columns import FOUND, TRUTH, heading
from comparison.files import OWN
from comparison.kinds import Condition, redrawn
from comparison.markdown import interval, table
from comparison.plan import CONDITIONS, METHODS
from comparison.statistics import Difference
from comparison.together import over_corpora, pooled, told, unused
from comparison.views import View, make_views
from planted_runs import CELLS, ROOT, SISTER, WORK

PAGE = CELLS / 'effects'
#: Corpora of the plan and of what was tried before it, and that of the frame tower.
USED = {*range(46), int(SISTER.removeprefix('seed='))}


class Line(NamedTuple):
    """One difference, twice.

    Attributes:
        row, over: labels.
        measure: heading.
        where: of the page.
        page, here: as they are printed.
        overlap: whether the intervals do.
    """

    row: str
    over: str
    measure: str
    where: str
    page: str
    here: str
    overlap: bool


def parse_args(arguments: Optional[Sequence[str]] = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add('seed', type=int, help='of the corpus; any that the plan has not')
    add('--conditions', nargs='+', choices=CONDITIONS, default=['general24'], metavar='NAME')
    add('--methods', nargs='+', choices=METHODS, default=['dvtr_floor0'], metavar='NAME')
    add('--seeds', type=int, help='trainings of each row (default: those of its condition)')
    add('--jobs', type=int, default=2, help='trainings at a time, one thread each')
    args = parser.parse_args(arguments)
    if args.seed in USED:
        parser.error(f'seed {args.seed}: something was tried, chosen or judged on it already')
    for name in args.conditions:
        methods = CONDITIONS[name].methods
        if not {*methods} & {*args.methods}:
            parser.error(f'{name} has none of {args.methods}; it has {[*methods]}')
    return args


def make_plan(args: argparse.Namespace) -> effects.Plan:
    """The rows that were asked for and their controls, on the corpus of that seed."""
    plan, work = effects.make_plan(effects_args(args)), WORK / f'effects_corpus{args.seed}'
    conditions = {name: redrawn(CONDITIONS[name], args.seed) for name in args.conditions}
    return plan._replace(
        conditions={**CONDITIONS, **conditions}, work=work, out=ROOT / work / 'cells'
    )


def effects_args(args: argparse.Namespace) -> argparse.Namespace:
    """The command line with which effects.py would train these rows for the page."""
    return argparse.Namespace(**vars(args), smoke=False, out=None)


def main() -> None:
    args = parse_args()
    os.environ['OMP_NUM_THREADS'] = '1'  # of every training, whatever --jobs
    plan, page = make_plan(args), page_views()
    absent = [name for name in plan.wanted if name not in page]
    if absent:
        raise SystemExit(f'the page has nothing of {", ".join(absent)} to compare with')
    plan.out.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(PAGE / 'tuning.json', plan.out / 'tuning.json')
    effects.make_cells(plan, args.jobs, effects.Clock(time.monotonic(), None), roles=(OWN,))
    here = views_of(plan.out, plan.conditions)
    lines = [
        line
        for name in plan.wanted
        for method in args.methods
        for line in compared(page, here[name], method)
    ]
    print(report(lines, args.seed))


def page_views() -> dict[str, View]:
    """All conditions that the page shows, by name."""
    everything = argparse.Namespace(
        conditions=[*CONDITIONS], methods=[*METHODS], smoke=False, seeds=None, out=PAGE
    )
    return views_of(PAGE, CONDITIONS, effects.shas_of(effects.make_plan(everything)))


def views_of(
    folder: Path,
    conditions: Mapping[str, Condition],
    shas: Mapping[tuple[str, str, int, str], str] = {},
) -> dict[str, View]:
    """What has cells there, by name of the condition."""
    return {view.name: view for view in make_views(folder, METHODS, conditions, shas).views}


def compared(page: dict[str, View], here: View, method: str) -> list[Line]:
    """The rows of a method, over all controls that both have, in the aim, the cost, and what is
    true and annotated in both directions.

    Args:
        page: all conditions of the page, by name.
        here: one of them, on another corpus.
        method: name.
    """
    there, lines = page[here.name], []
    keys = dict.fromkeys((here.condition.aim, here.condition.cost, *TRUTH, *FOUND))
    for name, row in here.rows.items():
        if row.method != method or name not in there.rows:
            continue
        for key in keys:
            for control in here.controls[name]:
                ours, theirs = here.edge(row, key, control), None
                if control in there.rows:
                    theirs = there.edge(there.rows[name], key, control)
                if ours is None or theirs is None:
                    continue
                labels = here.labels[name], here.labels[control], heading(key)
                said = interval(ours, key)
                known = [(there.condition.label, interval(theirs, key), theirs)]
                known += (
                    _together(page, here, name, key) if control == here.controls[name][0] else []
                )
                lines += [
                    Line(*labels, where, figures, said, overlap(ours, gain))
                    for where, figures, gain in known
                ]
    return lines


def _together(
    page: dict[str, View], here: View, name: str, key: str
) -> list[tuple[str, str, Difference]]:
    """What the page says of a row over all corpora that nothing was chosen on."""
    views = unused(page)
    if here.name not in {view.name for view in views}:
        return []
    found = [line.gains for line in pooled(views) if (line.name, line.role) == (name, OWN)]
    plan = here.condition
    values = [{**gains.beside, plan.cost: gains.cost, plan.aim: gains.aim}[key] for gains in found]
    return [
        (f'{len(one)} unused corpora', told(over_corpora(one), key), over_corpora(one))
        for one in values
    ]


def overlap(one: Difference, other: Difference) -> bool:
    """Whether two intervals have a point in common."""
    return max(one.low, other.low) <= min(one.high, other.high)


def report(lines: Sequence[Line], seed: int) -> str:
    """A table, and how many of its intervals overlap."""
    rows = [[*line[:-1], 'yes' if line.overlap else '**no**'] for line in lines]
    headings = [
        'row',
        'over',
        'measure',
        'the page, where',
        'the page',
        f'corpus {seed}',
        'overlap',
    ]
    count = sum(line.overlap for line in lines)
    return f'{table(headings, rows)}\n{count} of {len(lines)} intervals overlap.'


if __name__ == '__main__':
    main()
