"""NeighborRetr's registered parts: official totals, banks, and what is refused."""

import re

import numpy as np
import pytest
import torch

from mmvtr.models.losses.matrix import ContrastiveLoss
from mmvtr.models.losses.neighbours import NeighborRetrLoss
from mmvtr.models.similarities.cosine import CosineSimilarity
from mmvtr.models.similarities.token import TokenSimilarity, TokenVectorSimilarity
from mmvtr.models.supervisions.hubs import HubSupervision
from mmvtr.models.target import Target, check_read
from mmvtr.structures import Embedding

T, V, D = 7, 6, 5
NAN = torch.tensor(torch.nan, dtype=torch.float64)
#: Part -> the official code's name.
PARTS = dict(contrast='wti', uniform='opt', neighbours='nbi', divergence='kl')


@pytest.mark.parametrize('size', ['tiny', 'mid'])
def test_official_parts_and_totals(shared, size):
    golden = np.load(shared / 'golden/neighborretr.npz')
    number = r'([\d.]+)'
    pattern = rf'{size}\.total_k(\d+)_t{number}_b{number}_c{number}_s(\d+)\.total'
    found = [m for m in (re.fullmatch(pattern, name) for name in golden.files) if m]
    assert len(found) == 2

    def stored(name):
        return torch.from_numpy(golden[f'{size}.{name}'])

    def side(name):
        tokens = stored(f'{name}_tokens')
        mask = torch.ones(tokens.shape[:2], dtype=torch.bool)
        return {'global': Embedding(stored(f'{name}_global')[:, 0], tokens, mask)}

    for match in found:
        k, sharpness, share, scale, logit_scale = (float(x) for x in match.groups())
        matrices = dict(token=stored('local'), **{'global': stored('global')})
        leaves = [x.requires_grad_() for x in matrices.values()]
        known = Target(torch.eye(len(leaves[0])).bool())
        texts, videos = side('text'), side('video')
        judge = HubSupervision(dim=texts['global'].mean.shape[1], scale=scale)
        target, _ = judge(texts, videos, known)
        banks = dict(t2v='texts_by_video', v2t='videos_by_text')
        hubness = {way: stored(f'bank_{name}').mean(1) for way, name in banks.items()}
        loss = NeighborRetrLoss(
            neighbours=int(k), sharpness=sharpness, share=share, uniform_temperature=1 / sharpness
        )
        case, target = match[0].rpartition('.')[0], target.put(hubness=hubness)
        for name, value in loss.parts(matrices, target, 1 / logit_scale).items():
            np.testing.assert_allclose(value.item(), golden[f'{case}.{PARTS[name]}'], rtol=1e-5)
        total = loss(matrices, target, 1 / logit_scale)
        np.testing.assert_allclose(total.item(), golden[match[0]], rtol=1e-5)
        for name, gradient in zip(('local', 'global'), torch.autograd.grad(total, leaves)):
            np.testing.assert_allclose(gradient, golden[f'{case}.grad_{name}'], atol=1e-5)


@pytest.fixture
def levels():
    generator = torch.Generator().manual_seed(3)
    sides = []
    for count in (T, V):
        tokens = torch.randn(count, 3, D, generator=generator, dtype=torch.float64)
        mask = torch.ones(count, 3, dtype=torch.bool)
        mask[1, 1:] = False
        sides.append({'global': Embedding(tokens.mean(1), tokens, mask)})
    return sides


@pytest.fixture
def target():
    positives = torch.zeros(T, V, dtype=torch.bool)
    positives[range(4), range(4)] = True
    return Target(positives)


def unit(x):
    return x / x.norm(dim=-1, keepdim=True)


def test_counts_and_hubness(levels, target):
    """Padding is left out, or counts as 0; the batch stands for banks that are empty."""
    for official in (False, True):
        module = HubSupervision(dim=D, scale=0.5, official_mask=official)
        found, _ = module(*levels, target)
        for way, side, other in (('t2v', 0, 1), ('v2t', 1, 0)):
            own, partner = levels[side]['global'], levels[other]['global']
            cosines = unit(own.mean) @ unit(own.tokens[own.mask]).T
            mean = cosines.sum(1) / (own.mask.numel() if official else own.mask.sum())
            torch.testing.assert_close(found.counts[way], (0.5 * mean).exp())
            hubness = (unit(partner.mean) @ unit(own.mean).T).mean(1)
            torch.testing.assert_close(found.extras['hubness'][way], hubness)


