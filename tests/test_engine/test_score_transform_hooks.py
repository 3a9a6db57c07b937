"""Test-time transforms in an evaluation: what they add, what they refuse, what they say."""

import logging
from types import SimpleNamespace

import pytest
import torch
from torch.nn.functional import normalize

from mmvtr.engine import HedgedScalingHook, LocalScalingHook
from mmvtr.engine.hooks import score_transforms as hooks
from mmvtr.engine.hooks.query_queue import Queries, QueryQueueHook
from mmvtr.engine.hooks.stored_queries import read_bank
from mmvtr.engine.loops.evaluation import Encoded, Evaluation
from mmvtr.evaluation import RetrievalMetric, SoftPositiveMetric, evaluate, transforms_table
from mmvtr.functional.transforms import score_transforms as fn
from mmvtr.functional.transforms.dual_banks import db_norm, dbsn
from mmvtr.functional.transforms.sinkhorn import sinkhorn
from mmvtr.functional.transforms.transform_table import TRANSFORMS
from mmvtr.models.similarities.cosine import CosineSimilarity
from mmvtr.models.similarities.token import TokenSimilarity
from mmvtr.models.temperature import Temperature
from mmvtr.structures import Embedding, Relation

T, V, K, D = 7, 5, 12, 4
GAMMA = 0.1
ALL_HOOKS = [
    hooks.SinkhornHook,
    hooks.InvertedSoftmaxHook,
    hooks.DualSoftmaxHook,
    hooks.QBNormHook,
    hooks.CSLSHook,
    hooks.UnbalancedSinkhornHook,
    LocalScalingHook,
    hooks.NNNHook,
]
#: Arguments beside the queries.
ARGUMENTS = {
    **{
        kind: dict(temperature='model')
        for kind in ALL_HOOKS
        if 'temperature' in TRANSFORMS[kind.default_name].options
    },
    hooks.CSLSHook: dict(neighbours=3),
    LocalScalingHook: dict(t2v=0.3, v2t=0.3, share=0.25),
    hooks.NNNHook: dict(neighbours=3),
}


def vectors(count, seed):
    return torch.randn(count, D, generator=torch.Generator().manual_seed(seed))


def encoded(kind, count, seed):
    ids = [f'{kind}{i}' for i in range(count)]
    levels = {'global': Embedding(vectors(count, seed))}
    return Encoded(torch.arange(count), ids, levels, torch.ones(count, dtype=torch.long))


@pytest.fixture
def evaluation():
    texts, videos = encoded('text', T, 0), encoded('video', V, 1)
    model = SimpleNamespace(similarity=CosineSimilarity(), temperature=Temperature(init=GAMMA))
    matrices = model.similarity(texts.levels, videos.levels)
    positives = torch.zeros(T, V, dtype=torch.bool)
    positives[torch.arange(T), torch.arange(T) % V] = True
    return Evaluation(
        model,
        torch.device('cpu'),
        texts,
        videos,
        {**matrices, 'temperature': model.temperature().detach()},
        Relation(positives),
    )


@pytest.fixture
def runner():
    """A runner whose queue holds K queries of each modality, of three training videos."""
    queue = QueryQueueHook(size=100)
    for seed, kind in ((2, 'text'), (3, 'video')):
        levels = {'global': Embedding(vectors(K, seed))}
        video = torch.tensor([0] * 8 + [1] * 3 + [2])
        queue.queues[kind].push(Queries(levels, torch.arange(K), video))
    return SimpleNamespace(hooks=[queue], logger=logging.getLogger('transforms'))


def bank_scores():
    """Scores [K, V] of the text queries, [T, K] of the video queries."""
    t2v = normalize(vectors(K, 2), dim=1) @ normalize(vectors(V, 1), dim=1).t()
    v2t = normalize(vectors(T, 0), dim=1) @ normalize(vectors(K, 3), dim=1).t()
    return t2v, v2t


FUNCTIONS = dict(
    sinkhorn=lambda s, g: fn.sinkhorn_scores(s, g, temperature=GAMMA),
    unbalanced_sinkhorn=lambda s, g: fn.unbalanced_sinkhorn(s, g, temperature=GAMMA),
    inverted_softmax=lambda s, g: fn.inverted_softmax(s, g, temperature=GAMMA),
    dual_softmax=lambda s, g: fn.dual_softmax(s, g, temperature=GAMMA),
    qb_norm=lambda s, g: fn.qb_norm(s, g, temperature=GAMMA, neighbours=1),
    csls=lambda s, g: fn.csls(s, g, neighbours=3),
    nnn=lambda s, g: fn.nnn(s, g, neighbours=3),
    local_scaling=lambda s, g: fn.local_scaling(s, g, strength=0.3, share=0.25),
)


