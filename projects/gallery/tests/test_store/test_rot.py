"""One flipped bit in any file of a store is seen when it is opened."""

import random

import numpy as np
import pytest

from mmvtr_gallery.store import create_store, open_store

DIM = 32


def vectors(seed, count):
    x = np.random.default_rng(seed).normal(size=(count, DIM))
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


def answers(store):
    hits = store.search(vectors(9, 12), 20)
    return [[(hit.score, hit.raw, hit.item) for hit in found] for found in hits], store.count()


@pytest.fixture(scope='module')
def kept(tmp_path_factory):
    """A store with all that one can have."""
    pytest.importorskip('faiss')
    folder = tmp_path_factory.mktemp('rot')
    with create_store(folder, DIM) as store:
        for part in range(3):
            names = [f'{part}-{i}' for i in range(100)]
            store.add(names, vectors(part, 100), paths=names, metadata=dict(k=[*range(100)]))
        store.keep_config('{"model": 1}')
        store.refit(vectors(4, 300), temperature=0.1)
        store.delete(['0-3', '2-7'])
        store.persist()
        store.add(['late'], vectors(5, 1))
        store.refit(vectors(6, 301), temperature=0.1)
        store.keep_queries(dict(capacity=4))
        store.search(vectors(7, 4))
        store.persist()
    return folder


def test_flipped_bits(kept):
    rng, good = random.Random(3), answers(open_store(kept))
    told = dict.fromkeys(('store', 'biases', 'items', 'config', 'normaliser'), 0)
    files = [path for path in kept.rglob('*') if path.is_file()]
    for path in files:
        whole = path.read_bytes()
        kind = path.stem.split('-')[0]
        for _ in range(5):
            torn = bytearray(whole)
            torn[rng.randrange(len(torn))] ^= 1 << rng.randrange(8)
            path.write_bytes(torn)
            try:
                # Of what a search does not read a flip may pass: never into an answer.
                assert answers(open_store(kept)) == good, path
            except RuntimeError as error:
                assert str(kept) in str(error) and 'damaged' in str(error), path
                assert len(str(error).splitlines()) == 1
                told[kind] = told.get(kind, 0) + 1
        path.write_bytes(whole)
    assert told['store'] == told['biases'] == told['config'] == 5 and told['normaliser'] >= 5
    assert told['items'] == 5 * len([*kept.glob('items-*')]) >= 10


def test_what_is_read_later_is_seen_then(kept):
    """The sample of served queries by who writes, the biases of before by who asks for them."""
    queue = next(kept.glob('queue*'))
    whole = queue.read_bytes()
    queue.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert open_store(kept).online is None
    with pytest.raises(RuntimeError, match='queue of served queries .* is damaged'):
        open_store(kept, write=True)
    queue.write_bytes(whole)
    with open_store(kept, write=True) as store:
        path = kept / store._manifest.before['normaliser']
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        before = answers(store)
        with pytest.raises(RuntimeError, match='normaliser .* is damaged'):
            store.undo()
        assert answers(store) == before
        path.write_bytes(whole)
        store.delete(['0-1', '0-2'])
        store.persist()
        path = kept / store._manifest.undo['file']
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(RuntimeError, match='undo-.* is damaged'):
            store.undo()


def test_a_missing_file(kept):
    """Also one sentence."""
    names = [path for path in kept.iterdir() if path.suffix == '.f32'] + [*kept.glob('items-*')]
    missed = 0
    for path in names:
        whole = path.read_bytes()
        path.unlink()
        try:
            open_store(kept)
        except FileNotFoundError as error:
            missed += path.name in str(error)
        path.write_bytes(whole)
    assert missed >= 2
