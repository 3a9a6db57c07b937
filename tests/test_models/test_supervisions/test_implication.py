"""Weights of negatives, and counts of texts, from what captions imply."""

import math

import pytest
import torch

from mmvtr.models.supervisions.relative_scores import ImplicationSupervision
from mmvtr.models.target import Annotation, Target
from mmvtr.registry import MODELS


@pytest.fixture
def target():
    """Texts 0 and 1 belong to video 0, text 2 to video 1, text 3 to nobody."""
    positives = torch.zeros(4, 3, dtype=torch.bool)
    positives[[0, 1, 2], [0, 0, 1]] = True
    sure = [[0.2, 0.9, 0.0], [1.0, 0.5, 1.2], [0.7, 0.1, 0.3], [0.4, 1.0, 0.6]]
    agreement = torch.tensor(sure, dtype=torch.float64).clamp_min(1e-9).log()
    return Target(positives, known=Annotation(agreement=agreement))


@pytest.mark.parametrize('progress, share', [(0.2, 0.0), (0.3, 0.5), (0.4, 1.0), (1.0, 1.0)])
def test_weights_and_counts_equal_the_formulas(target, progress, share):
    module = MODELS.build(
        dict(type='ImplicationSupervision', floor=0.05, specific=0.7, ramp=(0.2, 0.4))
    )
    module.progress = progress
    found, logs = module({}, {}, target)
    etas, spared, all_right = [], 0, 0.0
    for t in range(4):
        right = 1.0
        for v in range(3):
            sure = min(1.0, math.exp(target.known.agreement[t, v].item()))
            eta = max(0.05, 1 - sure)
            assert found.weights[t, v].item() == pytest.approx(1 - share * (1 - eta))
            if not target.positives[t, v]:
                right += sure
                etas.append(eta)
                spared += eta < 0.5
        assert found.counts[t].item() == pytest.approx(right**-0.7)
        all_right += right
    assert logs['eta_negative'].item() == pytest.approx(sum(etas) / len(etas))
    assert logs['down_weighted_per_text'].item() == pytest.approx(spared / 4)
    assert logs['right_per_text'].item() == pytest.approx(all_right / 4)
    assert not any('loss' in name for name in logs)


def test_all_texts_count_alike_where_nothing_is_asked(target):
    found, _ = ImplicationSupervision(specific=0.0)({}, {}, target)
    assert torch.equal(found.counts, torch.ones(4, dtype=torch.float64))


def test_empty_batch():
    nothing = Target(
        torch.zeros(0, 0, dtype=torch.bool), known=Annotation(agreement=torch.zeros(0, 0))
    )
    found, _ = ImplicationSupervision()({}, {}, nothing)
    assert found.weights.shape == (0, 0) and found.counts.shape == (0,)


def test_without_agreement():
    with pytest.raises(ValueError, match=r"no agreement: add .*type='CaptionImplication'"):
        ImplicationSupervision()({}, {}, Target(torch.eye(2).bool()))


@pytest.mark.parametrize(
    'wrong, message',
    [
        (dict(floor=-0.1), r'floor must lie in \[0, 1\], not -0.1'),
        (dict(specific=-1.0), 'specific must be at least 0, not -1.0'),
        (dict(ramp=(0.5, 0.1)), r'ramp must be \(start, end\)'),
    ],
)
def test_bad_arguments(wrong, message):
    with pytest.raises(ValueError, match=message):
        ImplicationSupervision(**wrong)
