"""Weights by a guide and by hardness, as registered supervisions."""

import math

import numpy as np
import pytest
import torch

from mmvtr.models.blocks import Pairs
from mmvtr.models.combined import CombinedSupervision
from mmvtr.models.supervisions.guide import GuideSupervision, HardnessSupervision
from mmvtr.models.target import Annotation, Target, judges, pushed
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding

TEXTS, VIDEOS = 4, 3


@pytest.fixture
def target():
    """Texts 0 and 1 belong to video 0, text 2 to video 1, text 3 to nobody."""
    positives = torch.zeros(TEXTS, VIDEOS, dtype=torch.bool)
    positives[[0, 1, 2], [0, 0, 1]] = True
    return Target(positives)


@pytest.fixture
def levels():
    generator = torch.Generator().manual_seed(5)
    sides = []
    for count in (TEXTS, VIDEOS):
        sides.append(
            {
                name: Embedding(torch.randn(count, 6, generator=generator, dtype=torch.float64))
                for name in ('global', 'aligned', 'vectors.guide', 'vectors.minilm')
            }
        )
    return sides


def cosines(texts, videos):
    """By loops."""
    found = []
    for t in texts.tolist():
        for v in videos.tolist():
            lengths = math.hypot(*t) * math.hypot(*v)
            found.append(sum(a * b for a, b in zip(t, v)) / lengths if lengths else 0.0)
    return torch.tensor(found, dtype=torch.float64).view(len(texts), len(videos))


def weights_by(scores, positives, bar):
    """Weights by loops, and how many a text loses; ``bar`` of the own score."""
    weights, spared = torch.ones(TEXTS, VIDEOS), 0
    for t in range(TEXTS):
        own = [scores[t, v].item() for v in range(VIDEOS) if positives[t, v]]
        for v in range(VIDEOS):
            if own and scores[t, v] > bar(max(own)):
                weights[t, v] = 0.0
                spared += not positives[t, v]
    return weights, spared / TEXTS


def check(found, logs, expected, positives):
    weights, spared = expected
    assert torch.equal(found.weights.float()[~positives], weights[~positives])
    assert logs['guided_per_text'].item() == pytest.approx(spared)
    assert not found.weights.requires_grad
    assert 0 < spared < 2


def test_vectors_of_both_sides(levels, target):
    module = MODELS.build(dict(type='GuideSupervision', name='minilm', margin=0.2))
    scores = cosines(*(side['vectors.minilm'].mean for side in levels))
    check(*module(*levels, target), weights_by(scores, target.positives, lambda g: g - 0.2),
          target.positives)  # fmt: skip


@pytest.mark.parametrize('by', ['texts', 'videos'])
def test_vectors_of_one_side(levels, target, by):
    """The other side stands where its own partners do; what has none, nowhere."""
    module = GuideSupervision(by=by, margin=1.2)
    t, v = (side['vectors.guide'].mean for side in levels)
    del levels[by == 'texts']['vectors.guide']
    if by == 'texts':
        v = torch.stack([(t[0] + t[1]) / 2, t[2], torch.zeros(6, dtype=torch.float64)])
    else:
        t = torch.stack([v[0], v[0], v[1], torch.zeros(6, dtype=torch.float64)])
    scores = cosines(t, v)
    found, logs = module(*levels, target)
    check(found, logs, weights_by(scores, target.positives, lambda g: g - 1.2), target.positives)


def test_what_is_read_of_the_dataset():
    generator = np.random.default_rng(0)
    samples = dict(text_ids=[*'abcd'], video_ids=[*'uvw'])
    for side, count in (('text', TEXTS), ('video', VIDEOS)):
        rows = torch.from_numpy(generator.normal(size=(count, 1, 6)).astype(np.float32))
        samples[f'{side}_vectors'] = dict(minilm=rows)
    cpu = torch.device('cpu')
    texts, videos = GuideSupervision(name='minilm').own_levels({}, samples, cpu)
    assert texts['vectors.minilm'].mean.shape == (TEXTS, 6)
    assert videos['vectors.minilm'].mean.shape == (VIDEOS, 6)
    texts, videos = GuideSupervision(name='minilm', by='texts').own_levels({}, samples, cpu)
    assert texts.keys() == {'vectors.minilm'} and not videos
    texts, videos = GuideSupervision(name='minilm', by='videos').own_levels({}, samples, cpu)
    assert videos.keys() == {'vectors.minilm'} and not texts
    with pytest.raises(ValueError, match="GuideSupervision reads the vectors 'guide' of texts"):
        GuideSupervision().own_levels({}, samples, cpu)
    for guide in ('scores', 'agreement'):
        assert not hasattr(GuideSupervision(guide=guide), 'own_levels')


