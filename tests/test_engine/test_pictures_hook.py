"""Which pictures an evaluation gives, of what, when, and what is said of those that it cannot."""

import logging
from copy import deepcopy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from mmengine.runner import BaseLoop, EpochBasedTrainLoop
from torch.nn.functional import cross_entropy

import mmvtr.engine.hooks.pictures as pictures
from mmvtr.engine.hooks.pictures import PICTURES, lacking
from mmvtr.engine.hooks.pictures_hook import PicturesHook, figures, request_for
from mmvtr.engine.hooks.score_transforms import SinkhornHook
from mmvtr.engine.hooks.tested_model import TestedModel
from mmvtr.engine.loops.evaluation import Encoded, Evaluation
from mmvtr.functional.uncertainty.gaussian import geometric_sigma
from mmvtr.models.annotation import match
from mmvtr.models.similarities.best_frame import BestFrameSimilarity
from mmvtr.models.supervisions.dvtr import DVTRSupervision, relative_uncertainty
from mmvtr.models.supervisions.early_teacher import EarlyTeacher
from mmvtr.models.supervisions.relative_scores import RelativeScoreSupervision
from mmvtr.models.supervisions.teachers import StoredTeachers
from mmvtr.models.target import Target
from mmvtr.structures import Directed, Embedding, Relation
from tests.test_dist import make_batch
from tests.test_models.test_early_teacher import make_model, steps

T, V, F, D = 9, 6, 4, 5
GAMMA = 0.2
#: The encoded videos of a dataset of seven, the second of which could not be read.
ENCODED = [0, 2, 3, 4, 5, 6]
#: Text 3 fits videos 1 and 2 of the encoded ones; all others fit but their own.
ALSO = [(3, 1), (3, 2)]


def gaussian(count):
    return Embedding(torch.randn(count, D), log_std=torch.randn(count, D) / 4 - 1)


@pytest.fixture
def dataset():
    """Records without files; text t is of the encoded video t % V; texts below 4 have moments."""
    videos = [dict(video_id=f'v{v}', duration=8.0) for v in range(7)]
    texts = [
        dict(text_id=f't{t}', text=f'text {t}', video_idx=[ENCODED[t % V]])
        | (dict(start=2.0, end=6.0) if t < 4 else {})
        for t in range(T)
    ]
    return SimpleNamespace(
        videos=videos, texts=texts, video_pipeline=SimpleNamespace(transforms=[])
    )


@pytest.fixture
def evaluation(dataset):
    torch.manual_seed(0)
    mask = torch.arange(F) < torch.tensor([4, 4, 3, 4, 2, 4])[:, None]
    texts = {'global': Embedding(torch.randn(T, D)), 'gaussian': gaussian(T)}
    videos = {
        'global': Embedding(torch.randn(V, D), torch.randn(V, F, D), mask),
        'gaussian': gaussian(V),
    }
    model = SimpleNamespace(
        similarity=BestFrameSimilarity(),
        supervision=DVTRSupervision(floor=0.0),
        heads=dict(text=1, video=1),
        data_preprocessor=SimpleNamespace(device='cpu'),
    )
    positives = torch.arange(V) == torch.arange(T)[:, None] % V
    truth = positives.clone()
    truth[tuple(zip(*ALSO))] = True
    matrices = model.similarity(texts, videos) | dict(temperature=torch.tensor(GAMMA))
    for kind, side in (('text', texts), ('video', videos)):
        matrices[f'{kind}_sigma'] = geometric_sigma(side['gaussian'].log_std)
    return Evaluation(
        model,
        torch.device('cpu'),
        Encoded(torch.arange(T), [f't{t}' for t in range(T)], texts, torch.ones(T)),
        Encoded(torch.tensor(ENCODED), [f'v{v}' for v in ENCODED], videos, mask.sum(1)),
        matrices,
        Relation(positives, truth=truth),
        dataset=dataset,
    )


def drawn(evaluation, queries=3, chosen=tuple(PICTURES), transforms=(), **options):
    """(Name -> figure, warnings)."""
    said = []
    asked = request_for(TestedModel(evaluation, transforms), queries, **options)
    return dict(figures(asked, chosen, said.append)), said


def places(names, ids):
    return [ids.index(name.get_text()) for name in names]


