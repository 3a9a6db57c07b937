import math

import numpy as np
import pytest
import torch

from mmvtr.models.heads import GaussianHead, PCMEGaussianHead
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding

D = 4


@pytest.fixture
def item():
    """Two items with three tokens, the last of item 0 is padding; float64."""
    generator = torch.Generator().manual_seed(0)
    return Embedding(
        torch.randn(2, D, generator=generator, dtype=torch.float64),
        torch.randn(2, 3, D, generator=generator, dtype=torch.float64),
        torch.tensor([[True, True, False], [True, True, True]]),
    )


def matmul(weight, x, bias=None):
    bias = [0.0] * len(weight) if bias is None else bias.tolist()
    return [sum(w * xi for w, xi in zip(row, x)) + b for row, b in zip(weight.tolist(), bias)]


def linear(layer, x):
    return matmul(layer.weight, x, layer.bias)


def unit_norm(norm, x):
    """l2(LN(x)), by loops."""
    mu = sum(x) / len(x)
    std = math.sqrt(sum((xi - mu) ** 2 for xi in x) / len(x) + norm.eps)
    weight, bias = norm.weight.tolist(), norm.bias.tolist()
    y = [(xi - mu) / std * w + b for xi, w, b in zip(x, weight, bias)]
    length = math.sqrt(sum(yi**2 for yi in y))
    return [yi / length for yi in y]


def attend(pool, tokens):
    logits = []
    for token in tokens:
        hidden = [math.tanh(h) for h in matmul(pool.score[0].weight, token)]
        logits.append(matmul(pool.score[2].weight, hidden)[0])
    total = sum(math.exp(x) for x in logits)
    return [
        sum(math.exp(x) / total * token[d] for x, token in zip(logits, tokens)) for d in range(D)
    ]


def randomised(head):
    """In float64, away from the first values."""
    generator = torch.Generator().manual_seed(1)
    for p in head.double().parameters():
        torch.nn.init.normal_(p, generator=generator)
    return head


def test_equation_9_of_uatvr(item):
    head = randomised(MODELS.build(dict(type='GaussianHead', dim=D)))
    out = head(item)
    for n in range(2):
        x = item.mean[n].tolist()
        mean = unit_norm(head.norm, linear(head.mean, x))
        assert out.mean[n].tolist() == pytest.approx(mean, rel=1e-9)
        assert out.log_std[n].tolist() == pytest.approx(linear(head.log_std, x), rel=1e-9)


@pytest.mark.parametrize('use_mask', [True, False])
def test_pcme_head_by_loops(item, use_mask):
    head = randomised(MODELS.build(dict(type='PCMEGaussianHead', dim=D, use_mask=use_mask)))
    out = head(item)
    for n, length in enumerate((2 if use_mask else 3, 3)):
        g, tokens = item.mean[n].tolist(), item.tokens[n, :length].tolist()
        local = linear(head.mean_local, attend(head.mean_attention, tokens))
        x = [gi + 1 / (1 + math.exp(-li)) for gi, li in zip(g, local)]
        assert out.mean[n].tolist() == pytest.approx(unit_norm(head.norm, x), rel=1e-9)
        local = linear(head.log_std_local, attend(head.log_std_attention, tokens))
        spread = [a + b for a, b in zip(local, linear(head.log_std_global, g))]
        assert out.log_std[n].tolist() == pytest.approx(spread, rel=1e-9)


def official_head(golden, **kwargs):
    """The golden file's weights under our names."""
    ours = {
        'mean_attention.score.0': 'pie.attention.w_1',
        'mean_attention.score.2': 'pie.attention.w_2',
        'mean_local': 'pie.fc',
        'norm': 'pie.layer_norm',
        'log_std_attention.score.0': 'unc.attention.w_1',
        'log_std_attention.score.2': 'unc.attention.w_2',
        'log_std_local': 'unc.fc',
        'log_std_global': 'unc.fc2',
    }
    head = PCMEGaussianHead(golden['pooled'].shape[1], **kwargs)
    state = {
        f'{name}.{kind}': torch.as_tensor(golden[f'w.{theirs}.{kind}'])
        for name, theirs in ours.items()
        for kind in ('weight', 'bias')
        if f'w.{theirs}.{kind}' in golden
    }
    head.load_state_dict(state, strict=True)
    return head


