"""Late interaction behind mmvtr.fit, against a reference of loops in float64."""

import numpy as np
import pytest
import torch

import mmvtr
from mmvtr import Tokens

GEOMETRIES = ('maxsim', 'maxsim_of_items', 'token_wise')


def drawn(count, length, seed, width=8, weighted=False):
    random = np.random.default_rng(seed)
    vectors = random.normal(size=(count, length, width)).astype('f4') + 0.4
    mask = np.arange(length) < random.integers(1, length + 1, (count, 1))
    vectors[~mask] = np.nan  # nothing of the padding may be read
    weights = random.random((count, length)).astype('f4') if weighted else None
    return Tokens(vectors, mask, weights)


def reference(texts, videos, geometry):
    """Scores [T, V] by the definition, pair by pair."""

    def valid(tokens, i):
        rows = tokens.vectors[i][tokens.mask[i]].astype('f8')
        own = None if tokens.weights is None else tokens.weights[i][tokens.mask[i]]
        weights = np.full(len(rows), 1 / len(rows)) if own is None else own.astype('f8')
        return rows / np.linalg.norm(rows, axis=1, keepdims=True), weights

    scores = np.empty((len(texts), len(videos)))
    for t in range(len(texts)):
        for v in range(len(videos)):
            (words, a), (frames, b) = valid(texts, t), valid(videos, v)
            cosines = words @ frames.T
            sums = (a * cosines.max(1)).sum(), (b * cosines.max(0)).sum()
            scores[t, v] = dict(zip(GEOMETRIES, (*sums, sum(sums) / 2)))[geometry]
    return scores


TEXTS, VIDEOS = drawn(20, 5, 0), drawn(70, 4, 1)
BANK = drawn(60, 6, 2), drawn(60, 3, 3)


@pytest.mark.parametrize('weighted', [False, True])
@pytest.mark.parametrize('geometry', GEOMETRIES)
def test_scores_are_those_of_the_definition(geometry, weighted, monkeypatch):
    texts, videos = drawn(9, 5, 4, weighted=weighted), drawn(31, 4, 5, weighted=weighted)
    monkeypatch.setattr('mmvtr.arrays.inputs.ENTRIES', 64)  # many tiles
    raw = mmvtr.fit(videos, geometry=geometry)
    np.testing.assert_allclose(raw.scores(texts), reference(texts, videos, geometry), atol=2e-6)
    swapped = dict(maxsim='maxsim_of_items', maxsim_of_items='maxsim', token_wise='token_wise')
    back = mmvtr.fit(texts, geometry=swapped[geometry]).scores(videos)
    np.testing.assert_allclose(back.T, raw.scores(texts), atol=2e-6)


@pytest.mark.parametrize('geometry', GEOMETRIES)
@pytest.mark.parametrize('name', ['sinkhorn', 'csls', 'qb_norm', 'dual_softmax', 'dbsn', 'db_norm'])
def test_transforms_are_those_of_the_score_matrices(geometry, name):
    """What a bank gives does not depend on how its scores came about."""
    from mmvtr.functional import csls, db_norm, dbsn, dual_softmax, qb_norm, sinkhorn_scores

    of = dict(sinkhorn=sinkhorn_scores, csls=csls, qb_norm=qb_norm, dual_softmax=dual_softmax)
    asked, seen = BANK
    scores, bank = (torch.tensor(reference(x, VIDEOS, geometry)) for x in (TEXTS, asked))
    options = dict(neighbours=10) if name == 'csls' else dict(temperature=0.1)
    if name == 'dbsn':
        extra = dict(bank_gallery=torch.tensor(reference(asked, seen, geometry)))
        expected = dbsn(scores, bank, **extra, **options)
    elif name == 'db_norm':
        options['item_temperature'] = 0.2
        extra = dict(item_bank=torch.tensor(reference(seen, VIDEOS, geometry)))
        expected = db_norm(scores, bank, **extra, **options)
    else:
        expected = of[name](scores, bank, **options) / (2 if name == 'csls' else 1)
    one = mmvtr.fit(VIDEOS, BANK, name, geometry=geometry, **options)
    difference = torch.tensor(one.scores(TEXTS)) - expected
    if name != 'qb_norm':  # what all items of a query get ranks nothing
        difference -= difference.mean(1, keepdim=True)
    if name != 'dual_softmax':  # which has a scale of its own for each query
        assert difference.abs().max() < 1e-4
    assert one.search(TEXTS, 5).ids.tolist() == expected.topk(5).indices.tolist()


@pytest.mark.parametrize('name', ['auto', 'sinkhorn', 'dbsn', 'db_norm'])
def test_added_saved_and_calibrated(name, tmp_path):
    one = mmvtr.fit(VIDEOS[:40], BANK, name, geometry='maxsim')
    before = one.scores(TEXTS)
    further = VIDEOS[40:]
    further = Tokens(further.vectors[:, :3], further.mask[:, :3])  # another length
    one.add(further).calibrate()
    np.testing.assert_allclose(one.scores(TEXTS)[:, :40], before, atol=1e-6)
    found = one.search(TEXTS, 6)
    assert 0 < found.any_right.min() and found.any_right.max() <= 1
    assert found.hubs.suspects is not None
    one.save(tmp_path)
    whole = Tokens(
        VIDEOS.vectors, VIDEOS.mask & ((np.arange(4) < 3) | (np.arange(70) < 40)[:, None])
    )
    again = mmvtr.Debiaser.load(tmp_path, whole)
    np.testing.assert_allclose(again.scores(TEXTS), one.scores(TEXTS), atol=1e-6)
    np.testing.assert_allclose(again.search(TEXTS, 6).any_right, found.any_right, atol=1e-6)
    twisted = Tokens(whole.vectors[::-1], whole.mask[::-1])
    with pytest.raises(ValueError, match='to another gallery'):
        mmvtr.Debiaser.load(tmp_path, twisted)


