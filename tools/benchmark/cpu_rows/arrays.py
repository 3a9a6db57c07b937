"""``mmvtr.retrieve`` beside the same maths in numpy, with the whole matrix, FAISS and POT."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np

import mmvtr
from cpu_rows.timing import Call, Row, beside
from mmvtr.functional import db_norm

DIM, BEST = 512, 10
#: Of the anchors and of mmvtr: retrieve's own defaults.
NNN, CSLS, SHARE, ITERATIONS = (16, 0.75), (10, 0.5), (0.05, 0.5), 4


class Sets:
    """Gallery, bank and queries, unit vectors with a common direction, as embedders give them."""

    def __init__(self, items: int, bank: int, queries: int, dim: int = DIM) -> None:
        rng = np.random.default_rng(0)
        mean = 0.5 * rng.standard_normal((1, dim), dtype='float32')
        self.gallery = unit(rng.standard_normal((items, dim), dtype='float32') + mean)
        self.bank, self.queries = (
            unit(self.gallery[rng.integers(0, items, n)] + 1.5 * noise)
            for n, noise in ((n, rng.standard_normal((n, dim), dtype='float32'))
                             for n in (bank, queries))
        )  # fmt: skip


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def arrays(quick: bool, repeats: int) -> list[Row]:
    """Raw scores and the transforms with a bank, one gallery."""
    sets = Sets(*((300, 200, 20) if quick else (20_000, 2_000, 1_000)))
    rows = [row for name in ('none', *FORMS) for row in _of(sets, name, repeats)]
    return [*rows, *dual_banks(sets, repeats)]


def large(quick: bool, repeats: int) -> list[Row]:
    """Ten times the gallery, whose scores with the bank are 1.6 GB."""
    sets = Sets(*((600, 200, 20) if quick else (200_000, 2_000, 1_000)))
    names = ('none', 'csls', 'nnn', 'sinkhorn')
    return [row for name in names for row in _of(sets, name, repeats)]


def _of(sets: Sets, name: str, repeats: int) -> list[Row]:
    call, anchors = ours(sets, name), by_numpy(sets, name)
    if importlib.util.find_spec('faiss'):
        anchors.update(by_faiss(sets, name))
    fits = len(sets.gallery) < 100_000  # POT holds several matrices of float64
    if name == 'sinkhorn' and fits and importlib.util.find_spec('ot'):
        importlib.import_module('ot')  # whose memory is not the call's
        anchors['POT'] = lambda: by_pot(sets)
    work = f'retrieve {name}, {len(sets.gallery):,} items'
    return beside(work, call, anchors, repeats, same_lists)


def ours(sets: Sets, name: str) -> Call:
    transform = None if name == 'none' else name
    bank = None if name == 'none' else sets.bank
    options = {} if name in ('none', 'csls', 'nnn', 'local_scaling') else dict(temperature=0.05)
    return lambda: mmvtr.retrieve(sets.queries, sets.gallery, bank, transform, **options).ids


def dual_banks(sets: Sets, repeats: int) -> list[Row]:
    """db_norm of score matrices; the items seen before are the bank's size of the gallery."""
    seen = sets.gallery[: len(sets.bank)]
    raw, known, items = (x @ sets.gallery.T for x in (sets.queries, sets.bank, seen))

    def call() -> np.ndarray:
        return db_norm(raw, known, item_bank=items, temperature=0.05, item_temperature=0.2)

    def by_hand() -> np.ndarray:
        of_queries = raw - softmax_bias(known, 0.05)
        of_items = raw - softmax_bias(items, 0.2)
        return (0.2 * of_queries + 0.05 * of_items) / 0.25

    def same(one: np.ndarray, other: np.ndarray) -> str:
        return same_lists(best(one), best(other))

    return beside(f'db_norm of {raw.shape[1]:,} items', call, {'numpy': by_hand}, repeats, same)


def same_lists(one: Any, other: Any) -> str:
    """Of two arrays of ids [Q, 10]: the share of places with the same item."""
    return '' if other is None else f'{100 * np.mean(np.asarray(one) == np.asarray(other)):.1f} %'


