"""The sums that :mod:`mmvtr.functional.contrastive` is made of; a part of a matrix gives its share.

Each anchor, a text or a video, has its positives and a sum or two over its other entries; the loss
reads nothing else.
"""

from __future__ import annotations

from typing import NamedTuple, Optional, Sequence

import torch
from torch import Tensor

from mmvtr.functional.precision import at_least_float32

#: Stands for log(0).  Finite, so that a row without negatives has a loss of 0 and no NaN gradient.
LOG_ZERO = -1e30


class LogSums(NamedTuple):
    """What the loss has to know of N anchors beside their positives: N texts (t2v) or videos (v2t).

    Sums over parts of a matrix can be put together: those of other anchors by :func:`torch.cat`,
    those of the same ones by :func:`join_entries`.

    Attributes:
        negative: float [N], log of the sum of w e^s over all entries that are no positive.
        shared: float [N], the same over those of them that are ambiguous; None where the form does
            not read it.
    """

    negative: Tensor
    shared: Optional[Tensor] = None


def weighted_logits(
    scores: Tensor,
    positives: Tensor,
    temperature: float | Tensor,
    weights: Optional[Tensor],
) -> tuple[Tensor, Tensor]:
    """s and s + log w of the negatives, :data:`LOG_ZERO` at positives; arguments as above.

    Returns:
        Two float [T, V].

    Example:
        ::

            >>> weighted_logits(torch.eye(2), torch.eye(2).bool(), 0.5, torch.full((2, 2), 1.0))[0]
            tensor([[2., 0.],
                    [0., 2.]])
    """
    logits = at_least_float32(scores) / temperature
    if weights is None:
        return logits, logits.masked_fill(positives, LOG_ZERO)
    return logits, logits + log_weights(weights, positives)


def log_weights(weights: Tensor, positives: Tensor) -> Tensor:
    """log w, :data:`LOG_ZERO` where w is 0 and at positives; with a gradient where w has one.

    Args:
        weights: float [T, V] >= 0; half precision is computed in float32.
        positives: bool [T, V].

    Example:
        ::

            >>> log_weights(torch.ones(2, 2), torch.eye(2).bool())
            tensor([[-1.0000e+30,  0.0000e+00],
                    [ 0.0000e+00, -1.0000e+30]])
    """
    weights = at_least_float32(weights)
    if not weights.requires_grad:
        return weights.log().clamp_min_(LOG_ZERO).masked_fill_(positives, LOG_ZERO)
    absent = positives | (weights == 0)  # the gradient of log 0 is not to be met
    return weights.masked_fill(absent, 1.0).log().masked_fill(absent, LOG_ZERO)


def log_sums(
    negatives: Tensor, form: str, direction: str, *, ambiguous: Optional[Tensor] = None
) -> LogSums:
    """Sums over the entries of each text (``'t2v'``) or of each video (``'v2t'``).

    Args:
        negatives: float [T, V], see :func:`weighted_logits`; maybe a part of a matrix.
        form: see :func:`contrastive`; decides which sums are made.
        direction: ``'t2v'`` or ``'v2t'``.
        ambiguous: bool [T, V], see :func:`contrastive`.

    Raises:
        ValueError: unknown form or direction.

    Example:
        A text has one positive of score 1, and a negative of score 0. ::

            >>> _, negatives = weighted_logits(torch.eye(2), torch.eye(2).bool(), 1.0, None)
            >>> log_sums(negatives, 'pooled', 't2v').negative
            tensor([0., 0.])
    """
    check_form(form, direction)
    dim = 1 if direction == 't2v' else 0
    negative, shared = _logsumexp(negatives, dim), None
    if form == 'own_pair':
        shared = torch.full_like(negative, LOG_ZERO)
        if ambiguous is not None:
            shared = _logsumexp(negatives.masked_fill(~ambiguous, LOG_ZERO), dim)
    return LogSums(negative, shared)


def check_form(form: str, direction: str) -> None:
    """Raise ValueError for an unknown form or direction.

    Example:
        ::

            >>> check_form('pooled', 't2v')
    """
    if direction not in ('t2v', 'v2t'):
        raise ValueError(f"direction must be 't2v', 'v2t' or 'both', not {direction!r}")
    if form not in ('pooled', 'own_pair', 'outer_sum'):
        raise ValueError(f"form must be 'pooled', 'own_pair' or 'outer_sum', not {form!r}")


def _logsumexp(x: Tensor, dim: int) -> Tensor:
    if not x.shape[dim]:  # of no entry: zero, in logarithms
        return x.sum(dim) + LOG_ZERO
    return x.logsumexp(dim)


def _sparse_logsumexp(x: Tensor, anchor: Tensor, none: Tensor) -> Tensor:
    """Of the entries x [P] of anchors [P], LOG_ZERO where there is none; ``none`` is zeros [N]."""
    largest = torch.full_like(none, LOG_ZERO).scatter_reduce(0, anchor, x.detach(), 'amax')
    sums = none.index_add(0, anchor, (x - largest[anchor]).exp())
    return largest + sums.masked_fill(sums == 0, 1.0).log()


def join_entries(parts: Sequence[LogSums]) -> LogSums:
    """Sums of the same anchors over several parts of their entries: float [N] -> float [N].

    Example:
        ::

            >>> part = LogSums(torch.zeros(1))
            >>> join_entries([part, part]).negative  # log 2
            tensor([0.6931])
    """
    return LogSums(*(None if of[0] is None else torch.stack(of).logsumexp(0) for of in zip(*parts)))


def from_sums(
    sums: LogSums, form: str, own: tuple[Tensor, Tensor], *, counts: Optional[Tensor] = None
) -> Tensor:
    """The loss of one direction.

    Args:
        sums: over all entries of all anchors.
        form: see :func:`contrastive`.
        own: of all P positives s, float [P], and their anchors, int64 [P]: they are few, and are
            summed one by one.
        counts: float [N] >= 0 or None (= 1), how much each anchor counts in the mean; the same
            factor on all of them changes nothing.

    Returns:
        0-dim tensor; 0 where there is no positive, or none that counts.

    Example:
        ::

            >>> sums, own = LogSums(torch.zeros(1)), (torch.ones(1), torch.tensor([0]))
            >>> from_sums(sums, 'pooled', own)  # log(1 + 1 / e)
            tensor(0.3133)
    """
    logits, anchor = own
    if not len(logits):
        return sums.negative.sum() * 0.0
    if form == 'own_pair':
        numerator = torch.logaddexp(logits, sums.shared[anchor])
        values = torch.logaddexp(logits, sums.negative[anchor]) - numerator
        return _mean(values, None if counts is None else counts[anchor])
    none = logits.new_zeros(sums.negative.shape)  # weights may be of a wider type
    count = none.long().index_add(0, anchor, torch.ones_like(anchor))
    valid = count > 0
    positive = _sparse_logsumexp(logits, anchor, none)
    total = torch.logaddexp(positive, sums.negative)
    if form == 'outer_sum':
        positive = none.index_add(0, anchor, logits) / count.clamp_min(1)
    return _mean((total - positive)[valid], None if counts is None else counts[valid])


def _mean(values: Tensor, counts: Optional[Tensor]) -> Tensor:
    """Of float [N], each as often as it counts."""
    if counts is None:
        return values.mean()
    counts = counts.to(values.dtype)
    total = counts.sum()
    return (values * counts).sum() / torch.where(total > 0, total, 1.0)