def test_further_items_and_repeated_texts():
    """Texts of six tokens, items of four, vectors of eight numbers: none is taken for another."""
    asked, _ = BANK
    one = mmvtr.fit(VIDEOS[:60], asked, 'nnn', geometry='maxsim', neighbours=3)
    further = one.biases_of(VIDEOS[60:])
    torch.testing.assert_close(further, one.add(VIDEOS[60:]).biases_[60:])
    assert one.asked_before(asked[:9]) == 'transductive: 9 of the 9 texts that ask are in the bank'
    for call in (one.biases_of, one.asked_before):
        with pytest.raises(ValueError, match='have width 7, the videos 8'):
            call(drawn(3, 6, 9, width=7))


def test_an_engine_with_maxsim_ranks_debiased():
    one = mmvtr.fit(VIDEOS, BANK, 'sinkhorn', geometry='maxsim')
    items, asked = one.as_vectors(), one.query(TEXTS)
    assert [len(x) for x in items] == VIDEOS.mask.sum(1).tolist() and items[0].shape[1] == 9
    found = [[(q @ x.T).max(1).sum() for x in items] for q in asked]
    np.testing.assert_allclose(found, one.scores(TEXTS), atol=1e-5)
    raw = one.query(TEXTS, debiased=False)
    found = [[(q @ x.T).max(1).sum() for x in items] for q in raw]
    np.testing.assert_allclose(found, reference(TEXTS, VIDEOS, 'maxsim'), atol=1e-5)
    with pytest.raises(ValueError, match="no search engine ranks by 'token_wise'"):
        mmvtr.fit(VIDEOS, geometry='token_wise').as_vectors()


def test_one_token_is_a_cosine():
    random = np.random.default_rng(7)
    texts, videos, asked = (random.normal(size=(60, 5)).astype('f4') for _ in range(3))
    plain = mmvtr.fit(videos, asked, 'nnn').search(texts, 8)
    single = [Tokens(x[:, None]) for x in (texts, videos, asked)]
    for geometry in GEOMETRIES:
        found = mmvtr.fit(single[1], single[2], 'nnn', geometry=geometry).search(single[0], 8)
        assert np.array_equal(found.ids, plain.ids)


def test_memory_holds_no_similarities_of_all_tokens(monkeypatch):
    """Of 300 x 300 pairs of 16 x 16 tokens: the largest product is a tile."""
    widest, product = [0], torch.Tensor.matmul
    monkeypatch.setattr(
        'mmvtr.functional.similarities.token_interaction.product',
        lambda a, b: widest.append(len(a) * b.shape[1]) or product(a, b),
    )
    mmvtr.fit(drawn(300, 16, 1), drawn(300, 16, 2), 'nnn', geometry='maxsim')
    assert 0 < max(widest) <= 2**22


def test_ragged_lists_are_padded():
    items = [np.ones((2, 3)), np.eye(3), np.ones((1, 3))]
    made = Tokens.of(items)
    assert made.vectors.shape == (3, 3, 3) and made.mask.sum(1).tolist() == [2, 3, 1]
    with pytest.raises(ValueError, match=r'item 1 \[3, 2\] must be \[tokens, 3\]'):
        Tokens.of([np.ones((2, 3)), np.ones((3, 2))])


@pytest.mark.parametrize(
    ('tokens', 'said'),
    [
        (np.ones((3, 8), 'f4'), 'give videos as mmvtr.Tokens'),
        (Tokens(np.ones((3, 8), 'f4')), 'must be an array'),
        (Tokens([[1.0]]), 'a numpy array or a torch tensor, not list'),
        (Tokens(np.ones((3, 2, 8)), np.ones((3, 1), bool)), r'must be bool \[3, 2\]'),
        (Tokens(np.ones((3, 2, 8)), np.zeros((3, 2), bool)), 'item 0 has no real token'),
        (Tokens(np.zeros((3, 2, 8))), 'row 0, token 0 is all zeros'),
        (Tokens(np.full((3, 2, 8), np.nan)), 'row 0, token 0 is not finite'),
        (Tokens(np.ones((3, 2, 8)), None, -np.ones((3, 2))), 'weights of videos must be finite'),
        (Tokens(np.ones((3, 2, 8)), None, np.ones((3, 3))), r'weights of videos must be \[3, 2\]'),
    ],
)
def test_bad_tokens(tokens, said):
    with pytest.raises((TypeError, ValueError), match=said):
        mmvtr.fit(tokens, geometry='maxsim')


def test_widths_and_plain_vectors():
    with pytest.raises(ValueError, match='have width 3, the videos 8'):
        mmvtr.fit(VIDEOS, Tokens(np.ones((60, 2, 3), 'f4')), geometry='maxsim')
    with pytest.raises(TypeError, match='not Tokens'):
        mmvtr.fit(VIDEOS)
