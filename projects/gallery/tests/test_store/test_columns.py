"""Conditions on columns in memory, against a plain reading of each item."""

import numpy as np
import pytest

from mmvtr_gallery.store import create_store
from mmvtr_gallery.store.columns import Columns
from mmvtr_gallery.store.filters import Condition

N, DIM = 400, 16
RNG = np.random.default_rng(0)


def some(values, share=0.2):
    return [None if RNG.random() < share else values[i] for i in RNG.integers(0, len(values), N)]


LISTS = dict(
    id=[f"v'{i}" for i in range(N)],
    word=some(['', 'a', 'ß', 'None']),
    count=some([-(2**63), -1, 0, 1, 2**63 - 1, 2**53, 2**53 + 1]),
    second=some([-1.5, 0.0, 0.1, 1e300]),
    odd=some([True, False]),
    empty=[None] * N,
)
CONDITIONS = [
    Condition('word', values=['a', '']),
    Condition('word', values=['a', 'nowhere']),
    Condition('word', values=['a'], refused=True),
    Condition('id', values=["v'7"], refused=True),
    Condition('count', values=[2**53 + 1]),
    Condition('count', least=2**53 + 1),
    Condition('count', least=-1, most=1),
    Condition('second', most=0.0),
    Condition('second', least=0.1, most=1e300),
    Condition('odd', values=[False]),
    Condition('empty', values=['a']),
    Condition('empty', least=0.0),
    Condition('empty', values=['a'], refused=True),
]


def plainly(condition, value):
    column, values, least, most, refused = condition
    if refused:
        return value not in values
    if value is None:
        return False
    within = (least is None or value >= least) and (most is None or value <= most)
    return within and (values is None or value in values)


@pytest.mark.parametrize('first', CONDITIONS)
def test_conditions(first):
    columns = Columns(LISTS)
    for conditions in ([first], *([first, other] for other in CONDITIONS)):
        for _ in range(2):  # what is kept is what was found
            expected = [
                all(plainly(x, LISTS[x.column][row]) for x in conditions) for row in range(N)
            ]
            assert columns.mask(conditions).tolist() == expected
    assert columns.rows('word', ['a']) == [i for i in range(N) if LISTS['word'][i] == 'a']
    assert columns.known('id', ["v'3", 'nobody']) == {"v'3"}


def units(count, seed):
    x = np.random.default_rng(seed).normal(size=(count, DIM))
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize('form', [None, 'l2', 'rerank', 'hnsw', 'scan'])
@pytest.mark.parametrize('held', [1, 90, 150, 300])
def test_what_is_left_out_of_every_form(tmp_path, form, held):
    """Few items are dropped from a longer list, many are left out by the search itself."""
    pytest.importorskip('faiss')
    vectors, queries = units(N, 1), units(20, 2)
    names = np.array([f'v{i}' for i in range(N)])
    with create_store(tmp_path, DIM) as store:
        store.add(names.tolist(), vectors)
        store.refit(units(60, 3), temperature=0.1, fewer=True)
        if form is not None:
            store.index(form, partitions=4, probes=4, candidates=120)
        scores = queries @ vectors.T + np.array([x.bias for x in store.get(names.tolist())])
        out = np.argsort(-scores.mean(0))[:held]  # those that are found most
        store.quarantine(names[out].tolist())
        scores[:, out] = -np.inf
        best = np.argsort(-scores, axis=1)[:, :5]
        found = store.search(queries, 5)
        same = [
            {hit.item.id for hit in hits} == set(names[rows]) for hits, rows in zip(found, best)
        ]
        assert all(len(hits) == 5 for hits in found)
        assert np.mean(same) == 1 if form is None else np.mean(same) > 0.8
