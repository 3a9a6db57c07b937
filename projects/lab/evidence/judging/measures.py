"""What each query of a judged matrix has: paired R@1, judged P@1, AP of EXTRA."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from judging.corpora import Matrices
from mmvtr import functional as fn

DIRECTIONS = ('t2v', 'v2t')


class Values(NamedTuple):
    """Of N queries, in percent.

    Attributes:
        R1: float64 [N], whether the annotated item is first.
        P1: float64 [N], whether a right item is first, unjudged ones counted wrong.
        AP: float64 [N], average precision of judged items other than the annotated one; NaN where
            none of them is right.
    """

    R1: Tensor
    P1: Tensor
    AP: Tensor


class Known(NamedTuple):
    """Queries of one direction as rows: bool [N, N] each."""

    own: Tensor
    right: Tensor
    others: Tensor


def known(matrices: Matrices, direction: str) -> Known:
    """What is judged; the same rules as :class:`~mmvtr.evaluation.JudgedMetric`."""
    grades = matrices.grades if direction == 't2v' else matrices.grades.t()
    own, judged = torch.eye(len(grades), dtype=torch.bool), ~grades.isnan()
    right = (grades >= matrices.at_least) | (own & ~judged)
    return Known(own, right, judged & ~own)


def measure(scores: Tensor, what: Known) -> Values:
    """Of scores [N, N] whose rows ask."""
    recall = 100.0 * (fn.ranks(scores, what.own) <= 1)
    best = (scores == scores.amax(1, keepdim=True)).double()
    first = 100.0 * (best * what.right).sum(1) / best.sum(1)
    extra = what.right & what.others
    has = extra.any(1)
    precision = torch.full((len(scores),), torch.nan, dtype=torch.float64)
    listed = fn.condensed(scores[has], what.others[has])
    precision[has] = 100.0 * fn.average_precision(listed, extra[has]).double()
    return Values(recall.double(), first, precision)
