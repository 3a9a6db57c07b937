import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from mmvtr.functional.similarities.token_interaction import token_weights
from mmvtr.models import TokenSimilarity
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding

T, V, L, M, D = 6, 9, 5, 4, 8


@pytest.fixture
def items():
    """Texts and videos, float32, with padding and tokens that are not of unit length."""
    torch.manual_seed(0)
    word_mask = torch.arange(L) < torch.tensor([5, 1, 3, 2, 4, 5])[:, None]
    frame_mask = torch.arange(M) < torch.tensor([4, 1, 3, 2, 4, 4, 2, 3, 4])[:, None]
    texts = Embedding(torch.randn(T, D), 3 * torch.randn(T, L, D), word_mask)
    videos = Embedding(torch.randn(V, D), 3 * torch.randn(V, M, D), frame_mask)
    return {'global': texts}, {'global': videos}


def by_loops(texts, videos, a=None, b=None, side='both'):
    """Eq. 7 in float64, a pair at a time; weights default to means."""
    scores = torch.empty(len(texts.mean), len(videos.mean), dtype=torch.float64)
    for t in range(len(scores)):
        words = F.normalize(texts.tokens[t][texts.mask[t]].double(), dim=-1)
        for v in range(scores.shape[1]):
            frames = F.normalize(videos.tokens[v][videos.mask[v]].double(), dim=-1)
            sims = words @ frames.t()
            wa = torch.full((len(words),), 1 / len(words)) if a is None else a[t][texts.mask[t]]
            wb = torch.full((len(frames),), 1 / len(frames)) if b is None else b[v][videos.mask[v]]
            of_words = sum(w * row.max() for w, row in zip(wa, sims))
            of_frames = sum(w * column.max() for w, column in zip(wb, sims.t()))
            scores[t, v] = dict(words=of_words, frames=of_frames, both=(of_words + of_frames) / 2)[
                side
            ]
    return scores.float().detach()


def close(one, other, atol=1e-6):
    torch.testing.assert_close(one, other, atol=atol, rtol=0)


@pytest.mark.parametrize('mode', ['both', 'words', 'frames'])
def test_means_of_cosines(items, mode):
    similarity = MODELS.build(dict(type='TokenSimilarity', mode=mode, entries=100))
    out = similarity(*items)
    assert similarity.needs_tokens and similarity.exact and not list(similarity.parameters())
    close(out['scores'], by_loops(items[0]['global'], items[1]['global'], side=mode))
    assert out['token'] is out['scores']


@pytest.mark.parametrize('weights', ['drl', 'uatvr'])
def test_learnt_weights(items, weights):
    similarity = TokenSimilarity(weights=weights, dim=D, hidden=7, entries=100)
    side_weights = []
    for side, levels in zip(('text', 'video'), items):
        tokens, mask = levels['global'].tokens, levels['global'].mask
        tokens = F.normalize(tokens, dim=-1) if weights == 'uatvr' else tokens
        first, _, last = similarity.weighers[side]
        assert first.weight.shape == (7, D)
        logits = (tokens @ first.weight.t() + first.bias).clamp_min(0) @ last.weight[0] + last.bias
        side_weights.append(torch.stack([_softmax(x, m) for x, m in zip(logits, mask)]))
    out = similarity(*items)['scores']
    close(out, by_loops(items[0]['global'], items[1]['global'], *side_weights))
    out.diagonal().sum().backward()
    for name, p in similarity.named_parameters():
        assert p.grad is not None
        # A softmax does not see the last bias.
        assert name.endswith('2.bias') or p.grad.abs().sum() > 0, name


@pytest.mark.parametrize('mode', ['words', 'frames'])
def test_every_weight_of_a_one_sided_mode_is_used(items, mode):
    similarity = TokenSimilarity(mode=mode, weights='drl', dim=D)
    out = similarity(*items)['scores']
    side = dict(words='text', frames='video')[mode]
    assert list(similarity.weighers) == [side]
    e = items[mode == 'frames']['global']
    weights = token_weights(similarity.weighers[side](e.tokens)[..., 0], e.mask)
    pair = (weights, None) if mode == 'words' else (None, weights)
    close(out, by_loops(items[0]['global'], items[1]['global'], *pair, side=mode))
    out.diagonal().sum().backward()
    assert all(p.grad is not None for p in similarity.parameters())


