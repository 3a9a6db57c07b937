"""HGR's scores against loops over pairs, phrases and frames, and their gradients."""

import pytest
import torch

from mmvtr.models.similarities import hgr as hgr_similarity
from mmvtr.models.similarities.hgr import HGRSimilarity, phrase_scores
from mmvtr.structures import Embedding

T, V, F, D = 4, 3, 5, 6


def items(seed=0):
    """Nodes of texts (the last text has none) and frames, with padding that would outdo them."""
    torch.manual_seed(seed)
    nodes, frames = torch.randn(T, 3, D).double(), torch.randn(V, F, D).double()
    node_mask = torch.tensor([[1, 1, 1], [1, 0, 1], [0, 1, 0], [0, 0, 0]]).bool()
    frame_mask = torch.tensor([[1, 1, 1, 1, 1], [1, 0, 1, 0, 0], [0, 0, 0, 1, 0]]).bool()
    nodes[~node_mask], frames[~frame_mask] = 50.0, 50.0
    return nodes, node_mask, frames, frame_mask


def levels(seed=0):
    nodes, node_mask, frames, frame_mask = items(seed)
    more = items(seed + 1)
    texts = {
        'sentence': Embedding(torch.randn(T, D).double()),
        'verb': Embedding(nodes.mean(1), nodes, node_mask),
        'noun': Embedding(more[0].mean(1), more[0], node_mask.flip(0)),
    }
    videos = {
        'sentence': Embedding(torch.randn(V, D).double()),
        'verb': Embedding(frames.mean(1), frames, frame_mask),
        'noun': Embedding(more[2].mean(1), more[2], frame_mask),
    }
    return texts, videos


def cosine(a, b):
    return a @ b / (a.norm() * b.norm())


def pair(nodes, frames, sharpness=4.0):
    """One text's phrases and one video's frames."""
    scores = []
    for node in nodes:
        seen = [cosine(node, frame).clamp(min=0) for frame in frames]
        length = sum(c**2 for c in seen) ** 0.5 if any(c > 0 for c in seen) else 1.0
        weights = [(sharpness * c / length).exp() for c in seen]
        attended = sum(w * frame for w, frame in zip(weights, frames)) / sum(weights)
        scores.append(cosine(node, attended))
    return sum(scores) / len(scores) if scores else frames.new_zeros(())


def loops(nodes, node_mask, frames, frame_mask, **kwargs):
    return torch.stack(
        [
            torch.stack([pair(n[m], f[k], **kwargs) for f, k in zip(frames, frame_mask)])
            for n, m in zip(nodes, node_mask)
        ]
    )


@pytest.mark.parametrize('entries', [1, 30, 2**22])
@pytest.mark.parametrize('sharpness', [4.0, 0.5])
def test_phrase_scores_against_loops(entries, sharpness):
    given = items()
    found = phrase_scores(*given, sharpness=sharpness, entries=entries)
    torch.testing.assert_close(found, loops(*given, sharpness=sharpness))
    assert not found[3].any()  # no phrase
    torch.testing.assert_close(found[:, 2][:3], loops(*given)[:3, 2])  # one frame: its cosine


def test_a_phrase_that_no_frame_resembles_attends_to_all_alike():
    frames = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]]).double()
    node, one = torch.tensor([[[-1.0, -2.0]]]).double().requires_grad_(), torch.ones(1, 1).bool()
    score = phrase_scores(node, one, frames, torch.ones(1, 2).bool())
    torch.testing.assert_close(score[0, 0], cosine(node[0, 0], torch.ones(2).double()))
    score.sum().backward()
    assert node.grad.isfinite().all()


def test_gradients():
    nodes, node_mask, frames, frame_mask = items()
    nodes.requires_grad_()
    frames.requires_grad_()
    mix = torch.randn(T, V).double()

    def grad(function, **kwargs):
        scores = function(nodes, node_mask, frames, frame_mask, **kwargs)
        return torch.autograd.grad((scores * mix).sum(), (nodes, frames))

    grads = grad(phrase_scores, entries=30), grad(phrase_scores), grad(loops)
    for tiled, whole, expected in zip(*grads):
        torch.testing.assert_close(tiled, expected)
        torch.testing.assert_close(whole, expected)
    assert not grads[0][0][~node_mask].any() and not grads[0][1][~frame_mask].any()
    torch.manual_seed(3)
    few = [torch.randn(2, length, 3).double().requires_grad_() for length in (2, 3)]
    valid = torch.tensor([[1, 1], [0, 1]]).bool(), torch.tensor([[1, 1, 1], [1, 1, 0]]).bool()
    assert torch.autograd.gradcheck(lambda n, f: phrase_scores(n, valid[0], f, valid[1]), few)


