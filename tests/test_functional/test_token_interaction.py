import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from mmvtr.functional.similarities.best_frames import sentence_frame_scores
from mmvtr.functional.similarities.token_interaction import (
    below_shortlist,
    paired_token_scores,
    token_scores,
    token_weights,
)

T, V, L, M, D = 7, 5, 6, 4, 3


@pytest.fixture
def tokens():
    """Words, their mask, frames and theirs, float64: unit vectors; NaN-free rubbish as padding.

    Masks have holes; text 0 starts with padding, video 1 holds one frame, text 2 and video 0 are
    full.
    """
    generator = torch.Generator().manual_seed(0)
    words = torch.randn(T, L, D, generator=generator, dtype=torch.float64)
    frames = torch.randn(V, M, D, generator=generator, dtype=torch.float64)
    word_mask = torch.rand(T, L, generator=generator) < 0.6
    frame_mask = torch.rand(V, M, generator=generator) < 0.7
    word_mask[:, 3] = frame_mask[:, 2] = True
    word_mask[0, 0] = False
    word_mask[2] = frame_mask[0] = True
    frame_mask[1] = torch.tensor([False, False, True, False])
    words, frames = F.normalize(words, dim=-1), F.normalize(frames, dim=-1)
    return words * (1 + 9 * ~word_mask[..., None]), word_mask, frames * 2.0, frame_mask


def weights(mask, seed):
    generator = torch.Generator().manual_seed(seed)
    return token_weights(
        torch.randn(mask.shape, generator=generator, dtype=torch.float64), mask
    ).requires_grad_()


def by_loops(words, word_mask, frames, frame_mask, side, a=None, b=None, official=False):
    """Eq. 7 with means or weights, pair by pair."""
    rows = []
    for t in range(len(words)):
        row = []
        for v in range(len(frames)):
            sims = {}
            for n in range(words.shape[1]):
                for m in range(frames.shape[1]):
                    valid = word_mask[t, n] and frame_mask[v, m]
                    dot = sum(words[t, n, d].item() * frames[v, m, d].item() for d in range(D))
                    if valid or official:
                        sims[n, m] = dot if valid else 0.0
            of_words = side_by_loops(sims, 0, word_mask[t], None if a is None else a[t])
            of_frames = side_by_loops(sims, 1, frame_mask[v], None if b is None else b[v])
            row.append(
                dict(words=of_words, frames=of_frames, both=(of_words + of_frames) / 2)[side]
            )
        rows.append(row)
    return torch.tensor(rows, dtype=torch.float64)


def side_by_loops(sims, place, mask, weights):
    """Weighted mean over valid tokens of the largest similarity of each."""
    score = 0
    for n in range(len(mask)):
        if mask[n]:
            weight = 1 / mask.sum().item() if weights is None else weights[n].item()
            score += weight * max(sim for pair, sim in sims.items() if pair[place] == n)
    return score


def untiled(words, word_mask, frames, frame_mask, a, b):
    """All [T, V, L, F] similarities at once, by autograd."""
    sims = torch.einsum('tld,vfd->tvlf', words, frames)
    sims = sims.masked_fill(~word_mask[:, None, :, None] | ~frame_mask[None, :, None], -math.inf)
    of_words = sims.max(3).values.masked_fill(~word_mask[:, None], 0.0) * a[:, None]
    of_frames = sims.max(2).values.masked_fill(~frame_mask[None], 0.0) * b[None]
    return (of_words.sum(2) + of_frames.sum(2)) / 2


@pytest.mark.parametrize('side', ['both', 'words', 'frames'])
@pytest.mark.parametrize('official', [False, True])
@pytest.mark.parametrize('weighted', [False, True])
def test_scores_equal_loops(tokens, side, official, weighted):
    a, b = (weights(tokens[1], 1), weights(tokens[3], 2)) if weighted else (None, None)
    found = token_scores(
        *tokens, side=side, word_weights=a, frame_weights=b, official_mask=official, entries=60
    )
    expected = by_loops(*tokens, side, a, b, official)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


def test_true_masks_never_floor_a_max():
    words = torch.tensor([[[1.0, 0.0], [0.0, 0.0]]])
    frames = torch.tensor([[[-1.0, 0.0], [0.0, 0.0]]])
    mask = torch.tensor([[True, False]])
    assert token_scores(words, mask, frames, mask).item() == -1
    assert token_scores(words, mask, frames, mask, official_mask=True).item() == 0


