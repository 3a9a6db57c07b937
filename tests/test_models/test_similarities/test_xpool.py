"""X-Pool against loops in float64; tiles, shortlist, dropout and padding."""

import pytest
import torch
from torch.autograd import gradcheck

from mmvtr.models.similarities.xpool import XPoolSimilarity
from mmvtr.structures import Embedding

T, V, L, D = 3, 4, 5, 4


def make(seed=0, dtype=torch.float64, **kwargs):
    torch.manual_seed(seed)
    model = XPoolSimilarity(dim=D, **kwargs).to(dtype)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.3 * torch.randn_like(p))
    mask = torch.arange(L) < torch.tensor([5, 1, 3, 2])[:, None]
    tokens = torch.randn(V, L, D, dtype=dtype)
    texts = {'global': Embedding(torch.randn(T, D, dtype=dtype))}
    means = (tokens * mask[..., None]).sum(1)
    tokens[~mask] = 1e3
    return model, texts, {'global': Embedding(means, tokens, mask)}


def norm(x, layer):
    x = x - x.mean()
    return x / (x.square().mean() + 1e-5).sqrt() * layer.weight + layer.bias


def by_loops(model, texts, videos):
    scores = torch.zeros(T, V, dtype=torch.float64)
    for i, t in enumerate(texts['global'].mean):
        for j in range(V):
            frames = videos['global'].tokens[j][videos['global'].mask[j]]
            query = model.query(norm(t, model.norm_in))
            inner = [norm(f, model.norm_in) for f in frames]
            keys, values = ([layer(f) for f in inner] for layer in (model.key, model.value))
            parts, width = [], D // model.heads
            for h in range(model.heads):
                own = slice(h * width, (h + 1) * width)
                weights = [(query[own] @ k[own] / width**0.5).exp() for k in keys]
                mixed = sum(w * x[own] for w, x in zip(weights, values)) / sum(weights)
                parts.append(mixed)
            pooled = norm(model.output(torch.cat(parts)), model.norm_pooled)
            z = norm(pooled + model.linear(pooled), model.norm_out)
            scores[i, j] = torch.cosine_similarity(t, z, dim=0)
    return scores


@pytest.mark.parametrize('entries', [1, 100, 2**24])
@pytest.mark.parametrize('heads', [1, 2])
def test_against_loops(heads, entries):
    model, texts, videos = make(heads=heads, entries=entries)
    model.eval()
    found = model(texts, videos)
    assert set(found) == {'pooled', 'scores'} and model.exact
    torch.testing.assert_close(found['scores'], by_loops(model, texts, videos))


def test_gradients():
    model, texts, videos = make(entries=200)
    model.eval()
    mask = videos['global'].mask

    def scores(t, tokens, *weights):
        video = {'global': Embedding(tokens.mean(1), tokens, mask)}
        return model({'global': Embedding(t)}, video)['scores']

    inputs = texts['global'].mean, videos['global'].tokens.masked_fill(~mask[..., None], 0.5)
    assert gradcheck(scores, tuple(x.requires_grad_() for x in inputs))
    scores(*inputs).sin().sum().backward()
    assert all(p.grad.abs().max() > 0 for n, p in model.named_parameters() if n != 'key.bias')


def test_a_shortlist_ranks_its_videos_by_x_pool_and_the_others_below():
    model, texts, videos = make()
    model.eval()
    exact = model(texts, videos)['scores']
    model.shortlist = 2
    found = model(texts, videos)
    assert not model.exact
    best = found['pooled'].topk(2).indices
    for t in range(T):
        chosen = best[t][exact[t, best[t]].argsort(descending=True)]
        rest = [v for v in found['pooled'][t].argsort(descending=True).tolist() if v not in best[t]]
        assert found['scores'][t].argsort(descending=True).tolist() == chosen.tolist() + rest
    model.shortlist = V
    torch.testing.assert_close(model(texts, videos)['scores'], exact)
    assert model.exact
    model.train()
    with pytest.raises(RuntimeError, match='shortlist=4 is for evaluation'):
        model(texts, videos)


def test_dropout_is_of_the_step_and_the_same_backwards():
    one, texts, videos = make(dropout=0.5, entries=100)
    other = make(dropout=0.5, entries=100)[0]
    torch.rand(7)  # whatever other processes have drawn
    first, again = (model.train()(texts, videos)['scores'] for model in (one, other))
    torch.testing.assert_close(first, again, rtol=0, atol=0)
    assert not torch.equal(first, one(texts, videos)['scores'])  # the next step
    weight = one.output.weight
    (found,) = torch.autograd.grad(first.sum(), weight)
    with torch.no_grad():
        base = weight[0, 1].item()
        values = []
        for shift in (1e-6, -1e-6):
            weight[0, 1] = base + shift
            one.step.zero_()
            values.append(one(texts, videos)['scores'].sum().item())
        weight[0, 1] = base
    assert (values[0] - values[1]) / 2e-6 == pytest.approx(found[0, 1].item(), rel=1e-4)


def test_no_items_and_what_is_wrong():
    model, texts, videos = make()
    empty = torch.zeros(0, 1, D, dtype=torch.float64)
    none = {'global': Embedding(empty[:, 0], empty, torch.ones(0, 1).bool())}
    scores = model(texts, none)['scores']
    assert scores.shape == (T, 0)
    scores.sum().backward()
    with pytest.raises(ValueError, match="'global' of the videos carries no tokens"):
        model(texts, {'global': videos['global'].global_only()})
    for bad, message in (
        (dict(heads=3), 'a multiple of heads, not 4 of 3'),
        (dict(dropout=1.0), r'\[0, 1\), not 1.0'),
        (dict(shortlist=0), 'shortlist must be at least 1, not 0'),
    ):
        with pytest.raises(ValueError, match=message):
            XPoolSimilarity(dim=D, **bad)
