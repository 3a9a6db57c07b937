"""The inferencer against encoding and scoring by hand, for three kinds of similarity."""

import dataclasses
import json

import numpy as np
import pytest
import torch
from asked_clips import NAMES, TEXTS, by_hand
from mmengine.config import Config
from mmengine.infer import BaseInferencer

import mmvtr.apis
import mmvtr.apis.inferencer.predictions
import mmvtr.apis.inferencer.ranking
from mmvtr.apis import load_retriever, vectors
from mmvtr.apis.inferencer import RankingSample, VideoRetrievalInferencer
from mmvtr.apis.inferencer.predictions import draw_sheet
from mmvtr.datasets.videos.video_io import BrokenVideoError
from mmvtr.engine.hooks.query_queue import Queries
from mmvtr.functional.transforms.dual_banks import dbsn
from mmvtr.functional.transforms.score_transforms import inverted_softmax, nnn
from mmvtr.functional.transforms.sinkhorn import column_biases, sinkhorn
from mmvtr.functional.uncertainty.calibration_fits import fit_to_pairs
from mmvtr.functional.uncertainty.gaussian import geometric_sigma
from mmvtr.storage import write_plain
from mmvtr.structures import take


def assert_ranked(predictions, scores, ids, *, topk):
    """Each prediction has the best of its row, best first."""
    assert len(predictions) == len(scores)
    for prediction, row in zip(predictions, scores):
        hits = prediction['hits']
        assert [hit['rank'] for hit in hits] == [*range(1, topk + 1)]
        found = {hit['id']: hit['score'] for hit in hits}
        best = row.sort(descending=True).values[:topk]
        assert [hit['score'] for hit in hits] == pytest.approx(best.tolist(), abs=1e-5)
        expected = dict(zip(ids, row.tolist()))
        assert found == pytest.approx({name: expected[name] for name in found}, abs=1e-5)


@pytest.mark.parametrize('name', ['toy', 'uatvr_planted', 'arl_planted'])
def test_both_directions_as_by_hand(make, name, monkeypatch):
    monkeypatch.setattr(mmvtr.apis.inferencer.ranking, 'QUERIES', 2)
    monkeypatch.setattr(mmvtr.apis.inferencer.ranking, 'ITEMS', 3)
    model, texts, videos, scores = by_hand(name)
    assert scores.std() > 1e-3  # else every order would do
    find = make(name, gallery='clips')
    assert isinstance(find, BaseInferencer)
    found = find(TEXTS, topk=3, batch_size=4)
    assert found['visualization'] is None
    assert_ranked(found['predictions'], scores, NAMES, topk=3)
    assert [x['query'] for x in found['predictions']] == TEXTS
    hit = found['predictions'][0]['hits'][0]
    assert hit['item'] == f'clips/{hit["id"]}.mp4'
    find.set_gallery(dict(zip('pqrst', TEXTS)), kind='text')
    again = find(videos='clips', topk=99)['predictions']
    assert [x['query_id'] for x in again] == list(NAMES)
    assert_ranked(again, scores.t(), 'pqrst', topk=5)
    assert {hit['id']: hit['item'] for hit in again[0]['hits']} == dict(zip('pqrst', TEXTS))
    sigmas = {'sigma' in prediction for prediction in found['predictions'] + again}
    assert sigmas == {name == 'uatvr_planted'}
    if 'gaussian' in texts.levels:
        own, other = (geometric_sigma(x.levels['gaussian'].log_std) for x in (texts, videos))
        assert [x['sigma'] for x in found['predictions']] == pytest.approx(own.tolist())
        known = dict(zip(NAMES, other.tolist()))
        for hit in found['predictions'][2]['hits']:
            assert hit['sigma'] == pytest.approx(known[hit['id']])
    with_moment = {'moment' in hit for x in found['predictions'] + again for hit in x['hits']}
    assert with_moment == {name == 'arl_planted'}


