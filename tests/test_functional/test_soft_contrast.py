import math

import pytest
import torch
import torch.nn.functional as F

from mmvtr.functional.losses.set_contrast import (
    log_mean_sigmoid,
    match_log_probability,
    soft_contrast,
)

T, V, S, D = 4, 3, 2, 5


@pytest.fixture
def batch():
    generator = torch.Generator().manual_seed(0)
    texts = torch.randn(T, S, D, generator=generator, dtype=torch.float64)
    videos = torch.randn(V, S + 1, D, generator=generator, dtype=torch.float64)
    positives = torch.tensor([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 0]]).bool()
    return texts, videos, positives


def probability(z, y, slope, bias):
    """Mean over sample pairs of the sigmoid, by loops."""
    terms = []
    for a in z.tolist():
        for b in y.tolist():
            distance = math.sqrt(sum((i - j) ** 2 for i, j in zip(a, b)) + 1e-6)
            terms.append(1 / (1 + math.exp(-(bias - slope * distance))))
    return sum(terms) / len(terms)


def test_match_probability_by_loops(batch):
    texts, videos, _ = batch
    yes, no = match_log_probability(texts, videos, slope=1.5, bias=3.0)
    for t in range(T):
        for v in range(V):
            p = probability(texts[t], videos[v], 1.5, 3.0)
            assert yes[t, v].item() == pytest.approx(math.log(p), rel=1e-9)
            assert no[t, v].item() == pytest.approx(math.log(1 - p), rel=1e-9)


def official_nll(z, y, a, b, match):
    """PCME's code: log K^2 - logsumexp_k(s_k m - logsumexp(s_k, -s_k))."""
    terms = []
    for zi in z:
        for yj in y:
            s = -a * ((zi - yj).square().sum() + 1e-6).sqrt() + b
            terms.append(s * match - torch.logaddexp(s, -s))
    return math.log(len(z) * len(y)) - torch.stack(terms).logsumexp(0).item()


def test_sum_is_the_official_loss_of_half_slope_and_bias(batch):
    texts, videos, positives = batch
    expected = sum(
        official_nll(texts[t], videos[v], 1.0, 2.0, 1 if positives[t, v] else -1)
        for t in range(T)
        for v in range(V)
    )
    total = soft_contrast(*batch, slope=2.0, bias=4.0, reduction='sum').item()
    assert total == pytest.approx(expected, rel=1e-9)
    mean = soft_contrast(*batch, slope=2.0, bias=4.0).item()
    assert mean == pytest.approx(expected / (T * V), rel=1e-9)


def test_gradients(batch):
    texts, videos, positives = batch
    slope, bias = torch.tensor(1.5).double(), torch.tensor(3.0).double()
    inputs = [x.requires_grad_() for x in (texts, videos, slope, bias)]
    assert torch.autograd.gradcheck(
        lambda t, v, a, b: soft_contrast(t, v, positives, slope=a, bias=b), inputs
    )


@pytest.mark.parametrize('scale', [0.0, 1e4])
def test_equal_and_far_samples_have_finite_loss_and_gradient(scale):
    """All samples alike, and so far apart that p and 1 - p round to 0."""
    texts = torch.ones(2, 3, 4).requires_grad_()
    videos = torch.ones(2, 3, 4) + scale
    loss = soft_contrast(texts, videos, torch.eye(2).bool(), slope=30.0, bias=30.0)
    loss.backward()
    assert loss.isfinite() and loss > 1 and texts.grad.isfinite().all()


def test_no_pairs_give_zero():
    empty = soft_contrast(
        torch.ones(0, 2, 3), torch.ones(2, 2, 3), torch.ones(0, 2).bool(), slope=1.0, bias=1.0
    )
    assert empty.item() == 0


def test_bad_arguments(batch):
    with pytest.raises(ValueError, match='reduction must be one of'):
        soft_contrast(*batch, slope=1.0, bias=1.0, reduction='max')
    with pytest.raises(ValueError, match=r'positives \(3, 4\) must be \[4 texts, 3 videos\]'):
        soft_contrast(batch[0], batch[1], batch[2].t(), slope=1.0, bias=1.0)


@pytest.mark.parametrize('scale', [1.0, 30.0, 900.0])
def test_log_mean_sigmoid_is_log_sum_exp_of_log_sigmoids(scale):
    """Value and gradient; also at exactly 0, beside terms that underflow, and where all do."""
    x = torch.randn(6, 3, 4, 2, generator=torch.Generator().manual_seed(1)).double() * scale
    x[0] = 0.0
    x[1, 0] = 0.0
    x[2] = -x[2].abs() - 800.0
    mine, plain = x.clone().requires_grad_(), x.clone().requires_grad_()
    found = log_mean_sigmoid(mine, (1, 3))
    expected = F.logsigmoid(plain).logsumexp((1, 3)) - math.log(6)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-15)
    weights = torch.arange(1.0, 25.0, dtype=torch.float64).view(6, 4)
    for value in (found, expected):
        (value * weights).sum().backward()
    torch.testing.assert_close(mine.grad, plain.grad, rtol=1e-12, atol=1e-300)