def close(found, expected, name='', bank=None):
    """Alike within each query, up to a constant; CSLS in score units, DSL without its factor."""
    expected = expected / dict(csls=2, dual_softmax=K if bank is None else bank).get(name, 1)
    found, expected = (x - x.mean(1, keepdim=True) for x in (found, expected))
    torch.testing.assert_close(found, expected)


def build(kind, **kwargs):
    return kind(**ARGUMENTS.get(kind, {}), **kwargs)


@pytest.mark.parametrize('kind', ALL_HOOKS)
def test_the_train_queue(kind, runner, evaluation):
    hook = build(kind, queries='train_queue')
    hook.after_scoring(runner, evaluation)
    scores, (t2v, v2t) = evaluation.matrices['scores'], bank_scores()
    function = FUNCTIONS[hook.name]
    ours = evaluation.transformed[hook.name]
    close(ours.t2v, function(scores, t2v), hook.name)
    close(ours.v2t.t(), function(scores.t(), v2t.t()), hook.name)
    assert not evaluation.transductive
    note = evaluation.notes[hook.name]
    assert 'train queue, 12 texts (12 distinct), 12 videos' in note and 'inductive' in note
    assert ('temperature 0.1' in note) == ('temperature' in TRANSFORMS[hook.name].options)


@pytest.mark.parametrize('kind', ALL_HOOKS)
def test_the_test_queries_are_an_oracle(kind, runner, evaluation):
    hook = build(kind, queries='test')
    hook.after_scoring(runner, evaluation)
    scores = evaluation.matrices['scores']
    function = FUNCTIONS[hook.name.removesuffix('_oracle')]
    ours = evaluation.transformed[hook.name]
    name = hook.name.removesuffix('_oracle')
    close(ours.t2v, function(scores, scores), name, T)
    close(ours.v2t.t(), function(scores.t(), scores.t()), name, V)
    assert evaluation.transductive == {hook.name}
    assert 'transductive' in evaluation.notes[hook.name]


def test_a_bank_file(runner, evaluation, tmp_path):
    stored = {kind: queue.queries().state() for kind, queue in runner.hooks[0].queues.items()}
    torch.save(stored, tmp_path / 'bank.pt')
    hook = hooks.SinkhornHook(queries='bank', bank_file=str(tmp_path / 'bank.pt'))
    hook.after_scoring(SimpleNamespace(hooks=[], logger=runner.logger), evaluation)
    hooks.SinkhornHook(queries='train_queue', name='again').after_scoring(runner, evaluation)
    ours = evaluation.transformed
    torch.testing.assert_close(ours['sinkhorn'].t2v, ours['again'].t2v)
    assert 'bank.pt, 12 texts' in evaluation.notes['sinkhorn']


def test_every_training_video_counts_once(runner, evaluation):
    """'per_video' gives what a bank with one copy of each query's video mass would give."""
    how = dict(marginals='per_video', temperature=GAMMA)
    hook = hooks.SinkhornHook(queries='train_queue', **how)
    hook.after_scoring(runner, evaluation)
    t2v, _ = bank_scores()
    weights = torch.tensor([1 / 8] * 8 + [1 / 3] * 3 + [1.0]) / 3
    biases = sinkhorn(t2v, temperature=GAMMA, row_marginals=weights)
    close(evaluation.transformed['sinkhorn'].t2v, evaluation.matrices['scores'] + biases.columns)


def test_raw_numbers_stand_beside(runner, evaluation):
    hooks.SinkhornHook(queries='train_queue').after_scoring(runner, evaluation)
    truth = evaluation.relation.positives.clone()
    truth[0, 1:] = True
    relation = evaluation.relation._replace(truth=truth)
    metrics = [RetrievalMetric(), SoftPositiveMetric(reads=('eta',))]
    matrices = {**evaluation.matrices, 'eta': torch.rand(T, V)}
    report = evaluate(metrics, matrices, relation, evaluation.transformed)
    assert report.values == evaluate(metrics, matrices, relation).values
    of_sinkhorn = report.transformed['sinkhorn']
    # Each direction by its own matrix; metrics of other matrices are not called again.
    ours = evaluation.transformed['sinkhorn']
    for key, matrix in (('t2v_MnR', ours.t2v), ('v2t_MnR', ours.v2t)):
        alone = RetrievalMetric()({'scores': matrix}, relation)[key]
        assert of_sinkhorn[f'retrieval/{key}'] == alone
    assert not any(key.startswith('soft_positive') for key in of_sinkhorn)
    shown = transforms_table(report)
    assert (
        'sinkhorn' in shown and 'raw' in shown and f'{report.values["retrieval/rsum"]:.1f}' in shown
    )


