"""The index against transformed scores in float64, made by Sinkhorn-Knopp as it is written."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from children import ROOT

pytest.importorskip('faiss')

from mmvtr.index import GalleryIndex, Normaliser  # noqa: E402

DIM = 24
TRANSFORMS = [('sinkhorn', 4), ('unbalanced_sinkhorn', 4), ('inverted_softmax', 0)]
STRICTNESS = dict(sinkhorn=1.0, unbalanced_sinkhorn=0.8, inverted_softmax=1.0)


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


def biases_as_written(bank, gallery, temperature, iterations, strictness):
    """NCL Fig. 4 on plain exponentials: b of Eq. 11 for alpha of sum one; float64 [N]."""
    kernel = np.exp(bank.double().numpy() @ gallery.double().numpy().T / temperature)
    rows, columns = kernel.shape
    alpha = np.ones(rows)
    for _ in range(iterations):
        beta = (1 / columns / (alpha @ kernel)) ** strictness
        alpha = 1 / rows / (kernel @ beta)
    return -temperature * strictness * np.log(alpha / alpha.sum() @ kernel)


def assert_same_ranking(hits, scores, names, k):
    """The same scores at every rank, and the same items where scores differ."""
    place = {name: i for i, name in enumerate(names)}
    rows = np.array([[place[name] for name in ids] for ids in hits.ids])
    assert rows.shape == (len(scores), k)
    best = -np.sort(-scores, axis=1)
    np.testing.assert_allclose(hits.scores.numpy(), best[:, :k], atol=1e-5)
    np.testing.assert_allclose(np.take_along_axis(scores, rows, 1), best[:, :k], atol=1e-5)
    for row, ranked, found in zip(scores, best, rows):
        assert len(set(found)) == k
        clearly_in = np.flatnonzero(row > ranked[k] + 1e-5)  # no near tie with the first one out
        assert set(clearly_in) <= set(found)


@pytest.mark.parametrize('temperature', [0.01, 0.07, 10.0])
@pytest.mark.parametrize('transform, iterations', TRANSFORMS)
def test_top_100_is_that_of_the_transformed_scores(transform, iterations, temperature):
    gallery, queries = gallery_with_near_ties(), units(150, seed=3)
    bank = units(400, seed=4, around=units(1, seed=5))  # narrow: it makes hubs
    normaliser = Normaliser.fit(bank, gallery, transform=transform, temperature=temperature)
    index = GalleryIndex(DIM, normaliser=normaliser)
    names = [f'video{i}' for i in range(len(gallery))]
    index.add(names, gallery)
    strictness = STRICTNESS[transform]
    biases = biases_as_written(bank, gallery, temperature, iterations, strictness)
    raw = queries.double().numpy() @ gallery.double().numpy().T
    assert_same_ranking(index.search(queries, k=100), raw + biases, names, 100)
    assert np.abs(biases).max() <= 1  # as large as scores, at any temperature
    if temperature < 1:  # and they matter: else this test would show nothing
        top = np.argsort(-raw, 1)[:, :100]
        assert (np.sort(top) != np.sort(np.argsort(-(raw + biases), 1)[:, :100])).any(1).all()


def test_without_normaliser_the_scores_are_inner_products():
    gallery, queries = gallery_with_near_ties(), units(40, seed=3)
    index = GalleryIndex(DIM)
    names = [f'video{i}' for i in range(len(gallery))]
    index.add(names, gallery)
    scores = queries.double().numpy() @ gallery.double().numpy().T
    assert_same_ranking(index.search(queries, k=100), scores, names, 100)


@pytest.mark.parametrize('transform, iterations', TRANSFORMS)
def test_items_added_later(transform, iterations):
    gallery, bank, queries = units(50, seed=1), units(80, seed=2), units(7, seed=3)
    normaliser = Normaliser.fit(bank, gallery[:30], transform=transform, temperature=0.05)
    index = GalleryIndex(DIM, normaliser=normaliser)
    names = [f'video{i}' for i in range(50)]
    index.add(names[:30], gallery[:30])
    before = index.search(queries, k=30)
    index.add(names[30:], gallery[30:])
    after = index.search(queries, k=50)
    assert len(index) == 50
    for ids, scores, old_ids, old_scores in zip(after.ids, after.scores, before.ids, before.scores):
        kept = [(name, s) for name, s in zip(ids, scores.tolist()) if int(name[5:]) < 30]
        assert [name for name, _ in kept] == old_ids
        assert [s for _, s in kept] == pytest.approx(old_scores.tolist(), abs=1e-6)
    # Rows fixed by the first 30; the bias of item j is -T log sum_i alpha_i exp(s_ij / T).
    alpha = normaliser.row_biases.double().div(0.05).exp().numpy()
    kernel = np.exp(bank.double().numpy() @ gallery.double().numpy().T / 0.05)
    biases = -0.05 * STRICTNESS[transform] * np.log(alpha @ kernel)
    expected = queries.double().numpy() @ gallery.double().numpy().T + biases
    assert_same_ranking(after, np.c_[expected, np.full(7, -9)], names, 50)
    assert alpha.sum() == pytest.approx(1, abs=1e-5)


def test_saved_and_loaded(tmp_path):
    gallery, queries = units(9, seed=1), units(4, seed=2)
    normaliser = Normaliser.fit(
        units(5, seed=3), gallery, transform='sinkhorn', temperature=0.1, iterations=2
    )
    index = GalleryIndex(DIM, normaliser=normaliser, about=dict(checkpoint='a.pth'))
    index.add('abcdefg', gallery[:7], paths={'a': 'videos/a.mp4', 'x': 'unknown'})
    index.save(tmp_path / 'new' / 'folder')
    again = GalleryIndex.load(tmp_path / 'new' / 'folder')
    assert again.about == dict(checkpoint='a.pth') and again.paths == {'a': 'videos/a.mp4'}
    for each in (index, again):
        each.add(['h', 'ü'], gallery[7:])
    hits, expected = again.search(queries, k=99), index.search(queries, k=99)
    assert hits.ids == expected.ids and torch.equal(hits.scores, expected.scores)
    assert {*hits.ids[0]} == {*'abcdefghü'}  # all there are
    assert not list(tmp_path.rglob('*.part'))


def test_saved_over_another_index(tmp_path):
    normaliser = Normaliser(units(3, seed=1), torch.zeros(3), 0.1)
    for index in (GalleryIndex(DIM, normaliser=normaliser), GalleryIndex(DIM)):
        index.add(['a'], units(1, seed=0))
        index.save(tmp_path)
    again = GalleryIndex.load(tmp_path)
    assert again.normaliser is None
    assert again.search(units(1, seed=0)).scores.item() == pytest.approx(1)


# -- bad input ---------------------------------------------------------------------------------


def small_index():
    index = GalleryIndex(DIM)
    index.add(['a', 'b'], units(2, seed=0))
    return index


@pytest.mark.parametrize(
    'ids, vectors, message',
    [
        (['c', 'a'], units(2, seed=1), r"1 ids occur twice in the index, e.g. \['a'\]"),
        (['c', 'c'], units(2, seed=1), r"1 ids occur twice in the index, e.g. \['c'\]"),
        (['c'], units(2, seed=1), '1 ids, 2 vectors'),
        (['c'], torch.ones(1, 3), r'vectors \[N, 24\], not \[1, 3\]'),
        (['c'], torch.full((1, DIM), torch.nan), 'vector 0 is not finite'),
    ],
)
def test_items_that_do_not_fit(ids, vectors, message):
    index = small_index()
    with pytest.raises(ValueError, match=message):
        index.add(ids, vectors)
    assert index.ids == ['a', 'b'] and index.search(units(1, seed=0)).scores.shape == (1, 2)


def test_searches_that_make_no_sense():
    with pytest.raises(ValueError, match='k must be 1 or more, not 0'):
        small_index().search(units(1, seed=0), k=0)
    with pytest.raises(ValueError, match=r'vectors \[N, 24\], not \[24\]'):
        small_index().search(units(1, seed=0)[0])
    with pytest.raises(ValueError, match='the index is empty'):
        GalleryIndex(DIM).search(units(1, seed=0))


@pytest.mark.parametrize(
    'bank, change, message',
    [
        (units(0, seed=0), {}, r'bank \[0, 2\] has no queries'),
        (torch.ones(3, 7), {}, 'have 7 dimensions, the gallery 24: the bank is of another model'),
        (torch.full((2, DIM), torch.inf), {}, r'bank\[0, 0\] is .*, expected finite'),
        (units(3, seed=0), dict(transform='csls'), "must be one of .*, not 'csls'"),
        (units(3, seed=0), dict(temperature=0), 'temperature must be positive, not 0'),
        (units(3, seed=0), dict(iterations=-1), 'iterations must be 0 or more, not -1'),
    ],
)
def test_banks_that_do_not_fit(bank, change, message):
    options = dict(transform='sinkhorn', temperature=0.1) | change
    with pytest.raises(ValueError, match=message):
        Normaliser.fit(bank, units(2, seed=1), **options)


def test_folders_that_hold_no_index(tmp_path):
    with pytest.raises(FileNotFoundError, match='holds no index: index.json is missing'):
        GalleryIndex.load(tmp_path)
    small_index().save(tmp_path)
    meta = json.loads((tmp_path / 'index.json').read_text())
    (tmp_path / 'index.json').write_text(json.dumps(dict(meta, ids=['a'])))
    with pytest.raises(RuntimeError, match='holds 2 vectors of width 24, index.json says 1 of'):
        GalleryIndex.load(tmp_path)


def test_without_faiss_one_line_says_what_to_install():
    code = "import sys; sys.modules['faiss'] = None; import mmvtr.index"
    done = subprocess.run(
        [sys.executable, '-c', code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert 'an index needs faiss: pip install -e ".[index]"' in done.stderr.splitlines()[-1]
