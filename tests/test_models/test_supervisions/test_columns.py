"""Columns of the same modality, and weights by direction, as supervisions make them."""

import math
import re

import numpy as np
import pytest
import torch

from mmvtr.models.combined import CombinedSupervision
from mmvtr.models.losses.matrix import ContrastiveLoss
from mmvtr.models.losses.ranking import RankingLoss
from mmvtr.models.similarities.cosine import CosineSimilarity
from mmvtr.models.supervisions.negatives.columns import ColumnSupervision
from mmvtr.models.supervisions.negatives.guide import GuideSupervision
from mmvtr.models.supervisions.negatives.hardness import HardnessSupervision
from mmvtr.models.target import Target, check_read, pushed
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding

T, V = 5, 4


@pytest.fixture
def target():
    """Texts 0 and 1 belong to video 0, text 2 to videos 1 and 2, text 3 to nobody, 4 to video 2."""
    positives = torch.zeros(T, V, dtype=torch.bool)
    positives[[0, 1, 2, 2, 4], [0, 0, 1, 2, 2]] = True
    return Target(positives)


@pytest.fixture
def levels():
    generator = torch.Generator().manual_seed(2)
    return [
        {'global': Embedding(torch.randn(n, 6, generator=generator, dtype=torch.float64))}
        for n in (T, V)
    ]


def cosine(a, b):
    return float(torch.nn.functional.cosine_similarity(a, b, dim=0))


def loss_by_loops(texts, videos, positives, kinds, temperature):
    """The t2v term, entry by entry; of videos it is that of the transposed matrix."""
    terms = []
    for t, text in enumerate(texts):
        own = [v for v in range(len(videos)) if positives[t, v]]
        if not own:
            continue
        pull = sum(math.exp(cosine(text, videos[v]) / temperature) for v in own)
        total = pull + sum(
            math.exp(cosine(text, videos[v]) / temperature)
            for v in range(len(videos))
            if v not in own
        )
        for other, text2 in enumerate(texts):
            if 'own' in kinds and other != t and not (positives[t] & positives[other]).any():
                total += math.exp(cosine(text, text2) / temperature)
        for mine in own:
            for other in range(len(videos)):
                if 'partner' in kinds and other not in own and positives[:, other].any():
                    total += math.exp(cosine(videos[mine], videos[other]) / temperature) / len(own)
            for other, text2 in enumerate(texts):
                if 'reverse' in kinds and (other == t or not positives[other, mine]):
                    total += math.exp(cosine(videos[mine], text2) / temperature) / len(own)
        terms.append(math.log(total / pull))
    return sum(terms) / len(terms)


@pytest.mark.parametrize(
    'kinds', [('own',), ('partner',), ('reverse',), ('own', 'partner', 'reverse')]
)
def test_columns_are_those_of_loops(levels, target, kinds):
    texts, videos = (side['global'].mean for side in levels)
    module = MODELS.build(dict(type='ColumnSupervision', kinds=kinds))
    found, logs = module(*levels, target)
    assert logs == {} and module.whole
    scores = CosineSimilarity()(*levels)
    sides = ((texts, videos, target.positives), (videos, texts, target.positives.t()))
    expected = [loss_by_loops(*side, kinds, 0.3) for side in sides]
    for direction, value in zip(('t2v', 'v2t', 'both'), (*expected, sum(expected) / 2)):
        loss = ContrastiveLoss(direction=direction)(scores, found, 0.3)
        assert loss.item() == pytest.approx(value, rel=1e-10)


def test_gradients_pass_through_columns(levels, target):
    texts, videos = (side['global'].mean for side in levels)

    def loss(t, v):
        sides = [{'global': Embedding(x)} for x in (t, v)]
        found, _ = ColumnSupervision(kinds=('own', 'partner', 'reverse'))(*sides, target)
        return ContrastiveLoss()(CosineSimilarity()(*sides), found, 0.3)

    assert torch.autograd.gradcheck(loss, (texts.requires_grad_(), videos.requires_grad_()))


