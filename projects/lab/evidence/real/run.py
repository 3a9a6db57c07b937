"""Methods on real features: every row of the tables, a line a result.

    python projects/lab/evidence/real/run.py                   # all of the plan (PLAN.md), hours
    python projects/lab/evidence/real/run.py --list
    python projects/lab/evidence/real/run.py --sets F --only dvtr infonce --seeds 5 6
    python projects/lab/evidence/real/run.py --set FOLDER --only infonce student   # your features
    python projects/lab/evidence/real/run.py --tables          # the pages, from the results

    python projects/lab/evidence/real/run.py --jobs 16         # so many trainings at once

A FOLDER of your own is described in sets.py.  Each look at val is a line; at the end each row's
paired differences to its control with intervals over seeds and queries.
Data are found in ../shared or $MMVTR_SHARED, and what encode_words.py has made for M and T;
work_dirs/real holds what the product reads of them.
Results that are there are not made again.  Seed 0 tries two learning rates (some rows one), and val
chooses.  Rows come in the order of --only, each whole, so that an end by force leaves whole rows.
"""

from __future__ import annotations

import argparse
import logging
import time
import traceback
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from pathlib import Path
from typing import Any, Callable, Iterable, Optional, Sequence

import measure
import numpy as np
import reading
import torch
from ensemble import Ensemble
from judged import Judged, agreement, crowd_pairs, expert_pairs, shares
from members import STUDENT, member, seeds_of, taught
from methods import METHODS, TESTED, Method, model_of, own_training
from results import AIMS, RESULTS, Result, Results, rates_of
from sets import SETS, in_a_sentence, of_folder, prepare, shared, write_store
from training import Schedule, Trained, encode, train

from mmvtr.evaluation.differences import (
    Measured,
    corrected,
    difference,
    differences_table,
    in_words,
)
from mmvtr.evaluation.queries import groups

WORK = Path('work_dirs/real')
SEEDS = (0, 1, 2, 3, 4)
SCHEDULES = dict(
    F=Schedule(24),
    M=Schedule(30),
    V=Schedule(30),
    L=Schedule(15, looks=5),
    T=Schedule(8, looks=4),
    J=Schedule(60),
    U=Schedule(16, batch=32, looks=4),
)


class Place:
    """A prepared set in a text kind."""

    def __init__(self, name: str, folder: Path, text: str) -> None:
        self.name, self.folder, self.text = name, folder, text
        self.about = reading.about(folder)
        self.aim = AIMS.get(name, 'rsum')
        self.schedule = SCHEDULES.get(name, Schedule(20))
        #: Makes the config of a method's model.
        self.model_of: Callable[..., dict[str, Any]] = model_of
        #: Transforms to test in place of those of a row, see --transforms.
        self.transforms: Optional[Sequence[str]] = None
        #: Models and their scores of test, of the last epoch and then of the best, for pictures.
        self.tested: list[tuple[torch.nn.Module, measure.Both]] = []

    def config(self, method: Method) -> dict[str, Any]:
        """The config of a method's model for this set."""
        return self.model_of(method, self.about, self.text)

    def said(self) -> str:
        """What the towers read, and how long they are trained."""
        epochs, batch, _ = self.schedule
        texts = 'words, trained from scratch'
        if self.text == 'minilm':
            width = self.about.get('text_width')
            texts = f'{width} stored numbers each ({text_name(self.name, self.text)})'
        return (
            f'{self.name}: texts are {texts}, items {self.about["width"]} numbers a frame; {epochs}'
            f' epochs, batches of {batch}'
        )

    def kind(self, method: Method) -> str:
        """What its texts are read as."""
        return self.text if method.text == 'sentence' else 'word_vectors'

    def lacks(self, method: Method) -> str:
        """What a method reads that the set has not; '' of nothing."""
        wanted = {self.kind(method), *method.reads, *(['agreement'] if method.sure else [])}
        vectors = {'guide', 'means', 'teacher'}
        for names, there, what in (
            ({'minilm', *vectors}, 'text_width' in self.about, 'captions.npz'),
            ({'word_vectors'}, 'word_width' in self.about, 'words.npz'),
            ({'words'}, not self.about.get('one_word'), 'words with spaces between'),
            ({'means', 'agreement'}, not self.about.get('one_caption'), 'two captions of a video'),
            ({'facts'}, 'facts' in self.about, 'lengths of videos'),
            ({'truth', 'wrong_truth'}, self.name == 'J', 'what people say of its training pairs'),
        ):
            if wanted & names and not there:
                return what
        return ''


