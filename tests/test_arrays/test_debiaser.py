"""mmvtr.fit: one fitted object, searched, extended, saved, and handed to any vector database."""

import json

import numpy as np
import pytest
import torch

import mmvtr
from mmvtr.arrays import ranking
from mmvtr.functional.transforms.item_biases import ItemBiases
from mmvtr.functional.transforms.transform_table import OF_BANK as NAMES
from mmvtr.functional.transforms.transform_table import TRANSFORMS

OPTIONS = dict(hedged_scaling=dict(first=-0.3, strength=0.6))
ADDITIVE = [name for name in NAMES if TRANSFORMS[name].form == 'additive']


def world(seed=0, items=90, bank=70, width=12):
    random = np.random.default_rng(seed)
    videos = random.normal(size=(items, width)) + 0.8
    texts = videos[:40] + 1.2 * random.normal(size=(40, width)) + 0.5
    seen = random.normal(size=(bank, width)) + 0.8
    asked = seen + 1.2 * random.normal(size=(bank, width)) + 0.5
    return [x.astype('f4') for x in (texts, videos, asked, seen)]


TEXTS, VIDEOS, ASKED, SEEN = world()
BANK = (ASKED, SEEN)


def fitted(name, videos=VIDEOS, **options):
    return mmvtr.fit(videos, BANK, name, **OPTIONS.get(name, {}), **options)


@pytest.mark.parametrize('geometry', ['cosine', 'inner_product'])
@pytest.mark.parametrize('name', ['auto', None, *NAMES])
def test_search_is_the_best_of_all_scores(name, geometry):
    one = fitted(name, geometry=geometry)
    scores, found = one.scores(TEXTS), one.search(TEXTS, 7)
    best = np.argsort(-scores, axis=1, kind='stable')[:, :7]
    assert np.array_equal(found.ids, best)
    np.testing.assert_allclose(found.debiased, np.take_along_axis(scores, best, 1), atol=1e-6)
    again = mmvtr.retrieve(TEXTS, VIDEOS, BANK, name, 7, geometry=geometry, **OPTIONS.get(name, {}))
    assert np.array_equal(again.ids, found.ids) and len(repr(one)) < 90 and len(repr(found)) < 140
    if one.additive_ and one.transform_:
        assert abs(one.biases_.mean()) < 1e-6 * max(1, one.biases_.abs().max())
    options = one.options_
    assert all(not isinstance(x, str) for x in options.values())


@pytest.mark.parametrize('name', sorted({*NAMES} - {*ADDITIVE, 'qb_norm'}))
def test_whole_rows_are_transformed_a_few_at_a_time(name, monkeypatch):
    one, read = fitted(name), []
    expected = one.search(TEXTS, 7)
    changed = ItemBiases.transform_scores

    def transform_scores(self, scores):
        read.append(scores.numel())
        return changed(self, scores)

    monkeypatch.setattr(ItemBiases, 'transform_scores', transform_scores)
    monkeypatch.setattr(ranking, 'ENTRIES', 3 * len(VIDEOS))
    found = one.search(TEXTS, 7)
    assert max(read) <= 3 * len(VIDEOS) and np.array_equal(found.ids, expected.ids)
    for name in ('scores', 'debiased'):
        assert np.array_equal(getattr(found, name), getattr(expected, name))


@pytest.mark.parametrize('geometry', ['cosine', 'inner_product'])
@pytest.mark.parametrize('name', [None, *ADDITIVE])
def test_one_more_dimension_holds_the_biases(name, geometry):
    one = fitted(name, geometry=geometry)
    gallery = one.as_vectors()
    assert gallery.shape == (90, 13) and gallery.dtype == np.float32
    np.testing.assert_allclose(one.query(TEXTS) @ gallery.T, one.scores(TEXTS), atol=2e-5)
    raw = mmvtr.fit(VIDEOS, geometry=geometry).scores(TEXTS)
    np.testing.assert_allclose(one.query(TEXTS, debiased=False) @ gallery.T, raw, atol=2e-5)


@pytest.mark.parametrize('name', sorted({*NAMES} - {*ADDITIVE}))
def test_what_is_no_bias_of_each_item_says_so(name):
    for call in (lambda one: one.as_vectors(), lambda one: one.query(TEXTS)):
        with pytest.raises(ValueError, match='does not add one number per item'):
            call(fitted(name))


