import math

import pytest
import torch

from mmvtr.models.supervisions.dvtr import relative_uncertainty
from mmvtr.models.target import Target
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding

D, K = 6, 3


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(0)

    def gaussians(n):
        mean = torch.randn(n, D, generator=generator, dtype=torch.float64)
        log_std = torch.randn(n, D, generator=generator, dtype=torch.float64) - 1
        return {'gaussian': Embedding(mean / mean.norm(dim=-1, keepdim=True), log_std=log_std)}

    positives = torch.tensor([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]).bool()
    return gaussians(4), gaussians(3), Target(positives)


@pytest.fixture
def module():
    torch.manual_seed(0)
    return MODELS.build(dict(type='PCMESupervision', num_samples=K, floor=0.1)).double()


def probabilities(texts, videos, slope, bias, seed):
    """p of all pairs by loops: all texts have the same K noise vectors, all videos another K."""
    generator = torch.Generator().manual_seed(seed)
    noise = [torch.randn(K, D, generator=generator, dtype=torch.float64) for _ in range(2)]
    t, v = texts['gaussian'], videos['gaussian']
    p = torch.zeros(4, 3, dtype=torch.float64)
    for i in range(4):
        for j in range(3):
            for k in range(K):
                for m in range(K):
                    z = t.mean[i] + t.log_std[i].exp() * noise[0][k]
                    y = v.mean[j] + v.log_std[j].exp() * noise[1][m]
                    distance = math.sqrt((z - y).square().sum().item() + 1e-6)
                    p[i, j] += 1 / (1 + math.exp(slope * distance - bias)) / K**2
    return p


def test_weights_and_loss_follow_pcmes_probability(module, batch):
    slope = math.log1p(math.exp(module.slope.item()))
    for step in range(2):
        p = probabilities(*batch[:2], slope, module.bias.item(), step)
        target, losses = module(*batch)
        eta = relative_uncertainty(p, batch[2].positives, floor=0.1)
        torch.testing.assert_close(target.weights, eta)
        nll = -torch.where(batch[2].positives, p, 1 - p).log().mean()
        torch.testing.assert_close(losses['loss_match'], nll)
        assert not target.weights.requires_grad and 'loss_align' not in losses
    losses['loss_match'].backward()
    assert module.slope.grad != 0 and module.bias.grad != 0


@pytest.mark.parametrize('entries', [2**22, 2 * K * K * 3 + 1, 1])  # whole, two rows at a time, one
@pytest.mark.parametrize('longer', [0, 1])
def test_a_bank_is_weighed_by_the_same_probability(module, batch, longer, entries, monkeypatch):
    """In parts along the longer side, without logarithms; also where p is 0 to rounding."""
    monkeypatch.setattr('mmvtr.models.supervisions.pcme.ENTRIES', entries)
    t, v = module._prepared(*batch[:2])
    sides = (torch.cat([t, t + 1, t + 300]), v)[:: 1 - 2 * longer]
    with torch.no_grad():
        found, expected = module._match(*sides), module._logits(*sides).sigmoid()
    assert found.shape == (len(sides[0]), len(sides[1])) and found.min() < 1e-300 < found.max()
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-300)


def test_reference_and_weight_are_those_of_dvtr(batch):
    how = dict(type='PCMESupervision', num_samples=K, floor=0.1)
    plain, dosed = (
        MODELS.build(dict(how, **more)).double()
        for more in ({}, dict(reference='text', match_weight=0.5))
    )
    p = plain.match_logits(*batch[:2]).sigmoid()
    eta = relative_uncertainty(p, batch[2].positives, floor=0.1, reference='text')
    target, losses = dosed(*batch)
    torch.testing.assert_close(target.weights, eta)
    torch.testing.assert_close(losses['loss_match'], 0.5 * plain(*batch)[1]['loss_match'])
    with pytest.raises(TypeError, match='align_weight'):  # which it has no loss for
        MODELS.build(dict(how, align_weight=1.0))


def test_ramp(module, batch):
    module.eval()
    eta = module(*batch)[0].weights
    module.ramp, module.progress = (0.0, 1.0), 0.25
    torch.testing.assert_close(module(*batch)[0].weights, 1 - 0.25 * (1 - eta))


def test_eta_does_not_depend_on_the_tile(module, batch):
    texts, videos, _ = batch
    module.eval()
    whole = module.matrices(texts, videos)['eta']
    for rows in (slice(0, 1), slice(1, 4), slice(4, 4)):
        part = {name: level.map(lambda x, rows=rows: x[rows]) for name, level in texts.items()}
        torch.testing.assert_close(module.matrices(part, videos)['eta'], whole[rows])
    assert 0 <= whole.min() and whole.max() <= 1
