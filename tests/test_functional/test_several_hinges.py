"""Several hinges for each triplet against loops in float64, and gradients through margins."""

import pytest
import torch

from mmvtr.functional.losses.adaptive_margin import adaptive_margin, standard, text_dissimilarities
from mmvtr.functional.losses.ranking import margin_ranking, several_hinges

#: Text 1 has two videos, video 0 two texts; text 4 and video 3 have no partner.
POSITIVES = torch.tensor(
    [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 0]], dtype=torch.bool
)


def draw(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def by_loops(scores, hinges, weights, negatives, average):
    total = 0.0
    for s, own, w, margins in (
        (scores, POSITIVES, weights, [(f, m) for f, m in hinges]),
        (scores.t(), POSITIVES.t(), weights.t(), [(f, m.t()) for f, m in hinges]),
    ):
        sums, anchors, count = [], 0, 0
        for t in range(s.shape[0]):
            for p in range(s.shape[1]):
                if not own[t, p]:
                    continue
                terms = [
                    w[t, n] * sum(f * max(m[t, n] + s[t, n] - s[t, p], 0) for f, m in margins)
                    for n in range(s.shape[1])
                    if not own[t, n]
                ]
                anchors += 1
                count += len(terms) if average == 'terms' else s.shape[1]
                sums.append(max(terms) if negatives == 'hardest' else sum(terms))
        total += sum(sums) / (anchors if negatives == 'hardest' else count) / 2
    return float(total)


@pytest.mark.parametrize('negatives', ['all', 'hardest'])
@pytest.mark.parametrize('average', ['terms', 'matrix'])
def test_several_hinges_equal_loops(negatives, average):
    scores, weights = draw(5, 4), draw(5, 4, seed=1).abs()
    hinges = [(1.0, torch.full((5, 4), 0.2).double()), (0.3, draw(5, 4, seed=2).abs())]
    found = several_hinges(
        scores, POSITIVES, hinges, weights=weights, negatives=negatives, average=average
    )
    expected = by_loops(scores, hinges, weights, negatives, average)
    assert found.item() == pytest.approx(expected, abs=1e-12) and expected > 0.1


def test_one_hinge_is_the_triplet_loss():
    scores = draw(5, 4)
    for negatives in ('all', 'hardest'):
        found = several_hinges(scores, POSITIVES, [(1.0, 0.3)], negatives=negatives)
        expected = margin_ranking(scores, POSITIVES, margin=0.3, negatives=negatives)
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize('over', ['matrix', 'negatives'])
@pytest.mark.parametrize('unbiased', [True, False])
def test_gradients_of_scores_margins_and_dissimilarities(over, unbiased):
    """Also through mean and deviation."""
    entries = ~POSITIVES if over == 'negatives' else torch.ones_like(POSITIVES)

    def loss(scores, x, cosines):
        margins = adaptive_margin(x, entries, alpha=0.2, beta=0.3, unbiased=unbiased)
        tau = text_dissimilarities(cosines, POSITIVES)
        hinges = [(1.0, 0.2), (0.7, margins), (0.4, tau.nan_to_num(nan=0.2).clamp_min(0))]
        return torch.stack(
            [
                several_hinges(scores, POSITIVES, hinges, average='matrix'),
                several_hinges(scores, POSITIVES, hinges, negatives='hardest'),
            ]
        )

    inputs = [x.requires_grad_() for x in (draw(5, 4), draw(5, 4, seed=1), draw(5, 5, seed=2))]
    assert torch.autograd.gradcheck(loss, inputs)


def test_two_numbers_are_all_that_margins_need_of_the_batch():
    x = draw(5, 4)
    mean, std = standard(x, torch.ones_like(POSITIVES), unbiased=True)
    numbers = x.flatten().tolist()
    expected = sum(numbers) / 20
    assert mean.item() == pytest.approx(expected)
    assert std.item() == pytest.approx((sum((n - expected) ** 2 for n in numbers) / 19) ** 0.5)
    assert standard(x, torch.zeros_like(POSITIVES)) is None
    alike = torch.full((2, 2), 0.5, requires_grad=True)
    one = torch.eye(2, dtype=torch.bool)[:1].expand(2, 2)
    for pairs in (torch.ones(2, 2, dtype=torch.bool), one & one.flip(0)):
        margins = adaptive_margin(alike, pairs, alpha=0.2, beta=0.1, unbiased=True)
        (grad,) = torch.autograd.grad(margins.sum(), alike, allow_unused=True)
        assert grad is None or grad.isfinite().all()
        torch.testing.assert_close(margins, torch.full((2, 2), 0.2))


def test_batches_of_nothing_and_bad_choices():
    for shape in ((0, 3), (3, 0), (0, 0), (1, 1)):
        for negatives in ('all', 'hardest'):
            scores = torch.zeros(shape, requires_grad=True)
            positives = torch.ones(shape, dtype=torch.bool)
            loss = several_hinges(scores, positives, [(1.0, 0.2)], negatives=negatives)
            loss.backward()
            assert loss.item() == 0
    for bad, message in (
        (dict(negatives='some'), "negatives must be one of .* not 'some'"),
        (dict(average='entries'), "average must be one of .* not 'entries'"),
    ):
        with pytest.raises(ValueError, match=message):
            several_hinges(draw(5, 4), POSITIVES, [(1.0, 0.2)], **bad)
    with pytest.raises(ValueError, match=r'scores \[4, 5\] and positives \[5, 4\] differ'):
        several_hinges(draw(4, 5), POSITIVES, [(1.0, 0.2)])
