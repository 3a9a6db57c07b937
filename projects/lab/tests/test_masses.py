"""The gradient that a rehearsal decomposes is the loss's."""

import torch

from mmvtr.models.losses.ranking import EgoNCELoss, RelevantRankingLoss
from mmvtr.models.target import Annotation, Target
from rehearsal.masses import size_of_gradient


def test_egonce_pulls_a_further_positive_by_its_own_probability():
    """dL / ds = p - p / P on positives of summed probability P, and p on the others."""
    scores = torch.tensor([[2.0, 1.0, 0.5]])
    target = Target(
        positives=torch.tensor([[True, False, False]]),
        known=Annotation(overlap=torch.tensor([[True, True, False]])),
    )
    loss = EgoNCELoss(direction='t2v', loss_weight=3.0)
    found = size_of_gradient(loss, dict(scores=scores), target, torch.tensor(1.0))
    p = scores.softmax(1)
    expected = torch.where(target.known.overlap, p / p[0, :2].sum() - p, p)
    torch.testing.assert_close(found, 3 * expected)
    torch.testing.assert_close(found[0, 2], found[0, :2].sum())  # what is pulled is pushed


def test_nothing_relevant_has_no_gradient():
    relevance = torch.zeros(2, 2)
    target = Target(positives=torch.eye(2, dtype=torch.bool), known=Annotation(relevance=relevance))
    loss = RelevantRankingLoss(threshold=0.4)
    scores = dict(scores=torch.randn(2, 2))
    assert size_of_gradient(loss, scores, target, torch.tensor(1.0)).eq(0).all()
