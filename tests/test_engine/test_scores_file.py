"""Files of scores: what is in them, when they are written, and that eval_scores.py reads them."""

import logging
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from mmengine.hooks import Hook
from mmengine.runner import get_priority

from mmvtr.engine.hooks.result_hooks import ScoresFileHook
from mmvtr.engine.hooks.score_transforms import SinkhornHook
from mmvtr.engine.loops.evaluation import Encoded, Evaluation
from mmvtr.registry import HOOKS
from mmvtr.structures import Relation
from score_files.reading import read_matrix

LOG = logging.getLogger('scores')


def evaluation_of(mode, exact=True):
    texts, videos = (
        Encoded(torch.arange(n), [f'{kind}{i}' for i in range(n)], {}, torch.ones(n))
        for kind, n in (('text', 5), ('video', 4))
    )
    scores = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    matrices = dict(scores=scores, temperature=torch.tensor(0.1))
    positives = torch.arange(5)[:, None].clamp(max=3) == torch.arange(4)
    device = torch.device('cpu')
    relation = Relation(positives)
    return Evaluation(None, device, texts, videos, matrices, relation, exact=exact, mode=mode)


@pytest.fixture
def runner(tmp_path):
    return SimpleNamespace(work_dir=str(tmp_path), logger=LOG, hooks=[])


def test_raw_and_transformed_scores(runner, tmp_path):
    evaluation = evaluation_of('test')
    SinkhornHook(queries='test').after_scoring(runner, evaluation)
    HOOKS.build(dict(type='ScoresFileHook')).after_scoring(runner, evaluation)
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        'scores_test.npy',
        'scores_test_sinkhorn_oracle.npz',
    ]
    raw = np.load(tmp_path / 'scores_test.npy')
    assert raw.dtype == np.float32
    assert (raw == evaluation.matrices['scores'].numpy()).all()
    ours = evaluation.transformed['sinkhorn_oracle']
    with np.load(tmp_path / 'scores_test_sinkhorn_oracle.npz') as file:
        assert sorted(file) == ['t2v', 'v2t']
        for name in file:
            assert file[name].dtype == np.float32
            assert (file[name] == getattr(ours, name).numpy()).all()
        assert (file['t2v'] != file['v2t']).any()


def test_modes(runner, tmp_path):
    ScoresFileHook().after_scoring(runner, evaluation_of('val'))
    assert list(tmp_path.iterdir()) == []
    ScoresFileHook(modes=('val',)).after_scoring(runner, evaluation_of('val'))
    assert [p.name for p in tmp_path.iterdir()] == ['scores_val.npy']
    for bad in ((), ('train',)):
        with pytest.raises(ValueError, match=r"modes must be some of \('val', 'test'\), not"):
            ScoresFileHook(modes=bad)


def test_it_comes_after_the_transforms():
    last = get_priority(ScoresFileHook.priority)
    assert last > max(get_priority(hook.priority) for hook in (SinkhornHook, Hook))


def test_a_shortlist_has_no_scores(runner):
    with pytest.raises(RuntimeError, match='ScoresFileHook: the similarity ranks only a shortlist'):
        ScoresFileHook().after_scoring(runner, evaluation_of('test', exact=False))


def test_eval_scores_reads_them(runner, tmp_path):
    evaluation = evaluation_of('test')
    ScoresFileHook().after_scoring(runner, evaluation)
    read = read_matrix(tmp_path / 'scores_test.npy')
    assert torch.equal(read, evaluation.matrices['scores'])
