"""Losses that follow a teacher: its scores (TeachText), softmaxes, frames or soft labels."""

from __future__ import annotations

import math
from typing import NamedTuple, Optional, Sequence

import torch
from torch import Tensor

from mmvtr.functional.losses.contrastive import LOG_ZERO
from mmvtr.functional.values import (
    arrays_too,
    at_least_float32,
    check_range,
    check_shapes,
    check_valid,
    product,
)

__all__ = [
    'distillation_kl',
    'frame_divergence',
    'item_draws',
    'mean_products',
    'smooth_l1',
    'soft_label_contrastive',
]


@arrays_too
def mean_products(texts: Sequence[Tensor], videos: Sequence[Tensor]) -> Tensor:
    """Return the mean over N teachers of the inner products of their vectors.

    Args:
        texts: N tensors, float [T, D_n]; half precision is computed in float32.
        videos: N tensors, float [V, D_n].

    Returns:
        float [T, V].

    Example:
        ::

            >>> one, two = torch.eye(2), torch.tensor([[3.0], [0.0]])
            >>> mean_products([one, two], [one, two])
            tensor([[5.0000, 0.0000],
                    [0.0000, 0.5000]])
    """
    each = [product(at_least_float32(t), at_least_float32(v).t()) for t, v in zip(texts, videos)]
    return sum(each) / len(each)


@arrays_too
def smooth_l1(scores: Tensor, teacher: Tensor, *, bend: float = 1.0) -> Tensor:
    """Return the smooth L1 distance of each score from the teacher's.

        d^2 / (2 bend)   where |d| < bend,     |d| - bend / 2   elsewhere;     d = score - teacher

    Args:
        scores: float [T, V]; half precision is computed in float32.
        teacher: float [T, V].
        bend: distance from which the loss is linear.

    Returns:
        float [T, V].

    Raises:
        ValueError: shapes that differ.

    Example:
        ::

            >>> smooth_l1(torch.tensor([[0.5, 3.0]]), torch.zeros(1, 2))
            tensor([[0.1250, 2.5000]])
    """
    check_shapes(scores=scores, teacher=teacher)
    distance = (scores - teacher).abs()
    return torch.where(distance < bend, distance.square() / (2 * bend), distance - bend / 2)


@arrays_too
def distillation_kl(scores: Tensor, teacher: Tensor, *, temperature: float = 4.0) -> Tensor:
    """Return the divergence of a student's softmaxes over rows and columns from its teachers'.

        temperature^2 ( mean_t KL(p_t. || q_t.) + mean_v KL(p_.v || q_.v) ) / 2
        p = softmax(teacher / temperature),   q = softmax(scores / temperature)

    The factor keeps the size of the gradient as the temperature grows (Hinton et al., 2015, Sec.
    2).  Of K teachers it is the mean of their K divergences (MobileCLIP, Eq. 2), whose gradient is
    that of the divergence from the mean of their softmaxes.  At temperature 1 it is open_clip's
    ``DistillClipLoss`` minus the entropy of p, which has no gradient.

    Args:
        scores: float [T, V], the student's logits (cosines / its temperature); half precision is
            computed in float32.
        teacher: float [T, V] or [K, T, V], logits of a teacher, or of each of K.
        temperature: > 0.

    Returns:
        0-dim tensor; 0 without texts or without videos.

    Raises:
        ValueError: shapes that differ, or a temperature that is not positive.

    Example:
        ::

            >>> scores, teacher = torch.zeros(2, 2), torch.tensor([[2.0, 0.0], [0.0, 2.0]])
            >>> distillation_kl(scores, teacher, temperature=1.0)
            tensor(0.3278)
    """
    sums = distillation_sums(scores, teacher, temperature=temperature)
    return loss_of_divergences(sums, temperature)


class DivergenceSums(NamedTuple):
    """Terms of the divergences of one direction: A anchors, texts (t2v) or videos (v2t).

    Attributes:
        student: float [A], log of the sum of e^s over the anchor's entries.
        teacher: float [A, K], the same of each of K teachers.
        gap: float [A, K], mean of teacher - student over the teacher's softmax.
    """

    student: Tensor
    teacher: Tensor
    gap: Tensor

    @staticmethod
    def join(parts: Sequence[DivergenceSums], direction: str) -> DivergenceSums:
        """Join the terms of consecutive blocks: more texts (t2v), or more texts per video (v2t)."""
        if direction == 't2v':
            return DivergenceSums(*map(torch.cat, zip(*parts)))
        student, teacher, gap = map(torch.stack, zip(*parts))
        joint = teacher.logsumexp(0)
        return DivergenceSums(student.logsumexp(0), joint, ((teacher - joint).exp() * gap).sum(0))


