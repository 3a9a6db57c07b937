"""NCL's loss (Eq. 4 on Eq. 12) against Fig. 4 written with loops in float64."""

import math

import numpy as np
import pytest
import torch

from mmvtr.models.losses.matrix import ContrastiveLoss, NormalizedContrastiveLoss
from mmvtr.models.target import Target

GAMMA = 0.07


def fig4(scores, gamma, iterations, columns=None):
    """Sinkhorn-Knopp as printed, entry by entry; scores [T, V] -> a [T], b [V]."""
    m = [[math.exp(s / gamma) for s in row] for row in scores.tolist()]
    rows, width = range(len(m)), range(len(m[0]))
    share = [1 / len(m[0])] * len(m[0]) if columns is None else columns
    beta = [share[j] / sum(m[i][j] for i in rows) for j in width]
    for _ in range(iterations):
        alpha = [1 / sum(m[i][j] * beta[j] for j in width) for i in rows]
        beta = [share[j] / sum(alpha[i] * m[i][j] for i in rows) for j in width]
    a = torch.tensor([gamma * math.log(x / sum(alpha)) for x in alpha], dtype=torch.float64)
    b = torch.tensor([gamma * math.log(x / sum(beta)) for x in beta], dtype=torch.float64)
    return a, b


def info_nce(scores, gamma):
    """Eq. 4 of a square matrix, term by term."""
    n = len(scores)
    total = 0.0
    for i in range(n):
        row = sum(math.exp(scores[i, k] / gamma) for k in range(n))
        column = sum(math.exp(scores[k, i] / gamma) for k in range(n))
        total += math.log(row) + math.log(column) - 2 * float(scores[i, i]) / gamma
    return total / (2 * n)


@pytest.fixture
def scores():
    generator = torch.Generator().manual_seed(0)
    return torch.rand(6, 6, generator=generator, dtype=torch.float64) * 0.4


@pytest.mark.parametrize('iterations', [1, 4])
def test_against_the_paper(scores, iterations):
    a, b = fig4(scores, GAMMA, iterations)
    expected = info_nce(scores + a[:, None] + b, GAMMA)
    loss = NormalizedContrastiveLoss(iterations=iterations, loss_weight=15.0)
    value = loss({'scores': scores}, Target(torch.eye(6).bool()), GAMMA)
    assert float(value) == pytest.approx(15 * expected, rel=1e-9)


def test_golden(shared):
    golden = np.load(shared / 'golden/ncl_fig4.npz')
    loss = NormalizedContrastiveLoss(iterations=int(golden['n_iters']))
    cos = torch.from_numpy(golden['cos'])
    target = Target(torch.eye(len(cos)).bool())
    assert float(loss({'scores': cos}, target, float(golden['gamma']))) == pytest.approx(
        float(golden['loss']), rel=1e-5
    )


def test_every_sum_of_retrieval_probabilities_is_one(scores):
    """Eq. 13, in both directions."""
    loss = NormalizedContrastiveLoss(iterations=100)
    normalised = loss.normalise(scores, torch.eye(6).bool(), GAMMA) / GAMMA
    ones = torch.ones(6, dtype=torch.float64)
    torch.testing.assert_close(normalised.softmax(1).sum(0), ones)
    torch.testing.assert_close(normalised.softmax(0).sum(1), ones)


def test_marginals_of_the_positives():
    """Three texts of video 0 and one of video 1: their sums are 3 and 1."""
    generator = torch.Generator().manual_seed(1)
    scores = torch.rand(4, 2, generator=generator, dtype=torch.float64)
    positives = torch.tensor([[1, 0], [1, 0], [1, 0], [0, 1]]).bool()
    loss = NormalizedContrastiveLoss(iterations=200, marginals='positives')
    sums = (loss.normalise(scores, positives, GAMMA) / GAMMA).softmax(1).sum(0)
    torch.testing.assert_close(sums, torch.tensor([3.0, 1.0]).double())
    a, b = fig4(scores, GAMMA, 4, columns=[0.75, 0.25])
    ours = NormalizedContrastiveLoss(marginals='positives').normalise(scores, positives, GAMMA)
    torch.testing.assert_close(ours, scores + a[:, None] + b)


