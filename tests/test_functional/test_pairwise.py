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