def test_tiles_are_bounded(monkeypatch):
    sizes = []
    attend = hgr_similarity._attend

    def watch(nodes, frames, mask, sharpness):
        sizes.append((len(nodes), *mask.shape))
        return attend(nodes, frames, mask, sharpness)

    monkeypatch.setattr(hgr_similarity, '_attend', watch)
    phrase_scores(*items(), entries=100)
    assert sizes == [(6, 2, 5), (6, 1, 5)]  # 6 phrases, two videos and one
    sizes.clear()
    phrase_scores(*items(), entries=20)
    assert {size[0] for size in sizes} == {4, 2} and all(n * v * f <= 20 for n, v, f in sizes)


def test_float32_is_close_to_float64():
    torch.manual_seed(0)
    nodes, frames = torch.randn(5, 3, 256).double(), torch.randn(1, 20, 256).double()
    frames = frames + 20 * frames.roll(1, 0) + torch.randn(6, 1, 256)  # frames of a video are alike
    masks = torch.ones(5, 3).bool(), torch.ones(6, 20).bool()
    exact = phrase_scores(nodes, masks[0], frames, masks[1])
    found = phrase_scores(nodes.float(), masks[0], frames.float(), masks[1])
    torch.testing.assert_close(found.double(), exact, atol=1e-6, rtol=0)


# -- the similarity ----------------------------------------------------------------------------


@pytest.mark.parametrize('weights', [(1, 1, 1), (2, 1, 0)])
def test_matrices(weights):
    texts, videos = levels()
    module = HGRSimilarity(weights=weights)
    matrices = module(texts, videos)
    assert set(matrices) == {'sentence', 'verb', 'noun', 'scores'}
    for t in range(T):
        for v in range(V):
            expected = cosine(texts['sentence'].mean[t], videos['sentence'].mean[v])
            torch.testing.assert_close(matrices['sentence'][t, v], expected)
    for name in ('verb', 'noun'):
        expected = loops(*texts[name][1:3], *videos[name][1:3])
        torch.testing.assert_close(matrices[name], expected)
    fused = sum(w * matrices[n] for w, n in zip(weights, ('sentence', 'verb', 'noun')))
    torch.testing.assert_close(matrices['scores'], fused / sum(weights))
    torch.testing.assert_close(HGRSimilarity()(texts, videos)['verb'][3], torch.zeros(V).double())
    assert module.needs_tokens and module.levels == ('sentence', 'verb', 'noun')


def test_one_text_and_one_video():
    texts, videos = levels()
    whole = HGRSimilarity()(texts, videos)['scores']
    one = {name: level.map(lambda x: x[1:2]) for name, level in texts.items()}
    other = {name: level.map(lambda x: x[2:]) for name, level in videos.items()}
    torch.testing.assert_close(HGRSimilarity()(one, other)['scores'], whole[1:2, 2:])


def test_nothing_to_score_keeps_gradients():
    """A batch without any phrase must still reach the parameters of the frames."""
    texts, videos = levels()
    bare = {n: e if e.mask is None else e._replace(mask=e.mask & False) for n, e in texts.items()}
    frames = videos['verb'].tokens.requires_grad_()
    matrices = HGRSimilarity()(bare, videos)
    assert not matrices['verb'].any() and not matrices['noun'].any()
    torch.testing.assert_close(matrices['scores'], matrices['sentence'] / 3)
    matrices['scores'].sum().backward()
    assert frames.grad is not None and not frames.grad.any()
    none = {name: level.map(lambda x: x[:0]) for name, level in videos.items()}
    assert all(m.shape == (T, 0) for m in HGRSimilarity()(texts, none).values())
    none = {name: level.map(lambda x: x[:0]) for name, level in texts.items()}
    assert all(m.shape == (0, V) for m in HGRSimilarity()(none, videos).values())


def test_bad_input():
    texts, videos = levels()
    for weights in ((1, 1), (1, 1, -2)):
        with pytest.raises(ValueError, match=r'three weights \(sentence, verb, noun\)'):
            HGRSimilarity(weights=weights)
    with pytest.raises(ValueError, match="level 'noun' of the videos carries no tokens"):
        HGRSimilarity()(texts, {**videos, 'noun': videos['noun'].global_only()})
    with pytest.raises(ValueError, match="level 'verb' of the texts carries no tokens"):
        HGRSimilarity()({**texts, 'verb': texts['verb'].global_only()}, videos)
    blind = videos['verb']._replace(mask=videos['verb'].mask & torch.tensor([[1], [0], [1]]).bool())
    with pytest.raises(ValueError, match='mask of frames of item 1 of the batch is all False'):
        HGRSimilarity()(texts, {**videos, 'verb': blind})