def test_the_agreement_of_captions(target):
    agreement = torch.tensor(
        [[1.0, 0.9, -2.0], [0.5, 2.0, 0.6], [0.3, -0.1, -0.05], [9.0, 9.0, 9.0]]
    )
    known = target._replace(known=Annotation(agreement=agreement))
    module = GuideSupervision(guide='agreement', margin=0.05)
    expected = weights_by(agreement, target.positives, lambda g: g - 0.05)
    check(*module({}, {}, known), expected, target.positives)
    # A calibrated bar needs no own video.
    soft = GuideSupervision(guide='agreement', rule='threshold', margin=0.4, softness=0.5)
    found, _ = soft({}, {}, known)
    torch.testing.assert_close(found.weights, 1 - torch.sigmoid((agreement - 0.4) / 0.5))
    with pytest.raises(ValueError, match="agreement=dict\\(type='CaptionAgreement'\\)"):
        module({}, {}, target)


@pytest.mark.parametrize('softness', [0.0, 0.5])
def test_what_a_guide_finds_is_a_soft_positive(target, softness):
    agreement = torch.linspace(-1, 2, TEXTS * VIDEOS, dtype=torch.float64).view(TEXTS, VIDEOS)
    known = target._replace(known=Annotation(agreement=agreement), weights=torch.ones(TEXTS, 3))
    how = dict(guide='agreement', rule='threshold', margin=0.4, softness=softness)
    found, logs = GuideSupervision(**how, treat='positive')({}, {}, known)
    for t in range(TEXTS):
        for v in range(VIDEOS):
            above = agreement[t, v].item() - 0.4
            degree = 1 / (1 + math.exp(-above / 0.5)) if softness else float(above > 0)
            degree = 1.0 if target.positives[t, v] else degree
            assert found.positives[t, v].item() == pytest.approx(degree)
    assert found.weights is known.weights
    assert logs == GuideSupervision(**how)({}, {}, known)[1]
    assert judges(found, known)
    spared = pushed(found, known)
    expected = 1 - found.positives.float().masked_fill(known.positives, 0.0)
    torch.testing.assert_close(spared, expected)


@pytest.mark.parametrize('level', ['global', 'aligned'])
def test_the_models_own_scores(levels, target, level):
    for side in levels:
        side[level].mean.requires_grad_()
    module = GuideSupervision(guide='scores', rule='self', margin=0.05, levels=(level,))
    scores = cosines(*(side[level].mean.detach() for side in levels))
    expected = weights_by(scores, target.positives, lambda g: g + 0.05)
    check(*module(*levels, target), expected, target.positives)


def test_hardness(levels, target):
    module = MODELS.build(dict(type='HardnessSupervision', alpha=3.0, levels=('global', 'aligned')))
    scores = [cosines(*(side[level].mean for side in levels)) for level in ('global', 'aligned')]
    levels[0]['global'].mean.requires_grad_()
    found, logs = module(*levels, target)
    values = []
    for t in range(TEXTS):
        for v in range(VIDEOS):
            s = (scores[0][t, v] + scores[1][t, v]).item() / 2
            expected = 1.0 if target.positives[t, v] else math.exp(3 * s)
            values += [] if target.positives[t, v] else [expected]
            assert found.weights[t, v].item() == pytest.approx(expected)
    assert logs['hardness'].item() == pytest.approx(sum(values) / len(values))
    assert not found.weights.requires_grad


