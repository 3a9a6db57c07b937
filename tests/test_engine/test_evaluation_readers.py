"""Metrics that prepare, and hooks that read matrices, in the loop."""

import pytest
import torch
from mmengine.hooks import Hook

from mmvtr.evaluation import Metric, RetrievalMetric
from tests.test_engine.test_evaluation_loop import METRICS, FakeDataset, make_runner


class Prepared(Metric):
    """Counts its calls."""

    def __init__(self):
        self.calls = []

    def prepare(self):
        self.calls.append('prepare')

    def measure(self, matrices, relation):
        self.calls.append('measure')
        return dict(prepared=float('prepare' in self.calls))


def test_metrics_prepare_once_when_the_loop_is_made(tmp_path):
    metrics = [Prepared(), RetrievalMetric()]
    runner = make_runner(tmp_path, evaluator=metrics)
    assert metrics[0].calls == []
    assert runner.test()['retrieval/prepared'] == 1.0
    assert metrics[0].calls == ['prepare', 'measure']
    runner.test()
    assert metrics[0].calls == ['prepare', 'measure', 'measure']


class Reader(Hook):
    """Says, from the start or just before a test, which matrices it wants."""

    def __init__(self, first=(), late=()):
        self.reads, self.late = first, late

    def before_test(self, runner):
        self.reads = (*self.reads, *self.late)

    def after_scoring(self, runner, evaluation):
        self.evaluation = evaluation


def test_hooks_read_matrices_too(tmp_path):
    hooks = [Reader(first=('other',)), Reader(late=('eta',))]
    scores_only = [dict(type='RetrievalMetric', recall_at=(1, 2))]
    make_runner(tmp_path, evaluator=scores_only, custom_hooks=hooks).test()
    vectors = FakeDataset().vectors
    scores = vectors['text'] @ vectors['video'].t()
    for hook in hooks:  # both are shown all
        matrices = hook.evaluation.matrices
        assert matrices.keys() == {'scores', 'other', 'eta', 'temperature'}
        torch.testing.assert_close(matrices['other'], scores)
        torch.testing.assert_close(matrices['eta'], torch.sigmoid(-scores))


def test_matrices_that_nobody_reads_are_not_kept(tmp_path):
    hook = Reader()
    make_runner(tmp_path, evaluator=METRICS[:1], custom_hooks=[hook]).test()
    assert hook.evaluation.matrices.keys() == {'scores', 'temperature'}


def test_a_hook_that_reads_an_unknown_matrix(tmp_path):
    with pytest.raises(KeyError, match="metrics and hooks read .'scores_7'., the model gives"):
        make_runner(tmp_path, custom_hooks=[Reader(late=('scores_7',))]).test()
