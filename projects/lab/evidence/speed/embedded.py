"""Compare the gallery's own store with LanceDB as the one engine that a process embeds.

    python projects/lab/evidence/speed/embedded.py --json projects/gallery/docs/store/embedded.json
    python projects/lab/evidence/speed/embedded.py --parts speed --size 1000000 --json FILE

In LanceDB an item is one row, its vector ``[v, b, rest]`` (rest gives all rows one norm); a refit
is one merge of all rows, a replacement one merge, an undo the restoration of the version before.
Parts:

* kills: a child changes a store for ever and gets SIGKILL at a random moment; then the store must
  hold what was there before the change or after it.
* joint: the same of one refit of two stores, items and windows.
* flips: one bit of each file is another; seen: opening and reading all is an error.
* disk: bytes after 50 additions and 50 refits, before and after compaction.
* speed: recall@10, and milliseconds of one query at a time, engines in turn; refits; additions;
  a second process that opens the store and answers one query.
* size: megabytes that the packages take, and seconds that an import takes.

One thread where an engine can be told so.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from importlib.metadata import distribution
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Callable, Iterator

os.environ.setdefault('LANCE_CPU_THREADS', '1')

import numpy as np
from store import DIM, TEMPERATURE, K, best, made, recall

from mmvtr.arrays import Debiaser
from mmvtr_gallery.store import create_store, open_store

SMALL, BATCH, HEAT = 8, 40, 0.05
#: Children have imported all but LanceDB, whose threads survive no fork.
CONTEXT = get_context('forkserver')
CONTEXT.set_forkserver_preload(['store', 'mmvtr_gallery.store.moments', 'pyarrow'])
#: What a child does, over and over; an undo takes back what stands before it.
CYCLE = ('add', 'refit', 'delete', 'undo', 'undo', 'replace', 'undo')
PARTS = ('kills', 'joint', 'flips', 'disk', 'speed', 'size')
FILTER = 10  # one item of so many has the value that is searched for


def units(seed: int, count: int, dim: int = SMALL) -> np.ndarray:
    """Vectors float32 [count, dim] of norm 1."""
    x = np.random.default_rng(seed).standard_normal((count, dim), dtype=np.float32)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def soft(vectors: np.ndarray, bank: np.ndarray) -> np.ndarray:
    """Biases float32 [N] of the inverted softmax, up to a constant."""
    scores = vectors.astype(float) @ bank.T.astype(float) / HEAT
    return (-HEAT * np.log(np.exp(scores).sum(1))).astype(np.float32)


class Lance:
    """A gallery as rows of LanceDB, with no file of ours."""

    def __init__(self, folder: Path, dim: int, most: float = 2.0) -> None:
        import lancedb
        import pyarrow as pa

        self.pa, self.dim, self.most = pa, dim, most
        self.width = -(-(dim + 2) // 16) * 16
        connection = lancedb.connect(str(folder))
        if (folder / 'items.lance').exists():
            self.table = connection.open_table('items')
        else:
            vector = pa.list_(pa.float32(), self.width)
            kinds = dict(id=pa.string(), vector=vector, part=pa.int64(), fit=pa.int64())
            self.table = connection.create_table('items', schema=pa.schema(kinds.items()))

    def rows(self, ids: list[str], vectors: np.ndarray, biases: np.ndarray, fit: int = 0) -> Any:
        pa, wide = self.pa, np.zeros((len(ids), self.width), np.float32)
        wide[:, : self.dim], wide[:, self.dim] = vectors, biases
        wide[:, self.dim + 1] = np.sqrt((self.most - (wide**2).sum(1)).clip(0))
        lists = pa.FixedSizeListArray.from_arrays(pa.array(wide.ravel()), self.width)
        parts = pa.array([n % FILTER for n in range(len(ids))])
        return pa.table(dict(id=ids, vector=lists, part=parts, fit=[fit] * len(ids)))

    def held(self) -> tuple[list[str], np.ndarray, np.ndarray, int]:
        """Ids, vectors, biases, and the fit that all rows have (-1: several)."""
        rows = self.table.to_arrow()
        wide = rows['vector'].combine_chunks().flatten().to_numpy().reshape(-1, self.width)
        fits = set(rows['fit'].to_pylist())
        fit = fits.pop() if len(fits) == 1 else -1 if fits else 0
        return rows['id'].to_pylist(), wide[:, : self.dim], wide[:, self.dim], fit

    def add(self, ids: list[str], vectors: np.ndarray, gone: list[str] = ()) -> None:
        fit = self.held()[3]
        biases = soft(vectors, units(fit, 30)) if fit else np.zeros(len(ids), np.float32)
        rows = self.rows(ids, vectors, biases, fit)
        if not gone:
            self.table.add(rows)
            return
        change = self.table.merge_insert('id').when_not_matched_insert_all()
        change.when_not_matched_by_source_delete(among(gone)).execute(rows)

    def delete(self, ids: list[str]) -> None:
        self.table.delete(among(ids))

    def refit(self, fit: int) -> None:
        ids, vectors, _, _ = self.held()
        self.update(self.rows(ids, vectors, soft(vectors, units(fit, 30)), fit))

    def update(self, rows: Any) -> None:
        self.table.merge_insert('id').when_matched_update_all().execute(rows)

    def undo(self) -> None:
        self.table.restore(self.table.version - 1)

    def search(self, query: np.ndarray, probes: int = 0, where: str = '') -> list[int]:
        wide = np.zeros(self.width, np.float32)
        wide[: self.dim], wide[self.dim] = query, 1
        search = self.table.search(wide).limit(K).select(['id'])
        search = search.where(where, prefilter=True) if where else search
        if probes:
            search = search.distance_type('l2').nprobes(probes).refine_factor(10)
        else:
            search = search.distance_type('dot').bypass_vector_index()
        return [int(x) for x in search.to_arrow()['id'].to_pylist()]


class Own:
    """The same of the gallery's store, each change written before the call returns."""

    def __init__(self, folder: Path, dim: int) -> None:
        there = (folder / 'store.json').exists()
        self.store = open_store(folder, write=True) if there else create_store(folder, dim)
        if not there:
            self.store.persist()

    def held(self) -> tuple[list[str], np.ndarray, np.ndarray, int]:
        columns = self.store.table(['id', 'vector', 'bias'])[1]
        vectors = np.stack(columns['vector']) if columns['id'] else np.zeros((0, SMALL))
        biases, refit = np.array(columns['bias'], np.float32), self.store.last_refit
        return columns['id'], vectors, biases, 0 if refit is None else refit['num_queries'] - 30

    def add(self, ids: list[str], vectors: np.ndarray, gone: list[str] = ()) -> None:
        self.store.add(ids, vectors, removing=gone)

    def delete(self, ids: list[str]) -> None:
        self.store.delete(ids)

    def refit(self, fit: int) -> None:
        bank = units(fit, 30 + fit)
        self.store.refit(bank, transform='inverted_softmax', temperature=HEAT, fewer=True)

    def undo(self) -> None:
        self.store.undo()