def test_pcme_head_golden(shared):
    golden = np.load(shared / 'golden/uatvr_prob_head.npz')
    pooled, seq = torch.as_tensor(golden['pooled']), torch.as_tensor(golden['seq'])
    mask = ~torch.as_tensor(golden['pad_mask_true_is_pad'])

    def close(ours, name):
        torch.testing.assert_close(ours, torch.as_tensor(golden[name]), rtol=0, atol=1e-5)

    item = Embedding(pooled, seq, mask)
    full = official_head(golden, use_mask=False)(item)
    close(full.mean, 'mean')
    close(full.log_std, 'logsigma')
    eps = torch.as_tensor(golden['eps'])
    close(full.mean[:, None] + full.log_std.exp()[:, None] * eps, 'embedding')

    masked = official_head(golden)(item)
    unnormalised = torch.as_tensor(golden['masked_pie_out'])
    expected = unnormalised / unnormalised.norm(dim=-1, keepdim=True)
    torch.testing.assert_close(masked.mean, expected, rtol=0, atol=1e-5)
    close(masked.log_std, 'masked_logsigma')
    assert not torch.allclose(masked.mean, full.mean, atol=1e-3)


@pytest.mark.parametrize('head', [GaussianHead, PCMEGaussianHead])
def test_first_samples_have_as_much_noise_as_mean(head):
    torch.manual_seed(0)
    tokens, mask = torch.randn(8, 3, 64) / 8, torch.ones(8, 3, dtype=torch.bool)
    out = head(64)(Embedding(torch.randn(8, 64) / 8, tokens, mask))
    torch.testing.assert_close(out.mean.norm(dim=-1), torch.ones(8))
    noise = out.log_std.exp().square().sum(-1).sqrt()
    assert 0.7 < noise.min() and noise.max() < 1.5
    assert (
        head(4, initial_log_std=-3.0)
        .state_dict()['log_std.bias' if head is GaussianHead else 'log_std_global.bias']
        .tolist()
        == [-3.0] * 4
    )


@pytest.mark.parametrize('head', [GaussianHead, PCMEGaussianHead])
def test_a_runaway_log_std_is_clamped_counted_and_comes_back(head, item):
    head = head(D, initial_log_std=0.0).double()
    assert head.clamped(head(item)) == 0
    bias = head.log_std.bias if isinstance(head, GaussianHead) else head.log_std_global.bias
    with torch.no_grad():
        bias[0] = 100.0
    out = head(item)
    assert out.log_std[:, 0].tolist() == [7.0, 7.0]
    assert head.clamped(out) == pytest.approx(1 / D)
    out.log_std.sum().backward()
    assert bias.grad[0] > 0  # descent brings it back
    narrow = type(head)(D, initial_log_std=0.0, log_std_range=(-0.1, 0.0)).double()
    assert -0.1 <= narrow(item).log_std.min() and narrow(item).log_std.max() <= 0


@pytest.mark.parametrize('head', [GaussianHead, PCMEGaussianHead])
def test_gradients_reach_all_parameters_and_padding_is_not_seen(head, item):
    torch.manual_seed(0)
    head = head(D).double()
    out = head(item)
    tokens = item.tokens.clone()
    tokens[0, 2] = 1e3
    moved = head(item._replace(tokens=tokens))
    assert torch.equal(out.mean, moved.mean) and torch.equal(out.log_std, moved.log_std)
    (out.mean * torch.arange(D)).sum().add(out.log_std.square().sum()).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in head.parameters())


@pytest.mark.parametrize('head', [GaussianHead, PCMEGaussianHead])
def test_half_precision_and_no_items(head, item):
    head = head(D)
    item = Embedding(item.mean.float(), item.tokens.float(), item.mask)
    with torch.autocast('cpu', torch.bfloat16):
        out = head(item)
    assert out.mean.dtype == out.log_std.dtype == torch.float32
    none = head(item.map(lambda x: x[:0]))
    assert none.mean.shape == none.log_std.shape == (0, D) and head.clamped(none) == 0


def test_bad_arguments(item):
    with pytest.raises(ValueError, match=r'log_std_range must be \(low, high\)'):
        GaussianHead(D, log_std_range=(1.0, -1.0))
    with pytest.raises(ValueError, match='PCMEGaussianHead reads tokens'):
        PCMEGaussianHead(D)(Embedding(item.mean))
