import math

import pytest
import torch

from mmvtr.functional.losses.pairwise import (
    binary_cross_entropy,
    binary_cross_entropy_sum,
    masked_mean,
)


def test_bernoulli_equals_the_sum_over_entries():
    logits = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    positives = torch.zeros(3, 4, dtype=torch.bool)
    positives[0, 0] = positives[1, 2] = positives[2, 2] = True

    terms = []
    for t in range(3):
        for v in range(4):
            p = 1 / (1 + math.exp(-logits[t, v].item()))
            positive = bool(positives[t, v])
            terms.append(-math.log(p if positive else 1 - p))
    assert binary_cross_entropy(logits, positives).item() == pytest.approx(
        sum(terms) / 12, rel=1e-12
    )
    assert torch.autograd.gradcheck(lambda x: binary_cross_entropy(x, positives), logits)


@pytest.mark.parametrize('logit', [-40.0, -17.0, -9.0, -1.0, 0.0, 3.0, 30.0])
def test_float32_knows_small_terms(logit):
    """A match so unlikely that 1 - p is 1 has its small term."""
    logits = torch.full((64, 64), logit)
    none = 2 * (torch.zeros(0, dtype=torch.long),)
    expected = 4096 * math.log1p(math.exp(-abs(logit))) + 4096 * max(logit, 0)
    assert binary_cross_entropy_sum(logits, none).item() == pytest.approx(expected, rel=1e-6)


def test_extreme_logits_and_empty_masks_stay_finite():
    logits = torch.tensor([[1e4, -1e4]], requires_grad=True)
    for positives in (torch.tensor([[True, True]]), torch.tensor([[False, False]])):
        loss = binary_cross_entropy(logits, positives)
        (gradient,) = torch.autograd.grad(loss, logits)
        assert torch.isfinite(loss) and torch.isfinite(gradient).all()
    assert binary_cross_entropy(logits[:0], torch.zeros(0, 2, dtype=torch.bool)).item() == 0
    assert masked_mean(torch.ones(2), torch.zeros(2, dtype=torch.bool)).item() == 0


def test_labels_weights_scale_and_bias_by_loops():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(3, 4, generator=generator, dtype=torch.float64)
    labels = torch.tensor([[1, 0, 0.3, 0], [0, 0.7, 0, 0], [0, 0, 0, 1]]).double()
    weights = torch.rand(3, 4, generator=generator, dtype=torch.float64)
    total = weighted = 0.0
    for t in range(3):
        for v in range(4):
            p = 1 / (1 + math.exp(-(2.5 * scores[t, v].item() - 0.5)))
            y = labels[t, v].item()
            yes, no = -y * math.log(p), -(1 - y) * math.log(1 - p)
            total += yes + no
            weighted += yes + weights[t, v].item() * no
    how = dict(scale=2.5, bias=-0.5)
    for reduction, size in (('sum', 1), ('mean', 12), ('items', 4)):
        found = binary_cross_entropy(scores, labels, reduction=reduction, **how)
        assert found.item() == pytest.approx(total / size)
    found = binary_cross_entropy(scores, labels, weights=weights, **how)
    assert found.item() == pytest.approx(weighted / 12)


def test_bools_are_labels_of_zero_and_one():
    scores = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
    eye, how = torch.eye(3), dict(scale=torch.tensor(3.0).double(), bias=-1.0)
    losses = [binary_cross_entropy(scores, y, **how) for y in (eye, eye.bool())]
    torch.testing.assert_close(*losses)
    torch.testing.assert_close(*(torch.autograd.grad(x, scores)[0] for x in losses))


def test_a_matrix_of_other_labels_is_refused():
    with pytest.raises(ValueError, match=r'labels \[2, 3\] must have the shape of scores \[3, 2\]'):
        binary_cross_entropy(torch.zeros(3, 2), torch.zeros(2, 3))
    with pytest.raises(ValueError, match="reduction must be one of .*not 'rows'"):
        binary_cross_entropy(torch.zeros(3, 2), torch.zeros(3, 2), reduction='rows')
