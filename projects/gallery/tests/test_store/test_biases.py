"""Biases of a store against transformed scores in float64, by Sinkhorn-Knopp as it is written."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

pytest.importorskip('mmvtr_gallery', reason='pip install -e projects/gallery')

from mmvtr_gallery.store import create_store  # noqa: E402

pytest.importorskip('faiss')

from mmvtr.arrays import Debiaser  # noqa: E402

DIM = 24
TRANSFORMS = [('sinkhorn', 4), ('unbalanced_sinkhorn', 10), ('inverted_softmax', 0)]
PENALTIES = dict(sinkhorn=1.0, unbalanced_sinkhorn=0.8, inverted_softmax=1.0)


def units(count, seed, around=None):
    x = torch.randn(count, DIM, generator=torch.Generator().manual_seed(seed))
    return F.normalize(x if around is None else 0.02 * x + around, dim=-1)


def gallery_with_near_ties(count=600):
    """A third are all but copies of others, a hundredth are copies."""
    gallery = units(count, seed=1)
    third = count // 3
    gallery[:third] = F.normalize(gallery[third : 2 * third] + 1e-6 * units(third, seed=2), dim=-1)
    gallery[: count // 100] = gallery[third : third + count // 100]
    return gallery


def biases_as_written(bank, gallery, temperature, iterations, marginal_penalty):
    """NCL Fig. 4 on plain exponentials: b of Eq. 11 for alpha of sum one, less its mean; [N]."""
    kernel = np.exp(bank.double().numpy() @ gallery.double().numpy().T / temperature)
    rows, columns = kernel.shape
    alpha = np.ones(rows)
    for _ in range(iterations):
        beta = (1 / columns / (alpha @ kernel)) ** marginal_penalty
        alpha = 1 / rows / (kernel @ beta)
    biases = -temperature * marginal_penalty * np.log(alpha / alpha.sum() @ kernel)
    return biases - biases.mean()


@pytest.fixture
def store(tmp_path):
    with create_store(tmp_path, DIM) as store:
        yield store


def assert_same_ranking(hits, scores, names, k):
    """The same scores at every rank, and the same items where scores differ."""
    place = {name: i for i, name in enumerate(names)}
    rows = np.array([[place[hit.item.id] for hit in found] for found in hits])
    assert rows.shape == (len(scores), k)
    best = -np.sort(-scores, axis=1)
    found_scores = [[hit.score for hit in found] for found in hits]
    np.testing.assert_allclose(found_scores, best[:, :k], atol=1e-5)
    np.testing.assert_allclose(np.take_along_axis(scores, rows, 1), best[:, :k], atol=1e-5)
    for row, ranked, found in zip(scores, best, rows):
        assert len(set(found)) == k
        clearly_in = np.flatnonzero(row > ranked[k] + 1e-5)  # no near tie with the first one out
        assert set(clearly_in) <= set(found)


@pytest.mark.parametrize('temperature', [0.01, 0.07, 10.0])
@pytest.mark.parametrize('transform, iterations', TRANSFORMS)
def test_top_100_is_that_of_the_transformed_scores(store, transform, iterations, temperature):
    gallery, queries = gallery_with_near_ties(), units(150, seed=3)
    bank = units(400, seed=4, around=units(1, seed=5))  # narrow: it makes hubs
    names = [f'video{i}' for i in range(len(gallery))]
    store.add(names, gallery)
    store.refit(bank, transform=transform, temperature=temperature, fewer=True)
    marginal_penalty = PENALTIES[transform]
    biases = biases_as_written(bank, gallery, temperature, iterations, marginal_penalty)
    raw = queries.double().numpy() @ gallery.double().numpy().T
    assert_same_ranking(store.search(queries, 100), raw + biases, names, 100)
    assert np.abs(biases).max() <= 1  # as large as scores, at any temperature
    if temperature < 1:  # and they matter: else this test would show nothing
        top = np.argsort(-raw, 1)[:, :100]
        assert (np.sort(top) != np.sort(np.argsort(-(raw + biases), 1)[:, :100])).any(1).all()


def test_without_normaliser_the_scores_are_inner_products(store):
    gallery, queries = gallery_with_near_ties(), units(40, seed=3)
    names = [f'video{i}' for i in range(len(gallery))]
    store.add(names, gallery)
    scores = queries.double().numpy() @ gallery.double().numpy().T
    assert_same_ranking(store.search(queries, 100), scores, names, 100)


@pytest.mark.parametrize('transform, iterations', TRANSFORMS)
def test_items_added_later(store, transform, iterations):
    gallery, bank, queries = units(50, seed=1), units(80, seed=2), units(7, seed=3)
    names = [f'video{i}' for i in range(50)]
    store.add(names[:30], gallery[:30])
    store.refit(bank, transform=transform, temperature=0.05)
    before = store.search(queries, 30)
    store.add(names[30:], gallery[30:])
    after = store.search(queries, 50)
    assert store.count() == 50
    for found, old in zip(after, before):
        kept = [hit for hit in found if int(hit.item.id[5:]) < 30]
        assert [hit.item.id for hit in kept] == [hit.item.id for hit in old]
        assert [h.score for h in kept] == pytest.approx([h.score for h in old], abs=1e-6)
    # Rows fixed by the first 30; the bias of item j is -T log sum_i alpha_i exp(s_ij / T).
    fitted = store.debiaser._state.fitted
    alpha = fitted.rows.double().div(0.05).exp().numpy()
    kernel = np.exp(bank.double().numpy() @ gallery.double().numpy().T / 0.05)
    biases = -0.05 * PENALTIES[transform] * np.log(alpha @ kernel)
    assert biases[:30].mean() == pytest.approx(fitted.shift, abs=1e-6)
    biases -= biases[:30].mean()
    expected = queries.double().numpy() @ gallery.double().numpy().T + biases
    assert_same_ranking(after, np.c_[expected, np.full(7, -9)], names, 50)
    assert alpha.sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize(
    'bank, change, message',
    [
        (units(0, seed=0), {}, r'bank texts \[0, 24\] must be'),
        (torch.ones(3, 7), {}, 'bank texts have width 7, the videos 24'),
        (torch.full((2, DIM), torch.inf), {}, 'bank texts: row 0 is not finite'),
        (units(3, seed=0), dict(transform='csl'), "must be 'auto', None or one of .*, not 'csl'"),
        (units(3, seed=0), dict(temperature=0), 'temperature must be positive'),
        (units(3, seed=0), dict(iterations=-1), 'iterations must be 0 to 100,000, not -1'),
    ],
)
def test_banks_that_do_not_fit(bank, change, message):
    options = dict(transform='sinkhorn', temperature=0.1) | change
    with pytest.raises(ValueError, match=message):
        Debiaser(**options).fit(units(2, seed=1), bank)


@pytest.mark.parametrize('transform, iterations', [('sinkhorn', 4), ('unbalanced_sinkhorn', 10)])
def test_iterations_are_the_defaults_of_the_transform(transform, iterations):
    bank, gallery = units(30, seed=1), units(20, seed=2)
    options = dict(transform=transform, temperature=0.05)
    found = Debiaser(**options).fit(gallery, bank).biases_
    said = Debiaser(**options, iterations=iterations).fit(gallery, bank).biases_
    assert torch.equal(found, said)
    expected = biases_as_written(bank, gallery, 0.05, iterations, PENALTIES[transform])
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-5)
