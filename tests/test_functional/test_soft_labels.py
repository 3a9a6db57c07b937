"""DL-DKD++'s soft labels, its distillation over frames and its schedules, against loops."""

import math

import pytest
import torch
from torch.autograd import gradcheck

from mmvtr.functional.losses.contrastive import contrastive
from mmvtr.functional.losses.distillation import (
    frame_divergence,
    item_draws,
    soft_label_contrastive,
)
from mmvtr.functional.losses.schedules import epoch_at, falling

T, V = 7, 5


def make(seed=0):
    """Text 2 has two columns, text 5 none, video 4 no text."""
    generator = torch.Generator().manual_seed(seed)
    scores, reference = torch.randn(2, T, V, generator=generator, dtype=torch.float64) * 3
    positives = torch.zeros(T, V, dtype=torch.bool)
    for t, v in ((0, 0), (1, 0), (2, 1), (2, 2), (3, 3), (4, 3), (6, 2)):
        positives[t, v] = True
    draws = torch.rand(T, generator=generator), torch.rand(V, generator=generator)
    return scores, positives, reference, draws


def hard_ones(count, valid, draws, alpha):
    order = [i for i in range(count) if valid[i]]
    if draws is not None:
        order.sort(key=lambda i: float(draws[i]))
    return set(order[: math.floor(alpha * len(order) + 1e-9)]), set(order)


def by_loops(s, positives, r, alpha, beta, draws):
    s, r, own = s.tolist(), r.tolist(), positives.tolist()
    texts, all_texts = hard_ones(T, positives.any(1), draws and draws[0], alpha)
    videos, all_videos = hard_ones(V, positives.any(0), draws and draws[1], alpha)
    total = 0.0

    def lse(values):
        return math.log(sum(map(math.exp, values)))

    if texts and videos:
        of_texts = [lse(s[t]) - lse(s[t][v] for v in range(V) if own[t][v]) for t in texts]
        of_videos = [
            lse(s[t][v] for t in range(T)) - lse(s[t][v] for t in range(T) if own[t][v])
            for v in videos
        ]
        total += alpha * (sum(of_texts) / len(texts) + sum(of_videos) / len(videos))
    texts, videos = all_texts - texts, all_videos - videos
    if texts and videos:
        sums = [0.0, 0.0]
        for t in texts:
            for v in range(V):
                target = beta * own[t][v] / sum(own[t])
                target += (1 - beta) * math.exp(r[t][v] - lse(r[t]))
                sums[0] -= target * (s[t][v] - lse(s[t])) / len(texts)
        for v in videos:
            rs = [r[t][v] for t in range(T)]
            inner = 0.0
            for t in range(T):
                target = beta * own[t][v] + (1 - beta) * math.exp(r[t][v] - lse(rs))
                inner += target * math.exp(s[t][v])
            sums[1] += (lse(s[t][v] for t in range(T)) - math.log(inner)) / len(videos)
        total += (1 - alpha) * sum(sums)
    return total


@pytest.mark.parametrize('beta', [0.0, 0.5, 1.0])
@pytest.mark.parametrize('alpha', [0.0, 0.1, 0.3, 0.5, 0.8, 1.0])
@pytest.mark.parametrize('drawn', [False, True])
def test_against_loops(alpha, beta, drawn):
    scores, positives, reference, draws = make()
    draws = draws if drawn else None
    found = soft_label_contrastive(
        scores, positives, reference, alpha=alpha, beta=beta, draws=draws
    )
    expected = by_loops(scores, positives, reference, alpha, beta, draws)
    assert found.item() == pytest.approx(expected, rel=1e-12)


def test_with_hard_labels_alone_it_is_the_contrast():
    scores, positives, reference, _ = make(1)
    found = soft_label_contrastive(scores, positives, reference, alpha=1.0, beta=0.5)
    torch.testing.assert_close(found, 2 * contrastive(scores, positives))


def test_gradients_flow_through_scores_and_labels():
    scores, positives, reference, draws = make(2)
    for own in (False, True):

        def loss(s, r, own=own):
            how = dict(alpha=0.4, beta=0.6, draws=draws)
            return soft_label_contrastive(s, positives, s if own else r, **how)

        assert gradcheck(loss, (scores.requires_grad_(), reference.requires_grad_()))
    huge = (1e4 * scores.detach()).float().requires_grad_()
    value = soft_label_contrastive(huge, positives, 1e4 * reference.float(), alpha=0.4, beta=0.6)
    value.backward()
    assert value.isfinite() and huge.grad.isfinite().all()


