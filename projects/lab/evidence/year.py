"""A year of a fitted gallery: items come, go and change every day, refits every week.

    python projects/lab/evidence/year.py [--items 100000] [--days 365] [--out FILE]
    python projects/lab/evidence/year.py --store FOLDER [--items 20000] [--kills 30] [--out FILE]

The first keeps a Debiaser: each day items are added, removed and updated; each week it is refitted
to new pairs and calibrated; each month it is saved, changed without its gallery, and loaded with
the gallery in another order.  Threads search all the time.  The second keeps a store, in a process
that is killed at random moments and goes on.  Both compare with a fresh fit after each refit, and P
of the first place with the share that is right.  A world is drawn in which some items are near to
every text.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Iterator, Optional

import numpy as np
import torch

import mmvtr

#: Entries of an item's content, and deviation of texts and items from it.
WIDTH, NOISE = 24, 0.55
#: Seconds between searches of a thread.
PAUSE = 0.2
#: Shares of the items that are added, removed and updated each day.
ADDED, REMOVED, UPDATED = 0.003, 0.0025, 0.0005


class World:
    """Items by number; what is drawn on a day is drawn again if it is asked for again."""

    def __init__(self, seed: int, pairs: int) -> None:
        self._seed, self._pairs = seed, pairs

    def draw(self, day: int, what: int, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Return contents and vectors of items."""
        rng = np.random.default_rng([self._seed, day, what])
        content = rng.normal(size=(count, WIDTH)).astype('f4')
        height = np.exp(0.6 * rng.normal(size=(count, 1)))
        near = content + NOISE * rng.normal(size=content.shape)
        return content, np.hstack([near, 2 * height]).astype('f4')

    def texts(self, contents: np.ndarray, day: int, what: int) -> np.ndarray:
        """Return a text of each content."""
        rng = np.random.default_rng([self._seed, day, what])
        near = contents + NOISE * rng.normal(size=contents.shape)
        return np.hstack([near, np.full((len(near), 1), 4.0)]).astype('f4')

    def bank(self, day: int) -> tuple[np.ndarray, np.ndarray]:
        """Return pairs of texts and items that no gallery has."""
        contents, items = self.draw(day, 8, self._pairs)
        return self.texts(contents, day, 9), items


class Day:
    """The changes of a day: what is there is known from those of all days before."""

    def __init__(self, world: World, items: int) -> None:
        self._world, self._items = world, items
        contents, vectors = world.draw(0, 0, items)
        self.there = {f'd0-{i}': (contents[i], vectors[i]) for i in range(items)}

    def changes(self, day: int) -> Iterator[tuple[str, list[str], Optional[np.ndarray]]]:
        """Yield a call, ids and vectors, and note the change before the next."""
        rng = np.random.default_rng([day, 77])
        new = [f'd{day}-{i}' for i in range(max(1, round(ADDED * self._items)))]
        yield 'add', new, self._put(day, 1, new)
        names = [*self.there]
        count = max(1, round(REMOVED * self._items))
        gone = [names[i] for i in rng.choice(len(names), count, replace=False)]
        yield 'remove', gone, None
        for name in gone:
            del self.there[name]
        names = [*self.there]
        count = max(1, round(UPDATED * self._items))
        same = [names[i] for i in rng.choice(len(names), count, replace=False)]
        for name in same:
            del self.there[name]
        yield 'update', same, self._put(day, 2, same)

    def _put(self, day: int, what: int, names: list[str]) -> np.ndarray:
        contents, vectors = self._world.draw(day, what, len(names))
        self.there.update(zip(names, zip(contents, vectors)))
        return vectors

    @property
    def ids(self) -> list[str]:
        return [*self.there]

    @property
    def vectors(self) -> np.ndarray:
        return np.stack([x for _, x in self.there.values()])

    def asked(self, day: int, count: int) -> tuple[np.ndarray, list[str]]:
        """Return texts, and the ids of what they ask for."""
        names, rng = self.ids, np.random.default_rng([day, 78])
        own = [names[i] for i in rng.choice(len(names), min(count, len(names)), replace=False)]
        return self._world.texts(np.stack([self.there[x][0] for x in own]), day, 3), own


