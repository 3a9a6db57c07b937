"""Columns of the same modality, and weights by direction, as supervisions make them."""

import math
import re

import numpy as np
import pytest
import torch

from mmvtr.models.combined import CombinedSupervision
from mmvtr.models.losses.matrix import ContrastiveLoss, MatrixLoss
from mmvtr.models.losses.ranking import RankingLoss
from mmvtr.models.similarities.cosine import CosineSimilarity, GaussianSimilarity
from mmvtr.models.similarities.token import TokenSimilarity, TokenVectorSimilarity
from mmvtr.models.supervisions.columns import ColumnSupervision, check_columns
from mmvtr.models.supervisions.guide import GuideSupervision, HardnessSupervision
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


def loss_by_loops(texts, videos, positives, kinds, temperature, weights=None, back=None):
    """The t2v term, entry by entry; of videos it is that of the transposed matrix.

    ``weights`` and ``back`` are float [T, V], of pairs in this direction and in the other one.
    """
    ones = torch.ones(len(texts), len(videos))
    weights, back = (ones if w is None else torch.where(positives, 1, w) for w in (weights, back))
    terms = []
    for t, text in enumerate(texts):
        own = [v for v in range(len(videos)) if positives[t, v]]
        if not own:
            continue
        pull = sum(math.exp(cosine(text, videos[v]) / temperature) for v in own)
        total = pull + sum(
            weights[t, v].item() * math.exp(cosine(text, videos[v]) / temperature)
            for v in range(len(videos))
            if v not in own
        )
        for other, text2 in enumerate(texts):
            if 'own' in kinds and other != t and not (positives[t] & positives[other]).any():
                theirs = weights[t][positives[other]]
                weight = theirs.mean().item() if len(theirs) else 1.0
                total += weight * math.exp(cosine(text, text2) / temperature)
        for mine in own:
            for other in range(len(videos)):
                if 'partner' in kinds and other not in own and positives[:, other].any():
                    weight = weights[t, other].item() / len(own)
                    total += weight * math.exp(cosine(videos[mine], videos[other]) / temperature)
            for other, text2 in enumerate(texts):
                if 'reverse' in kinds and (other == t or not positives[other, mine]):
                    weight = back[other, mine].item() / len(own)
                    total += weight * math.exp(cosine(videos[mine], text2) / temperature)
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


class Stored(torch.nn.Module):
    """Says of pairs what it was given."""

    def __init__(self, **slots):
        super().__init__()
        self.slots = slots

    def forward(self, texts, videos, target):
        return target._replace(**self.slots), {}


