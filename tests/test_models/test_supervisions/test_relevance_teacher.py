"""Relevance as a teacher: what fills the slot, and what it refuses."""

import pytest
import torch

from mmvtr.models import DistillationLoss, RelevanceTeacher
from mmvtr.models.target import Annotation, Target

POSITIVES = torch.eye(2).bool()


def test_scores_that_are_the_relevance_leave_no_loss():
    relevance = torch.tensor([[1.0, 0.25], [0.0, 0.5]])
    target, logs = RelevanceTeacher(scale=0.8)(
        {}, {}, Target(POSITIVES, known=Annotation(relevance=relevance))
    )
    assert torch.equal(target.extras['teacher'], 0.8 * relevance) and logs == {}
    loss = DistillationLoss(reads=('scores',))
    assert loss({'scores': 0.8 * relevance}, target, 1.0) == 0
    assert loss({'scores': relevance}, target, 1.0) > 0


def test_needs_relevance_and_a_positive_scale():
    with pytest.raises(ValueError, match='RelevanceTeacher'):
        RelevanceTeacher()({}, {}, Target(POSITIVES))
    with pytest.raises(ValueError, match='scale'):
        RelevanceTeacher(scale=0)