def test_a_small_queue_is_warned_of(runner, evaluation, caplog):
    hooks.InvertedSoftmaxHook(queries='train_queue').after_scoring(runner, evaluation)
    assert not caplog.records
    for queue in runner.hooks[0].queues.values():
        queue.size = 6
        queue.push(Queries({'global': Embedding(vectors(1, 9))}, *torch.zeros(2, 1).long()))
    again = hooks.InvertedSoftmaxHook(queries='train_queue', name='again')
    again.after_scoring(runner, evaluation)
    (record,) = caplog.records
    assert '6 distinct video queries are fewer than the 7 items' in record.message


@pytest.mark.parametrize('kind', ALL_HOOKS)
def test_queries_are_looked_for_before_a_test(kind, runner):
    empty = SimpleNamespace(hooks=[QueryQueueHook(size=3)], logger=runner.logger)
    with pytest.raises(RuntimeError, match='was never filled'):
        build(kind, queries='train_queue').before_test(empty)
    with pytest.raises(FileNotFoundError, match='nowhere.pt does not exist'):
        build(kind, queries='bank', bank_file='nowhere.pt').before_test(runner)
    build(kind, queries='train_queue').before_test(runner)
    build(kind, queries='test').before_test(empty)


def test_it_never_falls_back(runner, evaluation):
    empty = SimpleNamespace(hooks=[QueryQueueHook(size=3)], logger=runner.logger)
    with pytest.raises(RuntimeError, match='queue of text and video queries was never filled'):
        hooks.SinkhornHook(queries='train_queue').after_scoring(empty, evaluation)
    none = SimpleNamespace(hooks=[], logger=runner.logger)
    with pytest.raises(RuntimeError, match='needs a QueryQueueHook'):
        hooks.CSLSHook(queries='train_queue').after_scoring(none, evaluation)
    with pytest.raises(FileNotFoundError, match='nowhere.pt does not exist'):
        hooks.QBNormHook(queries='bank', bank_file='nowhere.pt').after_scoring(none, evaluation)
    assert not evaluation.transformed


def test_bad_banks(tmp_path):
    torch.save(dict(state_dict={}), tmp_path / 'model.pth')
    with pytest.raises(RuntimeError, match="is not a bank: it holds \\['state_dict'\\]"):
        read_bank(tmp_path / 'model.pth')
    nothing = Queries({'global': Embedding(torch.zeros(0, D))}, *torch.zeros(2, 0).long()).state()
    torch.save(dict(text=nothing, video=nothing), tmp_path / 'empty.pt')
    with pytest.raises(ValueError, match='empty.pt: the bank holds no text queries'):
        read_bank(tmp_path / 'empty.pt')


@pytest.mark.parametrize('kind, part', [('text', 'mean'), ('video', 'tokens'), ('text', 'log_std')])
def test_a_bank_that_is_not_finite(tmp_path, kind, part):
    def queries(broken):
        fields = dict(mean=torch.ones(3, D), log_std=torch.ones(3, D), tokens=torch.ones(3, 2, D))
        if broken:
            fields[part][2] = torch.tensor(float('inf'))
        return Queries({'global': Embedding(**fields)}, *torch.zeros(2, 3).long()).state()

    torch.save({side: queries(side == kind) for side in ('text', 'video')}, tmp_path / 'b.pt')
    with pytest.raises(ValueError, match=f"b.pt: level 'global' of {kind} queries: query 2 is not"):
        read_bank(tmp_path / 'b.pt')


def test_a_bank_of_another_width(runner, evaluation):
    evaluation.videos.levels['global'] = Embedding(torch.randn(V, D + 1))
    with pytest.raises(ValueError, match="texts of the bank are 4 wide at level 'global', the"):
        hooks.SinkhornHook(queries='train_queue').after_scoring(runner, evaluation)