@pytest.mark.parametrize('name', [None, *NAMES])
def test_further_items_get_theirs_and_move_no_other(name):
    one = fitted(name, VIDEOS[:60], ids=[f'v{i}' for i in range(60)])
    before = one.scores(TEXTS)
    one.add(VIDEOS[60:], ids=[f'v{i}' for i in range(60, 90)])
    assert len(one) == 90
    if name in (None, *ADDITIVE):
        np.testing.assert_allclose(one.scores(TEXTS)[:, :60], before, atol=1e-6)
        twins = fitted(name, VIDEOS[:60]).add(VIDEOS[:60]).biases_
        torch.testing.assert_close(twins[:60], twins[60:], atol=1e-5, rtol=0)
    best = one.scores(TEXTS).argsort(1)[:, ::-1][:, :3]
    assert one.search(TEXTS, 3).ids.tolist() == [[f'v{i}' for i in row] for row in best]
    whole = fitted(name)
    np.testing.assert_allclose(one.refit(BANK).scores(TEXTS), whole.scores(TEXTS), atol=1e-5)
    with pytest.raises(ValueError, match="'v3' occurs twice"):
        one.add(VIDEOS[:1], ids=['v3'])
    with pytest.raises(ValueError, match='for all videos or for none'):
        one.add(VIDEOS[:1])
    with pytest.raises(ValueError, match='have width 5'):
        one.add(VIDEOS[:1, :5], ids=['new'])


@pytest.mark.parametrize('name', ['auto', None, *NAMES])
def test_saved_and_read(name, tmp_path):
    one = fitted(name, VIDEOS[:80], ids=[f'v{i}' for i in range(80)]).calibrate()
    one.save(tmp_path / 'one')
    two = mmvtr.Debiaser.load(tmp_path / 'one', VIDEOS[:80])
    for x in (one, two):
        x.add(VIDEOS[80:], ids=[f'v{i}' for i in range(80, 90)])
    assert np.array_equal(one.search(TEXTS, 5).ids, two.search(TEXTS, 5).ids)
    np.testing.assert_allclose(one.scores(TEXTS), two.scores(TEXTS), atol=1e-6)
    again = mmvtr.Debiaser.load(tmp_path / 'one', torch.tensor(VIDEOS[:80]).half())
    expected = fitted(name, VIDEOS[:80]).calibrate().search(TEXTS, 5).probabilities
    np.testing.assert_allclose(again.search(TEXTS, 5).probabilities, expected, atol=0.01)
    assert again.options_ == two.options_
    assert (
        two.why_ == again.why_ + '; 11% of the items were added after the calibration of P(right)'
    )


@pytest.fixture
def folder(tmp_path):
    fitted('sinkhorn').save(tmp_path)
    return tmp_path


def test_another_gallery_is_refused(folder):
    with pytest.raises(ValueError, match='fitted to 90 videos, not 89'):
        mmvtr.Debiaser.load(folder, VIDEOS[:-1])
    with pytest.raises(ValueError, match='another gallery: 2 of 90 videos differ, the first is'):
        mmvtr.Debiaser.load(folder, VIDEOS[[1, 0, *range(2, 90)]])
    with pytest.raises(ValueError, match='another gallery'):
        mmvtr.Debiaser.load(folder, world(5)[1])


@pytest.mark.parametrize('geometry', ['cosine', 'inner_product'])
def test_another_gallery_of_unit_vectors_is_refused(geometry, tmp_path):
    """Their lengths tell nothing."""
    unit = VIDEOS / np.linalg.norm(VIDEOS, axis=1, keepdims=True)
    fitted('sinkhorn', unit, geometry=geometry).save(tmp_path)
    mmvtr.Debiaser.load(tmp_path, unit)
    with pytest.raises(ValueError, match='another gallery: 2 of 90 videos differ'):
        mmvtr.Debiaser.load(tmp_path, unit[[1, 0, *range(2, 90)]])