def _softmax(logits, mask):
    e = logits.double().exp() * mask
    return e / e.sum()


def test_sentence_against_frames(items):
    texts, videos = (levels['global'] for levels in items)
    out = TokenSimilarity(mode='sentence', frame_temperature=0.1, entries=50)(*items)['scores']
    best = TokenSimilarity(mode='sentence', frame_temperature=0)(*items)['scores']
    for t in range(T):
        for v in range(V):
            frames = F.normalize(videos.tokens[v][videos.mask[v]], dim=-1)
            sims = frames @ F.normalize(texts.mean[t], dim=-1)
            close(out[t, v], (sims * (sims / 0.1).softmax(0)).sum())
            close(best[t, v], sims.max())


def test_reads_its_level_and_scores_in_float32(items):
    texts, videos = ({'local': x['global'].map(_half)} for x in items)
    with torch.autocast('cpu', torch.bfloat16):
        out = TokenSimilarity(level='local', weights='drl', dim=D)(texts, videos)['scores']
    assert out.dtype == torch.float32
    with pytest.raises(KeyError, match='global'):
        TokenSimilarity()(texts, videos)


def _half(x):
    return x.bfloat16() if x.is_floating_point() else x


class Largest(TorchDispatchMode):
    """Notes the size of the largest tensor that an operation returns."""

    size = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor):
            self.size = max(self.size, out.numel())
        return out


@pytest.mark.parametrize(
    'kwargs', [dict(), dict(mode='sentence'), dict(shortlist=7)], ids=['tokens', 'sentence', 'k']
)
def test_entries_bound_what_exists(items, kwargs):
    narrow = [
        {'global': Embedding(e.mean[:, :2], e.tokens[..., :2], e.mask)}
        for e in (levels['global'] for levels in items)
    ]
    sizes = []
    for entries in (50, 10**6):
        with Largest() as largest:
            TokenSimilarity(entries=entries, **kwargs).eval()(*narrow)
        sizes.append(largest.size)
    # 1,080 cosines of words, 216 of sentences, 840 of shortlists (140 of one text's).
    assert 2 * sizes[0] < sizes[1]


# -- two stages --------------------------------------------------------------------------------


def test_shortlist(items):
    whole = TokenSimilarity().eval()(*items)['scores']
    similarity = TokenSimilarity(shortlist=4, entries=300).eval()
    assert not similarity.exact
    out = similarity(*items)
    assert not similarity.exact and set(out) == {'pooled', 'scores'}
    texts, videos = (F.normalize(x['global'].mean, dim=-1) for x in items)
    pooled = texts @ videos.t()
    close(out['pooled'], pooled)
    for t in range(T):
        order = pooled[t].argsort(descending=True)
        close(out['scores'][t, order[:4]], whole[t, order[:4]])
        ranking = out['scores'][t].argsort(descending=True).tolist()
        assert ranking[:4] == sorted(order[:4].tolist(), key=lambda v: -whole[t, v])
        assert ranking[4:] == order[4:].tolist()


@pytest.mark.parametrize('k', [V, V + 5])
def test_a_shortlist_of_all_videos_is_exact(items, k):
    similarity = TokenSimilarity(shortlist=k).eval()
    assert torch.equal(similarity(*items)['scores'], TokenSimilarity()(*items)['scores'])
    assert similarity.exact


def test_shortlist_of_learnt_weights_with_official_masks(items):
    kwargs = dict(weights='uatvr', dim=D, official_mask=True)
    torch.manual_seed(1)
    similarity = TokenSimilarity(**kwargs, shortlist=3).eval()
    other = TokenSimilarity(**kwargs).eval()
    other.load_state_dict(similarity.state_dict())
    out, whole = similarity(*items), other(*items)['scores']
    columns = out['pooled'].topk(3).indices
    close(out['scores'].gather(1, columns), whole.gather(1, columns))


