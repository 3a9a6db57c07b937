"""Where the processor time of one search in a LanceDB store goes.

    python projects/lab/evidence/speed/lance_query.py [--size 5000]

Milliseconds of processor time a query, over all threads, on random unit vectors of 512 dimensions
with an index of lists: of the whole search, of LanceDB's search for the nearest, and of fetching
the rows of ten hits.  What is left is ours.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from typing import Any, Callable

os.environ.setdefault('LANCE_CPU_THREADS', '1')

import numpy as np

from mmvtr_gallery.store import create_store
from mmvtr_gallery.store.items import COLUMNS

DIM, K, CANDIDATES, ROUNDS = 512, 10, 100, 8


def spent(work: Callable[[np.ndarray], Any], queries: np.ndarray) -> float:
    """Least mean over some rounds, as another load on the machine only adds."""
    means = []
    for _ in range(ROUNDS):
        before = time.process_time()
        for query in queries:
            work(query)
        means.append(1e3 * (time.process_time() - before) / len(queries))
    return min(means)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--size', type=int, default=5000, help='items (default: 5000)')
    size = parser.parse_args().size
    vectors = np.random.default_rng(0).normal(size=(size, DIM)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    probes, queries = max(1, round(size**0.5) // 5), vectors[:40]
    with tempfile.TemporaryDirectory() as folder, create_store(folder, DIM) as store:
        store.add([str(i) for i in range(size)], vectors)
        store.refit(vectors[:500], temperature=0.05, fewer=True)
        store.persist()
        store.index('ivf_flat', probes=probes, candidates=CANDIDATES)
        table = store._now().table

        def nearest(query: np.ndarray) -> Any:
            search = table.search(query).limit(CANDIDATES).select(['number', '_distance'])
            return search.with_row_id(True).distance_type('l2').nprobes(probes).to_arrow()

        names = ['number', *COLUMNS]
        rows = nearest(queries[0])['_rowid'].to_pylist()[:K]
        whole = spent(lambda query: store.search(query[None], K), queries)
        near = spent(nearest, queries)
        take = spent(lambda _: table.take_row_ids(rows).select(names).to_arrow(), queries)
    print(
        f'search {whole:.2f} ms: nearest {near:.2f}, rows {take:.2f}, '
        f'ours {whole - near - take:.2f}'
    )


if __name__ == '__main__':
    main()
