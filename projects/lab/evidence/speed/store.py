"""Recall and time of a store's engines and forms of search, against exact search, on made vectors.

  python projects/lab/evidence/speed/store.py [--size 100000] [--engines faiss] [--json FILE]

Videos and texts are unit vectors of 512 dimensions around a latent space of 16, with noise .2 and a
gap between the two kinds; biases are Sinkhorn's from a bank of further texts.  Recall@10 is against
all scores with biases in float32.  Times are of one query at a time, warm, with one thread where
the engine can be told so: the median of the clock, and the mean of the processor's time over all
threads, which another load on the machine does not change as much.  Ratios are of processor time,
to a bare FAISS index of ``[v, b]`` that looks at all items.  The rows 'lists by inner product' are
no form of a store: what one gets when such an index is exchanged for lists of the same metric.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any, Callable, NamedTuple, Optional

import faiss
import numpy as np
from qdrant_client import QdrantClient

from mmvtr.arrays import Debiaser
from mmvtr_gallery.store import GalleryStore, create_store
from mmvtr_gallery.store.qdrant import QdrantStore

ENGINES = ('faiss', 'qdrant')
DIM, LATENT, NOISE, GAP, TEMPERATURE, K = 512, 16, 0.2, 0.8, 0.02, 10


class Made(NamedTuple):
    """Made vectors: float32 [N, D], [Q, D], [K, D], and the biases of the first [N]."""

    gallery: np.ndarray
    queries: np.ndarray
    bank: np.ndarray
    biases: np.ndarray


class Row(NamedTuple):
    """A line of the table; times in milliseconds a query."""

    engine: str
    form: str
    items: int
    recall: float
    clock: float
    processor: float
    ratio: float


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add('--size', type=int, default=100_000, help='videos (default: 100000)')
    add('--queries', type=int, default=100, help='texts searched for (default: 100)')
    add('--bank', type=int, default=4096, help='texts that give biases (default: 4096)')
    add(
        '--embedded',
        type=int,
        default=5000,
        help="videos of Qdrant's embedded mode (default: 5000)",
    )
    add('--seed', type=int, default=0, help='of the vectors (default: 0)')
    add('--engines', nargs='+', choices=ENGINES, default=list(ENGINES), help='default: all')
    add('--forms', nargs='+', metavar='FORM', help="of the indexes, and 'bare' (default: all)")
    add(
        '--json',
        type=Path,
        metavar='FILE',
        help='write all figures there; those of other engines and forms stay',
    )
    return parser.parse_args()


def made(size: int, queries: int, bank: int, seed: int) -> Made:
    """Vectors of both kinds, and Sinkhorn's biases of the videos."""
    rng = np.random.default_rng(seed)
    frame = np.linalg.qr(rng.normal(size=(DIM, LATENT + 2)))[0].T.astype(np.float32)
    sides = dict(video=frame[LATENT], text=frame[LATENT + 1])

    def vectors(count: int, side: str) -> np.ndarray:
        parts = []
        for start in range(0, count, 50_000):
            rows = min(50_000, count - start)
            latent = unit(rng.normal(size=(rows, LATENT)).astype(np.float32)) @ frame[:LATENT]
            noise = unit(rng.standard_normal((rows, DIM), dtype=np.float32))
            parts.append(unit(latent + NOISE * noise + GAP * sides[side]))
        return np.concatenate(parts)

    gallery, asked, texts = vectors(size, 'video'), vectors(queries, 'text'), vectors(bank, 'text')
    fitted = Debiaser('sinkhorn', temperature=TEMPERATURE).fit(gallery[:20_000], texts)
    return Made(gallery, asked, texts, fitted.biases_of(gallery).numpy())


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def best(data: Made) -> np.ndarray:
    """Rows int64 [Q, K] of the highest scores with biases."""
    scores = data.queries @ data.gallery.T + data.biases
    return np.argsort(-scores, axis=1, kind='stable')[:, :K]


def timed(search: Callable[[np.ndarray], Any], queries: np.ndarray) -> tuple[list, float, float]:
    """Answers one by one, median of the clock and mean of the processor's time in milliseconds."""
    for query in queries[:20]:
        search(query[None])
    found, clocks = [], []
    before = time.process_time()
    for query in queries:
        start = time.perf_counter()
        found.append(search(query[None]))
        clocks.append(time.perf_counter() - start)
    spent = (time.process_time() - before) / len(queries)
    return found, 1e3 * float(np.median(clocks)), 1e3 * spent


def recall(found: list, expected: np.ndarray) -> float:
    shared = [len(set(rows) & set(right)) for rows, right in zip(found, expected.tolist())]
    return float(np.mean(shared)) / K


class Bench:
    """Rows of the table, one after the other.

    Args:
        data: the vectors.
        tell: is given all rows so far, after each.
    """

    def __init__(self, data: Made, tell: Callable[[list[Row]], None]) -> None:
        self.data, self._tell = data, tell
        self.rows: list[Row] = []
        self.flat: Optional[float] = None
        self.expected = best(data)

    def bare(self, form: str, index: Any) -> None:
        """An index of FAISS over [v, b] alone."""
        queries = np.column_stack((self.data.queries, np.ones(len(self.data.queries), np.float32)))
        found, clock, spent = timed(lambda q: index.search(q, K)[1][0].tolist(), queries)
        self.flat = self.flat or spent
        self._row('bare FAISS', form, len(self.data.gallery), found, clock, spent)

    def store(self, store: GalleryStore, form: str, count: Optional[int] = None) -> None:
        """A store that holds the first ``count`` videos, by numbers as ids."""
        found, clock, spent = timed(lambda q: store.search(q, K)[0], self.data.queries)
        rows = [[int(hit.item.id) for hit in hits] for hits in found]
        self._row(store.engine, form, count or len(self.data.gallery), rows, clock, spent)

    def _row(
        self, engine: str, form: str, count: int, found: list, clock: float, spent: float
    ) -> None:
        row = Row(
            engine,
            form,
            count,
            round(recall(found, self.expected), 3),
            round(clock, 2),
            round(spent, 2),
            round(spent / self.flat, 3),
        )
        self.rows.append(row)
        self._tell(self.rows)
        print(line(row), flush=True)