def best(scores: np.ndarray) -> np.ndarray:
    """The ids of the ten best, in their order."""
    ids = np.argpartition(-scores, BEST, 1)[:, :BEST]
    order = np.argsort(-np.take_along_axis(scores, ids, 1), 1)
    return np.take_along_axis(ids, order, 1)


def by_numpy(sets: Sets, name: str) -> dict[str, Call]:
    """Plain numpy, all scores of the bank in one matrix."""
    if name == 'none':
        return {'numpy': lambda: best(sets.queries @ sets.gallery.T)}

    def call() -> np.ndarray:
        raw, known = sets.queries @ sets.gallery.T, sets.bank @ sets.gallery.T
        return best(FORMS[name](raw, known))

    return {'numpy': call}


def highest(known: np.ndarray, count: int) -> np.ndarray:
    """The mean of the highest bank scores of each item."""
    return np.partition(known, len(known) - count, 0)[len(known) - count :].mean(0)


def softmax_bias(known: np.ndarray, temperature: float = 0.05) -> np.ndarray:
    top = known.max(0)
    return top + temperature * np.log(np.exp((known - top) / temperature).sum(0))


def where_activated(raw: np.ndarray, known: np.ndarray) -> np.ndarray:
    """QB-Norm: the queries whose best item is the best of a query of the bank."""
    active = np.isin(raw.argmax(1), known.argmax(1))
    return np.where(active[:, None], raw - softmax_bias(known), raw)


def balanced(raw: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Sinkhorn-Knopp in linear space: one exponential, then products with vectors."""
    kernel = np.exp((known - known.max()) / 0.05)
    rows, b = np.ones(len(kernel), 'float32'), None
    for _ in range(ITERATIONS):
        b = 1 / (rows @ kernel)
        rows = 1 / (kernel @ b)
    b = 1 / (rows @ kernel)
    return raw + 0.05 * np.log(b)


FORMS = dict(
    csls=lambda raw, known: raw - CSLS[1] * highest(known, CSLS[0]),
    nnn=lambda raw, known: raw - NNN[1] * highest(known, NNN[0]),
    local_scaling=lambda raw, known: raw - SHARE[1] * highest(known, round(SHARE[0] * len(known))),
    inverted_softmax=lambda raw, known: raw - softmax_bias(known),
    qb_norm=where_activated,
    sinkhorn=balanced,
)


def by_faiss(sets: Sets, name: str) -> dict[str, Call]:
    """Exact search, and for nnn a first one of the bank, whose means are one more dimension."""
    import faiss

    faiss.omp_set_num_threads(1)

    def search(gallery: np.ndarray, queries: np.ndarray, count: int) -> tuple[Any, Any]:
        index = faiss.IndexFlatIP(gallery.shape[1])
        index.add(gallery)
        return index.search(queries, count)

    def twice() -> np.ndarray:
        means = search(sets.bank, sets.gallery, NNN[0])[0].mean(1, keepdims=True)
        ones = np.ones((len(sets.queries), 1), 'float32')
        gallery = np.hstack([sets.gallery, -NNN[1] * means]).astype('float32')
        return search(gallery, np.hstack([sets.queries, ones]), BEST)[1]

    found = dict(none={'FAISS': lambda: search(sets.gallery, sets.queries, BEST)[1]},
                 nnn={'FAISS twice': twice})  # fmt: skip
    return found.get(name, {})


def by_pot(sets: Sets) -> None:
    """POT's own iterations in log space, as many as ours; it gives the plan and no lists."""
    import ot

    rows, columns = len(sets.bank), len(sets.gallery)
    cost = -(sets.bank @ sets.gallery.T).astype('float64')
    weights = np.full(rows, 1 / rows), np.full(columns, 1 / columns)
    ot.sinkhorn(*weights, cost, 0.05, method='sinkhorn_log', numItermax=ITERATIONS, stopThr=0.0,
                warn=False)  # fmt: skip