def test_weights_of_a_supervision_apply_on_top(scores):
    target = Target(torch.eye(6).bool(), weights=torch.rand(6, 6).double())
    loss = NormalizedContrastiveLoss()
    normalised = loss.normalise(scores, target.positives, GAMMA)
    expected = ContrastiveLoss()({'scores': normalised}, target, GAMMA)
    assert float(loss({'scores': scores}, target, GAMMA)) == pytest.approx(float(expected))
    plain = loss({'scores': scores}, target._replace(weights=None), GAMMA)
    assert float(plain) != pytest.approx(float(expected))


def test_gradient_through_the_biases_is_an_option(scores):
    target = Target(torch.eye(6).bool())

    def loss_of(differentiable):
        return lambda s: NormalizedContrastiveLoss(differentiable=differentiable).compute(
            s, target, GAMMA
        )

    s = scores.clone().requires_grad_()
    assert torch.autograd.gradcheck(loss_of(True), s)
    through, without = (
        torch.autograd.grad(loss_of(differentiable)(s), s)[0] for differentiable in (True, False)
    )
    biases = NormalizedContrastiveLoss().normalise(scores, target.positives, GAMMA) - scores
    fixed = torch.autograd.grad(ContrastiveLoss().compute(s + biases, target, GAMMA), s)[0]
    torch.testing.assert_close(without, fixed)
    assert not torch.allclose(through, without)


def share_lost(scores, positives, iterations, **kwargs):
    """|gradient through the biases - gradient without| over |gradient through|."""
    s = scores.clone().requires_grad_()
    through, without = (
        torch.autograd.grad(
            NormalizedContrastiveLoss(
                iterations=iterations, differentiable=differentiable, **kwargs
            ).compute(s, Target(positives), GAMMA),
            s,
        )[0]
        for differentiable in (True, False)
    )
    return float((through - without).norm() / through.norm())


def test_at_convergence_the_biases_carry_no_gradient():
    """Envelope theorem: a and b are where the loss is stationary, if each video has one text.

    By hand: d loss / d b_j is the column sum of the t2v softmax less the number of positives in the
    column, which is what Sinkhorn-Knopp makes zero; a likewise of v2t.
    """
    generator = torch.Generator().manual_seed(0)
    positives = torch.eye(32).bool()
    scores = torch.rand(32, 32, generator=generator, dtype=torch.float64) * 0.4 + 0.3 * positives
    normalised = NormalizedContrastiveLoss(iterations=500).normalise(scores, positives, GAMMA)
    for dim, columns in ((1, 0), (0, 1)):
        slope = (normalised / GAMMA).softmax(dim).sum(columns) - positives.sum(columns)
        assert slope.abs().max() < 1e-12
    assert share_lost(scores, positives, 4) == pytest.approx(0.01, abs=0.005)
    assert share_lost(scores, positives, 500) < 1e-14


def test_with_several_texts_a_video_they_carry_some():
    """The v2t term pools a video's texts, of which the best takes more than its marginal."""
    generator = torch.Generator().manual_seed(0)
    positives = torch.eye(32).bool().repeat(2, 1)
    scores = torch.rand(64, 32, generator=generator, dtype=torch.float64) * 0.4 + 0.3 * positives
    for iterations in (4, 500):
        assert share_lost(scores, positives, iterations) == pytest.approx(0.25, abs=0.05)
    assert share_lost(scores, positives, 500, direction='t2v') < 1e-14


def test_a_batch_without_videos_gives_zero():
    empty = torch.zeros(3, 0, requires_grad=True)
    value = NormalizedContrastiveLoss()({'scores': empty}, Target(torch.zeros(3, 0).bool()), GAMMA)
    value.backward()
    assert value.item() == 0


def test_unknown_marginals():
    with pytest.raises(ValueError, match=r"one of \['uniform', 'positives'\], not 'test'"):
        NormalizedContrastiveLoss(marginals='test')