@pytest.mark.parametrize('over', ['t2v', 'v2t'])
def test_hardness_over_an_anchor_has_a_mean_of_one(levels, target, over):
    found, _ = HardnessSupervision(over=over)(*levels, target)
    negatives, dim = ~target.positives, 1 if over == 't2v' else 0
    means = (found.weights * negatives).sum(dim) / negatives.sum(dim)
    torch.testing.assert_close(means, torch.ones_like(means))
    assert found.weights.max() > 1.5


def test_hardness_of_what_a_self_mask_leaves(levels, target):
    parts = dict(
        mask=GuideSupervision(guide='scores', rule='self', margin=0.05),
        hardness=HardnessSupervision(alpha=2.0),
    )
    both = CombinedSupervision(parts=parts, combine='product')
    found, logs = both(*levels, target)
    scores = cosines(*(side['global'].mean for side in levels))
    mask, spared = weights_by(scores, target.positives, lambda g: g + 0.05)
    expected = mask * (2 * scores).exp()
    negatives = ~target.positives
    torch.testing.assert_close(found.weights[negatives], expected[negatives])
    assert spared > 0 and logs.keys() == {'mask_guided_per_text', 'hardness_hardness'}
    assert (found.weights[negatives] > 1).any()


def test_weights_of_before_are_kept(levels, target):
    before = torch.rand(TEXTS, VIDEOS, dtype=torch.float64)
    known = target._replace(weights=before)
    for module in (GuideSupervision(margin=0.2), HardnessSupervision()):
        alone, _ = module(*levels, target)
        found, _ = module(*levels, known)
        torch.testing.assert_close(found.weights, alone.weights * before)


def test_nothing_and_nobody(levels):
    """No item of a side, and no pair."""
    for texts, videos in ((0, 0), (0, VIDEOS), (TEXTS, 0), (TEXTS, VIDEOS)):
        sides = [
            {name: Embedding(e.mean[:count]) for name, e in side.items()}
            for side, count in zip(levels, (texts, videos))
        ]
        nobody = Target(torch.zeros(texts, videos, dtype=torch.bool))
        for module in (
            GuideSupervision(),
            GuideSupervision(by='texts'),
            GuideSupervision(by='videos'),
            GuideSupervision(guide='scores', rule='self'),
        ):
            found, logs = module(*sides, nobody)
            assert found.weights.shape == (texts, videos) and (found.weights == 1).all()
            assert logs['guided_per_text'] == 0
        found, logs = HardnessSupervision()(*sides, nobody)
        assert found.weights.shape == (texts, videos) and logs['hardness'].isfinite()


@pytest.mark.parametrize('by', [None, 'texts', 'videos'])
def test_vectors_in_blocks(levels, target, by):
    module = GuideSupervision(by=by, margin=0.5, softness=0.3)
    whole, logs = module(*levels, target)
    begun = module.begin(*levels, Pairs.of(target.positives))
    weights, sums = [], []
    for rows in (slice(0, 1), slice(1, 1), slice(1, 4)):
        made, found = module.block(begun, rows, Target(target.positives[rows]))
        weights.append(made.weights)
        sums.append(found)
    torch.testing.assert_close(torch.cat(weights), whole.weights)
    together = {name: sum(one[name] for one in sums) for name in sums[0]}
    torch.testing.assert_close(module.finish(begun, together), logs)


def test_blocks_are_refused_where_all_texts_are_needed():
    assert HardnessSupervision().whole == HardnessSupervision(over='t2v').whole == ''
    assert 'all texts' in HardnessSupervision(over='v2t').whole