@torch.no_grad()
@pytest.mark.parametrize(
    'kwargs', [dict(), dict(mode='words'), dict(weights='uatvr', dim=D, official_mask=True)]
)
def test_matches_sum_to_the_scores(items, kwargs):
    torch.manual_seed(1)
    similarity = TokenSimilarity(**kwargs)
    found = similarity.matches(*items)
    assert set(found) == ({'words'} if 'mode' in kwargs else {'words', 'frames'})
    close(sum(side.share.sum(-1) for side in found.values()), similarity(*items)['scores'])
    with pytest.raises(ValueError, match="mode 'sentence' compares whole texts"):
        TokenSimilarity(mode='sentence').matches(*items)


# -- golden files ------------------------------------------------------------------------------


@pytest.mark.parametrize('case', ['masked', 'full'])
def test_golden_drl(shared, case):
    with np.load(shared / 'golden/drl_wti.npz', allow_pickle=False) as file:
        golden = {key: torch.from_numpy(file[key]) for key in file}
    levels = []
    for side in ('text', 'video'):
        mask = golden[f'{side}_mask'].bool()
        mask = torch.ones_like(mask) if case == 'full' else mask
        levels.append({'global': Embedding(golden[side].mean(1), golden[side], mask)})
    wti = TokenSimilarity(weights='drl', dim=64, hidden=128, official_mask=True)
    state = {
        f'weighers.{side}.{key}': golden[f'w.{side}_weight_fc.{key}']
        for side in ('text', 'video')
        for key in ('0.weight', '0.bias', '2.weight', '2.bias')
    }
    wti.load_state_dict(state)
    close(wti(*levels)['scores'].detach(), golden[f'wti_{case}'])
    ti = TokenSimilarity(official_mask=True)
    close(ti(*levels)['scores'], golden[f'ti_{case}'])


def test_official_masks_by_hand():
    """A text of one valid word that points away from its frame: 0 from padding, else -1."""
    mask = torch.tensor([[True, False]])
    word, frame = (
        torch.tensor([[[2.0, 0.0], [5.0, 5.0]]]),
        torch.tensor([[[-3.0, 0.0], [1.0, 1.0]]]),
    )
    texts, videos = ({'global': Embedding(x[:, 0], x, mask)} for x in (word, frame))
    assert TokenSimilarity()(texts, videos)['scores'].item() == pytest.approx(-1)
    assert TokenSimilarity(official_mask=True)(texts, videos)['scores'].item() == 0


# -- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    'kwargs, message',
    [
        (dict(mode='words-frames'), "mode must be one of .* not 'words-frames'"),
        (dict(weights='wti', dim=D), "weights must be one of .None, 'drl', 'uatvr'., not 'wti'"),
        (dict(weights='drl'), "weights='drl' needs dim"),
        (dict(shortlist=0), 'shortlist must be at least 1, not 0'),
        (dict(mode='sentence', shortlist=3), "mode 'sentence' has no weights, official_mask or"),
    ],
)
def test_bad_settings(kwargs, message):
    with pytest.raises(ValueError, match=message):
        TokenSimilarity(**kwargs)


def test_bad_input(items):
    with pytest.raises(RuntimeError, match='shortlist=2 is for evaluation'):
        TokenSimilarity(shortlist=2).train()(*items)
    texts, videos = items
    bare = {'global': videos['global'].global_only()}
    with pytest.raises(ValueError, match="level 'global' of the videos carries no tokens"):
        TokenSimilarity()(texts, bare)
    texts['global'].mask[3] = False
    for kwargs in (dict(), dict(weights='drl', dim=D), dict(shortlist=2)):
        with pytest.raises(ValueError, match='text 3 has no valid token'):
            TokenSimilarity(**kwargs).eval()(*items)
