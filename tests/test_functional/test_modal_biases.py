"""Implicit biases against loops in float64, and their gradient against autograd."""

import math

import pytest
import torch

from mmvtr.functional.metrics.modality_gap import bias_gradient, modal_biases

GAMMA = 0.07


@pytest.fixture
def embeddings():
    generator = torch.Generator().manual_seed(0)
    made = (torch.randn(n, 5, generator=generator, dtype=torch.float64) + 0.5 for n in (9, 6))
    return tuple(torch.nn.functional.normalize(x, dim=1) for x in made)


def test_four_terms_make_the_scores(embeddings):
    """Eq. 23, number by number, in pure Python."""
    texts, videos = (x.tolist() for x in embeddings)
    means = [[sum(x) / len(side) for x in zip(*side)] for side in (texts, videos)]
    rests = [[[a - m for a, m in zip(x, mean)] for x in side] for side, mean in
             zip((texts, videos), means)]  # fmt: skip

    def product(x, y):
        return sum(a * b for a, b in zip(x, y))

    found = modal_biases(*embeddings)
    for i, t in enumerate(rests[0]):
        assert float(found.text[i]) == pytest.approx(product(means[1], t), abs=1e-14)
        for j, v in enumerate(rests[1]):
            whole = product(*means) + float(found.text[i]) + float(found.video[j]) + product(t, v)
            assert whole == pytest.approx(product(texts[i], videos[j]), abs=1e-14)


def test_a_weighted_softmax_is_the_softmax(embeddings):
    """Eq. 27: exp(b / gamma) weighs the videos in a softmax over the displacements alone."""
    texts, videos = embeddings
    weight = [math.exp(float(b) / GAMMA) for b in modal_biases(texts, videos).video]
    inner = ((texts - texts.mean(0)) @ (videos - videos.mean(0)).T).tolist()
    for i, row in enumerate(inner):
        terms = [w * math.exp(x / GAMMA) for w, x in zip(weight, row)]
        expected = [math.exp(x / GAMMA) for x in (texts @ videos.T)[i].tolist()]
        for one, other in zip(terms, expected):
            assert one / sum(terms) == pytest.approx(other / sum(expected), rel=1e-12)


def loss_of_both_directions(scores):
    """Eq. 4, of pairs on the diagonal."""
    logits = scores / GAMMA
    own = logits.diagonal()
    return -(2 * own - logits.logsumexp(1) - logits.logsumexp(0)).mean() / 2


@pytest.mark.parametrize('dim', [0, 1])
def test_the_gradient_is_that_of_the_loss(embeddings, dim):
    """Eq. 28 with the temperature that it lacks; of both directions together."""
    texts, videos = embeddings[0][:6], embeddings[1]
    biases = torch.zeros(6, dtype=torch.float64, requires_grad=True)
    scores = texts @ videos.T + (biases if dim == 1 else biases[:, None])
    (expected,) = torch.autograd.grad(loss_of_both_directions(scores), biases)
    found = bias_gradient(
        scores.detach(), torch.eye(6).bool(), temperature=GAMMA, dim=dim
    )  # fmt: skip
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)
    assert not torch.allclose(found * GAMMA, expected)  # as printed


def test_the_other_direction_does_not_know_the_bias(embeddings):
    texts, videos = embeddings[0][:6], embeddings[1]
    biases = torch.zeros(6, dtype=torch.float64, requires_grad=True)
    logits = (texts @ videos.T + biases) / GAMMA
    loss = -(logits.diagonal() - logits.logsumexp(0)).mean()
    (gradient,) = torch.autograd.grad(loss, biases)
    assert gradient.abs().max() < 1e-13  # of 1 / (6 GAMMA) = 2.4


def test_several_texts_a_video_and_texts_without(embeddings):
    """Cross entropy with soft targets; the last text asks for nothing that is there."""
    texts, videos = embeddings
    positives = torch.zeros(9, 6).bool()
    positives[range(8), [0, 0, 0, 1, 2, 3, 4, 5]] = positives[3, 2] = True
    biases = torch.zeros(6, dtype=torch.float64, requires_grad=True)
    target = positives[:8].double() / positives[:8].sum(1, keepdim=True)
    logits = (texts @ videos.T + biases)[:8] / GAMMA
    (expected,) = torch.autograd.grad(torch.nn.functional.cross_entropy(logits, target), biases)
    found = bias_gradient(texts @ videos.T, positives, temperature=GAMMA)
    torch.testing.assert_close(found, expected / 2, rtol=1e-12, atol=1e-14)


def test_bad_input_is_named(embeddings):
    texts, videos = embeddings
    with pytest.raises(ValueError, match=r'must be \[T, D\] and \[V, D\]'):
        modal_biases(texts[:, 1:], videos)
    with pytest.raises(ValueError, match='0 texts and 6 videos'):
        modal_biases(texts[:0], videos)
    with pytest.raises(ValueError, match='differ'):
        bias_gradient(texts @ videos.T, torch.eye(6).bool(), temperature=GAMMA)
    with pytest.raises(ValueError, match='no query has a positive'):
        bias_gradient(texts @ videos.T, torch.zeros(9, 6).bool(), temperature=GAMMA)