def test_all_of_them(evaluation):
    found, said = drawn(evaluation)
    assert list(found) == [
        'score_matrix',
        'sheet_0',
        'sheet_1',
        'sheet_2',
        'hubs',
        'eta',
        'sigma',
    ] + [f'moment_{i}' for i in range(3)]
    assert not said


def test_weights_are_those_of_a_training_batch(evaluation, dataset):
    figure = drawn(evaluation, ['t8', 't3'], ['score_matrix'])[0]['score_matrix']
    scores, weights = figure.axes[:2]
    rows = places(scores.get_yticklabels(), [text['text'] for text in dataset.texts])
    columns = places(scores.get_xticklabels(), evaluation.videos.ids)
    assert rows[:2] == [8, 3] and sorted(rows) == list(range(T))
    assert columns[:2] == [8 % V, 3] and sorted(columns) == list(range(V))

    def part(matrix):
        return matrix[rows][:, columns]

    np.testing.assert_allclose(scores.images[0].get_array(), part(evaluation.matrices['scores']))
    levels = evaluation.texts.levels, evaluation.videos.levels
    with torch.no_grad():
        p = evaluation.model.supervision.match_logits(*levels).sigmoid()
    known = evaluation.relation
    expected = relative_uncertainty(part(p), part(known.positives), floor=0.0)
    np.testing.assert_allclose(weights.images[0].get_array().data, expected, atol=1e-6)
    soft = (part(known.truth) & ~part(known.positives)).nonzero().flip(1)
    assert scores.collections[0].get_offsets().tolist() == soft.tolist()


def test_weights_go_with_the_training(evaluation):
    """A validation during the ramp, and a test at the end."""
    supervision = evaluation.model.supervision = DVTRSupervision(floor=0.0, ramp=(0.2, 0.6))
    supervision.progress = 0.4
    means = {}
    for mode in ('val', 'test'):
        evaluation.mode = mode
        figure = drawn(evaluation, 3, ['score_matrix'])[0]['score_matrix']
        means[mode] = 1 - figure.axes[1].images[0].get_array().data.mean()
        assert supervision.progress == 0.4
    assert 0 < means['val'] == pytest.approx(means['test'] / 2)


def test_weights_are_those_of_the_teacher_that_acts(dataset, monkeypatch):
    """Not those of the model itself, which has gone on; before it acts, the model's own."""
    model = make_model(EarlyTeacher(at=0.5)).float()
    inputs, samples = make_batch(slice(0, 5), slice(0, 7))
    inputs = {k: x.float() if x.is_floating_point() else x for k, x in inputs.items()}
    steps(model, [(inputs, samples)] * 3, [0.4, 0.5, 0.6])
    monkeypatch.setattr(pictures, 'batch_of', lambda *_: dict(inputs=inputs, data_samples={}))
    model.eval()
    with torch.no_grad():
        sides = model(inputs, samples, mode='tensor')
        known = Target(match(samples, torch.device('cpu')))
        expected = {'val': model.supervision(*sides, known)[0].weights}
        copy = model.teacher.copy
        before = deepcopy(model)
        for name in ('encoder', 'heads', 'supervision'):
            setattr(before, name, deepcopy(getattr(copy, name)))
        before.supervision.progress = 1.0
        expected['test'] = before.supervision(*before(inputs, mode='tensor'), known)[0].weights
    model.teacher.progress = 0.2
    whole = [Encoded(torch.arange(len(one['global'].mean)), [], one, None) for one in sides]
    relation = Relation(known.positives)
    for mode in ('val', 'test'):
        made = Evaluation(
            model, torch.device('cpu'), *whole, {}, relation, mode=mode, dataset=dataset
        )
        own = known.positives
        places = [[*range(n)] for n in own.shape]
        found = pictures.training_weights(TestedModel(made), *places)
        torch.testing.assert_close(found[~own], expected[mode][~own])
        assert model.teacher.progress == 0.2
    assert (expected['val'] - expected['test']).abs().max() > 0.05