@pytest.mark.parametrize(
    'kind, wrong, message',
    [
        (GuideSupervision, dict(guide='own'), 'guide must be one of'),
        (GuideSupervision, dict(treat='pull'), "treat must be .*'ignore', 'positive'., not 'pull'"),
        (GuideSupervision, dict(by='text'), "by must be .*'texts', 'videos'., not 'text'"),
        (GuideSupervision, dict(rule='gist'), 'rule must be one of'),
        (GuideSupervision, dict(margin=-0.1), 'margin must be at least 0'),
        (GuideSupervision, dict(softness=-0.1), 'softness must be at least 0'),
        (GuideSupervision, dict(rule='self'), "rule='self' reads the model's own scores"),
        (
            GuideSupervision,
            dict(guide='scores', rule='self', margin=-0.1),
            'margin must be at least 0',
        ),
        (HardnessSupervision, dict(alpha=math.inf), 'alpha must be finite'),
        (HardnessSupervision, dict(over='texts'), 'over must be one of .None, '),
    ],
)
def test_bad_arguments(kind, wrong, message):
    with pytest.raises(ValueError, match=message):
        kind(**wrong)


def test_vectors_of_different_models(levels, target):
    levels[1]['vectors.guide'] = Embedding(torch.zeros(VIDEOS, 7))
    with pytest.raises(ValueError, match='of different models'):
        GuideSupervision()(*levels, target)


def captioned(*captions):
    ids = [str(n) for n, _ in enumerate(captions)]
    return dict(text_ids=ids, text_captions=[*captions], video_ids=[*'uvw'])


def test_an_encoder_by_one_key(tmp_path, target, monkeypatch):
    """A caption is read once, by a frozen encoder that no checkpoint and no optimizer knows."""
    tiny_embedders = pytest.importorskip('tiny_embedders')
    model = tiny_embedders.text_model(tmp_path / 'model')
    model.save(str(tmp_path / 'saved'))
    module = MODELS.build(
        dict(type='GuideSupervision', guide=str(tmp_path / 'saved'), rule='threshold', margin=0.9)
    )
    captions = ['a red dog runs', 'the dog runs', 'a blue bird sings', 'a red dog runs']
    cpu = torch.device('cpu')
    texts, videos = module.own_levels({}, captioned(*captions), cpu)
    found = texts['vectors.guide'].mean
    expected = torch.from_numpy(model.encode(captions))
    torch.testing.assert_close(found, expected)
    assert not videos and torch.equal(found[0], found[3])
    monkeypatch.setattr(module._reader._encoder, 'encode', None)  # all are known
    again, _ = module.own_levels({}, captioned(*captions[::-1]), cpu)
    assert torch.equal(again['vectors.guide'].mean, found.flip(0))
    assert not module.state_dict() and not [*module.parameters()]
    made, _ = module(texts, videos, target)
    own = torch.stack([expected[:2].mean(0), expected[2], torch.zeros(16)])
    scores = cosines(expected, own)
    assert torch.equal(made.weights == 0, scores > 0.9)
    with pytest.raises(ValueError, match='text_captions'):
        module.own_levels({}, dict(text_ids=['a'], video_ids=[]), cpu)


def test_a_file_by_one_key(tmp_path):
    h5py = pytest.importorskip('h5py')
    path, rows = tmp_path / 'own.h5', np.random.default_rng(0).normal(size=(2, 3, 4))
    with h5py.File(path, 'w') as file:
        for name, vectors in zip('01', rows):
            file[name] = vectors
    module = GuideSupervision(guide=str(path))
    texts, videos = module.own_levels({}, captioned('one', 'two'), torch.device('cpu'))
    found = texts['vectors.guide'].mean
    np.testing.assert_allclose(found.numpy(), rows.mean(1), rtol=1e-6)
    assert not videos
    with pytest.raises(ValueError, match="no vector of text '2'"):
        module.own_levels({}, captioned('one', 'two', 'three'), torch.device('cpu'))
    texts, _ = module.own_levels({}, captioned(), torch.device('cpu'))
    assert len(texts['vectors.guide'].mean) == 0


def test_guides_that_are_none():
    with pytest.raises(ValueError, match='neither a .h5 file of vectors nor an encoder'):
        GuideSupervision(guide='minilm')
    with pytest.raises(ValueError, match='compares captions'):
        GuideSupervision(guide='own.h5', by='videos')
    with pytest.raises(ValueError, match="rule='self'"):
        GuideSupervision(guide='sentence-transformers/all-MiniLM-L6-v2', rule='self')
