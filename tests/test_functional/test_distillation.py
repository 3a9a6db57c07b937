"""Distances and divergences from teachers against loops in float64, and their gradients."""

import math

import pytest
import torch

from mmvtr.functional.losses.distillation import (
    DivergenceSums,
    distillation_kl,
    distillation_sums,
    loss_of_divergences,
    mean_products,
    smooth_l1,
)


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


def divergence_by_loops(scores, teacher, temperature):
    """Number by number, of the rows of one matrix."""
    total = 0.0
    for ours, theirs in zip(scores.tolist(), teacher.tolist()):
        p, q = (
            [math.exp(x / temperature - max(row) / temperature) for x in row]
            for row in (theirs, ours)
        )
        p, q = ([x / sum(some) for x in some] for some in (p, q))
        total += sum(a * math.log(a / b) for a, b in zip(p, q))
    return total / len(scores)


@pytest.mark.parametrize('temperature', [1.0, 4.0])
def test_the_divergence_equals_loops_and_has_the_right_gradient(temperature):
    scores, teachers = 5 * draw(4, 3), 5 * draw(2, 4, 3, seed=1)
    found = distillation_kl(scores, teachers, temperature=temperature)
    expected = [
        divergence_by_loops(scores, one, temperature)
        + divergence_by_loops(scores.t(), one.t(), temperature)
        for one in teachers
    ]
    assert found.item() == pytest.approx(temperature**2 * sum(expected) / 4, rel=1e-12)
    alone = [distillation_kl(scores, one, temperature=temperature) for one in teachers]
    assert found.item() == pytest.approx(sum(alone).item() / 2, rel=1e-12)
    inputs = (scores.requires_grad_(), teachers.requires_grad_())
    assert torch.autograd.gradcheck(
        lambda s, t: distillation_kl(s, t, temperature=temperature), inputs
    )


def test_several_teachers_pull_to_the_mean_of_their_softmaxes():
    scores, teachers = draw(4, 3).requires_grad_(), 3 * draw(2, 4, 3, seed=1)
    (found,) = torch.autograd.grad(distillation_kl(scores, teachers, temperature=2.0), scores)
    rows, columns = ((teachers / 2).softmax(dim).mean(0) for dim in (2, 1))
    rows, columns = (
        -(p * (scores / 2).log_softmax(dim)).sum(dim).mean() for p, dim in ((rows, 1), (columns, 0))
    )
    (expected,) = torch.autograd.grad(4 * (rows + columns) / 2, scores)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize('edges', [(0, 2, 5), (0, 0, 1, 5), (0, 5, 5)])
def test_divergences_of_blocks_equal_those_of_the_matrix(edges):
    scores, teachers = 9 * draw(5, 3), 9 * draw(2, 5, 3, seed=1)
    parts = [
        distillation_sums(scores[a:b], teachers[:, a:b], temperature=2.0)
        for a, b in zip(edges, edges[1:])
    ]
    joint = {way: DivergenceSums.join([part[way] for part in parts], way) for way in parts[0]}
    expected = distillation_kl(scores, teachers, temperature=2.0)
    torch.testing.assert_close(loss_of_divergences(joint, 2.0), expected, rtol=0, atol=1e-12)


def test_divergences_without_items_in_half_precision_and_wrong_input():
    for shape in ((0, 3), (3, 0), (0, 0)):
        scores = draw(*shape).requires_grad_()
        loss = distillation_kl(scores, draw(*shape))
        loss.backward()
        assert loss.item() == 0 and scores.grad.shape == shape
    scores, teacher = 9 * draw(6, 6), 9 * draw(6, 6, seed=1)
    half = distillation_kl(scores.bfloat16(), teacher.bfloat16())
    same = distillation_kl(scores.bfloat16().float(), teacher.bfloat16().float())
    assert half.dtype == torch.float32 and half == same
    with pytest.raises(ValueError, match=r'scores \[2, 3\] and teacher \[3, 2\] differ'):
        distillation_kl(draw(2, 3), draw(4, 3, 2))
    with pytest.raises(ValueError, match='temperature must be positive'):
        distillation_kl(draw(2, 3), draw(2, 3), temperature=0.0)


def test_open_clip_at_temperature_one_and_the_scale_of_each_teacher():
    """DistillClipLoss is a cross-entropy: it has the entropy of the teacher's softmaxes, too."""
    losses = pytest.importorskip('open_clip.loss')
    unit = [torch.nn.functional.normalize(draw(6, 5, seed=n).float(), dim=-1) for n in range(6)]
    texts, images, *others = unit
    scale, scales = torch.tensor(14.0), (9.0, 30.0)
    texts.requires_grad_()
    expected, teachers, entropies = 0.0, [], 0.0
    for n, theirs in enumerate(scales):
        t, v = others[2 * n : 2 * n + 2]
        expected = (
            expected
            + losses.DistillClipLoss()(images, texts, scale, v, t, torch.tensor(theirs))[1] / 2
        )
        teachers.append(theirs * t @ v.t())
        for dim in (0, 1):
            p = teachers[-1].softmax(dim)
            entropies = entropies - (p * p.log()).sum(dim).mean() / 4
    found = distillation_kl(scale * texts @ images.t(), torch.stack(teachers), temperature=1.0)
    torch.testing.assert_close(found, expected - entropies, rtol=1e-5, atol=1e-5)
    gradients = [torch.autograd.grad(loss, texts)[0] for loss in (found, expected)]
    assert gradients[0].abs().max() > 0.01
    torch.testing.assert_close(*gradients, rtol=1e-5, atol=1e-6)