ENGINES: dict[str, Callable[..., Any]] = dict(own=Own, lancedb=Lance)


def among(ids: list[str]) -> str:
    return f'id IN ({", ".join(map(repr, ids))})'


# -- kills ---------------------------------------------------------------------------------------


def after(steps: int) -> tuple[list[str], int]:
    """Ids and number of the fit after so many steps of the cycle."""
    ids, fit, before = [], 0, ([], 0)
    for step in range(steps):
        kind = CYCLE[step % len(CYCLE)]
        now = ids, fit
        if kind == 'undo':
            ids, fit = before
        elif kind == 'refit':
            fit = step + 1
        else:
            gone = 0 if kind == 'add' else 15
            ids = ids[gone:] + new(step) * (kind != 'delete')
        before = now
    return ids, fit


def new(step: int) -> list[str]:
    return [f'{step}-{n}' for n in range(BATCH)]


def work(name: str, folder: Path, journal: Path, done: int) -> None:
    store = ENGINES[name](folder, SMALL)
    with open(journal, 'ab', buffering=0) as file:
        for step in range(done, 10**6):
            kind = CYCLE[step % len(CYCLE)]
            if kind == 'add':
                store.add(new(step), units(step, BATCH))
            elif kind == 'replace':
                store.add(new(step), units(step, BATCH), after(step)[0][:15])
            elif kind == 'delete':
                store.delete(after(step)[0][:15])
            elif kind == 'refit':
                store.refit(step + 1)
            else:
                store.undo()
            file.write(b'.')


