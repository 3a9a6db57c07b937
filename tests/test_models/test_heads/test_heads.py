import math

import pytest
import torch

from mmvtr.models.heads import HierarchicalGaussianHead
from mmvtr.structures import Embedding


@pytest.fixture
def item():
    """One item with three tokens, of which the last is padding; float64, D = 4."""
    generator = torch.Generator().manual_seed(0)
    return Embedding(
        torch.randn(1, 4, generator=generator, dtype=torch.float64),
        torch.randn(1, 3, 4, generator=generator, dtype=torch.float64),
        torch.tensor([[True, True, False]]),
    )


def vector(x):
    return x.detach().flatten().tolist()


def matmul(weight, x, bias=None):
    bias = [0.0] * len(weight) if bias is None else bias.tolist()
    return [sum(w * xi for w, xi in zip(row, x)) + b for row, b in zip(weight.tolist(), bias)]


def attend(pool, tokens):
    """Attn of Eq. 3-6 over the valid tokens, by loops."""
    logits = []
    for token in tokens:
        hidden = [math.tanh(h) for h in matmul(pool.score[0].weight, token)]
        logits.append(matmul(pool.score[2].weight, hidden)[0])
    total = sum(math.exp(x) for x in logits)
    return [
        sum(math.exp(x) / total * token[d] for x, token in zip(logits, tokens)) for d in range(4)
    ]


def mlp(layers, x):
    hidden = [max(0.0, h) for h in matmul(layers[0].weight, x, layers[0].bias)]
    return matmul(layers[2].weight, hidden, layers[2].bias)


@pytest.mark.parametrize('spread', ['log_std', 'variance'])
def test_equations_3_to_6(item, spread):
    head = HierarchicalGaussianHead(4, hidden=5, spread=spread).double()
    torch.nn.init.normal_(head.norm.weight), torch.nn.init.normal_(head.norm.bias)
    out = head(item)

    g = [2 * x for x in vector(item.mean)]  # sqrt(D) = 2
    tokens = [vector(item.tokens[0, i]) for i in range(2)]  # the padded one is not seen
    local = mlp(head.mean_mlp, attend(head.mean_attention, tokens))
    x = [gi + 1 / (1 + math.exp(-li)) for gi, li in zip(g, local)]
    mu = sum(x) / 4
    var = sum((xi - mu) ** 2 for xi in x) / 4
    mean = [
        (xi - mu) / math.sqrt(var + head.norm.eps) * w + b
        for xi, w, b in zip(x, vector(head.norm.weight), vector(head.norm.bias))
    ]
    assert vector(out.mean) == pytest.approx(mean, rel=1e-9)

    attended = attend(head.spread_attention, tokens)
    spread_out = mlp(head.spread_mlp, [gi + ai for gi, ai in zip(g, attended)])
    if spread == 'variance':
        spread_out = [0.5 * math.log(max(x, 1e-6)) for x in spread_out]
    assert vector(out.log_std) == pytest.approx(spread_out, rel=1e-9)


def test_padding_does_not_matter_and_gradients_reach_all_parameters(item):
    torch.manual_seed(0)
    head = HierarchicalGaussianHead(4, hidden=16).double()
    out = head(item)
    tokens = item.tokens.clone()
    tokens[0, 2] = 1e3
    moved = head(item._replace(tokens=tokens))
    assert torch.equal(out.mean, moved.mean) and torch.equal(out.log_std, moved.log_std)
    (out.mean * torch.arange(4)).sum().add(out.log_std.sum()).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in head.parameters())


def test_half_precision_comes_back_as_float32(item):
    head = HierarchicalGaussianHead(4)
    item = Embedding(item.mean.float(), item.tokens.float(), item.mask)
    with torch.autocast('cpu', torch.bfloat16):
        out = head(item)
    assert out.mean.dtype == out.log_std.dtype == torch.float32


def test_bad_spread():
    with pytest.raises(ValueError, match="'log_std', 'variance'., not"):
        HierarchicalGaussianHead(4, spread='sigma')