def distillation_sums(
    scores: Tensor, teacher: Tensor, *, temperature: float
) -> dict[str, DivergenceSums]:
    """Return the terms of :func:`distillation_kl` for some texts and all videos.

    Args:
        scores: float [R, V] of R texts.
        teacher: float [R, V] or [K, R, V].
        temperature: > 0.

    Returns:
        ``'t2v'`` with R anchors, and ``'v2t'`` with V anchors over R texts.

    Example:
        ::

            >>> distillation_sums(torch.zeros(2, 2), torch.zeros(2, 2), temperature=1.0)['t2v'].gap
            tensor([[0.],
                    [0.]])
    """
    check_range('(0, inf]', temperature=temperature)
    check_shapes(scores=scores, teacher=teacher[0] if teacher.dim() == 3 else teacher)
    ours = at_least_float32(scores) / temperature
    theirs = (teacher if teacher.dim() == 3 else teacher[None]).to(ours.dtype) / temperature
    sums = {}
    for way, dim in (('t2v', 1), ('v2t', 0)):
        if not ours.shape[dim]:  # an empty block: log of 0
            zeros = ours.sum(dim)
            each = zeros[:, None].repeat(1, len(theirs))
            sums[way] = DivergenceSums(zeros + LOG_ZERO, each + LOG_ZERO, each)
            continue
        weighted = theirs.softmax(dim + 1) * (theirs - ours)
        sums[way] = DivergenceSums(
            ours.logsumexp(dim), theirs.logsumexp(dim + 1).t(), weighted.sum(dim + 1).t()
        )
    return sums


def loss_of_divergences(sums: dict[str, DivergenceSums], temperature: float) -> Tensor:
    """Return the loss of terms by direction, 0-dim; 0 without texts or without videos.

    Example:
        ::

            >>> one = DivergenceSums(torch.ones(1), torch.ones(1, 1), torch.ones(1, 1))
            >>> loss_of_divergences(dict(t2v=one, v2t=one), 2.0)
            tensor(4.)
    """
    if not all(len(terms.student) for terms in sums.values()):
        return sum(x.sum() for terms in sums.values() for x in terms) * 0.0
    each = [(gap + student[:, None] - teacher).mean() for student, teacher, gap in sums.values()]
    return temperature**2 * sum(each) / len(each)


@arrays_too
def frame_divergence(
    student: Tensor, teacher: Tensor, mask: Tensor, *, temperature: float = 0.2
) -> Tensor:
    """Return the divergence of the student's distribution over a pair's frames from the teacher's.

        KL( softmax_k(teacher_k / temperature) || softmax_k(student_k / temperature) )

    Args:
        student, teacher: float [P, F], scores of a text with the frames of a video, P pairs.
        mask: bool [P, F]; frames that are False are ignored.
        temperature: > 0.

    Returns:
        float [P].

    Raises:
        ValueError: shapes that differ, or a pair without a valid frame.

    Example:
        ::

            >>> student, teacher = torch.tensor([[0.2, 0.2, 9.0]]), torch.tensor([[0.4, 0.2, -9.0]])
            >>> frame_divergence(student, teacher, torch.tensor([[True, True, False]]))
            tensor([0.1109])
    """
    check_shapes(student=student, teacher=teacher, mask=mask)
    check_valid(mask, 'pair', 'frame')
    low = torch.finfo(torch.float32).min  # finite, so that low - low is 0, not NaN
    ours, theirs = (
        (at_least_float32(x) / temperature).masked_fill(~mask, low).log_softmax(1)
        for x in (student, teacher)
    )
    terms = theirs.exp() * (theirs - ours)
    return terms.masked_fill(~mask, 0.0).sum(1)


#: Multipliers of SplitMix64, as signed numbers, and its increment.
_STEP, _FIRST, _SECOND = -7046029254386353131, -4658895280553007687, -7723592293110705685