@cache
def people(folder: Path, text: str) -> tuple[Judged, Judged]:
    """Crowd and experts of Flickr8k's test set."""
    test = reading.evaluated(folder, 'test', text)
    pairs = crowd_pairs(shared()), expert_pairs(shared())
    return tuple(Judged.of(some, test.texts, test.videos) for some in pairs)


class Evaluator:
    """Scores of a model with val, test and the bank of one place."""

    def __init__(self, place: Place, method: Method) -> None:
        self.place, self.method, self.kind = place, method, place.kind(method)

    def levels(self, model: torch.nn.Module, split: str):
        """(texts, videos) of a split, or of the bank."""
        some = self.split(split)
        return encode(model, some.inputs)

    def split(self, name: str) -> reading.Whole:
        if name == 'bank':
            return reading.bank(self.place.folder, self.kind)
        return reading.evaluated(self.place.folder, name, self.kind)

    @torch.no_grad()
    def scores(self, model: torch.nn.Module, split: str, *, bank: bool) -> tuple[Any, ...]:
        """Scores [T, V] of a split and, if asked for, those of the bank with it."""
        texts, videos = self.levels(model, split)
        raw = score(model, texts, videos)
        if not bank:
            return raw, None
        known_texts, known_videos = self.levels(model, 'bank')
        return raw, measure.Bank(
            score(model, known_texts, videos), score(model, texts, known_videos).t()
        )

    def both(self, raw, bank, split: str) -> measure.Both:
        """What the method ranks by: raw scores, or what it makes of them at test time."""
        if self.method.bank:
            return measure.transformed('sinkhorn', dict(share=0.11), raw, bank)
        if self.method.sure:
            captions = self.split(split).captions
            implied = reading.implication(self.place.folder, self.kind).among(captions, captions)
            return measure.sure_first(raw, implied, self.method.sure)
        return measure.Both(raw, raw)

    def judge(self, model: torch.nn.Module) -> float:
        """The aim on val."""
        raw, bank = self.scores(model, 'val', bank=self.method.bank)
        found = measure.ranks(self.both(raw, bank, 'val'), self.split('val').positives)
        return measure.recalls(found)[self.place.aim]

    def test(self, model: torch.nn.Module, *, transforms: Sequence[str] = ()) -> Result:
        """All figures on test, of one set of weights, raw and by some transforms."""
        raw, bank = self.scores(model, 'test', bank=bool(transforms) or self.method.bank)
        both = self.both(raw, bank, 'test')
        self.place.tested.append((model, both))
        row = self.figures(both, hits=True)
        if self.method.bank:
            row['raw'] = self.figures(measure.Both(raw, raw))
        if transforms:
            row['transforms'] = self.transforms(model, raw, bank, transforms)
        if (self.place.folder / 'captions_1ka.csv').exists():
            raw, bank = self.scores(model, '1ka', bank=self.method.bank)
            found = measure.ranks(self.both(raw, bank, '1ka'), self.split('1ka').positives)
            row['1ka'] = measure.recalls(found)
        return row

    def figures(self, both: measure.Both, *, hits: bool = False) -> Result:
        """Recalls, on F people's word, and which queries are answered."""
        test = self.split('test')
        found = measure.ranks(both, test.positives)
        row: Result = measure.recalls(found)
        if hits:
            row['hits'] = measure.hits(found)
        if self.place.name == 'F':
            said = people(self.place.folder, self.place.text)
            row['people'] = agreement(both.t2v, test.own, *said)
            if hits:
                moved = shares(both.t2v, test.own, *said, row['people'])
                row['shares'] = {name: measure.packed(x) for name, x in moved.items()}
        return row

    def transforms(
        self, model: torch.nn.Module, raw, bank: measure.Bank, names: Sequence[str]
    ) -> Result:
        """Test-time transforms, each at the setting that val chooses."""
        val_raw, val_bank = self.scores(model, 'val', bank=True)
        positives, rows = self.split('val').positives, {}
        for name in names:
            if name == 'auto':
                continue
            setting = measure.best_setting(name, val_raw, val_bank, positives)
            both = measure.transformed(name, setting, raw, bank)
            rows[name] = dict(self.figures(both), setting=setting)
        if 'auto' in names:
            both, said = measure.chosen_alone(
                lambda part, side: self.vectors(model, part, side),
                self.split('bank').own,
                raw,
                bank,
            )
            rows['auto'] = dict(self.figures(both), setting=said)
        return rows

    def vectors(self, model: torch.nn.Module, part: str, side: str):
        """Unit vectors of the bank or the test set, float [N, D]."""
        return model.similarity.flat(self.levels(model, part)[side == 'video'])