def test_a_bank_without_the_level(runner, evaluation):
    evaluation.model.similarity = CosineSimilarity(levels=('local',))
    with pytest.raises(ValueError, match="the levels \\['global'\\], but CosineSimilarity reads"):
        hooks.SinkhornHook(queries='train_queue').after_scoring(runner, evaluation)


def test_two_transforms_of_one_name(runner, evaluation):
    hooks.SinkhornHook(queries='train_queue').after_scoring(runner, evaluation)
    hooks.SinkhornHook(queries='train_queue', name='other').after_scoring(runner, evaluation)
    again = hooks.SinkhornHook(queries='train_queue', marginals='per_video')
    with pytest.raises(ValueError, match="two transforms are called 'sinkhorn'"):
        again.after_scoring(runner, evaluation)


def test_a_collapsed_model_is_refused_but_ends_no_training(runner, evaluation, caplog):
    evaluation.matrices['scores'] = torch.full((T, V), 0.5)
    for kind in ALL_HOOKS:
        evaluation.mode = 'test'
        with pytest.raises(ValueError, match='all one value'):
            build(kind, queries='test').after_scoring(runner, evaluation)
        evaluation.mode = 'val'
        build(kind, queries='test').after_scoring(runner, evaluation)
        assert 'is left out: all scores are 0.5' in caplog.records[-1].message
    assert not evaluation.transformed


def test_a_shortlist_of_the_whole_gallery(runner, evaluation):
    """Exact scores may be transformed, and the bank is scored without the shortlist."""
    similarity = TokenSimilarity()
    generator = torch.Generator().manual_seed(5)

    def tokens(count):
        x = torch.randn(count, 3, D, generator=generator)
        return {'global': Embedding(x.mean(1), x, torch.ones(count, 3).bool())}

    for name, count in (('texts', T), ('videos', V)):
        items = getattr(evaluation, name)._replace(levels=tokens(count))
        setattr(evaluation, name, items)
    for queue in runner.hooks[0].queues.values():
        stored = queue.queries()
        queue._parts.clear()
        queue._parts.append(stored._replace(levels=tokens(K)))
    evaluation.model.similarity = similarity.eval()
    levels = evaluation.texts.levels, evaluation.videos.levels
    evaluation.matrices['scores'] = similarity(*levels)['scores']
    hooks.SinkhornHook(queries='train_queue', name='plain').after_scoring(runner, evaluation)
    similarity.shortlist = V
    evaluation.matrices['scores'] = similarity(*levels)['scores']
    hooks.SinkhornHook(queries='train_queue', name='short').after_scoring(runner, evaluation)
    assert similarity.shortlist == V  # and the bank of 12 videos was scored without it
    for plain, short in zip(evaluation.transformed['plain'], evaluation.transformed['short']):
        torch.testing.assert_close(plain, short)


def test_a_shortlist_is_refused(runner, evaluation):
    evaluation.exact = False
    with pytest.raises(RuntimeError, match='a shortlist only'):
        hooks.SinkhornHook(queries='train_queue').after_scoring(runner, evaluation)


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (dict(queries='val'), "queries must be one of .* not 'val'"),
        (dict(queries='bank'), "bank_file belongs to queries='bank'"),
        (dict(queries='test', bank_file='x'), "bank_file belongs to queries='bank'"),
        (dict(queries='train_queue', marginals='test'), 'which are labels'),
        (dict(queries='train_queue', marginals='x'), "'uniform' or 'per_video', not 'x'"),
        (dict(queries='test', marginals='per_video'), 'weighs training queries'),
        (dict(queries='test', temperature=0), 'temperature must be positive.* not 0'),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        hooks.SinkhornHook(**arguments)


def test_queries_have_no_default():
    with pytest.raises(TypeError, match='queries'):
        hooks.SinkhornHook()


def test_dbsn_reads_the_stored_queries_of_the_other_kind(runner, evaluation):
    hook = hooks.DBSNHook(queries='train_queue', iterations=4, temperature='model')
    hook.after_scoring(runner, evaluation)
    scores, (t2v, v2t) = evaluation.matrices['scores'], bank_scores()
    own = normalize(vectors(K, 2), dim=1) @ normalize(vectors(K, 3), dim=1).t()
    found, options = evaluation.transformed['dbsn'], dict(temperature=GAMMA, iterations=4)
    expected = dbsn(scores, t2v, bank_gallery=own, **options)
    close(found.t2v, expected)
    expected = dbsn(scores.t(), v2t.t(), bank_gallery=own.t(), **options).t()
    close(found.v2t.t(), expected.t())
    assert not evaluation.transductive