def test_whoever_is_hard_is_so_wherever_it_stands():
    scores, positives, reference, draws = make(3)
    torch.manual_seed(0)
    rows, columns = torch.randperm(T), torch.randperm(V)
    some = [x[rows][:, columns] for x in (scores, positives, reference)]
    for given, other in ((draws, (draws[0][rows], draws[1][columns])), (None, None)):
        one = soft_label_contrastive(scores, positives, reference, alpha=0.5, beta=0.5, draws=given)
        two = soft_label_contrastive(*some, alpha=0.5, beta=0.5, draws=other)
        assert torch.isclose(one, two) == (given is not None)


def test_draws_are_uniform_and_of_seed_epoch_and_item_alone():
    items = torch.arange(20_000)
    draws = item_draws(items, seed=1, epoch=2)
    assert draws.dtype == torch.float64 and 0 <= draws.min() and draws.max() < 1
    assert torch.histc(draws, 20, 0, 1).sub(1000).abs().max() < 150  # 5 deviations
    assert torch.equal(item_draws(items[777:779], seed=1, epoch=2), draws[777:779])
    for other in (dict(seed=1, epoch=3), dict(seed=2, epoch=2), dict(seed=2, epoch=1)):
        moved = item_draws(items, **other)
        assert torch.corrcoef(torch.stack([draws, moved]))[0, 1].abs() < 0.04
    assert not torch.equal(draws[1:], draws[:-1])


def test_divergence_of_frames_against_loops():
    student, teacher = torch.randn(2, 4, 6, dtype=torch.float64)
    mask = torch.arange(6) < torch.tensor([6, 1, 3, 4])[:, None]
    found = frame_divergence(student, teacher, mask, temperature=0.2)
    for p in range(4):
        count = int(mask[p].sum())
        q, k = ([math.exp(float(x) / 0.2) for x in rows[p][:count]] for rows in (teacher, student))
        q, k = [x / sum(q) for x in q], [x / sum(k) for x in k]
        expected = sum(a * math.log(a / b) for a, b in zip(q, k))
        assert found[p].item() == pytest.approx(expected, rel=1e-9, abs=1e-12)
    inputs = student.requires_grad_(), teacher.requires_grad_()
    assert gradcheck(lambda s, t: frame_divergence(s, t, mask, temperature=0.7), inputs)


def test_schedules():
    assert falling(3, fall='exp', start=0.1, rate=0.95) == pytest.approx(0.1 * 0.95**3)
    assert falling(3, fall='linear', start=0.1, rate=0.1) == pytest.approx(0.07)
    assert falling(30, fall='linear', start=0.1, rate=0.1) == 0
    assert falling(9, fall='constant', start=0.1, rate=1.0) == 0.1
    alphas = [falling(e, fall='sigmoid', start=0.8, rate=800) for e in range(120)]
    assert alphas == sorted(alphas, reverse=True)
    assert alphas[0] == pytest.approx(0.8 * 800 / 801)
    assert alphas[53] == pytest.approx(0.8 * 800 / (800 + math.exp(6.625)))
    assert falling(10**6, fall='sigmoid', start=0.8, rate=800, floor=0.5) == 0.5
    for total in (7, 120, 10_000):
        steps = [epoch_at(i / (total * 3), total) for i in range(total * 3)]
        assert steps == [i // 3 for i in range(total * 3)]
    assert epoch_at(1.0, 120) == 119


def test_what_is_wrong_is_said():
    scores, positives, reference, _ = make()
    for how, message in (
        (dict(alpha=1.1, beta=0.5), r'alpha must lie in \[0, 1\], not 1.1'),
        (dict(alpha=0.5, beta=-1), r'beta must lie in \[0, 1\], not -1'),
    ):
        with pytest.raises(ValueError, match=message):
            soft_label_contrastive(scores, positives, reference, **how)
    with pytest.raises(ValueError, match=r'reference \[7, 4\] differ'):
        soft_label_contrastive(scores, positives, reference[:, 1:], alpha=0.5, beta=0.5)
    with pytest.raises(ValueError, match='pair 1 has no valid frame'):
        frame_divergence(*torch.zeros(2, 2, 3), torch.tensor([[True] * 3, [False] * 3]))
    with pytest.raises(ValueError, match='student .* and teacher .* differ'):
        frame_divergence(torch.zeros(2, 3), torch.zeros(2, 4), torch.ones(2, 3).bool())
    with pytest.raises(ValueError, match="fall must be one of .* not 'cosine'"):
        falling(0, fall='cosine', rate=1.0)
    with pytest.raises(ValueError, match="rate 1.5 does not fit fall 'exp'"):
        falling(0, fall='exp', rate=1.5)