def test_moments_are_seconds_of_the_file(make):
    model, texts, videos, _ = by_hand('arl_planted')
    with torch.no_grad():
        spans = model.similarity.matched_spans(texts.levels, videos.levels)
    lengths = {name: (4 + n) / 10 for n, name in enumerate(NAMES)}
    find = make('arl_planted', gallery='clips')
    seen = set()
    for t, prediction in enumerate(find(TEXTS)['predictions']):
        assert len(prediction['hits']) == 5
        for hit in prediction['hits']:
            expected = spans[t, NAMES.index(hit['id'])] * lengths[hit['id']]
            assert hit['moment'] == pytest.approx(expected.tolist(), abs=1e-3)
            assert hit['moment_unit'] == 'seconds'
            assert hit['duration'] == pytest.approx(lengths[hit['id']], abs=1e-3)
            seen.add(hit['moment'])
    assert len(seen) > 5
    find.set_gallery(videos)  # encoded, so that nobody knows a file
    (prediction,) = find(TEXTS[1])['predictions']
    for hit in prediction['hits']:
        expected = spans[1, NAMES.index(hit['id'])].tolist()
        assert hit['moment'] == pytest.approx(expected) and hit['moment_unit'] == 'share'
        assert hit['item'] is None and 'duration' not in hit
    find.set_gallery(TEXTS, kind='text')
    for hit in find(videos='clips/d.mp4')['predictions'][0]['hits']:
        expected = spans[int(hit['id']), 3] * lengths['d']
        assert hit['moment'] == pytest.approx(expected.tolist(), abs=1e-3)


def test_vectors_ask_and_are_asked(make):
    model, texts, videos, scores = by_hand('toy')
    find = make(gallery='clips')
    flat = [vectors(model, side.levels) for side in (texts, videos)]
    for queries, gallery in ((texts, videos), (flat[0], videos), (texts, flat[1]), flat):
        find.set_gallery(gallery)
        ids = NAMES if gallery is videos else '01234'
        predictions = find(vectors=queries, topk=4)['predictions']
        assert_ranked(predictions, scores, ids, topk=4)
        assert [x['query_id'] for x in predictions] == list('01234')


def debiased(scores, bank, *, marginal_penalty=1.0, iterations=4):
    """Of Sinkhorn, in the unit in which each column's bias is found alone."""
    how = dict(temperature=0.1, marginal_penalty=marginal_penalty, iterations=iterations)
    rows = sinkhorn(bank, **how).rows
    return scores + marginal_penalty * column_biases(bank, rows, temperature=0.1)


def centred(expected, scores):
    """Debiased scores whose biases have mean 0."""
    return expected - (expected - scores).mean()


@pytest.mark.parametrize('name', ['toy', 'uatvr_planted'])
def test_a_transform_adds_a_bias_that_the_bank_gives(make, tmp_path, name):
    model, texts, videos, scores = by_hand(name)
    bank = tmp_path / 'bank.pth'
    states = [
        Queries(take(x.levels, slice(1, 5)), *[torch.arange(4)] * 2).state()
        for x in (texts, videos)
    ]
    write_plain(dict(zip(('text', 'video'), states)), bank)
    find = make(name)
    find.set_gallery('clips', transform='sinkhorn', bank=bank, temperature=0.1)
    expected = centred(debiased(scores, scores[1:5]), scores)
    predictions = find(TEXTS, topk=5)['predictions']
    assert_ranked(predictions, expected, NAMES, topk=5)
    for row, prediction in zip(scores, predictions):
        for hit in prediction['hits']:
            raw = float(row[NAMES.index(hit['id'])])
            assert hit['raw_score'] == pytest.approx(raw, abs=1e-5)
            assert hit['score'] == pytest.approx(hit['raw_score'] + hit['bias'])
    options = dict(transform='unbalanced_sinkhorn', temperature=0.1, marginal_penalty=0.5)
    find.set_gallery('clips', bank=bank, **options)
    expected = centred(debiased(scores, scores[1:5], marginal_penalty=0.5, iterations=10), scores)
    assert_ranked(find(TEXTS, topk=5)['predictions'], expected, NAMES, topk=5)
    find.set_gallery('clips', bank=bank, transform='nnn', neighbours=2, alpha=0.6)
    expected = centred(nnn(scores, scores[1:5], neighbours=2, alpha=0.6), scores)
    assert_ranked(find(TEXTS, topk=5)['predictions'], expected, NAMES, topk=5)
    find.set_gallery('clips', bank=bank, transform='dbsn', temperature=0.1)
    expected = dbsn(scores, scores[1:5], bank_gallery=scores[1:5, 1:5], temperature=0.1)
    expected = centred(expected, scores)
    assert_ranked(find(TEXTS, topk=5)['predictions'], expected, NAMES, topk=5)
    how = dict(transform='inverted_softmax', bank=bank, temperature='model')
    find.set_gallery(TEXTS, kind='text', **how)
    temperature = model.temperature().item()
    expected = inverted_softmax(scores.t(), scores.t()[1:5], temperature=temperature)
    expected = centred(expected, scores.t())
    predictions = find(videos='clips', topk=5)['predictions']
    assert_ranked(predictions, expected, '01234', topk=5)


