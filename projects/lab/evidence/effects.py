"""Does debiasing debias?  Every method and its controls, where the truth is planted and known.

    python projects/lab/evidence/effects.py [--conditions general21 hubs ...] [--methods dvtr ...]
                                      [--seeds N] [--jobs 2] [--minutes 80]
                                      [--out projects/lab/evidence/cells/effects]
                                      [--smoke] [--configs | --count | --page]

1. Frame features of the planted corpora, by a frame tower trained on a sister corpus.
2. Each method and its control are tuned on the same grid with seed 0, on val: by the aim, and where
   that says little by paired recall.
3. Each is trained and tested with its choice over the seeds, one thread a training; also with the
   learning rate of its control, and with that of best paired recall.
4. The page and its pictures are made from the cells.

What is done is not done again: a killed run goes on where it stopped, and a fresh clone goes on
from the cells that it holds.  A cell whose config has changed since is made anew.
"""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, Callable, Mapping, NamedTuple, Optional, Sequence

from comparison.cells import (
    Training,
    cpu_seconds,
    describe,
    known_shas,
    make_cell,
    train,
    write_config,
    write_json,
)
from comparison.files import MATCHED, OWN, RECALL, ROLES, load_json, with_sums
from comparison.kinds import Condition
from comparison.page import write_page
from comparison.plan import CONDITIONS, FAMILIES, METHODS, SUMS
from comparison.verdicts import MATTERS
from planted_runs import ROOT, WORK, make_features, sister_tower

#: Family and method -> role -> point of the grid.
Choices = Mapping[tuple[str, str], Mapping[str, Mapping[str, float]]]
#: Trainings at other settings than a method's own have the first seeds only; where a condition asks
#: for them, all.
SEEDS_OF_OTHERS = 3
SMOKE_CORPUS = dict(num_train=96, num_val=24, num_test=64)
SMOKE_OPTIONS = {'train_cfg.max_epochs': 3, 'train_cfg.val_interval': 3}


