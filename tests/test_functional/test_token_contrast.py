"""TACo's equations: the golden values, loops in float64, and gradients."""

import numpy as np
import pytest
import torch

from mmvtr.functional import contrastive, hard_negatives, token_contrast, token_scores


def unlike(seed=0, texts=4, videos=5, words=6, frames=3, dim=4):
    """Words, their weights (text 1 has none), frames, mask and positives; float64."""
    generator = torch.Generator().manual_seed(seed)
    w = torch.randn(texts, words, dim, generator=generator, dtype=torch.float64)
    f = torch.randn(videos, frames, dim, generator=generator, dtype=torch.float64)
    interest = torch.rand(texts, words, generator=generator, dtype=torch.float64)
    interest = interest * (torch.rand(texts, words, generator=generator) > 0.5)
    interest[1] = 0
    mask = torch.arange(frames) < torch.tensor([3, 1, 2, 3, 2])[:, None]
    positives = torch.zeros(texts, videos, dtype=torch.bool)
    positives[range(3), [0, 1, 2]] = positives[0, 3] = True  # two of text 0, none of text 3
    return w, interest, f, mask, positives


def by_loops(words, interest, frames, mask, positives, temperature, weights):
    terms = []
    for t in range(len(words)):
        if not positives[t].any():
            continue
        total = 0.0
        for p in range(words.shape[1]):
            best = [max(float(words[t, p] @ f) for f in own[m]) for own, m in zip(frames, mask)]
            e = np.exp(np.array(best) / temperature)
            own = sum(e[v] for v in range(len(frames)) if positives[t, v])
            rest = sum(
                float(weights[t, v]) * e[v] for v in range(len(frames)) if not positives[t, v]
            )
            total += float(interest[t, p]) * -np.log(own / (own + rest))
        terms.append(total)
    return np.mean(terms)


@pytest.mark.parametrize('temperature', [1.0, 0.3])
@pytest.mark.parametrize('weighted', [False, True])
def test_against_loops(temperature, weighted):
    words, interest, frames, mask, positives = unlike()
    weights = torch.rand(positives.shape, dtype=torch.float64) if weighted else None
    found = token_contrast(
        words, interest, frames, mask, positives, temperature=temperature, weights=weights
    )
    ones = torch.ones(positives.shape) if weights is None else weights
    expected = by_loops(words, interest, frames, mask, positives, temperature, ones)
    assert found.item() == pytest.approx(expected, rel=1e-12)


def test_padding_wins_no_maximum():
    words, interest, frames, mask, positives = unlike()
    before = token_contrast(words, interest, frames, mask, positives)
    frames[~mask] = 1e6
    words[interest == 0] = 1e6
    assert torch.equal(token_contrast(words, interest, frames, mask, positives), before)


def test_gradients():
    words, interest, frames, mask, positives = unlike(words=2, dim=2)
    weights = torch.rand(positives.shape, dtype=torch.float64).requires_grad_()

    def loss(words, frames, interest, weights):
        given = (words, interest, frames, mask, positives)
        return token_contrast(*given, temperature=0.5, weights=weights)

    leaves = [x.requires_grad_() for x in (words, frames)]
    assert torch.autograd.gradcheck(loss, (*leaves, interest, weights))


def test_nothing_to_tell_is_a_loss_of_zero_with_gradients():
    words, interest, frames, mask, positives = unlike()
    words.requires_grad_()
    for none in (dict(interest=interest * 0), dict(positives=positives & False)):
        given = dict(words=words, interest=interest, frames=frames, frame_mask=mask)
        loss = token_contrast(**{**given, 'positives': positives, **none})
        assert loss == 0
        (gradient,) = torch.autograd.grad(loss, words)
        assert not gradient.any()


def test_shapes_that_do_not_fit():
    words, interest, frames, mask, positives = unlike()
    with pytest.raises(ValueError, match=r'positives \(4, 5\), got \(4, 6\) and \(5, 4\)'):
        token_contrast(words, interest, frames, mask, positives.t())


def brute(scores, candidates, count):
    chosen = torch.zeros_like(candidates)
    rows = [((t, v), t) for t in range(len(scores)) for v in range(scores.shape[1])]
    for side in (0, 1):
        for own in {pair[side] for pair, _ in rows}:
            mine = [pair for pair, _ in rows if pair[side] == own and candidates[pair]]
            for pair in sorted(mine, key=lambda pair: -float(scores[pair]))[:count]:
                chosen[pair] = True
    return chosen


@pytest.mark.parametrize('count', [1, 2, 8])
def test_hard_negatives_by_brute_force(count):
    generator = torch.Generator().manual_seed(3)
    scores = torch.randint(4, (5, 7), generator=generator).float()  # with ties
    candidates = torch.rand(5, 7, generator=generator) > 0.4
    candidates[2] = False
    found = hard_negatives(scores, candidates, count)
    assert torch.equal(found, brute(scores, candidates, count)) and not found[2].any()


@pytest.mark.parametrize('shape', [(0, 3), (3, 0), (0, 0)])
def test_hard_negatives_of_nothing(shape):
    assert hard_negatives(torch.zeros(shape), torch.ones(shape).bool(), 8).shape == shape


# -- golden values: TACo's equations, float64, stored as float32 ---------------------------------


@pytest.fixture(scope='module')
def golden(shared):
    with np.load(shared / 'golden/taco_equations.npz', allow_pickle=False) as file:
        return {name: torch.from_numpy(file[name]) for name in file.files}


def tokens(golden):
    return golden['text_tokens'], golden['video_tokens'], golden['video_mask']


@pytest.mark.parametrize('tau', [1.0, 0.07])
def test_golden_losses(golden, tau):
    words, frames, mask = tokens(golden)
    own = torch.eye(5).bool()
    means = (frames * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
    close = dict(rtol=1e-5, atol=1e-5)
    first = words[:, 0] @ means.t()
    torch.testing.assert_close(first, golden['S1'], **close)
    loss = 5 * contrastive(first, own, temperature=tau, direction='t2v')
    torch.testing.assert_close(loss, golden[f'L1.sum.tau={tau}'], **close)
    weights = dict(unweighted=golden['interest'].float(), idf_sum_to_one=golden['idf_sum_to_one'])
    for name, interest in weights.items():
        loss = 5 * token_contrast(words, interest, frames, mask, own, temperature=tau)
        torch.testing.assert_close(loss, golden[f'L2.sum.{name}.tau={tau}'], **close)
    assert not golden['interest'][1].any()  # a text that adds 0


def test_golden_cascade(golden):
    words, frames, mask = tokens(golden)
    every = torch.ones(words.shape[:2], dtype=torch.bool)
    interest = golden['interest'].float()
    told = token_scores(words, every, frames, mask, side='words', word_weights=interest)
    scores = golden['S1'] + told
    torch.testing.assert_close(scores, golden['cascade_score'], rtol=1e-5, atol=1e-5)
    for k in (1, 2):
        expected = torch.zeros(5, 5, dtype=torch.bool)
        expected.scatter_(1, golden[f'hard_videos.k={k}'], True)
        expected.t().scatter_(1, golden[f'hard_texts.k={k}'], True)
        assert torch.equal(hard_negatives(scores, ~torch.eye(5).bool(), k), expected)