class Watch:
    """Threads that search all the time; what they raise, and lists that are not in order."""

    def __init__(self, one: mmvtr.Debiaser, texts: np.ndarray, threads: int = 2) -> None:
        self.one, self._texts, self.searches = one, texts, 0
        self.wrong: list[str] = []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._look, args=(i,)) for i in range(threads)]

    def _look(self, number: int) -> None:
        while not self._stop.is_set():
            try:
                found = self.one.search(self._texts[: 1 + 7 * number], 5)
                self.searches += 1
                if (np.diff(found.debiased, axis=1) > 0).any() or found.ids.shape[1] != 5:
                    self.wrong.append('a list is not in order')
                if any(len({*row}) < 5 for row in found.ids.tolist()):
                    self.wrong.append('an item is twice in a list')
            except Exception as error:  # noqa: BLE001 - whatever it is
                self.wrong.append(repr(error)[:200])
            self._stop.wait(PAUSE)

    def __enter__(self) -> Watch:
        for x in self._threads:
            x.start()
        return self

    def __exit__(self, *exception: Any) -> None:
        self._stop.set()
        for x in self._threads:
            x.join()


def of_debiaser(
    items: int,
    days: int,
    way: str,
    pairs: int,
    asked: int,
    seed: int = 0,
    *,
    weeks_between: int = 1,
    seconds: float = math.inf,
) -> dict[str, Any]:
    """Return what a year of a Debiaser shows, or the weeks of it that fit into CPU seconds."""
    world, started = World(seed, pairs), time.process_time()
    day_of = Day(world, items)
    one = mmvtr.fit(day_of.vectors, world.bank(0), way, ids=day_of.ids).calibrate()
    weeks, equal, generations = [], [], [one.generation_]
    said: list[np.ndarray] = []
    right: list[np.ndarray] = []
    watched = day_of.asked(0, asked)[0]
    with Watch(one, watched) as watch, tempfile.TemporaryDirectory() as folder:
        for day in range(1, days + 1):
            for call, ids, vectors in day_of.changes(day):
                given = dict(ids=ids) if vectors is None else dict(ids=ids, videos=vectors)
                getattr(one, call)(**given)
                generations.append(one.generation_)
            texts, own = day_of.asked(day, asked)
            found = one.search(texts, 1)
            if found.probabilities is not None:
                said.append(found.probabilities[:, 0])
                right.append(found.ids[:, 0] == np.array(own, dtype=object))
            if day % 30 == 0:
                one = watch.one = moved(one, day_of, Path(folder), texts)
            if day % 7 == 0:
                if said:
                    stale, week = one.stale_, summary(np.concatenate(said), np.concatenate(right))
                    weeks.append(dict(day=day, items=len(one), **stale._asdict(), **week))
                said, right = [], []
                bank = world.bank(day)
                nearly = copy.copy(one).refit(bank)
                if day // 7 % weeks_between == 0:
                    nearly.calibrate()
                fresh = mmvtr.fit(day_of.vectors, bank, way, ids=day_of.ids)
                a, b = (x.search(texts, 10) for x in (nearly, fresh))
                equal.append(bool((a.ids == b.ids).all()))
                one = watch.one = nearly
                generations.append(one.generation_)
                print(day, weeks[-1], equal[-1], file=sys.stderr, flush=True)
                if time.process_time() - started > seconds:
                    break
    assert one.ids_.tolist() == day_of.ids
    return dict(
        python=sys.version.split()[0],
        items=items,
        days=day,
        transform=way,
        pairs=pairs,
        errors=watch.wrong[:5],
        searches=watch.searches,
        changes=len(generations) - 1,
        increasing=bool((np.diff(generations) > 0).all()),
        equal=f'{sum(equal)} of {len(equal)}',
        **told(weeks, pairs),
        parts=len(one._state.gallery.parts),
        seconds=round(time.process_time() - started),
        weeks=weeks,
    )


def moved(one: mmvtr.Debiaser, day_of: Day, folder: Path, texts: np.ndarray) -> mmvtr.Debiaser:
    """Return it saved, loaded alone, changed there and back, saved, and loaded with its gallery in
    another order."""
    one.save(folder)
    alone = mmvtr.Debiaser.load(folder)
    name = day_of.ids[0]
    alone.update(day_of.there[name][1][None], ids=[name]).save(folder)
    ids, vectors = day_of.ids, day_of.vectors
    order = np.random.default_rng(0).permutation(len(ids))
    again = mmvtr.Debiaser.load(folder, vectors[order], ids=[ids[i] for i in order])
    assert again.behind(one.ids_.tolist(), one.generations_.tolist()) == ([name], [], [])
    a, b = (x.search(texts, 5) for x in (one, again))
    assert (a.ids == b.ids).all() and np.allclose(a.debiased, b.debiased, atol=1e-6)
    if one.calibration_ is not None:
        assert np.allclose(a.probabilities, b.probabilities, atol=1e-6)
    whole = mmvtr.Debiaser.load(folder, vectors[order], ids=[ids[i] for i in order])
    there = {x: i for i, x in enumerate(whole.ids_.tolist())}
    assert torch.equal(
        whole.biases_[[there[x] for x in ids]], again.biases_[[there[x] for x in ids]]
    )
    day_of.there = {x: day_of.there[x] for x in whole.ids_.tolist()}
    return whole


