"""Oracle rows: what is true is no negative, or a match."""

import pytest
import torch

from mmvtr.models.losses.matrix import ContrastiveLoss
from mmvtr.models.losses.ranking import RankingLoss
from mmvtr.models.supervisions.weights import OracleSupervision
from mmvtr.models.target import Annotation, Target
from mmvtr.registry import MODELS

#: Annotated and true pairs of 4 texts and 5 videos; columns 0 and 1 are one video, text 3 has none.
ANNOTATED = {(0, 0), (0, 1), (1, 2), (2, 3)}
SOFT = {(0, 3), (1, 0), (1, 1), (3, 4)}


def matrix(pairs):
    entries = torch.zeros(4, 5, dtype=torch.bool)
    for t, v in pairs:
        entries[t, v] = True
    return entries


@pytest.fixture
def target():
    return Target(matrix(ANNOTATED), known=Annotation(truth=matrix(ANNOTATED | SOFT)))


@pytest.fixture
def scores():
    return torch.randn(4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize('floor', [0.0, 0.25])
def test_soft_positives_get_the_floor(target, floor):
    given, logs = OracleSupervision(floor=floor)({}, {}, target)
    for t in range(4):
        for v in range(5):
            assert given.weights[t, v] == (floor if (t, v) in SOFT else 1)
    assert given._replace(weights=None) == target
    assert logs['soft_share'].item() == pytest.approx(4 / 16)


def test_weights_of_another_supervision_are_kept(target):
    eta = torch.rand(4, 5, dtype=torch.float64) + 0.1
    given, _ = OracleSupervision()({}, {}, target._replace(weights=eta))
    assert torch.equal(given.weights, torch.where(matrix(SOFT), 0.0, eta))


def test_soft_positives_become_positives(target):
    given, logs = OracleSupervision(treat='positive')({}, {}, target)
    assert torch.equal(given.positives, matrix(ANNOTATED | SOFT))
    assert given.weights is None and torch.equal(given.known.truth, target.known.truth)
    assert logs['soft_share'].item() == pytest.approx(4 / 16)


def test_an_annotated_pair_stays_a_match_where_it_is_not_true(target):
    """Of an annotation that is wrong."""
    wrong = target._replace(known=Annotation(truth=matrix(SOFT)))
    for treat in ('ignore', 'positive'):
        given, _ = OracleSupervision(treat=treat)({}, {}, wrong)
        assert (given.positives | ~matrix(ANNOTATED)).all()


@pytest.mark.parametrize(
    'loss', [ContrastiveLoss(), RankingLoss()], ids=lambda loss: type(loss).__name__
)
def test_what_is_true_is_not_pushed(target, scores, loss):
    def gradient(target):
        leaf = scores.clone().requires_grad_()
        (found,) = torch.autograd.grad(loss({'scores': leaf}, target, 0.1), leaf)
        return found[matrix(SOFT)]

    assert (gradient(target) > 0).any()
    assert not gradient(OracleSupervision()({}, {}, target)[0]).any()
    pulled = gradient(OracleSupervision(treat='positive')({}, {}, target)[0])
    assert (pulled < 0).any()


def test_an_empty_batch():
    nothing = torch.zeros(0, 3, dtype=torch.bool)
    given, logs = OracleSupervision()({}, {}, Target(nothing, known=Annotation(truth=nothing)))
    assert given.weights.shape == (0, 3) and logs['soft_share'].item() == 0


def test_a_set_that_does_not_tell_and_bad_arguments(target):
    with pytest.raises(ValueError, match='dataset.oracle=True'):
        OracleSupervision()({}, {}, Target(target.positives))
    for bad, message in (
        (dict(treat='drop'), "treat must be one of .'ignore', 'positive'., not 'drop'"),
        (dict(floor=1.5), r'floor must lie in \[0, 1\], not 1.5'),
        (dict(treat='positive', floor=0.1), "floor = 0.1 weighs negatives, but treat is 'posit"),
    ):
        with pytest.raises(ValueError, match=message):
            MODELS.build(dict(type='mmvtr.OracleSupervision', **bad))