def test_datasamples_and_files(make, tmp_path):
    find = make('uatvr_planted', gallery='clips')
    told = find(TEXTS[:2], topk=2, out_dir=tmp_path / 'new')['predictions']
    assert json.loads((tmp_path / 'new/predictions.json').read_text()) == told
    assert not (tmp_path / 'new/vis').exists()
    samples = find(TEXTS[:2], topk=2, return_datasamples=True, out_dir=tmp_path)['predictions']
    assert json.loads((tmp_path / 'predictions.json').read_text()) == told
    for sample, prediction in zip(samples, told):
        assert isinstance(sample, RankingSample) and sample.kind == 'text'
        assert sample.ids == [hit['id'] for hit in prediction['hits']]
        assert sample.scores.tolist() == [hit['score'] for hit in prediction['hits']]
        assert sample.item_sigma.shape == (2,) and sample.sigma.item() == prediction['sigma']


def test_broken_videos_of_a_gallery(make, folder, tmp_path):
    for name in ('a', 'b'):
        (tmp_path / f'{name}.mp4').write_bytes((folder / f'clips/{name}.mp4').read_bytes())
    (tmp_path / 'c.mp4').write_bytes(b'no video')
    with pytest.raises(BrokenVideoError, match='c.mp4'):
        make(gallery=tmp_path)
    find = make(gallery=tmp_path, on_broken='skip')
    hits = find('red')['predictions'][0]['hits']
    assert {hit['id']: hit['item'] for hit in hits} == {
        name: str(tmp_path / f'{name}.mp4') for name in 'ab'
    }


def test_features_in_place_of_clips(make, folder, tmp_path):
    cfg = Config.fromfile('toy.py')
    cfg.model.encoder.frames = dict(type='FeatureFrames', in_dim=3, dim=2)
    for side in ('first', 'second'):
        (tmp_path / side).mkdir()
        for n, name in enumerate('xy' if side == 'first' else 'yzu'):
            np.save(tmp_path / side / f'{name}.npy', np.eye(3, dtype=np.float32)[[n, 2]] + 0.1)
    pipeline = [dict(type='LoadFeatures', path=str(tmp_path / 'first'))]
    cfg.test_dataloader.dataset.video_pipeline = pipeline
    model, _ = load_retriever(cfg, None, random_weights=True, device='cpu')
    write_plain(dict(state_dict=model.state_dict()), tmp_path / 'w.pth')
    find = VideoRetrievalInferencer(cfg, tmp_path / 'w.pth', 'cpu', show_progress=False)
    for gallery, ids in ((['x', 'y'], 'xy'), (tmp_path / 'second', 'uyz')):
        find.set_gallery(gallery)
        hits = find('red')['predictions'][0]['hits']
        assert sorted(hit['id'] for hit in hits) == list(ids)
        assert {hit['item'] for hit in hits} == {None}
    with pytest.raises(ValueError, match='holds clips, but the video pipeline .* LoadFeatures'):
        find.set_gallery('clips')
    with pytest.raises(KeyError, match="no features of 1 of 2 videos, e.g. \\['nothing'\\]"):
        find.set_gallery(['x', 'nothing'])


def test_names_of_the_package(tmp_path, monkeypatch, folder):
    names = VideoRetrievalInferencer.list_models('dvtr_c2v_ms*')
    assert {'dvtr_c2v_msrvtt', 'dvtr_c2v_msvd'} < set(names) and 'ssb_msvd' not in names
    monkeypatch.setattr('mmvtr.utils.config_folder', lambda: folder)
    find = VideoRetrievalInferencer('toy', 'toy.pth', show_progress=False, gallery='clips')
    assert len(find('red', topk=2)['predictions'][0]['hits']) == 2