@torch.no_grad()
def score(model: torch.nn.Module, texts, videos, rows: int = 512):
    """Scores [T, V], some texts at a time."""
    from mmvtr.structures import take

    count = len(next(iter(texts.values())).mean)
    parts = [
        model.similarity(take(texts, slice(first, first + rows)), videos)['scores']
        for first in range(0, count, rows)
    ]
    return torch.cat(parts).float()


def one(place: Place, name: str, seed: int, rate: float, teach: Any = taught) -> Result:
    """One row's training (or its several) and figures.

    Args:
        teach: gives the training set what a student's teachers say, see :func:`members.taught`.
    """
    method = METHODS[name]
    evaluator = Evaluator(place, method)
    place.tested.clear()
    if 'teacher' in method.reads:
        store_teacher(place)
    reads = (*method.reads, f'halves_{seed}') if method.crossed else tuple(method.reads)
    data = reading.dataset(place.folder, 'train', evaluator.kind, reads, method.epoch_unit)
    if method.taught:
        data = teach(place, data, rate, seeds_of(method.taught, seed))
    config = place.config(method)
    if method.crossed:
        from cross_fitted import halves

        config['teacher']['halves'] = halves(place, data, rate, seed)
    if name == 'infonce' or method.copies > 1:
        each = [member(place, rate, other) for other in seeds_of(method.copies, seed)]
    else:
        own = seed + STUDENT if method.taught else seed
        each = [fit(place, name, config, data, rate, own)]
    model, start = Ensemble.of([trained.model for trained in each]), time.time()
    curve = each[0].curve
    value, epoch = max((x, -epoch) for epoch, x in curve)
    last = best = evaluator.test(model)
    transforms = method.transforms if place.transforms is None else place.transforms
    if transforms or method.copies > 1 or -epoch < place.schedule.epochs * method.epochs:
        for trained in each:
            trained.model.load_state_dict(trained.best)
        best = evaluator.test(model, transforms=transforms)
    return dict(
        set=place.name,
        text=place.text,
        method=name,
        seed=seed,
        rate=rate,
        val=value,
        epoch=-epoch,
        temperature=float(each[0].model.temperature().detach()),
        curve=curve,
        best=best,
        last={name: x for name, x in last.items() if name != 'shares'},
        seconds=round(sum(trained.seconds for trained in each), 1),
        test_seconds=round(time.time() - start, 1),
    )


def fit(
    place: Place, name: str, model: Any, data: Any, rate: float, seed: int, work: str = ''
) -> Trained:
    """Train a row's model by the place's schedule."""
    method, (epochs, batch, looks) = METHODS[name], place.schedule
    return train(
        model,
        data,
        Schedule(epochs * method.epochs, batch, looks * method.epochs),
        rate=rate,
        rates=method.rates,
        seed=seed,
        judge=Evaluator(place, method).judge,
        hooks=list(method.hooks),
        by_part=bool(method.whole),
        name=f'{place.name} {name} seed {seed}',
        work_dir=WORK / 'runs' / (work or place.name),
        own=own_training(method, rate),
    )


def store_teacher(place: Place) -> None:
    """Vectors of a teacher that reads the other text kind, once a set (TeachText)."""
    paths = [place.folder / f'teacher_of_{place.text}_{side}.h5' for side in ('text', 'video')]
    if all(path.exists() for path in paths):
        return
    other = Place(place.name, place.folder, 'words' if place.text == 'minilm' else 'minilm')
    data = reading.dataset(other.folder, 'train', other.text)
    model = other.config(METHODS['infonce'])
    trained = fit(other, 'infonce', model, data, 1e-3, 1000, f'{place.name}_teacher')
    trained.model.load_state_dict(trained.best)
    everything = reading.whole(data)
    levels = encode(trained.model, everything.inputs)
    for path, side, ids in zip(paths, levels, (everything.texts, everything.videos)):
        vectors = trained.model.similarity.flat(side).numpy()
        write_store(path, dict(zip(ids, vectors[:, None])))