def summary(said: np.ndarray, right: np.ndarray) -> dict[str, float]:
    """Return P of the first place as said and as it is."""
    noise = np.sqrt((said * (1 - said)).sum()) / len(said)
    return dict(
        said=float(said.mean()), true=float(right.mean()), noise=float(noise), asked=len(said)
    )


def told(weeks: list[dict[str, Any]], pairs: int) -> dict[str, Any]:
    """Return how far P was from the truth, and how far it is by chance: of the queries, and of the
    pairs that calibrated it."""
    apart = np.array([x['said'] - x['true'] for x in weeks])
    noise = [math.hypot(x['noise'], math.sqrt(x['true'] * (1 - x['true']) / pairs)) for x in weeks]
    every = [np.average([x[name] for x in weeks], weights=[x['asked'] for x in weeks])
             for name in ('said', 'true')]  # fmt: skip
    return dict(
        said=round(float(every[0]), 4),
        true=round(float(every[1]), 4),
        mean_apart=round(float(np.abs(apart).mean()), 4),
        most_apart=round(float(np.abs(apart).max()), 4),
        within=f'{int((np.abs(apart) <= 0.02).sum())} of {len(weeks)} weeks within .02',
        beyond=int((np.abs(apart) > 0.02).sum()),
        beyond_by_chance=round(sum(math.erfc(0.02 / x / math.sqrt(2)) for x in noise), 1),
    )


# -- a store, killed ---------------------------------------------------------------------------


def work(
    folder: Path, journal: Path, items: int, days: int, way: str, pairs: int, asked: int, seed: int
) -> None:
    """Go on with a store where the journal ends; each change is noted when its call returns."""
    from mmvtr_gallery.store import create_store, open_store

    world = World(seed, pairs)
    day_of, done = Day(world, items), journal.read_text().split('\n') if journal.exists() else []
    known = {*done}

    def note(line: str) -> None:
        with open(journal, 'a', encoding='utf-8') as file:
            file.write(line + '\n')
            file.flush()
            os.fsync(file.fileno())

    if 'made' not in known:
        if folder.exists():
            import shutil

            shutil.rmtree(folder)
        with create_store(folder, WIDTH + 1) as store:
            store.add(day_of.ids, day_of.vectors)
            texts, seen = world.bank(0)
            how = dict(items=seen, transform=way, paired=True, probabilities=True, fewer=True)
            store.refit(texts, **how)
            store.persist()
        note('made')
    with open_store(folder, write=True) as store:
        for day in range(1, days + 1):
            for call, ids, vectors in day_of.changes(day):
                line = f'{day} {call}'
                if line in known:
                    continue
                there = store._known(ids)
                if call == 'add' and not there:
                    store.add(ids, vectors)
                elif call == 'remove' and there:
                    store.delete(ids)
                elif call == 'update':
                    store.add(ids, vectors, removing=ids)
                note(line)
            if day % 7 == 0 and f'{day} refit' not in known:
                texts, seen = world.bank(day)
                how = dict(items=seen, transform=way, paired=True, probabilities=True, fewer=True)
                store.refit(texts, **how)
                note(f'{day} refit')


