"""Does debiasing debias?  Every method and its controls, where the truth is planted and known.

    python tools/benchmark/effects.py [--conditions clean ambiguity60 ...] [--methods dvtr ...]
                                      [--seeds 3] [--jobs 2] [--out docs/benchmark/effects]
                                      [--smoke] [--configs]

1. Frame features of the planted corpora, by a frame tower trained on a sister corpus.
2. Each method is tuned on the same grid with seed 0, by paired rsum on val.
3. Each method is trained and tested with its choice over the seeds, one thread a training.
4. The page and its pictures are made from the cells.

What is done is not done again: a killed run goes on where it stopped, and a fresh clone goes on
from the cells that it holds.  A cell whose config has changed since is made anew.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Sequence

from effects_cells import CHOSEN_BY, Training, describe, make_cell, train, write_config
from effects_page import write_page
from effects_plan import CONDITIONS, GRID, METHODS, SUMS, TUNED_ON, Condition
from planted_runs import ROOT, WORK, make_features

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
    add('--configs', action='store_true', help='write the config of each training, train nothing')
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
    if args.configs:
        for training in cells(plan, choices(plan, train=False)):
            print(write_config(training))
        return
    for features in all_features(plan):
        print(f'features: {features}', flush=True)
        make_features(**features)
    describe({name: plan.conditions[name] for name in plan.wanted}, plan.out / 'conditions.json')
    trainings = cells(plan, choices(plan, jobs=args.jobs))
    run('cells', trainings, lambda t: make_cell(t, plan.out), args.jobs)
    for method, base in SUMS.items():
        for first, second in pairs([t for t in trainings if t.method == base], plan, method):
            make_cell(first, plan.out, second)
    write_page(plan.out, plan.page, METHODS, CONDITIONS)
    print(f'{plan.page} ({(time.monotonic() - start) / 60:.0f} minutes)')


def all_features(plan: Plan) -> list[Mapping[str, Any]]:
    """Arguments of make_features for the wanted conditions and those they are tuned on."""
    names = [*plan.wanted, *(TUNED_ON[plan.conditions[name].family] for name in plan.wanted)]
    found = [plan.conditions[name].features for name in names]
    return [features for i, features in enumerate(found) if features not in found[:i]]


def choices(plan: Plan, *, jobs: int = 1, train: bool = True) -> dict[str, dict[str, dict]]:
    """The point of the grid of each method of each family; kept in ``tuning.json``.

    With ``train=False`` those that are known, and else the first point.
    """
    path = plan.out / 'tuning.json'
    known = json.loads(path.read_text()) if path.exists() else {}
    families = {plan.conditions[name].family for name in plan.wanted}
    todo = {
        (family, method): [plan.training(TUNED_ON[family], method, 0, point) for point in plan.grid]
        for family in sorted(families)
        for method in plan.methods(family)
        if [g['point'] for g in known.get(family, {}).get(method, {}).get('grid', [])] != plan.grid
    }
    if train:
        flat = [training for trainings in todo.values() for training in trainings]
        done = iter(run('tuning', flat, train_once, jobs))
    for (family, method), trainings in todo.items():
        grid = [dict(point=dict(t.point), val=next(done) if train else 0.0) for t in trainings]
        best = max(grid, key=lambda entry: entry['val'])
        about = dict(condition=TUNED_ON[family], seed=0, grid=grid, chosen=best['point'])
        known.setdefault(family, {})[method] = about
    if train:
        path.write_text(json.dumps(known, indent=1, sort_keys=True) + '\n')
    return {
        family: {method: entry['chosen'] for method, entry in methods.items()}
        for family, methods in known.items()
    }


def train_once(training: Training) -> float:
    """Its paired rsum on val."""
    return train(training)['val'][CHOSEN_BY]


def cells(plan: Plan, chosen: Mapping[str, Mapping[str, dict]]) -> list[Training]:
    """All trainings with their choice, the seeds outside, so that a page can be made early."""
    return [
        plan.training(
            name,
            method,
            plan.conditions[name].first_seed + seed,
            chosen[plan.conditions[name].family][method],
        )
        for seed in plan.seeds
        for name, methods in plan.wanted.items()
        for method in methods
        if method not in SUMS
    ]


def pairs(trainings: Sequence[Training], plan: Plan, method: str) -> Iterator[tuple]:
    """Of each condition that wants the sum: every seed's training and the next seed's."""
    for name, methods in plan.wanted.items():
        those = [t for t in trainings if t.name == name]
        if method in methods and len(those) > 1:
            yield from zip(those, [*those[1:], those[0]])


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
    if isinstance(result, float):
        return f'val rsum {result:.1f}'
    test = result['test']
    return f'rsum {test["retrieval/rsum"]:.1f}, v2t P@1 {test["semantic/v2t_P1"]:.1f}'


if __name__ == '__main__':
    main()