def rows_of(places: Iterable[Place], names: Sequence[str]) -> list[tuple[Place, str]]:
    """Sets and methods that go together, a method after the other; says which are left out."""
    found = []
    for name in names:
        for place in places:
            missing = place.lacks(METHODS[name])
            if place.name in SETS and place.name not in METHODS[name].sets:
                continue
            if missing:
                print(f'{place.name}: {name} is left out, for it reads {missing}', flush=True)
            else:
                found.append((place, name))
    return found


def jobs(results: Results, rows: Iterable[tuple[Place, str]], seeds: Sequence[int]) -> list[tuple]:
    """(place, method, seed, rate) of what can be done: seed 0 first where it chooses the rate."""
    found = []
    for place, name in rows:
        key = dict(set=place.name, text=place.text, method=name)
        chosen = results.rate(place.name, place.text, name)
        for seed in seeds if chosen else (0,):
            for rate in rates_of(place.name, place.text, name) if seed == 0 else (chosen,):
                if not results.find(**key, seed=seed, rate=rate):
                    found.append((place, name, seed, rate))
    return found


def attempt(place: Place, name: str, seed: int, rate: float) -> Result | str:
    """A result, or what went wrong, which stops no other row."""
    try:
        return one(place, name, seed, rate)
    except Exception:
        return traceback.format_exc()


def done(todo: Sequence[tuple], processes: int, end: float) -> Iterable[tuple]:
    """(job, result) of each job as it is done; none begins after ``end``."""
    if processes == 1:
        for job in todo:
            if time.time() < end:
                yield job, attempt(*job)
        return
    for place in {place for place, name, *_ in todo if 'teacher' in METHODS[name].reads}:
        store_teacher(place)  # here, as all processes would
    with ProcessPoolExecutor(min(processes, len(todo)), initializer=quiet) as pool:
        running = {pool.submit(attempt, *job): job for job in todo}
        for future in as_completed(running):
            if time.time() >= end:
                pool.shutdown(wait=False, cancel_futures=True)
            if not future.cancelled():
                yield running[future], future.result()


def quiet() -> None:
    """One thread a process, and no words of the training."""
    warnings.simplefilter('ignore')
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add('--list', action='store_true', help='rows and sets, and how many results are there')
    add('--only', nargs='+', metavar='METHOD', choices=METHODS, default=list(METHODS))
    add('--sets', nargs='+', choices=SETS, default=list(SETS))
    add('--text', choices=('minilm', 'words'), default='minilm', help='what texts are made of')
    add('--seeds', '--seed', nargs='+', type=int, default=list(SEEDS))
    add('--set', type=Path, metavar='FOLDER', help='a set of your own, see sets.py')
    add('--epochs', type=int, help='of a set of your own, from 2, for the first warms up')
    add(
        '--transforms',
        nargs='*',
        choices=TESTED,
        help='test-time transforms of the best epoch (default: those of each row)',
    )
    add('--results', type=Path, default=RESULTS)
    add('--minutes', type=float, default=1e9, help='begin nothing after so long')
    add('--jobs', type=int, default=1, help='trainings at once, a core each')
    add('--tables', action='store_true', help='write the pages and end')
    args = parser.parse_args()
    if args.epochs is not None and (args.epochs < 2 or not args.set):
        parser.error('--epochs: at least 2, and of a --set FOLDER alone')
    return args


def places_of(args: argparse.Namespace) -> list[Place]:
    """The sets asked for, prepared."""
    if args.set:
        name = args.set.resolve().name
        place = Place(name, prepare(name, of_folder(args.set), WORK / name), args.text)
        if args.epochs:
            place.schedule = place.schedule._replace(epochs=args.epochs)
        found = [place]
    else:
        found = []
        for name in args.sets:
            if any(name in METHODS[method].sets for method in args.only):
                made = (WORK / name / 'made.json').exists()
                folder = WORK / name if made else prepare(name, SETS[name](), WORK / name)
                found.append(Place(name, folder, args.text))
    for place in found:
        place.transforms = args.transforms
    return found


