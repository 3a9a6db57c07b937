"""What no metric reports, and what a set or a model cannot give, is told before the first step."""

import re
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

import toy
from children import ROOT, run_tool
from mmvtr.engine.checks.metric_checks import SIGMAS, given_matrices, made, metric_keys
from mmvtr.evaluation import Metric, RetrievalMetric
from mmvtr.registry import METRICS
from mmvtr.utils import register_all_modules
from tiny_sets import of_planted


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp('planted')


def train(folder, *options, config='dvtr_c2v_planted', extra=''):
    (folder / 'p.py').write_text(of_planted(config, max_epochs=1) + extra)
    return run_tool(folder, 'train.py', 'p.py', *(['--cfg-options', *options] if options else []))


def refused(folder, *options, **kwargs):
    code, printed = train(folder, *options, **kwargs)
    assert code == 1 and 'Epoch(train)' not in printed and 'Traceback' not in printed, printed
    (line,) = [line for line in printed.splitlines() if line.startswith('error: ')]
    assert len(line) < 500
    return line


@pytest.mark.parametrize(
    ('option', 'said'),
    [
        ('default_hooks.checkpoint.save_best=retrieval/rsm', 'did you mean retrieval/rsum?'),
        (
            'default_hooks.checkpoint.save_best=zebra',
            'is not among its numbers; there are retrieval/',
        ),
        ('val_evaluator.0.type=NormalisationMetric', "save_best='retrieval/rsum' is not among"),
        ('val_evaluator.0.type=MomentRatioMetric', "save_best='retrieval/rsum' is not among"),
        ('val_evaluator=None', 'val_evaluator: missing; all of val_dataloader, val_cfg'),
    ],
)
def test_refused(folder, option, said):
    assert said in refused(folder, option)


VIDEOS = (
    f"_base_ = ['{ROOT}/configs/_base_/default_runtime.py']"
    + toy.RETRIEVER
    + """
pipelines = dict(
    video_pipeline=[dict(type='LoadVideo', num_frames=2)], text_pipeline=[dict(type='ToySay')]
)
dataset = dict(type='ToyVideos', names=['a', 'b'], **pipelines)
test_dataloader = dict(batch_size=2, dataset=dataset)
train_dataloader = dict(batch_size=2, sampler=dict(type='EpochSampler'), dataset=dataset,
                        collate_fn=dict(type='mmvtr.collate_retrieval'))
test_cfg = dict(type='RetrievalLoop')
train_cfg = dict(type='EpochBasedTrainLoop', max_epochs=1)
optim_wrapper = dict(type='OptimWrapper', optimizer=dict(type='SGD', lr=0.1))
"""
)


@pytest.mark.parametrize(
    ('metric', 'lacks'),
    [
        ('SemanticMetric', 'truth'),
        ('RelevanceMetric', 'relevance'),
        ('JudgedMetric', 'needs judgments, ToyVideos has none'),
    ],
)
def test_a_set_that_does_not_know(tmp_path, write_video, metric, lacks):
    for name in 'ab':
        write_video(tmp_path / f'{name}.mp4', [60] * 3)
    (tmp_path / 'v.py').write_text(f"{VIDEOS}test_evaluator = [dict(type='{metric}')]\n")
    code, printed = run_tool(tmp_path, 'train.py', 'v.py')
    assert code == 1 and 'Epoch(train)' not in printed and 'Traceback' not in printed, printed
    assert f'error: test_evaluator: {metric}' in printed and lacks in printed


def test_a_model_without_heads_has_no_sigma(folder):
    line = refused(folder, 'test_evaluator.0.type=UncertaintyMetric', config='c2v_planted')
    assert "test_evaluator: UncertaintyMetric: 'text_sigma' is missing" in line


def test_a_matrix_that_no_part_gives(folder):
    line = refused(folder, config='c2v_planted',
                   extra="test_evaluator = [dict(type='SoftPositiveMetric')]\n")  # fmt: skip
    assert "SoftPositiveMetric reads ['eta'], the model gives ['aligned', " in line


def test_keys_of_transforms_and_members(folder):
    hooks = """
custom_hooks = [
    dict(type='SinkhornHook', queries='test'), dict(type='ModalityGapHook'),
    dict(type='ScoresFileHook')
]
"""
    best = 'default_hooks.checkpoint.save_best='
    line = refused(folder, f'{best}sinkhorn/retrieval/rsum', extra=hooks)
    assert 'did you mean sinkhorn_oracle/retrieval/rsum?' in line
    for key in ('sinkhorn_oracle/retrieval/rsum', 'modality_gap/cross'):
        code, printed = train(folder, best + key, extra=hooks)
        assert code == 0, printed
        assert re.search(rf'best.pth: {key} \S+ on val, epoch 1 ', printed)
    code, printed = train(folder, f'{best}member_1/retrieval/rsum', config='causal_planted')
    assert code == 0, printed


def test_a_look_at_the_sets_changes_no_number(folder):
    """A training with the check and one without end alike."""
    code, printed = train(folder)
    assert code == 0, printed
    parts = ('dataloader', 'cfg', 'evaluator')
    off = [f'{split}_{part}=None' for split in ('val', 'test') for part in parts]
    code, without = train(folder, *off)
    assert code == 0 and 'results on' not in without, without
    losses = [
        re.findall(r'Epoch\(train\).*( loss: \S+).*(grad_norm: .*)', text)
        for text in (printed, without)
    ]
    assert losses[0] == losses[1] != []


def test_what_house_metrics_report():
    register_all_modules()
    seen = set()
    for name, kind in METRICS.module_dict.items():
        if kind.__module__.startswith('mmvtr.') and not kind.keys_vary:
            keys = metric_keys(kind())
            assert keys and not any(key.endswith('/') for key in keys), name
            seen |= keys
    assert {'retrieval/rsum', 'semantic/t2v_mAP', 'uncertainty/general_auc'} <= seen


def test_what_cannot_be_known_is_let_through():
    class Odd(Metric):
        prefix = 'odd'

        def measure(self, matrices, relation):
            raise RuntimeError('wants other data')

    assert metric_keys(Odd()) == {'odd/'}
    matrices, relation = made(RetrievalMetric())
    assert torch.equal(relation.positives, torch.eye(128).bool())
    assert 'retrieval/t2v_R7' in metric_keys(RetrievalMetric(recall_at=(7,)))


@pytest.mark.parametrize('fails', [False, True])
def test_a_look_at_broken_videos_leaves_the_model_as_it_was(fails):
    """Of two videos that are left out, or of a set that fails."""

    def collate(items):
        if fails:
            raise ValueError('no such file')
        return dict(inputs={})

    model = torch.nn.Module()
    model.data_preprocessor = SimpleNamespace(device='cpu')
    loader = SimpleNamespace(dataset=Drawn(), collate_fn=collate)
    loop = SimpleNamespace(dataloader=SimpleNamespace(loaders=[loader, loader]), evaluator=[])
    before = torch.get_rng_state()
    with pytest.raises(ValueError) if fails else nullcontext():
        assert given_matrices(SimpleNamespace(model=model), loop) == SIGMAS
    assert model.training and torch.equal(torch.get_rng_state(), before)


class Drawn(torch.utils.data.Dataset):
    def __len__(self):
        return 3

    def __getitem__(self, index):
        return torch.rand(1)