@pytest.mark.parametrize('agreement', [None, 'teachers', 0.0, 0.1])
def test_a_matrix_without_weights(evaluation, agreement, monkeypatch):
    """No supervision, teachers', one that reads scores, and one that reads what training brings."""
    said = []
    monkeypatch.setattr(pictures, 'print_log', lambda text, logger: said.append(text))
    evaluation.model.supervision = None
    if agreement == 'teachers':  # whose vectors the items of a test lack
        evaluation.model.supervision = StoredTeachers(teachers=['x'])
    elif agreement is not None:
        evaluation.model.supervision = RelativeScoreSupervision(agreement=agreement)
    figure = drawn(evaluation, 3, ['score_matrix'])[0]['score_matrix']
    panels = [axis.get_title() for axis in figure.axes]
    assert ('weight as a negative' in panels) == (agreement == 0)
    assert len(said) == (agreement == 0.1)
    assert not said or said[0].startswith('score_matrix is drawn without weights: Relative')


@pytest.fixture
def sheets(monkeypatch):
    """What retrieval_sheet is called with."""
    calls = []
    monkeypatch.setattr(pictures, 'retrieval_sheet', lambda *a, **k: calls.append((*a, k)))
    return calls


def test_sheets(evaluation, sheets):
    scores = evaluation.matrices['scores']
    bias = torch.randn(V)
    evaluation.transformed['sinkhorn'] = Directed(scores + bias, scores)
    evaluation.transformed['odd'] = Directed(scores * scores, scores)
    for transforms in (['odd', 'sinkhorn'], ['odd']):
        sheets.clear()
        drawn(evaluation, ['t3', 't7'], ['sheet'], transforms=transforms, top=4)
        for row, (text, items, options) in zip((3, 7), sheets):
            assert text == f'text {row}'
            best = scores[row].argsort(descending=True)[:4].tolist()
            assert [item.title for item in items] == [f'v{ENCODED[v]}' for v in best]
            rank = scores[row].argsort(descending=True).tolist().index(row % V) + 1
            assert 'best 4 of 6 videos' in options['subtitle']
            assert options['subtitle'].endswith(f'has rank {rank}')
            assert options['sigma'] == float(evaluation.matrices['text_sigma'][row])
            for v, item in zip(best, items):
                right = 'annotated' if v == row % V else 'judged' if (row, v) in ALSO else None
                assert item.right == right and item.score == float(scores[row, v])
                assert item.sigma == float(evaluation.matrices['video_sigma'][v])
                assert (len(item.frames), item.lacking) == (0, 'no frames')
                frames = int(evaluation.videos.lengths[v])
                begin, end = item.moment
                assert end - begin == pytest.approx(8 / frames) and item.duration == 8
                if 'sinkhorn' in transforms:
                    assert item.bias == pytest.approx(float(bias[v]), abs=1e-5)
                else:
                    assert item.bias is None
            assert ('bias of sinkhorn' in options['subtitle']) == ('sinkhorn' in transforms)
    assert {item.right for _, items, _ in sheets for item in items} >= {'judged', None}


def test_the_loss_of_a_pair_as_a_match(evaluation):
    axis = drawn(evaluation, 3, ['eta'])[0]['eta'].axes[0]
    logits = evaluation.matrices['scores'] / GAMMA
    with torch.no_grad():
        levels = evaluation.texts.levels, evaluation.videos.levels
        eta = 1 - evaluation.model.supervision.match_logits(*levels).sigmoid()
    expected = {
        (
            round(float(cross_entropy(logits[t], torch.tensor(v))
                        + cross_entropy(logits[:, v], torch.tensor(t))) / 2, 3),
            round(float(eta[t, v]), 3),
        )
        for t in range(T) for v in range(V)
    }  # fmt: skip
    dots = np.concatenate([x.get_offsets() for x in axis.collections])
    assert {(round(x, 3), round(y, 3)) for x, y in dots.tolist()} == expected
    counts = [len(x.get_offsets()) for x in axis.collections]
    assert counts == [T * V - T - len(ALSO), len(ALSO), T]


def test_a_supervision_without_eta_is_said(evaluation):
    evaluation.model.supervision = SimpleNamespace(matrices=lambda *levels: dict(theta=1))
    found, said = drawn(evaluation, 3, ['eta', 'hubs'])
    assert list(found) == ['hubs']
    assert said == ["picture eta is left out: the supervision gives ['theta'], expected eta"]