def line(row: Row) -> str:
    return (
        f'| {row.engine} | {row.form} | {row.items:,} | {row.recall:.3f} | {row.clock:.2f} | '
        f'{row.processor:.2f} | {row.ratio:.3f} |'
    )


def filled(store: GalleryStore, data: Made, count: int) -> None:
    """Add the first videos and give them the biases."""
    for first in range(0, count, 20_000):
        rows = range(first, min(first + 20_000, count))
        store.add([str(row) for row in rows], data.gallery[rows.start : rows.stop])
    began = time.process_time()
    store.refit(data.bank, temperature=TEMPERATURE, sample=20_000, fewer=True)
    spent = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f'{store.engine}: {count:,} items, refit {spent:.0f} s of processor time, {peak:.1f} GiB')


def measure(
    data: Made, args: argparse.Namespace, folder: Path, tell: Callable[[list[Row]], None]
) -> None:
    """The rows that are wanted, and those of a bare index before them."""
    faiss.omp_set_num_threads(1)
    bench, size = Bench(data, tell), len(data.gallery)
    both = np.column_stack((data.gallery, data.biases))
    lists = round(size**0.5)

    flat = faiss.IndexFlatIP(DIM + 1)
    flat.add(both)
    bench.bare('flat', flat)
    asked = set(args.forms or ()).__contains__ if args.forms else lambda form: True
    for probes in (lists // 20, lists // 10, lists // 5) if asked('bare') else ():
        quantiser = faiss.IndexFlatIP(DIM + 1)
        wrong = faiss.IndexIVFFlat(quantiser, DIM + 1, lists, faiss.METRIC_INNER_PRODUCT)
        wrong.train(both[: 64 * lists])
        wrong.add(both)
        wrong.nprobe = probes
        name = f'lists by inner product, {probes} of {lists}'
        bench.bare(name, wrong)

    # A store draws the sample of its row biases by itself: what is expected has its biases.
    with create_store(folder / 'faiss', DIM) as store:
        filled(store, data, size)
        biases = np.array([item.bias for item in store.get([str(i) for i in range(size)])])
        bench.data = data._replace(biases=biases.astype(np.float32))
        bench.expected = best(bench.data)
        if 'faiss' in args.engines and asked('exact'):
            bench.store(store, 'exact')
        for form, probes in (
            ('l2', lists // 10),
            ('l2', lists // 5),
            ('l2_pq', lists // 5),
            ('rerank', lists // 5),
            ('hnsw', 100),
            ('scan', 1),
        ):
            if 'faiss' not in args.engines or not asked(form):
                continue
            began = time.process_time()
            store.index(form, probes=probes, candidates=1000 if form == 'scan' else 100)
            print(f'{form}: built in {time.process_time() - began:.0f} s of processor time')
            name = form if form in ('hnsw', 'scan') else f'{form}, {probes} of {lists}'
            bench.store(store, name)
    if 'qdrant' in args.engines and args.embedded and asked('exact'):
        in_qdrant(bench, min(args.embedded, size))


def in_qdrant(bench: Bench, count: int) -> None:
    """Qdrant's embedded mode, which looks at all items in Python."""
    store = QdrantStore.create('bench', DIM, client=QdrantClient(':memory:'))
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # of its size, and that it is exact
        filled(store, bench.data, count)
        items = store.get([str(i) for i in range(count)])
        biases = np.array([item.bias for item in items], np.float32)
        small = bench.data._replace(gallery=bench.data.gallery[:count], biases=biases)
        expected, bench.expected = bench.expected, best(small)
        bench.store(store, 'embedded, exact', count)
        bench.expected = expected


def main() -> None:
    args = parse_args()
    data = made(args.size, args.queries, args.bank, args.seed)
    print('| engine | form | items | recall@10 | ms | CPU ms | to flat |')
    print('|---|---|---|---|---|---|---|')
    said = {key: getattr(args, key) for key in ('size', 'queries', 'bank', 'embedded', 'seed')}
    versions = dict(faiss=faiss.__version__, numpy=np.__version__)

    known = {}
    if args.json and args.json.exists():
        old = json.loads(args.json.read_text())
        if old['options'] != said:
            raise SystemExit(f'error: {args.json} is of other options: {old["options"]}')
        known = {(row['engine'], row['form']): row for row in old['rows']}

    def tell(rows: list[Row]) -> None:
        if args.json:  # after each row: some take long
            new = {(row.engine, row.form): row._asdict() for row in rows}
            content = dict(options=said, versions=versions, rows=[*(known | new).values()])
            args.json.write_text(json.dumps(content, indent=1) + '\n')

    with tempfile.TemporaryDirectory() as folder:
        measure(data, args, Path(folder), tell)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f'{peak:.1f} GiB of memory at most, the made vectors and the bare index included')


if __name__ == '__main__':
    main()