def test_a_file_that_is_cut_or_of_another_version_is_refused(folder):
    path, tensors = folder / 'debiaser.json', folder / 'debiaser.safetensors'
    text, content = path.read_text(), tensors.read_bytes()
    for size in (0, 10, len(content) // 2, len(content) - 1):
        tensors.write_bytes(content[:size])
        with pytest.raises(RuntimeError, match='debiaser.safetensors cannot be read'):
            mmvtr.Debiaser.load(folder, VIDEOS)
    tensors.write_bytes(content)
    for wrong, said in (
        (text[: len(text) // 2], 'damaged or cut'),
        (text.replace('"version": 2', '"version": 3'), "of version '3'"),
        (text.replace('"sinkhorn"', '"os.system"'), 'names an unknown transform'),
        (json.dumps(dict(version=1)), 'is not a Debiaser'),
    ):
        path.write_text(wrong)
        with pytest.raises(RuntimeError, match=said):
            mmvtr.Debiaser.load(folder, VIDEOS)
    path.unlink()
    with pytest.raises(FileNotFoundError, match='does not exist'):
        mmvtr.Debiaser.load(folder, VIDEOS)


def test_nothing_to_rank_is_raw_and_says_why():
    alike = np.repeat(VIDEOS[:1], 60, 0)
    for videos in (alike, VIDEOS[:1]):
        for name in ('auto', 'sinkhorn', 'nnn', 'qb_norm'):
            one = mmvtr.fit(videos, BANK, name)
            assert one.search(TEXTS, 3).transform is None
            known = ('score alike', 'there is one item', 'no gain')
            assert any(said in one.why_ for said in known)
    once = mmvtr.fit(VIDEOS, np.repeat(ASKED[:1], 80, 0))
    assert once.why_.startswith('raw: 1 different bank texts of 80 are too few')


def test_a_bank_that_asks_is_named():
    one = mmvtr.fit(VIDEOS, ASKED, 'sinkhorn')
    assert 'transductive: 70 of the 70 texts' in one.search(ASKED).why
    assert 'transductive' not in one.search(TEXTS).why
    assert '70 different bank texts of 170' in fitted_log().why_


def fitted_log():
    return mmvtr.fit(VIDEOS, ASKED[np.r_[:70, np.zeros(100, int)]], 'sinkhorn')


@pytest.mark.parametrize('name', ['csls', 'nnn'])
def test_a_small_bank_has_fewer_neighbours(name):
    """Of five queries the default of 10 or 16 takes all, and one who asks for six is told."""
    small = mmvtr.fit(VIDEOS, ASKED[:5], name)
    assert small.options_['neighbours'] == 5
    unit = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (ASKED[:5], VIDEOS)]
    share = small.options_.get('alpha', 0.5)
    mean = -share * (unit[0] @ unit[1].T).mean(0)
    np.testing.assert_allclose(small.biases_, mean - mean.mean(), atol=1e-6)
    with pytest.raises(ValueError, match='neighbours'):
        mmvtr.fit(VIDEOS, ASKED[:5], name, neighbours=6)


@pytest.mark.parametrize('name', NAMES)
def test_repeats_weigh_the_less_where_a_transform_takes_weights(name):
    often = np.r_[:70, np.zeros(100, int), 3, 3]
    weights = torch.ones(70)
    weights[0], weights[3] = 1 / 101, 1 / 3
    takes = 'bank_marginals' in TRANSFORMS[name].options
    one = fitted(name, **dict(bank_marginals=weights / weights.sum()) if takes else {})
    two = mmvtr.fit(VIDEOS, (ASKED[often], SEEN[often]), name, **OPTIONS.get(name, {}))
    np.testing.assert_allclose(one.scores(TEXTS), two.scores(TEXTS), atol=1e-6)
    if takes:
        assert np.abs(fitted(name).scores(TEXTS) - two.scores(TEXTS)).max() > 1e-3
        two.calibrate()  # on parts of the bank, with their weights
    every = np.r_[:70, :70]
    twice = mmvtr.fit(VIDEOS, (ASKED[every], SEEN[every]), name, **OPTIONS.get(name, {}))
    np.testing.assert_allclose(fitted(name).scores(TEXTS), twice.scores(TEXTS), atol=1e-6)


def test_two_items_of_a_text_are_no_repeat():
    texts, seen = ASKED[np.r_[:70, 5]], SEEN[np.r_[:70, 6]]
    assert mmvtr.fit(VIDEOS, (texts, seen), 'sinkhorn').bank_.weights is None
    assert mmvtr.fit(VIDEOS, texts, 'sinkhorn').bank_.weights[5] < 1 / 70


def test_other_kinds_of_data():
    one = mmvtr.fit(1e-25 * VIDEOS.astype('f8'), BANK, 'sinkhorn')
    assert np.array_equal(one.search(TEXTS).ids, fitted('sinkhorn').search(TEXTS).ids)
    pandas, pyarrow = pytest.importorskip('pandas'), pytest.importorskip('pyarrow')
    names = pyarrow.array([f'v{i}' for i in range(90)])
    found = mmvtr.fit(VIDEOS, ids=names).search(TEXTS, 1).ids
    assert type(found[0, 0]) is str
    assert type(mmvtr.fit(VIDEOS, ids=pandas.Series(names)).search(TEXTS, 1).ids[0, 0]) is str
    for wrong, said in (
        (pandas.DataFrame(VIDEOS), r'give videos.to_numpy\(dtype="float32"\)'),
        (VIDEOS.tolist(), r'give numpy.asarray\(videos, dtype="float32"\)'),
    ):
        with pytest.raises(TypeError, match=said):
            mmvtr.fit(wrong)


def test_what_does_not_fit_is_named():
    for call, said in (
        (lambda: mmvtr.Debiaser('softmax'), 'transform must be'),
        (lambda: mmvtr.Debiaser(geometry='l2'), 'geometry must be'),
        (lambda: mmvtr.Debiaser().search(TEXTS), 'has no gallery yet'),
        (lambda: mmvtr.fit(VIDEOS).calibrate(), 'needs a bank with pairs'),
        (lambda: mmvtr.fit(VIDEOS, (ASKED[:30], SEEN[:30])).calibrate(), 'too few'),
        (lambda: fitted('sinkhorn').search(TEXTS[:, :5]), 'texts have width 5, the videos 12'),
        (lambda: mmvtr.fit(VIDEOS[:0]), r'videos \[0, 12\]'),
    ):
        with pytest.raises(ValueError, match=said):
            call()


def test_whether_texts_were_asked_is_refused_of_another_width():
    one = mmvtr.fit(np.eye(6, dtype='f4'), np.ones((3, 6), 'f4'))
    with pytest.raises(ValueError, match='texts have width 5'):
        one.asked_before(np.ones((4, 5), 'f4'))