def of_store(
    folder: Path, items: int, days: int, kills: int, way: str, pairs: int, asked: int, seed: int = 0
) -> dict[str, Any]:
    """Return what a year of a store shows whose process is killed."""
    from mmvtr_gallery.store import open_store

    started, rng = time.process_time(), random.Random(seed)
    folder.mkdir(parents=True, exist_ok=True)
    place, journal = folder / 'store', folder / 'journal'
    command = [sys.executable, __file__, '--work', str(folder), '--items', str(items)]
    command += ['--days', str(days), '--seed', str(seed)]
    command += ['--transform', way, '--pairs', str(pairs)]
    world, weeks, equal, killed, lost = World(seed, pairs), [], [], 0, 0
    last = f'{days // 7 * 7} refit' if days % 7 == 0 else f'{days} update'
    while True:
        before = journal.read_text().count('\n') if journal.exists() else 0
        child = subprocess.Popen(command)
        aim = max(1, (3 * days + days // 7) // (kills + 2))  # changes between two kills
        while child.poll() is None:
            now = journal.read_text().count('\n') if journal.exists() else 0
            if killed < kills and now - before >= aim:
                time.sleep(rng.random() * 0.3)
                os.kill(child.pid, signal.SIGKILL)
                killed += 1
                break
            time.sleep(0.01)
        if child.wait() not in (0, -signal.SIGKILL):
            raise RuntimeError(f'the process ended with {child.returncode}')
        done = journal.read_text().split('\n')
        day_of = replayed(world, items, days, done)
        with open_store(place) as store:
            there = {*store.table(['id'])[1]['id']}
            # One change may have been made whose note was not written any more.
            lost += len({*day_of.ids} ^ there) > 2 * max(1, round(ADDED * items))
            if child.returncode == 0:
                assert there == {*day_of.ids}, 'changes are lost'
            day = max([int(x.split()[0]) for x in done if x[:1].isdigit()], default=0)
            texts, own = day_of.asked(10_000 + killed, asked)
            found = store.search(texts, 1)
            p = [store.p_match(x, query=q[None])[0] for x, q in zip(found, texts)]
            hit = np.array([x[0].item.id == name for x, name in zip(found, own)])
            weeks.append(dict(day=day, items=store.count(), **store.stale._asdict(),
                              **summary(np.array(p), hit)))  # fmt: skip
            bank = world.bank(day // 7 * 7)
            if child.returncode == 0 and done[-2].endswith('refit'):
                names = store.table(['id', 'vector', 'bias'])[1]
                fresh = mmvtr.fit(np.stack(names['vector']), bank, way, ids=names['id'])
                expected = fresh.search(texts, 10).ids.tolist()
                lists = [[x.item.id for x in one] for one in store.search(texts, 10)]
                equal.append(lists == expected)
        print(weeks[-1], killed, file=sys.stderr, flush=True)
        if last in done and child.returncode == 0:
            break
    return dict(
        python=sys.version.split()[0],
        items=items,
        days=days,
        transform=way,
        pairs=pairs,
        kills=killed,
        changes=len(done) - 2,
        lost=lost,
        equal=equal,
        **told(weeks, pairs),
        seconds=round(time.process_time() - started),
        weeks=weeks,
    )


def replayed(world: World, items: int, days: int, done: list[str]) -> Day:
    """Return what is there after the changes that the journal holds."""
    day_of, known = Day(world, items), {*done}
    for day in range(1, days + 1):
        for call, _, _ in day_of.changes(day):
            if f'{day} {call}' not in known:
                return day_of if call != 'add' else previous(world, items, day - 1)
    return day_of


def previous(world: World, items: int, days: int) -> Day:
    """Return what is there after whole days."""
    day_of = Day(world, items)
    for day in range(1, days + 1):
        for _ in day_of.changes(day):
            pass
    return day_of


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add('--items', type=int, default=100_000)
    add('--days', type=int, default=364)
    add('--seed', type=int, default=0)
    add('--transform', default='unbalanced_sinkhorn')
    add('--pairs', type=int, default=800, help='of a bank')
    add('--asked', type=int, default=200, help='queries of a day')
    add('--calibrate', type=int, default=1, help='each so many weeks')
    add(
        '--seconds', type=float, default=math.inf, help='CPU seconds after which a week is the last'
    )
    add('--store', type=Path, help='folder of a store, whose process is killed')
    add('--kills', type=int, default=30)
    add('--work', type=Path, help=argparse.SUPPRESS)
    add('--out', type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    how = args.transform, args.pairs, args.asked, args.seed
    if args.work:
        work(args.work / 'store', args.work / 'journal', args.items, args.days, *how)
        return
    if args.store:
        found = of_store(args.store, args.items, args.days, args.kills, *how)
    else:
        limits = dict(weeks_between=args.calibrate, seconds=args.seconds)
        found = of_debiaser(args.items, args.days, *how, **limits)
    text = json.dumps(found, indent=1)
    if args.out:
        args.out.write_text(text + '\n', encoding='utf-8')
    print(json.dumps({k: x for k, x in found.items() if k != 'weeks'}, indent=1))


if __name__ == '__main__':
    main()
