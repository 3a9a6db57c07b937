"""Does debiasing debias?  Every method and its controls, where the truth is planted and known.

    python tools/benchmark/effects.py [--conditions clean ambiguity60 ...] [--methods dvtr ...]
                                      [--seeds 3] [--jobs 2] [--out docs/benchmark/effects]
                                      [--smoke] [--configs | --page]

1. Frame features of the planted corpora, by a frame tower trained on a sister corpus.
2. Each method is tuned on the same grid with seed 0, by paired rsum on val (NCL's after Sinkhorn).
3. Each method is trained and tested with its choice over the seeds, one thread a training.
4. The page and its pictures are made from the cells.

What is done is not done again: a killed run goes on where it stopped, and a fresh clone goes on
from the cells that it holds.  A cell whose config has changed since is made anew.
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any, Callable, Mapping, NamedTuple, Sequence

from comparison.cells import (
    Training,
    cpu_seconds,
    describe,
    is_current,
    make_cell,
    run_tool,
    train,
    write_config,
    write_json,
)
from comparison.files import load_json
from comparison.page import write_page
from comparison.plan import CONDITIONS, GRID, METHODS, SUMS, TUNED_ON, Condition
from planted_runs import ROOT, WORK, make_features, sister_tower

#: Family and method -> point of the grid.
Choices = Mapping[tuple[str, str], Mapping[str, float]]
SMOKE_CORPUS = dict(num_train=96, num_val=24, num_test=32)
SMOKE_OPTIONS = {'train_cfg.max_epochs': 3, 'train_cfg.val_interval': 3}


class Plan(NamedTuple):
    """What a call of this program is to do.

    Attributes:
        conditions: all of them by name.
        wanted: methods by condition, those that were asked for and their baselines.
        seeds: of the trainings.
        grid: points of the tuning.
        out: folder of the cells.
        work: folder of the trainings.
        page: file.
    """

    conditions: Mapping[str, Condition]
    wanted: Mapping[str, Sequence[str]]
    seeds: Sequence[int]
    grid: Sequence[Mapping[str, float]]
    out: Path
    work: Path
    page: Path

    def training(self, name: str, method: str, seed: int, point: Mapping[str, float]) -> Training:
        """One of its trainings."""
        return Training(name, self.conditions[name], method, seed, point, self.work)

    def methods(self, family: str) -> list[str]:
        """What is trained in a family."""
        names = [n for n in self.wanted if self.conditions[n].family == family]
        return list(dict.fromkeys(SUMS.get(m, m) for n in names for m in self.wanted[n]))


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add('--conditions', nargs='+', choices=CONDITIONS, default=list(CONDITIONS), metavar='NAME')
    add('--methods', nargs='+', choices=METHODS, default=list(METHODS), metavar='NAME')
    add('--seeds', type=int, default=3, help='seeds 0, 1, ... of the trainings')
    add('--jobs', type=int, default=2, help='trainings at a time, one thread each')
    add('--out', type=Path, help='default docs/benchmark/effects; its page stands beside it')
    add('--smoke', action='store_true', help='all of it, tiny: tells nothing but that it works')
    only = parser.add_mutually_exclusive_group()
    only.add_argument(
        '--configs', action='store_true', help='only write the config of each training'
    )
    only.add_argument('--page', action='store_true', help='only the page, from the cells there are')
    return parser.parse_args()


def make_plan(args: argparse.Namespace) -> Plan:
    """From the command line."""
    conditions = dict(CONDITIONS)
    if args.smoke:
        conditions = {name: tiny(condition) for name, condition in CONDITIONS.items()}
    wanted = {}
    for name in args.conditions:
        asked = {*args.methods, conditions[name].baseline}
        wanted[name] = [method for method in conditions[name].methods if method in asked]
    docs, work = ROOT / 'docs', WORK / 'effects'
    if args.smoke:
        work = WORK / 'effects_smoke'
        docs = ROOT / work
    return Plan(
        conditions,
        wanted,
        seeds=range(1 if args.smoke else args.seeds),
        grid=GRID[:1] if args.smoke else GRID,
        out=args.out or docs / 'benchmark/effects',
        work=work,
        page=(args.out.parent if args.out else docs) / 'benchmark.md',
    )


def tiny(condition: Condition) -> Condition:
    """The same with few clips, few epochs, and a frame tower that has learnt nothing."""
    folder = f'smoke_{condition.features["folder"]}'
    return condition._replace(
        corpus={**condition.corpus, **SMOKE_CORPUS},
        features={**condition.features, **SMOKE_CORPUS, 'folder': folder, 'trained': False},
        options={**condition.options, **SMOKE_OPTIONS},
    )


def main() -> None:
    args = parse_args()
    os.environ['OMP_NUM_THREADS'] = '1'  # of every training, whatever --jobs
    plan, start = make_plan(args), time.monotonic()
    if args.configs or args.page:
        trainings = cells(plan, known_choices(plan, read_tuning(plan)))
        for part in (part for t in trainings for part in t.parts if args.configs):
            print(write_config(part))
    else:
        trainings = cells(plan, tune(plan, args.jobs))
        todo = [training for training in trainings if not is_current(training, plan.out)]
        print(f'{len(trainings) - len(todo)} of {len(trainings)} cells are there', flush=True)
        features(todo, args.jobs)
        wanted = {name: plan.conditions[name] for name in plan.wanted}
        describe(wanted, plan.out / 'conditions.json')
        run('cells', todo, lambda t: make_cell(t, plan.out), args.jobs)
    if not args.configs:
        shas = {(t.name, t.method, t.seed): t.sha for t in trainings}
        write_page(plan.out, plan.page, METHODS, CONDITIONS, shas)
        print(f'{plan.page} ({(time.monotonic() - start) / 60:.0f} minutes)')


def read_tuning(plan: Plan) -> dict[str, Any]:
    """What ``tuning.json`` holds; nothing where there is none."""
    path = plan.out / 'tuning.json'
    return load_json(path) if path.exists() else {}


def features(trainings: Sequence[Training], jobs: int) -> None:
    """Make the frame features that some trainings read."""
    wanted: list[Mapping[str, Any]] = []
    for training in trainings:
        if training.condition.features not in wanted:
            wanted.append(training.condition.features)
            print(f'features: {wanted[-1]}', flush=True)
    if any(knobs.get('trained', True) for knobs in wanted):
        sister_tower()  # which all of them read
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(_make_features, wanted))


def _make_features(knobs: Mapping[str, Any]) -> None:
    log = ROOT / WORK / 'features' / knobs['folder']
    make_features(**knobs, run=partial(run_tool, log=log))


def tune(plan: Plan, jobs: int) -> Choices:
    """The point of the grid of each method of each family; kept in ``tuning.json``."""
    known = read_tuning(plan)
    todo = [
        points
        for points in tunings(plan).values()
        if [(g['point'], g['sha']) for g in grid_of(known, points[0])]
        != [(t.point, t.sha) for t in points]
    ]
    flat = [training for points in todo for training in points]
    features(flat, jobs)
    values = iter(run('tuning', flat, tuned, jobs))
    for points in todo:
        grid = [dict(point=t.point, sha=t.sha, **next(values)) for t in points]
        best = max(grid, key=lambda entry: entry['val'])
        about = dict(condition=points[0].name, seed=0, grid=grid, chosen=best['point'])
        known.setdefault(points[0].condition.family, {})[points[0].method] = about
    write_json(plan.out / 'tuning.json', known)
    return known_choices(plan, known)


def tunings(plan: Plan) -> dict[tuple[str, str], list[Training]]:
    """All points of the grid, by family and method."""
    families = sorted({plan.conditions[name].family for name in plan.wanted})
    return {
        (family, method): [plan.training(TUNED_ON[family], method, 0, point) for point in plan.grid]
        for family in families
        for method in plan.methods(family)
    }


def grid_of(known: Mapping[str, Any], training: Training) -> list[dict]:
    """What ``tuning.json`` holds of a method."""
    return known.get(training.condition.family, {}).get(training.method, {}).get('grid', [])


def known_choices(plan: Plan, known: Mapping[str, Any]) -> Choices:
    """The chosen points, where nothing is known the first one."""
    return {
        (family, method): known.get(family, {}).get(method, {}).get('chosen', plan.grid[0])
        for family, method in tunings(plan)
    }


def tuned(training: Training) -> dict[str, float]:
    """What val says of a training, and its cost."""
    value = train(training)['val'][METHODS[training.method].chosen_by]
    return dict(val=value, cpu_seconds=cpu_seconds(training.folder))


def cells(plan: Plan, chosen: Choices) -> list[Training]:
    """All trainings with their choice, the seeds outside, so that a page can be made early."""
    return [
        plan.training(
            name,
            method,
            plan.conditions[name].first_seed + seed,
            chosen[plan.conditions[name].family, SUMS.get(method, method)],
        )
        for seed in plan.seeds
        for name, methods in plan.wanted.items()
        for method in methods
    ]


def run(what: str, trainings: Sequence[Training], do: Callable[[Training], Any], jobs: int) -> list:
    """``do`` each, a few at a time, and say how far it is and how long it will take."""
    start, results = time.monotonic(), {}
    with ThreadPoolExecutor(jobs) as pool:
        futures = {pool.submit(do, training): i for i, training in enumerate(trainings)}
        try:
            for count, future in enumerate(as_completed(futures), 1):
                results[futures[future]] = result = future.result()
                training, gone = trainings[futures[future]], (time.monotonic() - start) / 60
                name = f'{training.name} {training.method} {training.seed}'
                left = gone / count * (len(trainings) - count)
                times = f'{gone:.0f} min gone, about {left:.0f} left'
                print(
                    f'{what} {count}/{len(trainings)}  {name}: {short(result)}  ({times})',
                    flush=True,
                )
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [results[i] for i in range(len(trainings))]


def short(result: Any) -> str:
    """What a line says of a training."""
    if 'test' not in result:
        return f'val rsum {result["val"]:.1f}'
    test = result['test']
    return f'rsum {test["retrieval/rsum"]:.1f}, v2t P@1 {test["semantic/v2t_P1"]:.1f}'


if __name__ == '__main__':
    main()