def holds(store: Any, name: str, steps: int) -> bool:
    """Whether a store holds the state after so many steps: ids, vectors and all biases."""
    wanted, fit = after(steps)
    ids, vectors, biases, found = store.held()
    if sorted(ids) != sorted(wanted) or (ids and found != fit):
        return False
    made_ = {n: units(n, BATCH) for n in {int(x.split('-')[0]) for x in ids}}
    right = np.stack([made_[int(a)][int(b)] for a, b in (x.split('-') for x in ids)] or [[0.0]])
    if not ids:
        return True
    bank = units(fit, 30 + fit if name == 'own' else 30)
    rest = biases - soft(vectors, bank) if fit else biases
    return bool(np.abs(vectors - right).max() < 1e-6 and np.ptp(rest) < 1e-4)


def kill(target: Callable[..., None], arguments: tuple, journal: Path, draw: random.Random) -> int:
    """SIGKILL a child some time after its first step; returns the steps that it has noted."""
    start, child = (
        journal.stat().st_size,
        CONTEXT.Process(target=target, args=arguments),
    )
    child.start()
    while journal.stat().st_size <= start and child.is_alive():
        time.sleep(0.002)
    time.sleep(draw.expovariate(6))
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    if child.exitcode != -signal.SIGKILL:
        raise RuntimeError(f'the child ended by itself: {child.exitcode}')
    return journal.stat().st_size


def kills(name: str, count: int, folder: Path) -> dict[str, int]:
    draw, journal, right = random.Random(7), folder / 'journal', 0
    journal.write_bytes(b'')
    for _ in range(count):
        begun = journal.stat().st_size
        done = kill(work, (name, folder / 'store', journal, begun), journal, draw)
        store = ENGINES[name](folder / 'store', SMALL)
        held = [n for n in (done, done + 1) if holds(store, name, n)]
        right += bool(held)
        if name == 'own':
            store.store.close()
        journal.write_bytes(b'.' * (held or [done])[0])
    return dict(kills=count, whole=right)


def work_joint(name: str, folder: Path, journal: Path, done: int) -> None:
    both = two(name, folder)
    with open(journal, 'ab', buffering=0) as file:
        for fit in range(done + 1, 10**6):
            if name == 'own':
                options = dict(transform='inverted_softmax', temperature=HEAT, fewer=True)
                both[2].refit(units(fit, 30 + fit), **options)
            else:
                for store in both:
                    store.refit(fit)
            file.write(b'.')


def two(name: str, folder: Path) -> list[Any]:
    """Items and windows with one row each of 40, and of our own store what joins them."""
    from mmvtr_gallery.store.moments import MomentStore, Windows

    ids, vectors = new(0), units(0, BATCH)
    if name == 'lancedb':
        stores = [Lance(folder / x, SMALL) for x in ('items', 'windows')]
        for store in stores:
            if not store.table.count_rows():
                store.add(ids, vectors)
        return stores
    items = Own(folder, SMALL)
    if items.store.count():
        moments = MomentStore.open(items.store, folder, write=True)
    else:
        moments = MomentStore.create(items.store, folder)
        parts = {x: Windows([0.0], [1.0], vectors[n : n + 1]) for n, x in enumerate(ids)}
        moments.add(ids, vectors, windows=parts)
        moments.persist()
    windows = Own.__new__(Own)
    windows.store = moments.windows
    return [items, windows, moments]


def joint(name: str, count: int, folder: Path) -> dict[str, int]:
    draw, journal, right = random.Random(8), folder / 'journal', 0
    journal.write_bytes(b'')
    for _ in range(count):
        begun = journal.stat().st_size
        done = kill(work_joint, (name, folder / 'store', journal, begun), journal, draw)
        both = two(name, folder / 'store')
        fits = {store.held()[3] for store in both[:2]}
        right += fits in ({done}, {done + 1})
        if name == 'own':
            both[2].close()
            both[0].store.close()
        journal.write_bytes(b'.' * max(fits))
    return dict(kills=count, whole=right)


# -- flips and disk ------------------------------------------------------------------------------