def test_generality_is_the_truth_or_the_spread_of_scores(evaluation):
    axis = drawn(evaluation, 3, ['sigma'])[0]['sigma'].axes[0]
    sigma = evaluation.matrices['text_sigma']
    dots = axis.collections[0].get_offsets()
    assert dots[:, 0].tolist() == [1, 1, 1, 3, 1, 1, 1, 1, 1]
    np.testing.assert_allclose(dots[:, 1], sigma)
    evaluation.relation = evaluation.relation._replace(truth=None)
    scores = evaluation.matrices['scores']
    scores[0], scores[1] = 0.0, torch.tensor([99.0] + [0.0] * (V - 1))
    axis = drawn(evaluation, 3, ['sigma'])[0]['sigma'].axes[0]
    spread = axis.collections[0].get_offsets()[:, 0]
    assert spread[0] == pytest.approx(V, rel=1e-5) and spread[1] == pytest.approx(1)
    assert 'perplexity' in axis.get_xlabel()


def test_moments_of_own_videos_and_of_best_hits(evaluation):
    found, _ = drawn(evaluation, ['t2', 't7'], ['moment'])
    scores = evaluation.matrices['scores']
    for row, axis in zip((2, 7), (figure.axes[0] for figure in found.values())):
        column = 2 if row == 2 else int(scores[row].argmax())
        values, edges, _ = axis.patches[0].get_data()
        assert max(values) == pytest.approx(float(scores[row, column]))
        assert len(values) == int(evaluation.videos.lengths[column]) and edges[-1] == 8
        spans = {x.get_label(): (x.get_x(), x.get_x() + x.get_width()) for x in axis.patches[1:]}
        best = int(np.argmax(values))
        assert spans['matched moment'] == pytest.approx(tuple(edges[best : best + 2]))
        assert spans.get('annotated moment') == ((2, 6) if row == 2 else None)
        assert f'video v{ENCODED[column]}' in axis.get_title()


# -- what there is not -------------------------------------------------------------------------


def test_what_a_model_lacks(evaluation):
    assert lacking(evaluation.model) == {}
    plain = SimpleNamespace(similarity=object(), supervision=None, heads={})
    assert lacking(plain) == dict(
        eta='a DVTRSupervision', sigma='probabilistic heads', moment='a BestFrameSimilarity'
    )
    together = SimpleNamespace(
        similarity=BestFrameSimilarity(), members=[evaluation.model, evaluation.model]
    )
    assert list(lacking(together)) == ['eta']
    together.members.append(plain)
    assert list(lacking(together)) == ['eta', 'sigma']
    assert lacking(None) == dict.fromkeys(('eta', 'sigma', 'moment'), 'a model')


def test_a_shortlist_shows_hits_only(evaluation):
    evaluation.exact = False
    found, said = drawn(evaluation, 1)
    assert list(found) == ['sheet_0', 'moment_0'] and not said


def test_a_collapsed_model_ends_no_training(evaluation):
    evaluation.matrices['scores'] = torch.full((T, V), 0.5)
    assert not drawn(evaluation)[1]
    evaluation.matrices['scores'][4, 1] = torch.nan
    found, said = drawn(evaluation, ['t4'], ['score_matrix', 'hubs', 'moment'])
    assert list(found) == ['moment_0'] and len(said) == 2
    assert said[1] == 'picture hubs is left out: before is nan at [4, 1]: finite numbers expected'


# -- the hook ----------------------------------------------------------------------------------


class Loop(BaseLoop):
    def __init__(self, dataset):
        self.dataloader = SimpleNamespace(dataset=dataset)

    def run(self):
        pass


@pytest.fixture
def runner(evaluation, dataset, caplog):
    shown = []
    loop = Loop(dataset)
    return SimpleNamespace(
        model=evaluation.model,
        hooks=[],
        logger=logging.getLogger('pictures'),
        _train_loop=None,
        _val_loop=loop,
        _test_loop=None,
        val_loop=loop,
        test_loop=loop,
        shown=shown,
        visualizer=SimpleNamespace(
            _vis_backends={}, add_image=lambda name, image, step: shown.append((name, step))
        ),
    )


def test_names_steps_and_time(runner, evaluation, caplog):
    caplog.set_level(logging.INFO)
    hook = PicturesHook(pictures='hubs')
    hook.after_scoring(runner, evaluation)
    evaluation.mode = 'val'
    hook.after_scoring(runner, evaluation)
    assert runner.shown == [('test_hubs', 0), ('val_hubs', 0)]
    assert all(' s: hubs' in line and line.startswith('1 pictures in') for line in caplog.messages)
    PicturesHook(pictures='hubs', modes='test').after_scoring(runner, evaluation)
    assert len(runner.shown) == 2