class Plan(NamedTuple):
    """What a call of this program is to do.

    Attributes:
        conditions: all of them by name.
        wanted: methods by condition, those that were asked for and their baselines.
        seeds: trainings of each row; None = as many as its condition has.
        points: of each grid, how many are tried; None = all.
        out: folder of the cells.
        work: folder of the trainings.
        page: file.
    """

    conditions: Mapping[str, Condition]
    wanted: Mapping[str, Sequence[str]]
    seeds: Optional[int]
    points: Optional[int]
    out: Path
    work: Path
    page: Path

    def training(
        self, name: str, method: str, seed: int, point: Mapping[str, float], role: str = OWN
    ) -> Training:
        """One of its trainings."""
        return Training(name, self.conditions[name], method, seed, point, self.work, role)

    def count(self, name: str, role: str = OWN) -> int:
        """Trainings of each row of a condition."""
        count = self.seeds or self.conditions[name].seeds
        asked = role == MATCHED and self.conditions[name].matched
        return count if role == OWN or asked else min(count, SEEDS_OF_OTHERS)

    def grid(self, family: str) -> Sequence[Mapping[str, float]]:
        """Points that the methods of a family are tuned with."""
        return FAMILIES[family].grid[: self.points]

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
    add('--seeds', type=int, help='trainings of each row (default: those of its condition)')
    add('--jobs', type=int, default=2, help='trainings at a time, one thread each')
    add('--minutes', type=float, help='start no training after this; default: until all are done')
    add('--out', type=Path, help='of the cells; default cells/effects beside this file')
    add('--smoke', action='store_true', help='each method once, tiny: tells only that it works')
    only = parser.add_mutually_exclusive_group()
    only.add_argument(
        '--configs', action='store_true', help='only write the config of each training'
    )
    only.add_argument(
        '--count', action='store_true', help='only count what is to be trained, by condition'
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
        asked |= {row.split('/')[0] for m in args.methods for row in METHODS[m].controls[:1]}
        wanted[name] = [method for method in conditions[name].methods if method in asked]
    if args.smoke:
        wanted = once(wanted, conditions)
    home, work = ROOT / 'projects/lab/evidence', WORK / 'effects'
    if args.smoke:
        work = WORK / 'effects_smoke'
        home = ROOT / work
    return Plan(
        conditions,
        wanted,
        seeds=1 if args.smoke else args.seeds,
        points=1 if args.smoke else None,
        out=args.out or home / 'cells/effects',
        work=work,
        page=(args.out.parent if args.out else home / 'pages') / 'comparison.md',
    )


def once(
    wanted: Mapping[str, Sequence[str]], conditions: Mapping[str, Condition]
) -> dict[str, list[str]]:
    """Each method where it comes first, beside that condition's baseline; each family at least."""
    seen: set[str] = set()
    kept = {}
    for name, methods in wanted.items():
        condition = conditions[name]
        new = [method for method in methods if method not in seen]
        if new or condition.family not in seen:
            kept[name] = [method for method in methods if method in {*new, condition.baseline}]
        seen.update([*methods, condition.family])
    return kept


def tiny(condition: Condition) -> Condition:
    """The same with few clips, few epochs, and a frame tower that has learnt nothing."""
    folder = f'smoke_{condition.features["folder"]}'
    return condition._replace(
        corpus={**condition.corpus, **SMOKE_CORPUS},
        features={**condition.features, **SMOKE_CORPUS, 'folder': folder, 'trained': False},
        options={**condition.options, **SMOKE_OPTIONS},
        first_seed=0,  # that of the tuning: a row's cell is its one point, trained already
    )


def main() -> None:
    args = parse_args()
    os.environ['OMP_NUM_THREADS'] = '1'  # of every training, whatever --jobs
    plan, start = make_plan(args), time.monotonic()
    if args.count:
        print(count(plan))
        return
    if args.configs:
        for part in (part for t in cells(plan, known_choices(plan)) for part in t.parts):
            print(write_config(part))
        return
    if not args.page:
        clock = Clock(start, args.minutes)
        if tune(plan, args.jobs, clock):
            make_cells(plan, args.jobs, clock)
    own = plan.page == ROOT / 'projects/lab/evidence/pages/comparison.md'
    verdicts = ROOT / 'docs/benchmark.md' if own else None
    write_page(plan.out, plan.page, METHODS, CONDITIONS, shas_of(plan), verdicts)
    print(f'{plan.page} ({(time.monotonic() - start) / 60:.0f} minutes)')


class Clock(NamedTuple):
    """When to start no further training.

    Attributes:
        start: of this call, of the monotonic clock.
        minutes: from there; None = never.
    """

    start: float
    minutes: Optional[float]

    @property
    def is_over(self) -> bool:
        """Whether it is time to stop."""
        return self.minutes is not None and self.gone > self.minutes

    @property
    def gone(self) -> float:
        """Minutes."""
        return (time.monotonic() - self.start) / 60


def make_cells(plan: Plan, jobs: int, clock: Clock, roles: Sequence[str] = ROLES) -> None:
    """Train and test what has no cell yet, with the settings of some roles."""
    trainings, known = cells(plan, known_choices(plan)), known_shas(plan.out)
    trainings = [training for training in trainings if training.role in roles]
    todo = [training for training in trainings if known.get(training.key) != training.sha]
    print(f'{len(trainings) - len(todo)} of {len(trainings)} cells are there', flush=True)
    features(todo, jobs)
    describe({name: plan.conditions[name] for name in plan.wanted}, plan.out / 'conditions.json')
    run('cells', todo, lambda t: make_cell(t, plan.out), jobs, clock)


def shas_of(plan: Plan) -> dict[tuple[str, str, int, str], str]:
    """Of the plan's configs, for each cell that there is: those of others are older ones."""
    choices, shas = known_choices(plan), {}
    for name, method, seed, role in known_shas(plan.out):
        family = plan.conditions[name].family if name in plan.conditions else None
        points = choices.get((family, SUMS.get(method, method)), {})
        if method in METHODS and role in points:
            training = plan.training(name, method, seed, points[role], role)
            shas[training.key] = training.sha
    return shas


def count(plan: Plan) -> str:
    """How many trainings the plan has, and how many of them are still to be done."""
    known, lines = known_shas(plan.out), []
    tuned = {(t.condition.family, t.method) for t in untuned(plan)}
    trainings = cells(plan, known_choices(plan))
    for name in plan.wanted:
        those = [t for t in trainings if t.name == name]
        left = sum(known.get(t.key) != t.sha for t in those)
        tuning = sum(family == plan.conditions[name].family for family, _ in tuned)
        lines.append(f'{name}: {left} of {len(those)} cells, {tuning} methods to tune')
    return '\n'.join(lines)


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
        list(pool.map(lambda knobs: make_features(**knobs), wanted))


def tune(plan: Plan, jobs: int, clock: Clock) -> bool:
    """Find the points of each method of each family; they are kept in ``tuning.json``.

    Returns:
        Whether all are found.
    """
    todo = untuned(plan)
    features(todo, jobs)
    values = run('tuning', todo, tuned, jobs, clock)
    known = read_tuning(plan)
    for (family, method), points in tunings(plan).items():
        old = {entry['sha']: entry for entry in grid_of(known, points[0])}
        new = {t.sha: values[t.key, t.sha] for t in points if (t.key, t.sha) in values}
        grid = [dict(old.get(t.sha) or new.get(t.sha) or {}, point=t.point) for t in points]
        if all('sha' in entry for entry in grid):
            known.setdefault(family, {})[method] = dict(
                condition=points[0].name,
                seed=0,
                grid=grid,
                **choice(grid, points[0].condition.choice),
            )
    write_json(plan.out / 'tuning.json', known)
    return not clock.is_over


def choice(grid: Sequence[Mapping[str, Any]], measure: str) -> dict[str, Mapping[str, float]]:
    """Which point is best, by a measure and by paired recall.

    One training a point cannot tell two apart that differ by less than what would matter: among
    those that are that near to the best, paired recall decides.
    """
    enough = max(entry['val'] for entry in grid) - MATTERS[measure]
    near = [entry for entry in grid if entry['val'] > enough]
    best, by_recall = (max(entries, key=lambda entry: entry['recall']) for entries in (near, grid))
    return dict(chosen=best['point'], by_recall=by_recall['point'])


def untuned(plan: Plan) -> list[Training]:
    """Trainings of the grid that ``tuning.json`` does not hold."""
    known = read_tuning(plan)
    return [
        training
        for points in tunings(plan).values()
        for training in points
        if training.sha not in {entry['sha'] for entry in grid_of(known, training)}
    ]


def tunings(plan: Plan) -> dict[tuple[str, str], list[Training]]:
    """All points of the grid, by family and method."""
    families = sorted({plan.conditions[name].family for name in plan.wanted})
    return {
        (family, method): [
            plan.training(FAMILIES[family].tuned_on, method, 0, point)
            for point in plan.grid(family)
        ]
        for family in families
        for method in plan.methods(family)
    }


def grid_of(known: Mapping[str, Any], training: Training) -> list[dict]:
    """What ``tuning.json`` holds of a method."""
    return known.get(training.condition.family, {}).get(training.method, {}).get('grid', [])


def known_choices(plan: Plan) -> Choices:
    """The chosen points, where nothing is known the first one."""
    known = read_tuning(plan)
    choices: dict[tuple[str, str], dict[str, Mapping[str, float]]] = {}
    for family, method in tunings(plan):
        about = known.get(family, {}).get(method, {})
        choices[family, method] = {OWN: about.get('chosen', plan.grid(family)[0])}
        if 'by_recall' in about:
            choices[family, method][RECALL] = about['by_recall']
    for (family, method), points in choices.items():
        control = choices.get((family, control_of(family, method)))
        if control:
            points[MATCHED] = control[OWN]
    return choices


def control_of(family: str, method: str) -> str:
    """The method whose settings a method has when the two are matched."""
    baseline = CONDITIONS[FAMILIES[family].tuned_on].baseline
    first = next(iter(METHODS[method].controls), baseline).split('/')[0]
    return SUMS.get(first, first)


def tuned(training: Training) -> dict[str, Any]:
    """What val says of a training, by the condition's choice and by paired recall, and its cost."""
    method, condition = METHODS[training.method], training.condition
    values = train(training)['val']
    found = dict(sha=training.sha, cpu_seconds=cpu_seconds(training.folder))
    sums = with_sums(values, ('', method.meant))
    keys = dict(val=condition.choice, recall=condition.cost)
    prefix = f'{method.meant}/' if method.meant else ''
    return dict(found, **{name: sums[prefix + key] for name, key in keys.items()})


def cells(plan: Plan, chosen: Choices) -> list[Training]:
    """All trainings with their choice: own settings first, the seeds outside, so that a page can be
    made early."""
    found = []
    for role in ROLES:
        for seed in range(max(plan.count(name, role) for name in plan.wanted)):
            for name, methods in plan.wanted.items():
                condition = plan.conditions[name]
                if seed >= plan.count(name, role):
                    continue
                if role != OWN and name != FAMILIES[condition.family].tuned_on:
                    # Other settings are shown once a family, and where a plan asks for them.
                    asked = condition.matched if role == MATCHED else ()
                    methods = [method for method in methods if method in asked]
                for method in methods:
                    points = chosen[condition.family, SUMS.get(method, method)]
                    if role == OWN or points.get(role, points[OWN]) != points[OWN]:
                        first = condition.first_seed + seed
                        found.append(plan.training(name, method, first, points[role], role))
    return found


def run(
    what: str,
    trainings: Sequence[Training],
    do: Callable[[Training], Any],
    jobs: int,
    clock: Clock,
) -> dict[tuple, Any]:
    """``do`` each, a few at a time, and say how far it is and how long it will take.

    Returns:
        Results by key and sha, of those that were started in time.
    """
    start, results = clock.gone, {}

    def one(training: Training) -> Any:
        return None if clock.is_over else do(training)

    with ThreadPoolExecutor(jobs) as pool:
        futures = {pool.submit(one, training): training for training in trainings}
        try:
            for number, future in enumerate(as_completed(futures), 1):
                training, result = futures[future], future.result()
                if result is None:
                    continue
                results[training.key, training.sha] = result
                gone = clock.gone - start
                left = gone / number * (len(trainings) - number)
                name = f'{training.name} {training.method} {training.seed} {training.role}'
                print(
                    f'{what} {number}/{len(trainings)}  {name}: {short(result)}  '
                    f'({gone:.0f} min gone, about {left:.0f} left)',
                    flush=True,
                )
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    left = len(trainings) - len(results)
    if left:
        print(f'{what}: out of time with {left} to go; the same command goes on', flush=True)
    return results


def short(result: Any) -> str:
    """What a line says of a training."""
    if 'test' not in result:
        return f'val {result["val"]:.1f}'
    test = result['test']
    return f'rsum {test["retrieval/rsum"]:.1f}, v2t P@1 {test["semantic/v2t_P1"]:.1f}'


if __name__ == '__main__':
    main()