def flips(name: str, folder: Path) -> dict[str, int]:
    """Five flips of a bit in each file, of which opening and reading all must speak."""
    draw, place = random.Random(3), folder / 'store'
    store = ENGINES[name](place, SMALL)
    for step in range(4):
        store.add(new(step), units(step, BATCH))
    store.refit(3)
    store.add(new(5), units(5, BATCH))
    if name == 'own':
        store.store.close()

    def all_of_it() -> str:
        again = ENGINES[name](place, SMALL)
        try:
            return repr([x.tolist() if hasattr(x, 'tolist') else x for x in again.held()])
        finally:
            if name == 'own':
                again.store.close()

    good, found = all_of_it(), dict(flips=0, seen=0, harmless=0, silent=0)
    for path in [x for x in place.rglob('*') if x.is_file() and x.stat().st_size]:
        whole = path.read_bytes()
        for _ in range(5):
            torn = bytearray(whole)
            torn[draw.randrange(len(torn))] ^= 1 << draw.randrange(8)
            path.write_bytes(torn)
            try:
                kind = 'harmless' if all_of_it() == good else 'silent'
            except Exception:  # whatever an engine raises
                kind = 'seen'
            found['flips'] += 1
            found[kind] += 1
        path.write_bytes(whole)
    return found


def bytes_of(folder: Path) -> int:
    return sum(x.stat().st_size for x in folder.rglob('*') if x.is_file())


def disk(name: str, folder: Path, size: int = 5000) -> dict[str, Any]:
    """Additions of 20 items and refits in turn, 50 of each; MB against MB of the bare vectors."""
    from datetime import timedelta

    store = ENGINES[name](folder, DIM)
    store.add([str(n) for n in range(size)], units(1, size, DIM))
    for n in range(50):
        more = [f'{n}-{i}' for i in range(20)], units(2 + n, 20, DIM)
        if name == 'own':
            store.add(*more)
            store.store.refit(units(n, 64, DIM), temperature=HEAT, fewer=True)
        else:
            store.table.add(store.rows(*more, np.zeros(20, np.float32), n))
            ids, vectors, _, _ = store.held()
            store.update(store.rows(ids, vectors, np.full(len(ids), n / 1000, np.float32), n + 1))
    found = dict(vectors=(size + 1000) * DIM * 4 / 1e6, after=bytes_of(folder) / 1e6)
    began = time.perf_counter()
    if name == 'own':
        store.store.persist()
    else:
        store.table.optimize(cleanup_older_than=timedelta(0))
    seconds = time.perf_counter() - began
    return dict(found, compacted=bytes_of(folder) / 1e6, seconds=seconds)


# -- speed ---------------------------------------------------------------------------------------


def speed(size: int, graphs: bool, folder: Path) -> Iterator[dict[str, Any]]:
    """Rows of all engines, whose queries take turns."""
    import faiss

    faiss.omp_set_num_threads(1)
    data = made(size, 100 if size < 10**6 else 30, 1024, 0)
    ids = [str(n) for n in range(size)]
    own, lance = Own(folder / 'own', DIM).store, Lance(folder / 'lancedb', DIM)
    for start in range(0, size, 50_000):
        part = slice(start, start + 50_000)
        count = len(ids[part])
        columns = dict(part=[n % FILTER for n in range(count)])
        own.add(ids[part], data.gallery[part], metadata=columns)
        zeros = np.zeros(count, np.float32)
        lance.table.add(lance.rows(ids[part], data.gallery[part], zeros))
    yield dict(what='persist', own=took(own.persist)[0])
    options = dict(temperature=TEMPERATURE, sample=20_000)

    def compute() -> np.ndarray:
        fitted = Debiaser('sinkhorn', temperature=TEMPERATURE).fit(data.gallery[:20_000], data.bank)
        return fitted.biases_of(data.gallery).numpy()

    def merged() -> None:
        lance.update(lance.rows(ids, data.gallery, biases, 1))

    row = dict(
        what='refit',
        computing=took(compute)[0],
        own=took(lambda: own.refit(data.bank, fewer=True, **options))[0],
    )
    biases = np.array(own.table(['bias'])[1]['bias'], np.float32)
    data = data._replace(biases=biases)
    if size <= 10**5:  # a merge holds all rows at once
        row['lancedb, written'] = took(merged)[0]
    else:
        lance.table.delete('true')
        for start in range(0, size, 50_000):
            part = slice(start, start + 50_000)
            lance.table.add(lance.rows(ids[part], data.gallery[part], biases[part], 1))
    yield row
    yield from additions(own, lance, data)
    yield from queries(own, lance, data, best(data), graphs)
    own.persist()
    own.close()
    for name in ('own', 'lancedb'):
        yield dict(what='open', engine=name, **opened(name, folder / name))