def show(results: Results) -> None:
    """What there is to be trained, and what is there."""
    for name, method in METHODS.items():
        there = [row for row in results.rows if row['method'] == name]
        print(f'{name:16} {method.config:36} sets {method.sets:4} {len(there)} results')
    hours = sum(row['seconds'] + row['test_seconds'] for row in results.rows) / 3600
    print(f'{len(results.rows)} results, {hours:.1f} hours of one core')


def main() -> None:
    args = parse_args()
    results = Results(args.results)
    if args.list:
        return show(results)
    if args.tables:
        from tables import write_pages

        return write_pages(results.rows)
    quiet()
    places = in_a_sentence(lambda: places_of(args), ValueError)
    for place in places:
        print(place.said(), flush=True)
    rows, end = rows_of(places, args.only), time.time() + 60 * args.minutes
    if not rows:
        raise SystemExit('error: no row is left (--text words needs neither of the npz of texts)')
    failed: list[tuple] = []
    while todo := [job for job in jobs(results, rows, args.seeds) if job not in failed]:
        for job, row in done(todo, args.jobs, end):
            if isinstance(row, str):
                failed.append(job)
                print(row, flush=True)
            else:
                results.add(row)
                print(said(row), flush=True)
        if time.time() >= end:
            break
    print('\n'.join(changes(results.rows, rows)), flush=True)
    if failed:
        names = [f'{place.name} {name} seed {seed}' for place, name, seed, _ in failed]
        raise SystemExit(f'error: {len(failed)} trainings failed, see above: {", ".join(names)}')


#: Heading, figure and epoch of the differences that a run ends in.
SHOWN = (
    ('rsum', 'rsum', 'best'),
    ('rsum, last epoch', 'rsum', 'last'),
    ('R@1 t2v', 't2v_R1', 'best'),
    ('R@1 v2t', 'v2t_R1', 'best'),
)


def changes(made: Sequence[Result], rows: Sequence[tuple[Place, str]]) -> list[str]:
    """Each row's level, and its paired differences to its control."""
    from tables import Table

    lines, found = [''], []
    asked = cache(queries)
    for place, name in rows:
        table, control = Table(made, place.name, place.text), METHODS[name].control
        runs = [*table.figures(name, 'best').values()]
        if runs:
            level = sum(run['rsum'] for run in runs) / len(runs)
            lines.append(f'{place.name} {name}: rsum {level:.1f}, {len(runs)} seeds')
        for title, key, when in SHOWN if control and runs else ():
            of = asked(place.folder, place.kind(METHODS[name]))
            ours, theirs = (measured(table.figures(x, when), key, of) for x in (name, control))
            found.append(difference(f'{place.name} {name} over {control}', title, ours, theirs))
            if found[-1] is None and title == SHOWN[0][0]:
                lines.append(f'    over {control}: no seed of both')
    shown = corrected(found)
    return [*lines, '', in_words(shown), '', differences_table(shown)] if shown else lines


def queries(folder: Path, text: str) -> dict[str, np.ndarray]:
    """By direction the groups of a test set's queries, int64 [Q]: texts of a video, and that."""
    found = groups(reading.evaluated(folder, 'test', text).positives)
    return {name: of.numpy() for name, of in zip(('t2v', 'v2t'), found)}


def measured(runs: dict[int, Result], key: str, of: dict[str, np.ndarray]) -> Measured:
    """A figure of each seed, with values of its queries where the results have them."""
    counts = {name: len(own) for name, own in of.items()}
    values = {seed: run[key] for seed, run in runs.items()}
    single = {s: measure.by_query(run.get('hits', {}), key, counts) for s, run in runs.items()}
    return Measured(
        values, single, [own for name, own in of.items() if key in ('rsum', name + '_R1')]
    )


def text_name(name: str, text: str) -> str:
    """What texts are read as: of a stranger's set no encoder is known."""
    return 'captions.npz' if name not in SETS and text == 'minilm' else text


def said(row: Result) -> str:
    """One line of a result."""
    best, last, text = row['best'], row['last'], text_name(row['set'], row['text'])
    return (
        f'{row["set"]} {text} {row["method"]} seed {row["seed"]} rate {row["rate"]:g}: '
        f'rsum {best["rsum"]:.1f} at epoch {row["epoch"]}, last {last["rsum"]:.1f}; R@1 '
        f'{best["t2v_R1"]:.1f} / {best["v2t_R1"]:.1f}; {row["seconds"]} + {row["test_seconds"]} s'
    )


if __name__ == '__main__':
    main()