def test_banks_hold_the_batches_before(levels, target):
    module = HubSupervision(dim=D, bank_size=9).double()
    module.eval()(*levels, target)
    assert len(module.banks['text']) == 0
    module.train()(*levels, target)
    second = [{'global': Embedding(-1.5 * side['global'].mean)} for side in levels]
    found, _ = module(*second, target)
    texts, videos = (unit(side['global'].mean) for side in levels)
    # Videos of the second batch, the first turned about, meet the texts of the first.
    torch.testing.assert_close(found.extras['hubness']['t2v'], -(videos @ texts.T).mean(1))
    assert len(module.banks['text']) == len(module.banks['video']) == 9
    third, _ = module(*levels, target)
    kept = torch.cat([texts[-2:], -texts])  # the last nine of fourteen
    torch.testing.assert_close(third.extras['hubness']['t2v'], (videos @ kept.T).mean(1))
    again = HubSupervision(dim=D, bank_size=9).double()
    again.load_state_dict(module.state_dict())
    assert torch.equal(
        again.banks['text'].levels['global'].mean, module.banks['text'].levels['global'].mean
    )


def test_gradients_reach_all_levels(levels, target):
    """Of tokens, of vectors through counts and through hubness; the banks keep none."""
    module, loss = HubSupervision(dim=D).double(), NeighborRetrLoss(neighbours=2)
    leaves = [side['global'].mean.requires_grad_() for side in levels]
    leaves += [side['global'].tokens.requires_grad_() for side in levels]
    for _ in range(2):
        found, _ = module(*levels, target)
        matrices = TokenVectorSimilarity()(*levels)
        for gradient in torch.autograd.grad(loss(matrices, found, 0.2), leaves, retain_graph=True):
            assert gradient.isfinite().all() and gradient.abs().sum() > 0
        flat = {name: x.detach() for name, x in matrices.items()}
        for kept in (found._replace(counts=detached(found.counts)), hubness_detached(found)):
            some = torch.autograd.grad(loss(flat, kept, 0.2), leaves[:2], retain_graph=True)
            assert all(gradient.abs().sum() > 0 for gradient in some)
    assert not module.banks['text'].levels['global'].mean.requires_grad


def detached(by_way):
    return {way: x.detach() for way, x in by_way.items()}


def hubness_detached(target):
    return target.put(hubness=detached(target.extras['hubness']))


def test_two_matrices_and_their_mean(levels):
    found = TokenVectorSimilarity()(*levels)
    token, whole = TokenSimilarity()(*levels)['token'], CosineSimilarity()(*levels)['scores']
    assert torch.equal(found['token'], token) and torch.equal(found['global'], whole)
    torch.testing.assert_close(found['scores'], (token + whole) / 2)


def test_a_batch_without_texts_or_videos(levels, target):
    for t, v in ((0, V), (T, 0), (0, 0)):
        sides = [
            {name: level.map(lambda x, n=n: x[:n]) for name, level in side.items()}
            for side, n in zip(levels, (t, v))
        ]
        found, figures = HubSupervision(dim=D)(*sides, Target(target.positives[:t, :v]))
        matrices = dict(token=torch.zeros(t, v), **{'global': torch.zeros(t, v)})
        assert NeighborRetrLoss()(matrices, found, 0.2) == 0
        assert all(x.isfinite() for x in figures.values())


@pytest.mark.parametrize('where', ['token', 'global', 'hubness', 'all hubness', 'counts'])
def test_a_nan_is_never_lost(levels, target, where):
    """Whichever number it is, the loss is NaN, and the retriever names the batch."""
    matrices = TokenVectorSimilarity()(*levels)
    found, _ = HubSupervision(dim=D)(*levels, target)
    hubness, counts = (dict(x) for x in (found.extras['hubness'], found.counts))
    if where in matrices:
        matrices[where] = matrices[where].index_put((torch.tensor(5), torch.tensor(5)), NAN)
    elif where == 'counts':
        counts['v2t'] = counts['v2t'].index_fill(0, torch.tensor([5]), torch.nan)
    else:
        rows = torch.arange(V if 'all' in where else 1)
        hubness['t2v'] = hubness['t2v'].index_fill(0, rows, torch.nan)
    found = found._replace(counts=counts).put(hubness=hubness)
    assert NeighborRetrLoss()(matrices, found, 0.2).isnan()


def test_what_is_refused(levels, target):
    matrices = TokenVectorSimilarity()(*levels)
    found, _ = HubSupervision(dim=D)(*levels, target)
    for lacking in (
        found._replace(counts=dict(t2v=found.counts['t2v'])),
        found.put(hubness=dict(t2v=found.extras['hubness']['t2v'])),
    ):
        with pytest.raises(ValueError, match='there are none of v2t:'):
            NeighborRetrLoss()(matrices, lacking, 0.2)
    with pytest.raises(ValueError, match="model.supervision=dict\\(type='HubSupervision'"):
        NeighborRetrLoss()(matrices, target, 0.2)
    with pytest.raises(ValueError, match='a local and a global matrix'):
        NeighborRetrLoss(reads=('token',))
    with pytest.raises(ValueError, match='has no shortlist'):
        TokenVectorSimilarity(shortlist=3)
    with pytest.raises(ValueError, match='scale must be finite'):
        HubSupervision(dim=D, scale=float('inf'))
    with pytest.raises(ValueError, match='add a NeighborRetrLoss'):
        check_read(HubSupervision(dim=D), dict(contrastive=ContrastiveLoss()))