@pytest.mark.parametrize('how', [{}, dict(item_temperature=0.3), dict(dynamic=True, neighbours=2)])
def test_db_norm_reads_the_stored_items(runner, evaluation, how):
    hook = hooks.DBNormHook(queries='train_queue', temperature='model', **how)
    hook.after_scoring(runner, evaluation)
    scores, (t2v, v2t) = evaluation.matrices['scores'], bank_scores()
    found, how = evaluation.transformed['db_norm'], dict(how, temperature=GAMMA)
    texts, videos, stored, seen = (
        normalize(vectors(count, seed), dim=1) for count, seed in ((T, 0), (V, 1), (K, 2), (K, 3))
    )
    expected = db_norm(scores, t2v, item_bank=seen @ videos.t(), **how)
    close(found.t2v, expected)
    expected = db_norm(scores.t(), v2t.t(), item_bank=stored @ texts.t(), **how).t()
    close(found.v2t.t(), expected.t())
    assert not evaluation.transductive
    assert not torch.allclose(found.t2v.argsort(1), scores.argsort(1))


def test_bad_db_norm(runner, evaluation):
    with pytest.raises(ValueError, match='DBNormHook needs queries and items seen before'):
        hooks.DBNormHook(queries='test')
    with pytest.raises(ValueError, match='temperature must be a positive number'):
        hooks.DBNormHook(queries='train_queue', item_temperature=0)
    evaluation.model.similarity.exact = False
    with pytest.raises(ValueError, match='compares texts with videos only'):
        hooks.DBNormHook(queries='train_queue').after_scoring(runner, evaluation)


def test_bad_dbsn():
    with pytest.raises(ValueError, match='the test set has only its gallery'):
        hooks.DBSNHook(queries='test')
    with pytest.raises(ValueError, match='iterations must be 1 to 100,000'):
        hooks.DBSNHook(queries='train_queue', iterations=0)


def test_local_scaling_has_a_strength_for_each_direction(runner, evaluation):
    hook = LocalScalingHook(v2t=-0.4, share=0.25, queries='train_queue')
    hook.after_scoring(runner, evaluation)
    scores, (_, v2t) = evaluation.matrices['scores'], bank_scores()
    found = evaluation.transformed['local_scaling']
    assert torch.equal(found.t2v, scores)
    expected = fn.local_scaling(scores.t(), v2t.t(), strength=-0.4, share=0.25).t()
    close(found.v2t.t(), expected.t())
    assert not torch.equal(found.v2t, scores)


@pytest.mark.parametrize('queries', ['train_queue', 'test'])
def test_hedged_scaling_orders_the_lists_of_texts_alone(runner, evaluation, queries):
    hook = HedgedScalingHook(
        first=-0.4, rest=0.3, places=2, share=0.25, queries=queries, name='hedged'
    )
    hook.after_scoring(runner, evaluation)
    scores, found = evaluation.matrices['scores'], evaluation.transformed['hedged']
    assert torch.equal(found.t2v, scores)
    bank = scores.t() if queries == 'test' else bank_scores()[1].t()
    expected = fn.hedged_scaling(scores.t(), bank, first=-0.4, strength=0.3, places=2, share=0.25)
    torch.testing.assert_close(found.v2t, expected.t())
    assert ('hedged' in evaluation.transductive) == (queries == 'test')


@pytest.mark.parametrize(
    'how, said',
    [
        (dict(first=float('nan'), rest=0.1), 'first must be finite, not nan'),
        (dict(first=-0.1, rest=0.1, share=0), r'share must lie in \(0, 1\], not 0'),
        (dict(first=-0.1, rest=0.1, places=0), 'places must be 1 or more, not 0'),
    ],
)
def test_bad_hedged_scaling(how, said):
    with pytest.raises(ValueError, match=said):
        HedgedScalingHook(queries='test', **how)


@pytest.mark.parametrize(
    'how, said',
    [
        (dict(), 't2v and v2t are 0'),
        (dict(v2t=0.1, share=2), r'share must lie in \(0, 1\], not 2'),
        (dict(t2v=float('inf')), 'strength must be finite, not inf'),
    ],
)
def test_bad_local_scaling(how, said):
    with pytest.raises(ValueError, match=said):
        LocalScalingHook(queries='test', **how)
