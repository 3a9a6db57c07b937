"""What strangers send moves nobody else's answers, or by no more than their share."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip(
    'faiss', reason='a store in memory is an extra: pip install projects/gallery[index]'
)

from mmvtr_gallery.serving.gallery import Query  # noqa: E402
from mmvtr_gallery.serving.sampling import SHARE, Client, Sampler, cleaned, unit  # noqa: E402
from mmvtr_gallery.store import create_store, open_store  # noqa: E402
from services import TOKEN, served  # noqa: E402

DIM, ITEMS, HONEST, CAPACITY = 32, 60, 233, 256
OWNER, LOCAL = Client('203.0.113.9', trusted=True), Client('127.0.0.1')
STRANGER = Client('198.51.100.7')


def directions(seed, count):
    x = np.random.default_rng(seed).normal(size=(count, DIM))
    return (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32)


GALLERY = directions(1, ITEMS)
ASKED = np.stack([unit(a + 0.35 * b) for a, b in zip(GALLERY, directions(2, ITEMS))])


@pytest.fixture
def attacked(tmp_path):
    """How many of 60 texts have another first hit after what an attack adds to honest queries."""
    number = iter(range(100))

    def tops(attack):
        with create_store(
            tmp_path / str(next(number)), DIM, online=dict(capacity=CAPACITY)
        ) as store:
            store.add([str(i) for i in range(ITEMS)], GALLERY)
            sampler = Sampler()
            noise = directions(3, HONEST)
            for i in range(HONEST):
                vector = unit(GALLERY[i % ITEMS] + 0.35 * noise[i])
                assert sampler.offer(store, vector, f'text {i}', Client(f'192.0.2.{i % 20}'))
            taken = attack(sampler, store)
            store.refit(temperature=0.05)
            hits = store.search(ASKED, 1, record=False)
            return [hit.item.id for (hit,) in hits], taken

    alone, _ = tops(lambda *_: 0)

    def changed(attack):
        found, taken = tops(attack)
        return sum(one != two for one, two in zip(alone, found)), taken

    return changed


@pytest.mark.parametrize('client', [STRANGER, LOCAL, Client(None)])
@pytest.mark.parametrize('length', [100, 3e38, 1, 1e-38])
def test_vectors_of_strangers_are_not_sampled(attacked, client, length):
    given = np.asarray(GALLERY[:3], np.float64) * length

    def attack(sampler, store):
        return sum(sampler.offer(store, unit(x), None, client) for x in given for _ in range(50))

    assert attacked(attack) == (0, 0)


def test_one_address_has_its_share_and_no_more(attacked):
    """The worst texts there are: each is one item's own vector, five thousand times over."""

    def attack(sampler, store):
        return sum(sampler.offer(store, GALLERY[0], f'evil {i}', STRANGER) for i in range(5000))

    changed, taken = attacked(attack)
    assert 0 < taken <= SHARE * CAPACITY
    assert changed <= 2


def test_a_network_of_ipv6_is_one_address_and_a_mapped_one_is_that_of_ipv4(attacked):
    def attack(sampler, store):
        many = [Client(f'2001:db8::{i:x}') for i in range(300)]
        mapped = [Client('::ffff:198.51.100.7'), STRANGER]
        clients = many + mapped * 150
        return sum(
            sampler.offer(store, GALLERY[i % 5], f'evil {i}', one) for i, one in enumerate(clients)
        )

    assert attacked(attack)[1] <= 2 * SHARE * CAPACITY


@pytest.mark.parametrize('text', ['again', 'AGAIN', ' again  '])
def test_a_text_that_is_sent_again_counts_once(attacked, text):
    def attack(sampler, store):
        texts = ['again', *[text] * 500]
        return sum(sampler.offer(store, GALLERY[7], one, LOCAL) for one in texts)

    assert attacked(attack) == (0, 1)


def test_who_knows_the_token_is_sampled_at_length_1(attacked):
    def attack(sampler, store):
        return sum(sampler.offer(store, unit(x * 100), None, OWNER) for x in GALLERY[:3])

    changed, taken = attacked(attack)
    assert taken == 3 and changed <= 1


def test_this_machine_may_fill_the_sample(tmp_path):
    with create_store(tmp_path, DIM, online=dict(capacity=20)) as store:
        store.add(['a', 'b'], GALLERY[:2])
        sampler = Sampler()
        assert sum(sampler.offer(store, GALLERY[3], f'{i}', LOCAL) for i in range(90)) == 90
        # The share is of the last ones: who was there before may come again when others did.
        assert sum(sampler.offer(store, GALLERY[3], f'x{i}', STRANGER) for i in range(90)) == 5
        assert sum(sampler.offer(store, GALLERY[3], f'y{i}', LOCAL) for i in range(20)) == 20
        assert sampler.offer(store, GALLERY[3], 'x0', STRANGER)