@pytest.mark.parametrize('official', [False, True])
@pytest.mark.parametrize('dtype, atol', [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_tile_size_and_padding_do_not_matter(official, dtype, atol):
    generator = torch.Generator().manual_seed(3)
    words, frames = (
        F.normalize(torch.randn(*shape, generator=generator), dim=-1).to(dtype).requires_grad_()
        for shape in ((20, 9, 16), (15, 5, 16))
    )
    # Every item has padding: the official scores depend on whether there is any.
    word_mask = torch.arange(9) < torch.randint(1, 9, (20, 1), generator=generator)
    frame_mask = torch.arange(5) < torch.randint(1, 5, (15, 1), generator=generator)
    g = torch.randn(20, 15, generator=generator, dtype=dtype)

    def run(entries, pad=0):
        scores = token_scores(
            F.pad(words, (0, 0, 0, pad), value=5.0),
            F.pad(word_mask, (0, pad)),
            F.pad(frames, (0, 0, 0, pad), value=5.0),
            F.pad(frame_mask, (0, pad)),
            official_mask=official,
            entries=entries,
        )
        return scores.detach(), *torch.autograd.grad(scores, (words, frames), g)

    whole = run(10**6)
    assert whole[0].dtype == dtype
    for entries in (1, 45, 777, 5000):
        for one, other in zip(run(entries, pad=entries % 4), whole):
            torch.testing.assert_close(one, other, atol=atol, rtol=0)


@pytest.mark.parametrize('official', [False, True])
def test_an_item_scores_the_same_in_any_company(tokens, official):
    words, word_mask, frames, frame_mask = tokens
    whole = token_scores(*tokens, official_mask=official)
    for rows, columns in (([3], [1]), ([6, 0], [4, 2, 0]), (list(range(T)), [1])):
        part = token_scores(
            words[rows],
            word_mask[rows],
            frames[columns],
            frame_mask[columns],
            official_mask=official,
        )
        torch.testing.assert_close(part, whole[rows][:, columns], atol=1e-12, rtol=0)


def test_gradients_of_tokens_and_weights(tokens):
    words, word_mask, frames, frame_mask = tokens
    inputs = [x.clone().requires_grad_() for x in (words, frames)]
    inputs += [weights(word_mask, 1), weights(frame_mask, 2)]
    g = torch.randn(T, V, dtype=torch.float64, generator=torch.Generator().manual_seed(4))

    def tiled(w, f, a, b):
        return token_scores(
            w, word_mask, f, frame_mask, word_weights=a, frame_weights=b, entries=70
        )

    reference = untiled(inputs[0], word_mask, inputs[1], frame_mask, *inputs[2:])
    expected = torch.autograd.grad(reference, inputs, g)
    for one, other in zip(torch.autograd.grad(tiled(*inputs), inputs, g), expected):
        torch.testing.assert_close(one, other, atol=1e-12, rtol=0)


@pytest.mark.parametrize('side', ['both', 'words', 'frames'])
@pytest.mark.parametrize('official', [False, True])
def test_gradcheck(tokens, side, official):
    words, word_mask, frames, frame_mask = (x[:2] for x in tokens)

    def tiled(w, f, a, b):
        return token_scores(
            w,
            word_mask,
            f,
            frame_mask,
            side=side,
            word_weights=a,
            frame_weights=b,
            official_mask=official,
            entries=40,
        )

    a, b = weights(word_mask, 1), weights(frame_mask, 2)
    assert torch.autograd.gradcheck(
        tiled, (words.clone().requires_grad_(), frames.clone().requires_grad_(), a, b)
    )


def test_weights_alone_may_ask_for_a_gradient(tokens):
    a, b = weights(tokens[1], 1), weights(tokens[3], 2)
    scores = token_scores(*tokens, word_weights=a, frame_weights=b, entries=50)
    (found,) = torch.autograd.grad(scores.sum(), b)
    (expected,) = torch.autograd.grad(untiled(*tokens, a, b).sum(), b)
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


def test_ties_send_a_gradient_to_one_of_them():
    words = torch.ones(1, 1, 1)
    frames = torch.ones(1, 3, 1, requires_grad=True)
    mask = torch.ones(1, 3, dtype=torch.bool)
    token_scores(words, mask[:, :1], frames, mask, side='words').sum().backward()
    assert sorted(frames.grad.flatten().tolist()) == [0, 0, 1]


class Largest(TorchDispatchMode):
    """Notes the size of the largest tensor that an operation returns, forward or backward."""

    size = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor):
            self.size = max(self.size, out.numel())
        return out


def test_no_tensor_of_all_similarities_is_made():
    frame_mask = torch.ones(200, 6, dtype=torch.bool)
    frames = torch.randn(200, 6, 2)
    for texts, videos in ((40, 50), (4, 200)):  # of 96,000 and 38,400 similarities
        words = torch.randn(texts, 8, 2, requires_grad=True)
        word_mask = torch.ones(texts, 8, dtype=torch.bool)
        with Largest() as largest:
            scores = token_scores(
                words, word_mask, frames[:videos], frame_mask[:videos], entries=5000
            )
            scores.sum().backward()
        assert 2500 < largest.size <= 5000
    sentences = torch.randn(90, 2, requires_grad=True)
    with Largest() as largest:  # of 27,000
        sentence_frame_scores(
            sentences, frames[:50], frame_mask[:50], entries=5000
        ).sum().backward()
    assert 2500 < largest.size <= 5000
    columns = torch.randint(200, (4, 20))
    with Largest() as largest:  # of 3,840, and 960 copies of frames
        paired_token_scores(words.detach(), word_mask, frames, frame_mask, columns, entries=2500)
    assert largest.size <= 2500


def test_half_precision_and_autocast_are_computed_in_float32(tokens):
    words, word_mask, frames, frame_mask = tokens
    half = words.bfloat16(), word_mask, frames.bfloat16(), frame_mask
    expected = token_scores(half[0].float(), word_mask, half[2].float(), frame_mask)
    with torch.autocast('cpu', torch.bfloat16):
        assert torch.equal(token_scores(*half), expected)
        w = words.float().requires_grad_()
        token_scores(w, word_mask, frames.float(), frame_mask).sum().backward()
    plain = words.float().requires_grad_()
    token_scores(plain, word_mask, frames.float(), frame_mask).sum().backward()
    assert torch.equal(w.grad, plain.grad)


def test_no_texts_or_no_videos(tokens):
    words, word_mask, frames, frame_mask = tokens
    words = words.clone().requires_grad_()
    scores = token_scores(words[:0], word_mask[:0], frames, frame_mask)
    assert scores.shape == (0, V)
    scores.sum().backward()
    assert (words.grad == 0).all()
    assert token_scores(words, word_mask, frames[:0], frame_mask[:0]).shape == (T, 0)
    assert sentence_frame_scores(words[:0, 0], frames, frame_mask).shape == (0, V)
    assert sentence_frame_scores(words[:, 0], frames[:0], frame_mask[:0]).shape == (T, 0)


# -- golden files ------------------------------------------------------------------------------


@pytest.mark.parametrize('case', ['masked', 'full'])
@pytest.mark.parametrize('entries', [2**22, 100])
def test_golden_wti(shared, case, entries):
    with np.load(shared / 'golden/drl_wti.npz', allow_pickle=False) as file:
        golden = {key: torch.from_numpy(file[key]) for key in file}
    words, frames = golden['text'], golden['video']
    masks = [golden[f'{side}_mask'].bool() for side in ('text', 'video')]
    if case == 'full':
        masks = [torch.ones_like(mask) for mask in masks]

    def logits(side, x):
        first, last = (f'w.{side}_weight_fc.{i}.' for i in (0, 2))
        hidden = F.relu(F.linear(x, golden[first + 'weight'], golden[first + 'bias']))
        return F.linear(hidden, golden[last + 'weight'], golden[last + 'bias'])[..., 0]

    a = token_weights(logits('text', words), masks[0])
    b = token_weights(logits('video', frames), masks[1])
    inputs = F.normalize(words, dim=-1), masks[0], F.normalize(frames, dim=-1), masks[1]
    kwargs = dict(official_mask=True, entries=entries)
    ti = token_scores(*inputs, **kwargs)
    wti = token_scores(*inputs, word_weights=a, frame_weights=b, **kwargs)
    torch.testing.assert_close(ti, golden[f'ti_{case}'], atol=1e-6, rtol=0)
    torch.testing.assert_close(wti, golden[f'wti_{case}'], atol=1e-6, rtol=0)


# -- weights, sentences ------------------------------------------------------------------------


def test_token_weights():
    mask = torch.tensor([[True, False, True], [False, False, False]])
    found = token_weights(torch.tensor([[0.0, 9.0, math.log(3)], [1.0, 2.0, 3.0]]), mask)
    assert found.flatten().tolist() == pytest.approx([0.25, 0, 0.75, 0, 0, 0])


@pytest.mark.parametrize('entries', [1, 30, 2**22])
def test_sentence_against_frames(tokens, entries):
    words, _, frames, frame_mask = tokens
    sentences, tau = words[:, 0].clone().requires_grad_(), 0.3
    found = sentence_frame_scores(sentences, frames, frame_mask, temperature=tau, entries=entries)
    for t in range(T):
        for v in range(V):
            sims = [
                sum(sentences[t, d].item() * frames[v, m, d].item() for d in range(D))
                for m in range(M)
                if frame_mask[v, m]
            ]
            total = sum(math.exp(s / tau) for s in sims)
            score = sum(s * math.exp(s / tau) / total for s in sims)
            assert found[t, v].item() == pytest.approx(score, abs=1e-12)
    assert torch.autograd.gradcheck(
        lambda s, f: sentence_frame_scores(s, f, frame_mask[:2], temperature=tau, entries=entries),
        (sentences[:3].detach().requires_grad_(), frames[:2].clone().requires_grad_()),
    )


def test_sentence_against_its_best_frame(tokens):
    words, _, frames, frame_mask = tokens
    best = sentence_frame_scores(words[:, 0], frames, frame_mask, temperature=0)
    sims = torch.einsum('td,vfd->tvf', words[:, 0], frames)
    expected = sims.masked_fill(~frame_mask[None], -math.inf).amax(2)
    torch.testing.assert_close(best, expected, atol=1e-12, rtol=0)
    near = sentence_frame_scores(words[:, 0], frames, frame_mask, temperature=1e-4)
    torch.testing.assert_close(near, expected, atol=1e-3, rtol=0)


# -- two stages --------------------------------------------------------------------------------


@pytest.mark.parametrize('side', ['both', 'words', 'frames'])
@pytest.mark.parametrize('official', [False, True])
def test_some_pairs_equal_all_pairs(tokens, side, official):
    kwargs = dict(
        side=side,
        word_weights=weights(tokens[1], 1).detach(),
        frame_weights=weights(tokens[3], 2).detach(),
        official_mask=official,
    )
    columns = torch.stack([torch.randperm(V)[:3] for _ in range(T)])
    whole = token_scores(*tokens, **kwargs)
    for entries in (1, 200, 2**22):
        found = paired_token_scores(*tokens, columns, entries=entries, **kwargs)
        torch.testing.assert_close(found, whole.gather(1, columns), atol=1e-12, rtol=0)


def test_others_follow_below_the_shortlist_in_pooled_order():
    pooled = torch.tensor([[0.1, 0.9, 0.5, 0.5, 0.8, 0.50000006]])
    columns = torch.tensor([[1, 4]])
    scores = below_shortlist(pooled, columns, torch.tensor([[-0.25, 0.5]]))
    assert scores.tolist() == [[-7, -0.25, -5, -5, 0.5, -4]]
    scores = below_shortlist(pooled, columns, torch.tensor([[-7.5, 0.5]]))
    assert scores.tolist() == [[-14, -7.5, -12, -12, 0.5, -11]]
    tied = below_shortlist(torch.zeros(1, 3), torch.tensor([[1]]), torch.ones(1, 1))
    assert tied.tolist() == [[0, 1, 0]]


# -- bad input ---------------------------------------------------------------------------------


def test_bad_input(tokens):
    words, word_mask, frames, frame_mask = tokens
    with pytest.raises(ValueError, match="side must be one of .* not 'text'"):
        token_scores(*tokens, side='text')
    with pytest.raises(ValueError, match=r'video tokens \(5, 4, 3\) need a mask \(5, 4\), not'):
        token_scores(words, word_mask, frames, frame_mask[:, 1:])
    with pytest.raises(ValueError, match='temperature must be positive, or 0'):
        sentence_frame_scores(words[:, 0], frames, frame_mask, temperature=-1.0)
    with pytest.raises(ValueError, match='texts have 3 dimensions, videos 2: need the same'):
        token_scores(words, word_mask, frames[..., :2], frame_mask)
    with pytest.raises(
        ValueError, match=r'texts \(7, 3\), frames \(5, 4, 2\) and mask \(5, 4\) must'
    ):
        sentence_frame_scores(words[:, 0], frames[..., :2], frame_mask)
    empty_text, empty_video = word_mask.clone(), frame_mask.clone()
    empty_text[4] = empty_video[2] = False
    with pytest.raises(ValueError, match='text 4 has no valid token'):
        token_scores(words, empty_text, frames, frame_mask)
    with pytest.raises(ValueError, match='video 2 has no valid frame'):
        sentence_frame_scores(words[:, 0], frames, empty_video)
    with pytest.raises(ValueError, match='video 2 has no valid token'):
        paired_token_scores(*tokens[:3], empty_video, torch.zeros(T, 1, dtype=torch.long))