# -- sheets ------------------------------------------------------------------------------------


def test_what_a_sheet_is_given(make, tmp_path, monkeypatch):
    sheets = []

    def draw(prediction, strips):
        sheets.append((prediction, strips))
        return draw_sheet(prediction, strips)

    monkeypatch.setattr('mmvtr.apis.inferencer.inferencer.draw_sheet', draw)
    find = make(gallery='clips')
    found = find(TEXTS[:2], topk=2, visualize=True, num_frames=3, out_dir=tmp_path)
    assert len(found['visualization']) == len(sheets) == 2
    for n, (prediction, strips) in enumerate(sheets):
        assert (tmp_path / f'vis/{n}.png').stat().st_size > 5000
        assert prediction == found['predictions'][n]
        for hit in prediction['hits']:
            frames, lacking = strips[hit['item']]
            assert frames.dtype == np.uint8 and frames.shape[::3] == (3, 3) and not lacking
    assert len({strip.frames.mean() for strip in strips.values()}) > 1


def test_sheets_are_drawn(make, tmp_path):
    find = make('arl_planted', gallery='clips')
    figure = find('red dog', topk=3, visualize=True, out_dir=tmp_path)['visualization'][0]
    assert (tmp_path / 'vis/0.png').stat().st_size > 5000
    said = ' '.join(text.get_text() for text in figure.findobj(lambda x: hasattr(x, 'get_text')))
    hit = find('red dog')['predictions'][0]['hits'][0]
    begin, end = hit['moment']
    expected = (
        '"red dog"',
        f'1. {hit["id"]}',
        f'{hit["score"]:.3f}',
        f'{begin:.1f} to {end:.1f} s',
    )
    assert all(text in said for text in expected), said
    find.set_gallery(TEXTS, kind='text')
    found = find(videos='clips/a.mp4', topk=2, visualize=True)
    said = [
        x.get_text() for x in found['visualization'][0].findobj(lambda x: hasattr(x, 'get_text'))
    ]
    assert any(f'1. {found["predictions"][0]["hits"][0]["item"]}' in text for text in said)
    find = make('uatvr_planted', gallery='clips')
    figure = find('red dog', topk=3, visualize=True)['visualization'][0]
    assert any('sigma of the query' in x for x in map(str, figure.findobj()))


def test_no_sheet_without_files(make):
    find = make(gallery=by_hand('toy')[2])
    with pytest.raises(ValueError, match='the files of some videos are not known'):
        find('red', visualize=True)


# -- bad input ---------------------------------------------------------------------------------


def test_models_that_are_none(folder, tmp_path):
    cases = [
        ('dvtr_c2v_msrvt', ValueError, "no config 'dvtr_c2v_msrvt'; near it: dvtr_c2v_msrvtt"),
        ('qqqq', ValueError, r"no config 'qqqq', only \d+ others"),
        (
            'configs/none.py',
            FileNotFoundError,
            'neither a config file nor a folder: configs/none.py',
        ),
        (None, TypeError, 'expected, found a NoneType'),
        (tmp_path, FileNotFoundError, 'holds no retriever: retriever.json is missing'),
    ]
    for model, kind, message in cases:
        with pytest.raises(kind, match=message):
            VideoRetrievalInferencer(model)
    (tmp_path / 'broken.py').write_text('model = dict(')
    with pytest.raises(ValueError, match='broken.py cannot be read: SyntaxError'):
        VideoRetrievalInferencer(tmp_path / 'broken.py')
    (tmp_path / 'half.py').write_text("model = dict(type='X')")
    with pytest.raises(ValueError, match='has no model, or no test_dataloader'):
        VideoRetrievalInferencer(tmp_path / 'half.py')