@arrays_too
def soft_label_contrastive(
    scores: Tensor,
    positives: Tensor,
    reference: Tensor,
    *,
    alpha: float,
    beta: float,
    draws: Optional[tuple[Tensor, Tensor]] = None,
) -> Tensor:
    """Return the contrastive loss whose targets are partly taken from another matrix (DL-DKD++).

    floor(alpha T) of T texts and floor(alpha V) of V videos are hard, the others are soft:

        loss = alpha (mean over hard texts + mean over hard videos)
               + (1 - alpha) (mean over soft texts + mean over soft videos)

    A hard anchor has the pooled InfoNCE term of :func:`.contrastive`.
    With targets beta I + (1 - beta) softmax(reference) =: q, the softmax over the entries of the
    anchor, a soft text has cross-entropy and a soft video its targets inside the logarithm::

        text t:   - sum_v q_tv log softmax_v(s_tv)
        video v:  log sum_t e^s_tv - log sum_t q_tv e^s_tv

    A half without any text or video is left out whole, as in the official code.  Anchors without
    a positive are ignored.  A text with several columns shares I among them.

    Args:
        scores: float [T, V]; half precision is computed in float32.
        positives: bool [T, V].
        reference: float [T, V]; gradients flow through it.
        alpha, beta: in [0, 1].
        draws: float [T] and [V]: the anchors with the smallest numbers are hard, see
            :func:`item_draws`.  None: the first ones, as in the official code.

    Returns:
        0-dim tensor: the sum over both directions, at alpha = 1 twice that of ``contrastive``.

    Raises:
        ValueError: shapes that differ, or numbers outside [0, 1].

    Example:
        One hard row and one soft row, whose targets mix in the softmax of the scores. ::

            >>> scores, positives = torch.eye(2), torch.eye(2).bool()
            >>> soft_label_contrastive(scores, positives, scores, alpha=0.5, beta=0.8)
            tensor(0.6707)
    """
    check_shapes(scores=scores, positives=positives, reference=reference)
    check_range('[0, 1]', alpha=alpha, beta=beta)
    kinds = [
        _hard(positives.any(dim), alpha, drawn) for dim, drawn in zip((1, 0), draws or (None, None))
    ]
    matched = scores.masked_fill(~positives, LOG_ZERO)
    total = scores.sum() * 0.0
    (hard_texts, soft_texts), (hard_videos, soft_videos) = kinds
    if hard_texts.any() and hard_videos.any():
        texts = scores[hard_texts].logsumexp(1) - matched[hard_texts].logsumexp(1)
        videos = (scores[:, hard_videos].logsumexp(0)) - matched[:, hard_videos].logsumexp(0)
        total = total + alpha * (texts.mean() + videos.mean())
    if soft_texts.any() and soft_videos.any():
        matches = positives[soft_texts].to(scores.dtype)
        targets = beta * matches / matches.sum(1, keepdim=True)
        targets = targets + (1 - beta) * reference[soft_texts].softmax(1)
        texts = -(targets * scores[soft_texts].log_softmax(1)).sum(1)
        columns = scores[:, soft_videos]
        logs = torch.logaddexp(
            torch.full_like(columns, _log(beta)).masked_fill(~positives[:, soft_videos], LOG_ZERO),
            _log(1 - beta) + reference[:, soft_videos].log_softmax(0),
        )
        videos = columns.logsumexp(0) - (columns + logs).logsumexp(0)
        total = total + (1 - alpha) * (texts.mean() + videos.mean())
    return total


def _log(x: float) -> float:
    return math.log(x) if x > 0 else LOG_ZERO


def _hard(valid: Tensor, alpha: float, draws: Optional[Tensor]) -> tuple[Tensor, Tensor]:
    """Return which of the valid anchors are hard, and which are soft, bool [N] each."""
    places = valid.nonzero().flatten()
    if draws is not None:
        places = places[draws[places].argsort(stable=True)]
    hard = torch.zeros_like(valid)
    hard[places[: math.floor(alpha * len(places) + 1e-9)]] = True
    return hard, valid & ~hard


@arrays_too
def item_draws(items: Tensor, *, seed: int, epoch: int) -> Tensor:
    """Return a number in [0, 1) for each item that depends only on (seed, epoch, item).

    Args:
        items: int64 [N], annotation rows.
        seed, epoch: choose the numbers.

    Returns:
        float64 [N].

    Example:
        ::

            >>> item_draws(torch.tensor([3, 4, 3]), seed=0, epoch=1)
            tensor([0.0389, 0.6053, 0.0389], dtype=torch.float64)
    """
    x = torch.zeros_like(items)
    for part in (seed, epoch, items):
        x = _mixed(x ^ part)
    return _shifted(x, 11).double() / 2**53


def _mixed(x: Tensor) -> Tensor:
    """Return SplitMix64 of int64 [N]; products wrap around."""
    x = x + _STEP
    x = (x ^ _shifted(x, 30)) * _FIRST
    x = (x ^ _shifted(x, 27)) * _SECOND
    return x ^ _shifted(x, 31)


def _shifted(x: Tensor, bits: int) -> Tensor:
    """Return the logical right shift, as of unsigned integers."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)