def test_a_batch_without_texts_or_videos(levels, target):
    for t, v in ((0, V), (T, 0), (0, 0)):
        sides = [{'global': Embedding(s['global'].mean[:n])} for s, n in zip(levels, (t, v))]
        known = Target(target.positives[:t, :v])
        found, _ = ColumnSupervision(kinds=('own', 'partner', 'reverse'))(*sides, known)
        assert ContrastiveLoss()(CosineSimilarity()(*sides), found, 0.3) == 0


def golden_levels(golden, size, texts, videos, **more):
    """Levels, and the arrays that gradients are of; of videos more than one array."""
    leaves = {n: torch.from_numpy(golden[f'{size}.{n}']).requires_grad_() for n in (texts, *videos)}
    sides = [{'global': Embedding(leaves[texts])}]
    sides.append({'global': Embedding(torch.cat([leaves[name] for name in videos]))})
    for side, names in zip(sides, more.get('guides', ())):
        stored = torch.cat([torch.from_numpy(golden[f'{size}.{name}']) for name in names])
        side['vectors.guide'] = Embedding(stored)
    return leaves, sides, Target(torch.eye(len(leaves[texts]), len(sides[1]['global'].mean)).bool())


def same_loss(golden, case, loss, leaves):
    np.testing.assert_allclose(loss.item(), golden[f'{case}.loss'], rtol=1e-9)
    for name, gradient in zip(leaves, torch.autograd.grad(loss, list(leaves.values()))):
        np.testing.assert_allclose(gradient, golden[f'{case}.grad.{name}'], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize('size', ['tiny', 'mid'])
def test_gistembed_with_all_columns(shared, size):
    """But for a negative margin, which this package refuses."""
    golden = np.load(shared / 'golden/gistembed.npz')
    pattern = rf'{size}\.(absolute|relative)_m([\d.]+)_T([\d.]+)_ca(\d)_cp(\d)_neg(\d)\.loss'
    found = [m for m in (re.fullmatch(pattern, name) for name in golden.files) if m]
    assert len(found) >= 7 and sum(m[4] == m[5] == m[6] == '1' for m in found)
    for match in found:
        rule, kinds = match[1], [k for k, n in (('own', 4), ('partner', 5)) if match[n] == '1']
        negatives = ['negative'] if match[6] == '1' else []
        guides = [['guide_anchor'], ['guide_positive', *(f'guide_{n}' for n in negatives)]]
        leaves, sides, known = golden_levels(
            golden, size, 'anchor', ['positive', *negatives], guides=guides
        )
        module = GuideSupervision(rule=rule, margin=float(match[2]), columns=kinds)
        target, _ = module(*sides, known)
        loss = ContrastiveLoss(direction='t2v')(CosineSimilarity()(*sides), target, float(match[3]))
        same_loss(golden, match[0][: -len('.loss')], loss, leaves)


@pytest.mark.parametrize('size', ['tiny', 'mid'])
def test_all_directions_of_sentence_transformers(shared, size):
    """``gte_neg`` is left out: there is no saying here whose a mined negative is."""
    golden = np.load(shared / 'golden/mnrl_hardness.npz')
    kinds = dict(qq=('own',), sym_joint=('reverse',))
    every = ('own', 'partner', 'reverse')
    for case in ('base', 'qq', 'sym_joint', 'gte', 'inbatch9', 'inbatch9_gte', 'all5_neg2'):
        scale, strength, negatives = golden[f'{size}.{case}.args'].tolist()
        names = ['doc', *(f'neg{i + 1}' for i in range(int(negatives)))]
        leaves, sides, known = golden_levels(golden, size, 'query', names)
        parts = {}
        if strength:
            parts['hard'] = HardnessSupervision(alpha=strength)
        if case not in ('base', 'inbatch9', 'all5_neg2'):
            parts['more'] = ColumnSupervision(kinds=kinds.get(case, every))
        target = known
        if parts:
            module = next(iter(parts.values()))
            if len(parts) > 1:
                module = CombinedSupervision(parts=parts, spared_by='product')
            target, _ = module(*sides, known)
        loss = ContrastiveLoss(direction='t2v')(CosineSimilarity()(*sides), target, 1 / scale)
        same_loss(golden, f'{size}.{case}', loss, leaves)


@pytest.mark.parametrize('size', ['tiny', 'mid'])
def test_a_self_mask_with_hardness_in_both_directions(shared, size):
    """Each direction by its own bar; the stored matrix is made of vectors of its own."""
    golden = np.load(shared / 'golden/selfmask_hardness_equations.npz')
    pattern = rf'{size}\.T([\d.]+)_alpha([\d.]+)_delta([\d.]+)_dup0_both1\.loss'
    found = [m for m in (re.fullmatch(pattern, name) for name in golden.files) if m]
    assert len(found) >= 6
    for match in found:
        temperature, alpha, delta = (float(x) for x in match.groups())
        scores = torch.from_numpy(golden[f'{size}.sims']).requires_grad_()
        known = Target(torch.eye(len(scores)).bool())
        mask = GuideSupervision(guide='scores', rule='self', margin=delta, bar_of='anchor')
        module = CombinedSupervision(
            parts=dict(mask=mask, hard=HardnessSupervision(alpha=alpha)), spared_by='product'
        )
        for part in module.parts.values():
            part.similarity = Given(scores)
        target, _ = module({}, {}, known)
        assert target.weights.keys() == {'t2v', 'v2t'}
        loss = ContrastiveLoss()(dict(scores=scores), target, temperature)
        np.testing.assert_allclose(loss.item(), golden[f'{match[0]}'], rtol=1e-9)
        (gradient,) = torch.autograd.grad(loss, scores)
        stored = golden[f'{match[0][: -len(".loss")]}.grad']
        np.testing.assert_allclose(gradient, stored, rtol=1e-6, atol=1e-9)


class Given(torch.nn.Module):
    """A similarity whose scores are given, whatever it sees."""

    def __init__(self, scores):
        super().__init__()
        self.scores = scores

    def prepare(self, items):
        return items

    def compare(self, texts, videos):
        return dict(scores=self.scores)


def test_hardness_over_each_anchor(levels, target):
    both, _ = HardnessSupervision(alpha=3.0, over='both')(*levels, target)
    for way, dim in (('t2v', 1), ('v2t', 0)):
        one, _ = HardnessSupervision(alpha=3.0, over=way)(*levels, target)
        assert torch.equal(both.weights[way], one.weights)
        negatives = ~target.positives
        means = one.weights.masked_fill(~negatives, 0.0).sum(dim) / negatives.sum(dim)
        torch.testing.assert_close(means, torch.ones_like(means))
        scores = CosineSimilarity()(*levels)
        loss = ContrastiveLoss(direction=way)
        assert loss(scores, both, 0.3) == loss(scores, one, 0.3)
    torch.testing.assert_close(
        pushed(both, target), sum(w.float() for w in both.weights.values()) / 2
    )
    with pytest.raises(ValueError, match='RankingLoss reads weights of both directions'):
        RankingLoss()(scores, both, 1.0)


def test_what_is_refused():
    for wrong, message in (
        (dict(kinds=()), 'kinds must be some of'),
        (dict(kinds=('text',)), "each once, not 'text'"),
        (dict(kinds=('own', 'own')), "each once, not 'own'"),
    ):
        with pytest.raises(ValueError, match=message):
            ColumnSupervision(**wrong)
    for wrong, message in (
        (dict(bar_of='video'), "bar_of must be 'text' or 'anchor'"),
        (dict(columns=('texts',)), "each once, not 'texts'"),
        (dict(guide='agreement', columns=('own',)), 'it judges no columns'),
        (dict(treat='positive', bar_of='anchor'), 'leave bar_of and columns out'),
    ):
        with pytest.raises(ValueError, match=message):
            GuideSupervision(**wrong)
    assert GuideSupervision(bar_of='anchor').whole and GuideSupervision(columns=('own',)).whole
    with pytest.raises(ValueError, match='fills target.columns, which no loss reads'):
        check_read(ColumnSupervision(), dict(ranking=RankingLoss()))