def test_weights_that_are_none(folder):
    with pytest.raises(ValueError, match='names no pretrained weights for encoder.*weights=FILE'):
        VideoRetrievalInferencer('toy.py')
    with pytest.raises(FileNotFoundError, match='weights gone.pth do not exist'):
        VideoRetrievalInferencer('toy.py', 'gone.pth')
    with pytest.raises(
        RuntimeError, match='uatvr_planted.pth does not fit this VideoTextRetriever'
    ):
        VideoRetrievalInferencer('toy.py', 'uatvr_planted.pth')


def test_galleries_that_are_none(make, folder, tmp_path):
    find = make()
    encoded = by_hand('toy')[2]
    cases = [
        ([], {}, ValueError, 'videos: at least one expected'),
        ({}, {}, ValueError, 'videos: at least one expected'),
        (7, {}, TypeError, 'videos: expected a file, a folder, .* found a int'),
        (['clips/a.mp4', 3], {}, TypeError, "videos: a path expected, item '1' is 3"),
        ({1: 'clips/a.mp4'}, {}, TypeError, 'videos: ids are strings, found 1'),
        ('gone.mp4', {}, FileNotFoundError, '1 of 1 videos do not exist: gone.mp4'),
        (['clips/a.mp4', 'more/a.mp4'], {}, ValueError, "videos: 2 are called 'a'"),
        (tmp_path, {}, ValueError, 'holds no video and no features'),
        ('clips', dict(kind='sound'), ValueError, "kind must be 'video' or 'text', not 'sound'"),
        (
            'clips',
            dict(batch_size=0),
            ValueError,
            'batch_size must be an integer of 1 or more, not',
        ),
        ([' '], dict(kind='text'), ValueError, "texts: item '0' is empty"),
        (['a', b'b'], dict(kind='text'), TypeError, "a string expected, item '1' is a bytes"),
        (['clips/a.mp4'], dict(kind='text'), ValueError, 'is a file, not a text'),
        (torch.ones(3), {}, ValueError, r'vectors: float \[N, D\] expected, found'),
        (torch.tensor([[1.0], [torch.nan]]), {}, ValueError, 'the vector of item 1 is not finite'),
        (torch.ones(0, 2), {}, ValueError, 'vectors: at least one expected'),
        (encoded._replace(ids=['a'] * 5), {}, ValueError, "vectors: 5 have the id 'a'"),
        ('clips', dict(bank='b.pth'), ValueError, 'a transform and its bank belong together'),
        ('clips', dict(transform='sinkhorn'), ValueError, 'a transform and its bank belong'),
        (
            'clips',
            dict(transform='x', bank='b.pth'),
            ValueError,
            "transform must be .*'x'",
        ),
        (
            'clips',
            dict(transform='sinkhorn', bank='b.pth'),
            FileNotFoundError,
            'bank b.pth does not exist',
        ),
    ]
    for gallery, options, kind, message in cases:
        with pytest.raises(kind, match=message):
            find.set_gallery(gallery, **options)
        assert find.gallery is None
    levels = {'other': encoded.levels['global']}
    with pytest.raises(ValueError, match=r"levels \['other'\], but .* reads 'global'"):
        find.set_gallery(encoded._replace(levels=levels))
    find.set_gallery('clips')
    level = by_hand('toy')[1].levels['global']
    wide = level._replace(mean=torch.ones(5, 3))
    with pytest.raises(ValueError, match="queries are 3 wide at level 'global', the gallery 2"):
        find(vectors=encoded._replace(levels={'global': wide}))
    with pytest.raises(ValueError, match='not inner products with one vector'):
        make('uatvr_planted', gallery=torch.ones(2, 3))
    with pytest.raises(ValueError, match='transform belong to a gallery, but none was given'):
        make(transform='sinkhorn')


def test_a_bank_of_another_model(make, tmp_path):
    state = Queries(by_hand('uatvr_planted')[1].levels, *[torch.arange(5)] * 2).state()
    write_plain(dict(text=state, video=state), tmp_path / 'bank.pth')
    with pytest.raises(ValueError, match="texts of the bank are 128 wide at level 'global', the"):
        make(gallery='clips', transform='sinkhorn', bank=tmp_path / 'bank.pth')


