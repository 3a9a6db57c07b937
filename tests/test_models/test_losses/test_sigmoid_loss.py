"""SigLIP's and PCME++'s loss, its labels and the similarities of Gaussians that it reads."""

import numpy as np
import pytest
import torch

from mmvtr.functional import binary_cross_entropy, pseudo_positives
from mmvtr.models import GaussianHead, GaussianSimilarity, SigmoidLoss, Target
from mmvtr.models.target import check_read
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding


@pytest.fixture
def matrix():
    scores = torch.rand(4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    positives = torch.tensor([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]).bool()
    return scores, Target(positives)


def test_temperature_bias_and_weights(matrix):
    scores, target = matrix
    loss = MODELS.build(dict(type='SigmoidLoss', bias=-3.0, loss_weight=0.5)).double()
    logits = scores / 0.1 - 3
    expected = 0.5 * binary_cross_entropy(logits, target.positives, reduction='items')
    torch.testing.assert_close(loss({'scores': scores}, target, 0.1), expected)
    weights = torch.rand(4, 3, dtype=torch.float64)
    weighted = loss({'scores': scores}, target._replace(weights=weights), 0.1)
    how = dict(weights=weights, reduction='items')
    torch.testing.assert_close(
        weighted, 0.5 * binary_cross_entropy(logits, target.positives, **how)
    )
    weighted.backward()
    assert loss.bias.grad.abs() > 0
    assert not SigmoidLoss(learnable=False).bias.requires_grad


def test_labels_beside_the_target_are_read(matrix):
    scores, target = matrix
    loss = SigmoidLoss(bias=0.0, reduction='mean').double()
    labels = torch.rand(4, 3, dtype=torch.float64)
    found = loss({'scores': scores}, target.put(labels=labels), 1.0)
    torch.testing.assert_close(found, binary_cross_entropy(scores, labels))


def test_pseudo_positives_are_those_of_both_sides(matrix):
    scores, target = matrix
    loss = SigmoidLoss(bias=1.0, pseudo_weight=0.3, reduction='mean').double()
    logits, own = scores + 1, target.positives
    expected = binary_cross_entropy(logits, own)
    for pseudo in (pseudo_positives(logits, own), pseudo_positives(logits.T, own.T).T):
        assert pseudo.sum() > 4
        expected = expected + 0.15 * binary_cross_entropy(logits, pseudo)
    torch.testing.assert_close(loss({'scores': scores}, target, 1.0), expected)


@pytest.mark.parametrize('size', ['tiny', 'mid'])
def test_official_pcmepp_as_it_is_configured(shared, size):
    """The registered loss and similarity: 2 BCE and a (rows + columns)."""
    golden = np.load(shared / 'golden/pcmepp.npz')
    read = {
        key: torch.from_numpy(golden[f'{size}.{key}'])
        for key in ('text.mean', 'text.logvar', 'video.mean', 'video.logvar', 'matched.multi')
    }
    texts, videos = (
        {'gaussian': Embedding(read[f'{side}.mean'], log_std=read[f'{side}.logvar'] / 2)}
        for side in ('text', 'video')
    )
    matrices = GaussianSimilarity()(texts, videos)
    target = Target(read['matched.multi'].T.bool())
    loss = SigmoidLoss(bias=5.0, reduction='mean', pseudo_weight=0.1, loss_weight=2.0)
    kl = MODELS.build(dict(type='KLToUnit', loss_weight=1e-4 / read['text.mean'].shape[1]))
    found = loss(matrices, target, 0.2) + kl(texts, videos, target)['loss']
    expected = golden[f'{size}.multi.csd_n5_s5_v0.0001_a0.1.loss'].item()
    assert found.item() == pytest.approx(expected, rel=1e-6)


def test_forms_of_unit_means_rank_alike():
    head = MODELS.build(dict(type='GaussianHead', dim=6, own_mean=False)).double()
    texts, videos = (
        {'gaussian': head(Embedding(torch.randn(n, 6, dtype=torch.float64)))} for n in (4, 3)
    )
    distance, product = (
        MODELS.build(dict(type='GaussianSimilarity', form=form))(texts, videos)
        for form in ('distance', 'product')
    )
    torch.testing.assert_close(distance['scores'], 2 * product['scores'] - 2)
    assert product['scores'] is product['gaussian']


def test_a_head_may_keep_the_mean_of_the_encoder():
    x = torch.randn(5, 8)
    head = GaussianHead(8, own_mean=False, initial_log_std=-2.0)
    found = head(Embedding(x))
    torch.testing.assert_close(found.mean, torch.nn.functional.normalize(x))
    assert {name for name, _ in head.named_parameters()} == {'log_std.weight', 'log_std.bias'}
    assert found.log_std.std() > 0
    assert {name for name, _ in GaussianHead(8).named_parameters()} == {
        f'{part}.{kind}' for part in ('mean', 'log_std', 'norm') for kind in ('weight', 'bias')
    }


def test_what_is_refused():
    with pytest.raises(ValueError, match='reduction must be one of'):
        SigmoidLoss(reduction='rows')
    with pytest.raises(ValueError, match='pseudo_weight'):
        SigmoidLoss(pseudo_weight=-0.1)
    with pytest.raises(ValueError, match='form must be'):
        GaussianSimilarity(form='cosine')
    plain = {'global': Embedding(torch.zeros(1, 2))}
    with pytest.raises(ValueError, match="level 'gaussian' is missing"):
        GaussianSimilarity()(plain, plain)
    with pytest.raises(ValueError, match="level 'global' is not Gaussian"):
        GaussianSimilarity(level='global')(plain, plain)
    mixing = MODELS.build(dict(type='MixupSupervision'))
    with pytest.raises(ValueError, match='add a SigmoidLoss'):
        check_read(mixing, {'loss': MODELS.build(dict(type='ContrastiveLoss'))})
    check_read(mixing, {'loss': SigmoidLoss()})