def took(work_: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    found = work_()
    return time.perf_counter() - began, found


def additions(own: Any, lance: Lance, data: Any) -> Iterator[dict[str, Any]]:
    """Ten items are added and removed again, each on disk: medians of seconds."""
    spent: dict[str, list[float]] = dict(own=[], lancedb=[])
    names, few, none = [f'{-n}' for n in range(1, 11)], data.gallery[:10], np.zeros(10, np.float32)

    rounds = 5 if len(data.gallery) < 10**6 else 2
    for _ in range(rounds):
        spent['own'].append(took(lambda: own.add(names, few))[0])
        spent['lancedb'].append(took(lambda: lance.table.add(lance.rows(names, few, none)))[0])
        own.delete(names)
        lance.delete(names)
    yield dict(what='add 10', **{name: float(np.median(x)) for name, x in spent.items()})


def queries(own: Any, lance: Lance, data: Any, right: np.ndarray, graphs: bool) -> Iterator[dict]:
    size = len(data.gallery)
    lists = round(size**0.5)
    some = best_of(data, np.arange(size) % 50_000 % FILTER == 0)
    only = dict(part=0)
    first = {
        ('own', 'exact'): lambda q: numbers(own.search(q[None], K, exact=True)),
        ('lancedb', 'exact'): lambda q: lance.search(q),
    }
    filtered = {
        ('own', 'exact, filtered'): lambda q: numbers(
            own.search(q[None], K, exact=True, filter=only)
        ),
        ('lancedb', 'exact, filtered'): lambda q: lance.search(q, where='part = 0'),
    }
    yield from in_turn(first, data.queries, right)
    yield from in_turn(filtered, data.queries, some)
    for form in ('hnsw', 'scan') if graphs else ('scan',):
        spent = took(lambda form=form: own.index(form, candidates=1000 if form == 'scan' else 100))
        yield dict(what='index', engine='own', form=form, seconds=spent[0])
        forms = {('own', form): lambda q: numbers(own.search(q[None], K))}
        forms[('own', f'{form}, filtered')] = lambda q: numbers(own.search(q[None], K, filter=only))
        yield from in_turn(dict([*forms.items()][:1]), data.queries, right)
        yield from in_turn(dict([*forms.items()][1:]), data.queries, some)
    import lancedb.index as kinds

    for form in ('IvfSq', 'HnswSq') if graphs else ('IvfSq',):
        config = getattr(kinds, form)(distance_type='l2', num_partitions=lists)
        spent = took(lambda c=config: lance.table.create_index('vector', config=c))
        yield dict(what='index', engine='lancedb', form=form, seconds=spent[0])
        for share in (20, 10, 5, 2.5):
            probes = round(lists / share)
            forms = {
                ('lancedb', f'{form}, {probes} of {lists}'): lambda q, n=probes: lance.search(q, n)
            }
            rows = list(in_turn(forms, data.queries, right))
            yield from rows
            if rows[0]['recall'] >= 0.99:
                break
        search = {
            ('lancedb', f'{form}, filtered'): lambda q, n=probes: lance.search(q, n, 'part = 0')
        }
        yield from in_turn(search, data.queries, some)


def numbers(hits: list) -> list[int]:
    return [int(hit.item.id) for hit in hits[0]]


def best_of(data: Any, allowed: np.ndarray) -> np.ndarray:
    scores = data.queries @ data.gallery[allowed].T + data.biases[allowed]
    return np.flatnonzero(allowed)[np.argsort(-scores, axis=1, kind='stable')[:, :K]]


def in_turn(
    forms: dict[tuple[str, str], Callable[[np.ndarray], list[int]]],
    asked: np.ndarray,
    right: np.ndarray,
) -> Iterator[dict[str, Any]]:
    """Recall@10, p50 of the clock and mean of the processor's time, in milliseconds."""
    clocks, spent, found = ({key: [] for key in forms} for _ in range(3))
    for query in asked[:5]:
        for search in forms.values():
            search(query)
    for query in asked:
        for key, search in forms.items():
            before, began = time.process_time(), time.perf_counter()
            found[key].append(search(query))
            clocks[key].append(1e3 * (time.perf_counter() - began))
            spent[key].append(1e3 * (time.process_time() - before))
    for key in forms:
        numbers_ = dict(recall=recall(found[key], right), p50=float(np.median(clocks[key])))
        yield dict(what='query', engine=key[0], form=key[1], **numbers_, cpu=np.mean(spent[key]))


OPEN = """
import sys, time
from pathlib import Path
import numpy as np
began = time.perf_counter()
sys.path.insert(0, {here!r})
import embedded
name, place = {name!r}, Path({place!r})
imported = time.perf_counter() - began
began = time.perf_counter()
query = np.full(embedded.DIM, embedded.DIM ** -.5, np.float32)
if name == 'own':
    store = embedded.open_store(place)
    store.search(query[None], 10, exact=True)
else:
    embedded.Lance(place, embedded.DIM).search(query)
spent = time.perf_counter() - began
peak = next(x for x in open('/proc/self/status') if x.startswith('VmHWM')).split()[1]
print(spent, int(peak) / 2**20)
"""


def opened(name: str, place: Path) -> dict[str, float]:
    """Seconds to open a store and answer a first query in a process that has imported torch and
    mmvtr, and its memory in GiB.
    """
    code = OPEN.format(name=name, place=str(place), here=str(Path(__file__).parent))
    said = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    seconds, memory = map(float, said.stdout.split()[-2:])
    return dict(seconds=seconds, memory=memory)


def sizes() -> Iterator[dict[str, Any]]:
    """What the packages take on disk, and a second import of each in a fresh process."""
    for name, packages in dict(
        own=['faiss-cpu'],
        lancedb=['lancedb', 'pyarrow', 'lance-namespace', 'lance-namespace-urllib3-client'],
    ).items():
        size = sum(
            Path(file.locate()).stat().st_size
            for package in packages
            for file in distribution(package).files or ()
            if Path(file.locate()).is_file()
        )
        module = 'faiss' if name == 'own' else 'lancedb'
        code = f'import numpy, time; a = time.perf_counter(); import {module}; '
        code += 'print(time.perf_counter() - a)'
        spent = [
            float(subprocess.check_output([sys.executable, '-c', code], text=True))
            for _ in range(4)
        ]
        yield dict(what='size', engine=name, megabytes=size / 1e6, seconds=min(spent))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add('--parts', nargs='+', choices=PARTS, default=list(PARTS), help='default: all')
    add('--size', type=int, default=100_000, help='items of the part speed (default: 100000)')
    add('--kills', type=int, default=30, help='of each engine and part (default: 30)')
    add('--graphs', action='store_true', help='also graphs, which take minutes to build')
    add('--json', type=Path, metavar='FILE', help='add the rows there')
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []

    def tell(row: dict[str, Any]) -> None:
        rows.append({k: round(x, 4) if isinstance(x, float) else x for k, x in row.items()})
        print(json.dumps(rows[-1]), flush=True)

    def each(part: str, run: Callable[..., dict], *more: Any) -> None:
        for name in ENGINES if part in args.parts else ():
            with tempfile.TemporaryDirectory() as folder:
                tell(dict(what=part, engine=name, **run(name, *more, Path(folder))))

    each('flips', flips)
    each('disk', disk)
    each('kills', kills, args.kills)
    each('joint', joint, args.kills)
    for row in sizes() if 'size' in args.parts else ():
        tell(row)
    if 'speed' in args.parts:
        with tempfile.TemporaryDirectory() as folder:
            for row in speed(args.size, args.graphs, Path(folder)):
                tell(dict(row, items=args.size))
    if args.json:
        old = json.loads(args.json.read_text()) if args.json.exists() else []
        lines = ',\n'.join(map(json.dumps, [*old, *rows]))
        args.json.write_text(f'[\n{lines}\n]\n')


if __name__ == '__main__':
    main()
