"""Few queries at a fitted gallery beside exact search in FAISS, which holds it as float32."""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path

import numpy as np

import mmvtr
from cpu_rows.arrays import BEST, DIM, Sets, best, same_lists
from cpu_rows.timing import Call, Row, beside

#: Queries of a call; a ratio holds for as many calls, which the clock's steps do not blur.
COUNTS, CALLS = (1, 8), 5


def queries(quick: bool, repeats: int) -> list[Row]:
    """One query and eight, raw and debiased: float32 in memory, float16 mapped from a file."""
    sets = Sets(*((600, 60, 20) if quick else (200_000, 500, 20)))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / 'half.npy', sets.gallery.astype('f2'))
        mapped = np.load(Path(folder) / 'half.npy', mmap_mode='r')
        for kind, gallery in (('float32', sets.gallery), ('float16 mapped', mapped)):
            for name in (None, 'nnn'):
                fitted = mmvtr.fit(gallery, None if name is None else sets.bank, name)
                rows += [row for count in COUNTS for row in _of(fitted, sets, count, kind, repeats)]
    return rows


def _of(fitted: mmvtr.Debiaser, sets: Sets, count: int, kind: str, repeats: int) -> list[Row]:
    some, gallery = sets.queries[:count], fitted.as_vectors()
    lifted = fitted.query(some)

    def ours() -> np.ndarray:
        return [fitted.search(some, BEST).ids for _ in range(CALLS)][-1]

    anchors: dict[str, Call] = {
        'numpy': lambda: [best(lifted @ gallery.T) for _ in range(CALLS)][-1]
    }
    if importlib.util.find_spec('faiss'):
        import faiss

        faiss.omp_set_num_threads(1)
        index = faiss.IndexFlatIP(DIM + 1)
        index.add(gallery)
        anchors['FAISS'] = lambda: [index.search(lifted, BEST)[1] for _ in range(CALLS)][-1]
    plural = 'query' if count == 1 else 'queries'
    work = f'{CALLS} x {count} {plural}, {fitted.transform_ or "raw"}, {len(fitted):,} {kind}'
    return beside(work, ours, anchors, repeats, same_lists)