def test_a_refit_that_fails_is_nothing_to_who_searches(tmp_path, monkeypatch):
    def refused():
        raise ValueError('too few')

    online = dict(capacity=20, refit_every=2)
    with create_store(tmp_path, DIM, online=online) as store:
        store.add(['a', 'b'], GALLERY[:2])
        monkeypatch.setattr(store, 'refit', refused)
        sampler = Sampler()
        assert all(sampler.offer(store, GALLERY[3], f'{i}', LOCAL) for i in range(6))
        assert store.debiaser is None and len(store.online) == 6


def test_lengths():
    one = directions(4, 1)[0]
    np.testing.assert_array_equal(unit(one), one)
    for length in (1e-300, 0.5, 100, 3e38, 1e300):
        found = unit(one.astype(np.float64) * length)
        np.testing.assert_allclose(found, one, atol=1e-6)
        assert found.dtype == np.float32
    for wrong, words in (
        ([np.nan, 1], 'not finite'),
        ([np.inf, 0], 'not finite'),
        ([0, 0], 'zero'),
    ):
        with pytest.raises(ValueError, match=words):
            unit(wrong)


@pytest.mark.parametrize(
    'length, scaled', [(1, False), (1.0005, False), (1.01, True), (1e300, True)]
)
def test_it_is_told_where_a_vector_was_scaled(length, scaled):
    vector = (directions(6, 1)[0].astype(np.float64) * length).tolist()
    assert Query.of(vector, scale=True).scaled is scaled


def test_a_sample_of_before_is_cleaned():
    sample = directions(5, 6)
    dirty = sample.copy()
    dirty[1] *= 100
    dirty[2] *= 3e38
    dirty[3], dirty[4] = np.nan, 0
    found = cleaned(dirty)
    np.testing.assert_allclose(found, sample[[0, 1, 2, 5]], atol=1e-6)
    assert cleaned(dirty[3:5]).shape == (0, DIM)


@pytest.fixture
def sampled(folder, place):
    """A client of a service that keeps a sample, and its gallery."""
    pytest.importorskip(
        'uvicorn', reason='the service is an extra: pip install projects/gallery[serve]'
    )
    from mmvtr_gallery.serving.gallery import Gallery

    with open_store(place, write=True) as store:
        store.keep_queries(dict(capacity=64))
        store.record(np.array([[3e38, 1], [100, 0], [0.6, 0.8]], np.float32))  # of an older version
        store.persist()
    gallery = Gallery.open(place, library=folder)
    gallery.take()
    with served(gallery) as client:
        yield client, gallery


def test_over_http_nobody_suffers_from_what_others_send(sampled):
    client, gallery = sampled
    kept = gallery.store.online.queries()
    np.testing.assert_allclose(np.linalg.norm(kept, axis=1), 1, atol=1e-5)
    honest = [f'hello {"x" * i}' for i in range(20)]
    for text in honest[:10]:
        client.search(text=text, k=3)
    assert len(gallery.store.online) == len(kept) + 10
    for vector in ([100, 100], [3e38, 1], [-1e30, 0], [1, 0], [1e300, 1e300]):
        assert client.search(vector=vector, k=1)['scaled'] == (vector != [1, 0])
    for vector in ('[NaN, 1]', '[Infinity, 1]', '[0, 0]', '[1e999, 1]', f'[{10**400}, 1]'):
        body = f'{{"vector": {vector}, "k": 1}}'
        status, said = client.error('POST', '/search', body, Content_Type='application/json')
        assert status == 422 and 'vector' in said
    assert len(gallery.store.online) == len(kept) + 10
    token = dict(Authorization=f'Bearer {TOKEN}')
    assert client('POST', '/search', dict(vector=[100, 0], k=1), **token)[0] == 200
    assert len(gallery.store.online) == len(kept) + 11
    assert np.linalg.norm(gallery.store.online.queries(), axis=1).max() < 1 + 1e-5
    status, _, said = client.change('/refit', temperature=0.1)
    assert status == 200 and said['num_queries'] == len(kept) + 11
    for text in honest:
        hits = client.search(text=text, k=7)['hits']
        assert len(hits) == 7 and all(np.isfinite(hit['score']) for hit in hits)