def pair_weights(seed):
    return torch.rand(T, V, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize('rule', ['min', 'max', 'product'])
def test_columns_are_weighted_as_the_pairs_behind_them(levels, target, rule):
    """By what all other parts say together; hardness says nothing of them."""
    texts, videos = (side['global'].mean for side in levels)
    kinds = ('own', 'partner', 'reverse')
    one, other = dict(t2v=pair_weights(0), v2t=pair_weights(1)), pair_weights(2)
    parts = dict(a=Stored(weights=one), columns=ColumnSupervision(kinds=kinds))
    parts['b'] = Stored(weights=other, ambiguous=other > 0.8)
    found, _ = CombinedSupervision(parts=parts, combine=rule)(*levels, target)
    together = dict(min=torch.minimum, max=torch.maximum, product=torch.mul)[rule]
    both = {way: together(one[way], other.masked_fill(other > 0.8, 0.0)) for way in one}
    found = found._replace(weights=both, ambiguous=None)  # of which the loops know
    sides = (
        (texts, videos, target.positives, both['t2v'], both['v2t']),
        (videos, texts, target.positives.t(), both['v2t'].t(), both['t2v'].t()),
    )
    scores = CosineSimilarity()(*levels)
    for way, side in zip(('t2v', 'v2t'), sides):
        expected = loss_by_loops(*side[:3], kinds, 0.3, *side[3:])
        loss = ContrastiveLoss(direction=way)(scores, found, 0.3)
        assert loss.item() == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(
    ('rule', 'weight', 'expected'),
    [
        ('min', 0.0, lambda judged, all_of_them: 0.0 * judged),
        ('max', 0.0, lambda judged, all_of_them: judged),
        ('max', 1.0, lambda judged, all_of_them: all_of_them),
        ('product', 0.5, lambda judged, all_of_them: 0.5 * judged),
    ],
)
def test_columns_that_a_guide_has_judged_are_judged_by_others_too(levels, rule, weight, expected):
    sides = [{'global': Embedding(side['global'].mean[:V])} for side in levels]
    known = Target(torch.eye(V).bool())
    guide = GuideSupervision(guide='scores', margin=0.4, columns=('own', 'partner', 'reverse'))
    parts = dict(guide=guide, stored=Stored(weights=torch.full((V, V), weight)))
    found, _ = CombinedSupervision(parts=parts, combine=rule)(*sides, known)
    judged, _ = guide(*sides, known)
    unjudged, _ = ColumnSupervision(kinds=guide.kinds)(*sides, known)
    for way in ('t2v', 'v2t'):
        for kind, *made in zip(guide.kinds, *(x.columns[way] for x in (found, judged, unjudged))):
            after, before, all_of_them = (columns.weights for columns in made)
            wanted = expected(before, all_of_them)
            if kind == 'reverse':  # the pair itself stays
                wanted = torch.where(torch.eye(V).bool(), all_of_them, wanted)
            assert torch.equal(after, wanted) and not torch.equal(before, all_of_them)


@pytest.mark.parametrize('rule', ['absolute', 'threshold'])
def test_a_guide_leaves_the_pair_itself_in_the_reverse_columns(levels, target, rule):
    """Though its score is above the bar, as in GISTEmbed that of the matrix' diagonal is."""
    texts, videos = (side['global'].mean for side in levels)
    margin = 0.2 if rule == 'absolute' else -0.1
    guide = GuideSupervision(guide='scores', rule=rule, margin=margin, columns=('reverse',))
    found, _ = guide(*levels, target)
    (columns,) = found.columns['t2v']
    cos = torch.tensor([[cosine(text, video) for video in videos] for text in texts])
    rows = [(t, v) for t in range(T) for v in range(V) if target.positives[t, v]]
    for weights, (t, v) in zip(columns.weights, rows):
        own = max(cos[t, i] for i in range(V) if target.positives[t, i])
        bar = own - margin if rule == 'absolute' else margin
        for other in range(T):
            among = other == t or not target.positives[other, v]
            kept = among and (other == t or cos[other, v] <= bar)
            assert weights[other].item() == kept / target.positives[t].sum().item()


def test_a_direction_of_which_nothing_is_said_weighs_one(levels, target):
    one, other = pair_weights(0), pair_weights(1)
    for rule, t2v, v2t in (
        ('min', one, other),
        ('max', torch.ones_like(one), torch.ones_like(one)),
        ('product', one, other),
    ):
        parts = dict(a=Stored(weights=dict(t2v=one)), b=Stored(weights=dict(v2t=other)))
        found, _ = CombinedSupervision(parts=parts, combine=rule)(*levels, target)
        assert torch.equal(found.weights['t2v'], t2v) and torch.equal(found.weights['v2t'], v2t)
        parts['b'] = Stored(weights=dict(t2v=other))
        found, _ = CombinedSupervision(parts=parts, combine=rule)(*levels, target)
        assert found.weights.keys() == {'t2v'}


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
                module = CombinedSupervision(parts=parts, combine='product')
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
            parts=dict(mask=mask, hard=HardnessSupervision(alpha=alpha)), combine='product'
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
    with pytest.raises(ValueError, match='RankingLoss takes one weight for both directions'):
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
        (dict(bar_of='video'), "bar_of must be one of .'text', 'anchor'., not 'video'"),
        (dict(columns=('texts',)), "each once, not 'texts'"),
        (dict(guide='agreement', columns=('own',)), 'it cannot judge columns'),
        (dict(treat='positive', bar_of='anchor'), 'leave bar_of and columns out'),
    ):
        with pytest.raises(ValueError, match=message):
            GuideSupervision(**wrong)
    assert GuideSupervision(bar_of='anchor').whole and GuideSupervision(columns=('own',)).whole
    with pytest.raises(ValueError, match='fills target.columns, which no loss reads'):
        check_read(ColumnSupervision(), dict(ranking=RankingLoss()))


@pytest.mark.parametrize('make', ['columns', 'guide', 'combined'])
def test_columns_are_refused_beside_scores_that_are_no_cosines_of_their_levels(make):
    def supervision(levels):
        if make == 'guide':
            return GuideSupervision(guide='scores', columns=('own',), levels=levels)
        columns = ColumnSupervision(levels=levels)
        parts = dict(hard=HardnessSupervision(), columns=columns)
        return columns if make == 'columns' else CombinedSupervision(parts=parts, combine='product')

    def check(similarity, reads, levels=('global',)):
        losses = dict(one=RankingLoss(), nce=ContrastiveLoss(reads=reads))
        check_columns(supervision(levels), similarity, losses)

    both = CosineSimilarity(levels=('global', 'aligned'))
    check(CosineSimilarity(), ('scores',))
    check(both, ('global',))
    check(both, ('global', 'aligned', 'scores'), ('global', 'aligned'))
    check(TokenVectorSimilarity(), ('global',))
    for similarity, reads, said in (
        (both, ('scores',), r"'scores' of CosineSimilarity, .* is one of \['global', 'aligned'\]"),
        (both, ('global', 'aligned'), r"'aligned' .* is one of \['aligned'\]"),
        (
            TokenSimilarity(),
            ('scores',),
            "'scores' of TokenSimilarity, which loss 'nce' .* is none",
        ),
        (GaussianSimilarity(), ('scores',), 'is none'),
    ):
        with pytest.raises(ValueError, match=said):
            check(similarity, reads)
    check_columns(GuideSupervision(guide='scores'), TokenSimilarity(), dict(a=ContrastiveLoss()))


class LossWithoutSlots(MatrixLoss):
    """Does not say which slots it reads."""


class LossOfScores(LossWithoutSlots):
    slots = ()


def test_a_loss_that_does_not_say_what_it_reads_may_read_columns():
    check_columns(ColumnSupervision(), TokenSimilarity(), dict(a=LossOfScores()))
    with pytest.raises(ValueError, match="which loss 'a' reads, is none: .* in `slots` what it"):
        check_columns(ColumnSupervision(), TokenSimilarity(), dict(a=LossWithoutSlots()))