def test_questions_that_are_none(make):
    find = make()
    with pytest.raises(ValueError, match='there is no gallery to search'):
        find('red')
    find.set_gallery('clips')
    cases = [
        ((), {}, ValueError, 'one of texts, videos and vectors expected, got none'),
        (('red',), dict(videos='clips'), ValueError, 'expected, got texts and videos'),
        ((), dict(videos='clips'), ValueError, 'the gallery is one of videos, which texts ask'),
        (
            ('clips/a.mp4',),
            {},
            ValueError,
            "'clips/a.mp4' is a file, not a text: give it as videos=",
        ),
        (([],), {}, ValueError, 'texts: at least one expected'),
        (('red',), dict(topk=0), ValueError, 'topk must be an integer of 1 or more, not'),
        (('red',), dict(topk=2.5), ValueError, "topk must be an integer of 1 or more, not '2.5'"),
        (('red',), dict(topk=True), ValueError, 'topk must be an integer of 1 or more'),
        (('red',), dict(batch_size=-1), ValueError, 'batch_size must be an integer of 1 or more'),
        ((), dict(vectors=['red']), TypeError, 'Encoded items .* expected, found a list'),
        ((), dict(vectors=torch.ones(2, 5)), ValueError, r'queries \[2, 5\] and gallery \[5, 2\]'),
    ]
    for arguments, options, kind, message in cases:
        with pytest.raises(kind, match=message):
            find(*arguments, **options)
    find = make('uatvr_planted', gallery=['red'], kind='text')
    with pytest.raises(ValueError, match='the gallery is one of texts, which videos ask'):
        find('red')
    find.set_gallery('clips')
    with pytest.raises(KeyError, match='zebra'):
        find('red zebra')


@pytest.mark.parametrize('given', [None, True, False])
@pytest.mark.parametrize('own', [True, False])
def test_bars_of_a_call(make, folder, capsys, own, given):
    find = make(show_progress=own, gallery='clips')
    capsys.readouterr()
    chosen = {} if given is None else dict(show_progress=given)
    find('a dog', **chosen)
    asked = ''.join(capsys.readouterr())
    find.set_gallery('clips', **chosen)
    told = ''.join(capsys.readouterr())
    shown = own if given is None else given
    assert ('encoded' in asked, 'encoded' in told) == (shown, shown)
    assert find.show_progress is own


@pytest.mark.parametrize('workers', [0, 2])
def test_a_broken_video_is_one_sentence(make, folder, tmp_path, workers):
    for name in 'ab':
        (tmp_path / f'{name}.mp4').write_text('no video')
    find = make()
    find.cfg.test_dataloader.num_workers = workers
    with pytest.raises(BrokenVideoError) as raised:
        find.set_gallery(tmp_path, batch_size=1)
    message = str(raised.value)
    assert 'a.mp4' in message and '\n' not in message and 'Caught' not in message


def test_no_name_of_ours_in_a_message(make, folder):
    find = make(gallery='clips')
    with pytest.raises(ValueError) as raised:
        mmvtr.apis.encode_texts(find.model, find.cfg, ['a dog', ''])
    assert '_Loose' not in str(raised.value) and 'text 1' in str(raised.value)


@pytest.mark.parametrize('method', ['platt', 'temperature'])
def test_a_calibration_gives_each_hit_a_probability(make, method):
    _, _, _, scores = by_hand('toy')
    matches = torch.zeros(scores.shape).bool().scatter(1, scores.argmax(1, keepdim=True), True)
    fit = fit_to_pairs(scores, matches, method=method, draws=0)
    find = make()
    find.set_gallery('clips', calibration=fit)
    expected = fit.probabilities(scores, candidates=scores.shape[1])
    for row, prediction in zip(expected, find(TEXTS, topk=3)['predictions']):
        assert len(prediction['hits']) == 3
        for hit in prediction['hits']:
            assert hit['p_match'] == pytest.approx(row[NAMES.index(hit['id'])].item(), abs=1e-4)
    find.set_gallery('clips')
    assert 'p_match' not in find(TEXTS)['predictions'][0]['hits'][0]
    with pytest.raises(TypeError, match='Calibration'):
        find.set_gallery('clips', calibration=fit.to_dict())
    with pytest.raises(ValueError, match='no biases'):
        find.set_gallery('clips', calibration=dataclasses.replace(fit, debiased=True))
