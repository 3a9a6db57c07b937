"""TeachText's distance and its teachers' matrix against loops in float64, and their gradient."""

import pytest
import torch

from mmvtr.functional.losses.distillation import mean_products, smooth_l1


def draw(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def test_mean_products_equal_loops():
    texts, videos = [draw(3, 4), draw(3, 6, seed=1)], [draw(5, 4, seed=2), draw(5, 6, seed=3)]
    found = mean_products(texts, videos)
    for t in range(3):
        for v in range(5):
            parts = [
                sum(float(a) * float(b) for a, b in zip(x[t], y[v])) for x, y in zip(texts, videos)
            ]
            assert found[t, v].item() == pytest.approx(sum(parts) / 2, abs=1e-12)


@pytest.mark.parametrize('bend', [0.3, 1.0])
def test_smooth_l1_equals_loops_and_has_the_right_gradient(bend):
    scores, teacher = draw(4, 3), draw(4, 3, seed=1)
    found = smooth_l1(scores, teacher, bend=bend)
    bent = 0
    for t in range(4):
        for v in range(3):
            d = abs(scores[t, v].item() - teacher[t, v].item())
            expected = d * d / 2 / bend if d < bend else d - bend / 2
            bent += d < bend
            assert found[t, v].item() == pytest.approx(expected, abs=1e-12)
    assert 0 < bent < 12
    inputs = (scores.requires_grad_(), teacher.requires_grad_())
    assert torch.autograd.gradcheck(lambda s, t: smooth_l1(s, t, bend=bend), inputs)


def test_half_precision_and_other_shapes():
    assert smooth_l1(draw(2, 2).bfloat16(), draw(2, 2).float()).dtype == torch.float32
    assert mean_products([draw(2, 3).bfloat16()], [draw(2, 3).bfloat16()]).dtype == torch.float32
    with pytest.raises(ValueError, match=r'scores \[2, 3\] and teacher \[3, 2\] differ'):
        smooth_l1(draw(2, 3), draw(3, 2))