def test_transforms_are_told_from_members(runner, evaluation, monkeypatch):
    calls = []
    monkeypatch.setattr(pictures, 'hubs', lambda before, after: calls.append(list(after)))
    monkeypatch.setattr('mmvtr.engine.hooks.pictures_hook.show', lambda *a: None)
    scores = evaluation.matrices['scores']
    for name in ('member_0', 'sinkhorn'):
        evaluation.transformed[name] = Directed(scores, scores)
    runner.hooks = [SinkhornHook(queries='bank', bank_file='b'), PicturesHook()]
    runner.hooks.append(SinkhornHook(queries='test'))  # has left itself out
    PicturesHook(pictures='hubs').after_scoring(runner, evaluation)
    assert calls == [['sinkhorn']]


@pytest.mark.parametrize('by_epoch', [True, False])
def test_interval(runner, evaluation, monkeypatch, by_epoch):
    """Validations at 2, 4, 6, 8 and at the end, 9; of those every other one and the last."""
    evaluation.mode = 'val'
    loop = Loop(None)
    if by_epoch:
        loop = EpochBasedTrainLoop.__new__(EpochBasedTrainLoop)
    loop.val_interval = 2
    runner._train_loop = loop
    runner.max_epochs, runner.max_iters = (9, 99) if by_epoch else (1, 9)
    monkeypatch.setattr(
        'mmvtr.engine.hooks.pictures_hook.show', lambda v, name, f, at: shown.append(at)
    )
    shown = []
    for at in (2, 4, 6, 8, 9):
        runner.epoch, runner.iter = (at, 11 * at) if by_epoch else (0, at)
        PicturesHook(pictures='hubs', interval=2).after_scoring(runner, evaluation)
    assert shown == [4, 8, 9]


def test_what_is_left_out_is_said_once(runner, caplog):
    caplog.set_level(logging.INFO)
    runner.model = SimpleNamespace(similarity=object(), supervision=None, heads={})
    hook = PicturesHook(pictures=['hubs', 'eta', 'sigma'])
    hook.before_run(runner)
    hook.before_run(runner)
    assert caplog.messages == [
        'pictures left out: eta (needs a DVTRSupervision), sigma (needs probabilistic heads)'
    ]


def test_queries(runner, evaluation):
    PicturesHook(queries=['t1', 't2']).before_run(runner)
    with pytest.raises(ValueError, match="no text has the id 'x'; the 9 known ones: t0, t1"):
        PicturesHook(queries=['t1', 'x']).before_run(runner)
    study = TestedModel(evaluation)
    assert request_for(study, ['t5', 'x', 't1']).rows() == [5, 1]
    draws = [request_for(study, 4, seed=seed).queries for seed in (0, 0, 1)]
    assert draws[0] == draws[1] != draws[2] and len(set(draws[0])) == 4
    found, said = drawn(evaluation, ['of another set'], ['sheet', 'moment'])
    reason = 'the set has none of the queries'
    assert not found and said == [f'picture {p} is left out: {reason}' for p in ('sheet', 'moment')]
    assert PicturesHook(queries=[7010]).queries == ['7010']


@pytest.mark.parametrize(
    ('options', 'said'),
    [
        (dict(pictures=['hubs', 'matrix']), "score_matrix, sheet, hubs, .* expected, got 'matrix'"),
        (dict(pictures=[]), 'got none'),
        (
            dict(queries=7010),
            r'queries must be 1 to 50, not 7010 \(give ids of texts as a list, \[7010\]',
        ),
        (dict(queries=0), 'queries must be 1 to 50, not 0'),
        (dict(queries=['a', 'a']), 'an id occurs twice'),
        (dict(interval=0), 'interval must be at least 1, not 0'),
        (dict(top=21), 'top must be 1 to 20, not 21'),
        (dict(seed=-1), 'seed must be at least 0'),
        (dict(modes=['train']), 'modes must be some of'),
        (dict(modes=[]), 'modes must be some of'),
    ],
)
def test_bad_arguments(options, said):
    with pytest.raises(ValueError, match=said):
        PicturesHook(**options)
