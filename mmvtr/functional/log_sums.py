"""The sums that :mod:`mmvtr.functional.contrastive` is made of; a part of a matrix gives its share.

Each anchor, a text or a video, has a few sums over its entries, and the loss reads nothing else.
"""

from __future__ import annotations

from typing import NamedTuple, Optional, Sequence

import torch
from torch import Tensor

from mmvtr.functional.precision import at_least_float32

#: Stands for log(0).  Finite, so that a row without negatives has a loss of 0 and no NaN gradient.
LOG_ZERO = -1e30


class LogSums(NamedTuple):
    """What the loss has to know of N anchors: N texts (t2v) or N videos (v2t).

    A field that the form does not read is None.  Sums over parts of a matrix can be put together:
    those of other anchors by :func:`torch.cat`, those of the same ones by :func:`join_entries`.

    Attributes:
        count: int64 [N], positives.
        positive: float [N], log of the sum of e^s over them.
        total: float [N], sum of s over them.
        negative: float [N], log of the sum of w e^s over all others.
        shared: float [N], the same over those of them that are ambiguous.
    """

    count: Tensor
    positive: Optional[Tensor] = None
    total: Optional[Tensor] = None
    negative: Optional[Tensor] = None
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
    weights = at_least_float32(weights)
    if not weights.requires_grad:
        log_weights = weights.log().clamp_min(LOG_ZERO)
        return logits, (logits + log_weights).masked_fill(positives, LOG_ZERO)
    absent = positives | (weights == 0)  # the gradient of log 0 is not to be met
    negatives = logits + weights.masked_fill(absent, 1.0).log()
    return logits, negatives.masked_fill(absent, LOG_ZERO)


def log_sums(
    logits: Tensor,
    negatives: Tensor,
    positives: Tensor,
    form: str,
    direction: str,
    *,
    ambiguous: Optional[Tensor] = None,
    pairs: Optional[tuple[Tensor, Tensor]] = None,
) -> LogSums:
    """Sums over the entries of each text (``'t2v'``) or of each video (``'v2t'``).

    Args:
        logits, negatives: float [T, V], see :func:`weighted_logits`; maybe a part of a matrix.
        positives, ambiguous: bool [T, V], see :func:`contrastive`.
        form: likewise; decides which sums are made.
        direction: ``'t2v'`` or ``'v2t'``.
        pairs: ``positives.nonzero(as_tuple=True)``, of whom has it.

    Raises:
        ValueError: unknown form or direction.

    Example:
        A text has one positive of score 1, and a negative of score 0. ::

            >>> positives = torch.eye(2).bool()
            >>> logits, negatives = weighted_logits(torch.eye(2), positives, 1.0, None)
            >>> log_sums(logits, negatives, positives, 'pooled', 't2v').negative
            tensor([0., 0.])
    """
    if direction not in ('t2v', 'v2t'):
        raise ValueError(f"direction must be 't2v', 'v2t' or 'both', not {direction!r}")
    if form not in ('pooled', 'own_pair', 'outer_sum'):
        raise ValueError(f"form must be 'pooled', 'own_pair' or 'outer_sum', not {form!r}")
    dim = 1 if direction == 't2v' else 0
    found = dict(negative=_logsumexp(negatives, dim))
    if form == 'own_pair':
        found['shared'] = torch.full_like(found['negative'], LOG_ZERO)
        if ambiguous is not None:
            found['shared'] = _logsumexp(negatives.masked_fill(~ambiguous, LOG_ZERO), dim)
    # Positives are few: they are summed one by one.
    pairs = positives.nonzero(as_tuple=True) if pairs is None else pairs
    own, anchor = logits[pairs], pairs[1 - dim]
    none = logits.new_zeros(found['negative'].shape)  # weights may be of a wider type
    found['count'] = none.long().index_add(0, anchor, torch.ones_like(anchor))
    if form != 'own_pair':
        found['positive'] = _sparse_logsumexp(own, anchor, none)
    if form == 'outer_sum':
        found['total'] = none.index_add(0, anchor, own)
    return LogSums(**found)


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

            >>> part = LogSums(torch.tensor([1]), negative=torch.zeros(1))
            >>> join_entries([part, part])[:1], join_entries([part, part]).negative  # log 2
            ((tensor([2]),), tensor([0.6931]))
    """
    fields = {name: [getattr(part, name) for part in parts] for name in LogSums._fields}
    plain = {name: sum(fields[name]) for name in ('count', 'total') if fields[name][0] is not None}
    logs = {
        name: torch.stack(fields[name]).logsumexp(0)
        for name in ('positive', 'negative', 'shared')
        if fields[name][0] is not None
    }
    return LogSums(**plain, **logs)


def from_sums(sums: LogSums, form: str, *, own: Optional[tuple[Tensor, Tensor]] = None) -> Tensor:
    """The loss of one direction.

    Args:
        sums: over all entries of all anchors.
        form: see :func:`contrastive`.
        own: for ``own_pair``, of all P annotated pairs: s, float [P], and their anchors, int64 [P].

    Returns:
        0-dim tensor.

    Example:
        ::

            >>> sums = LogSums(torch.ones(1), positive=torch.ones(1), negative=torch.zeros(1))
            >>> from_sums(sums, 'pooled')  # log(1 + 1 / e)
            tensor(0.3133)
    """
    valid = sums.count > 0
    if form == 'own_pair':
        logits, anchor = own
        if not len(logits):
            return sums.negative.sum() * 0.0
        numerator = torch.logaddexp(logits, sums.shared[anchor])
        return (torch.logaddexp(logits, sums.negative[anchor]) - numerator).mean()
    if not valid.any():
        return sums.positive.sum() * 0.0
    total = torch.logaddexp(sums.positive, sums.negative)
    if form == 'pooled':
        return (total - sums.positive)[valid].mean()
    return (total - sums.total / sums.count.clamp_min(1))[valid].mean()
