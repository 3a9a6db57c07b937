"""A training that cannot learn says so once, with the reason; one that learns says nothing."""

import pytest
import torch
from torch import nn

from mmvtr.models.gradient_watch import STEPS, GradientWatch, excludes_all
from mmvtr.models.losses.matrix import ContrastiveLoss
from mmvtr.models.losses.ranking import RankingLoss
from mmvtr.models.target import Target
from mmvtr.structures import Embedding
from tests.test_dist import make_batch, make_model

ALL = slice(0, 5), slice(0, 7)


class Sparing(nn.Module):
    """A supervision that spares what ``rule`` says of the positives."""

    fills = 'weights'

    def __init__(self, rule):
        super().__init__()
        self.rule = rule

    def forward(self, texts, videos, target):
        return self.rule(target), dict(spared=texts['global'].mean.new_tensor(4.0))


def all_weights_zero(target):
    return target._replace(weights=torch.zeros(target.positives.shape))


def no_weight_either_way(target):
    zeros = torch.zeros(target.positives.shape)
    return target._replace(weights=dict(t2v=zeros, v2t=zeros))


def everything_is_positive(target):
    return target._replace(positives=torch.ones_like(target.positives))


def one_negative_is_left(target):
    weights = torch.zeros(target.positives.shape)
    row, column = (~target.positives).nonzero()[0].tolist()
    weights[row, column] = 1.0
    return target._replace(weights=weights)


def warnings_of(model, batch, steps=2 * STEPS):
    said = []
    model._gradient_watch = GradientWatch(warn=said.append)
    for _ in range(steps):
        model.zero_grad()
        losses = model(*batch, mode='loss')
        sum(v for k, v in losses.items() if 'loss' in k).backward()
    return said


def plain_model(supervision=None, losses=None):
    model = make_model(literal=False)
    model.supervision = supervision
    model.heads = nn.ModuleDict()
    model.losses = nn.ModuleDict(losses or dict(contrastive=ContrastiveLoss()))
    return model


@pytest.mark.parametrize(
    'rule',
    [all_weights_zero, no_weight_either_way, everything_is_positive],
    ids=lambda x: x.__name__,
)
@pytest.mark.parametrize('micro_batch', [None, 2])
def test_a_supervision_that_spares_everything_is_named_once(rule, micro_batch):
    model = plain_model(Sparing(rule))
    model.micro_batch = micro_batch
    (said,) = warnings_of(model, make_batch(*ALL))
    assert said.startswith(
        f'nothing is learned: no gradient for {STEPS} steps. Sparing gives every'
    )
    assert "'spared': 4.0" in said


def test_all_pairs_annotated_as_matches():
    inputs, samples = make_batch(*ALL)
    one = torch.zeros_like(samples['video_idx'])
    samples = dict(
        samples, video_idx=one, text_videos=torch.zeros_like(samples['text_videos'][:, :1])
    )
    (said,) = warnings_of(plain_model(), (inputs, samples))
    assert 'All 7 x 5 pairs of the batch are annotated as matches' in said


class Flat(RankingLoss):
    def compute(self, scores, target, temperature):
        return 0.0 * scores.sum()


def test_a_flat_loss_without_supervision():
    (said,) = warnings_of(plain_model(losses=dict(flat=Flat())), make_batch(*ALL))
    assert 'The loss is flat' in said


def test_who_learns_is_not_warned_of():
    assert not warnings_of(make_model(literal=False), make_batch(*ALL))
    assert not warnings_of(plain_model(Sparing(one_negative_is_left)), make_batch(*ALL))


def test_one_step_with_a_gradient_starts_the_count_again():
    said = []
    watch = GradientWatch(warn=said.append)
    vector = torch.ones(3, 2, requires_grad=True)

    def step_of(factor):
        mean = 1.0 * vector
        watch([{'global': Embedding(mean)}], lambda: 'why')
        (factor * mean).sum().backward()

    for step in range(4 * STEPS):
        step_of(1.0 if step % (STEPS - 1) == 0 else 0.0)
    assert not said
    for _ in range(2 * STEPS):
        step_of(0.0)
    assert len(said) == 1


def test_frozen_embeddings_have_no_gradient_to_miss():
    said = []
    watch = GradientWatch(warn=said.append)
    watch([{'global': Embedding(torch.ones(2, 2))}], lambda: 'why')
    assert not said


@pytest.mark.parametrize(
    'target, expected',
    [
        (Target(torch.eye(3).bool()), False),
        (Target(torch.eye(3).bool(), ambiguous=~torch.eye(3).bool()), True),
        (Target(torch.eye(3).bool(), weights=dict(t2v=torch.zeros(3, 3))), False),
        (Target(torch.ones(3, 3)), True),
        (Target(torch.eye(3).bool(), weights=torch.eye(3)), True),
    ],
)
def test_excludes_all(target, expected):
    assert excludes_all(target) == expected
