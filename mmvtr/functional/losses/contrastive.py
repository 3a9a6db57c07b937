"""The contrastive losses of the papers as one function, in log space.

InfoNCE (DVTR Eq. 2) of N matched pairs, where text i belongs to video i and to no other::

    def info_nce(scores, temperature):  # float [N, N], rows are texts, columns are videos
        logits = scores / temperature
        own = logits.diagonal()
        t2v = logits.logsumexp(1) - own  # -log softmax of the own video among all videos
        v2t = logits.logsumexp(0) - own  # -log softmax of the own text among all texts
        return (t2v.mean() + v2t.mean()) / 2

This is ``contrastive(scores, torch.eye(N).bool(), temperature=temperature)``.

The general form.  Row t of ``scores[T, V]`` against its positives and weighted negatives:

    -log( sum_{v in P_t} e^{s_tv} / ( sum_{v in P_t} e^{s_tv} + sum_{v not in P_t} w_tv e^{s_tv} ) )

and, with ambiguous entries A_t (none of them in P_t), row t's pair with its positive p:

    -log( (e^{s_tp} + sum_{A_t} w_tv e^{s_tv}) / (e^{s_tp} + sum_{v not in P_t} w_tv e^{s_tv}) )

A positive may be soft, y_tv in [0, 1]; then an entry is a positive by y and a negative by 1 - y:

    -log( sum_v y_tv e^{s_tv} / sum_v (y_tv + (1 - y_tv) w_tv) e^{s_tv} )

Further columns, of other items that a row is pushed away from, enter only the denominators.
"""

from __future__ import annotations

from typing import Mapping, NamedTuple, Optional, Sequence, Union

import torch
from torch import Tensor

from mmvtr.functional.values import arrays_too, at_least_float32, check_one_of, check_shapes

__all__ = ['Columns', 'contrastive']

#: Stands for log(0).  Finite, so that a row without negatives has a loss of 0 and no NaN gradient.
LOG_ZERO = -1e30
#: Directions: text queries over videos, video queries over texts.
WAYS = ('t2v', 'v2t')
#: One tensor for both directions, or one per direction.
ByDirection = Union[Tensor, Mapping[str, Tensor]]


class Columns(NamedTuple):
    """Further entries of M rows, which enter denominators beside the score matrix.

    Attributes:
        scores: float [M, K], in the unit of the score matrix.
        weights: float [M, K] >= 0 or None (= 1), weight of each entry in the denominator.
        anchor: int64 [M], the anchor of each row; None: row i belongs to anchor i.
    """

    scores: Tensor
    weights: Optional[Tensor] = None
    anchor: Optional[Tensor] = None


@arrays_too
def contrastive(
    scores: Tensor,
    positives: Tensor,
    *,
    temperature: float | Tensor = 1.0,
    weights: Optional[ByDirection] = None,
    ambiguous: Optional[Tensor] = None,
    counts: Optional[ByDirection] = None,
    columns: Optional[Mapping[str, Sequence[Columns]]] = None,
    form: str = 'pooled',
    direction: str = 'both',
) -> Tensor:
    """Return the contrastive loss of a text x video score matrix.

    Special cases: InfoNCE (DVTR Eq. 2) has one positive per row and no weights; the debiased
    contrastive loss (DVTR Eq. 13) has ``weights`` = eta; ``form='outer_sum'`` is SupCon; MS-SL's
    ``clip_nce`` is twice the pooled loss of the raw inner products.  ARL Eq. 10 is twice
    ``own_pair``; the other uses of its ambiguous sets (Tab. 6) are ``positives | ambiguous`` with
    ``form='outer_sum'``, and ``weights`` 0 at them.

    Args:
        scores: float [T, V]; half precision is computed in float32.
        positives: bool [T, V], or float [T, V] in [0, 1]: y of soft positives, with a gradient
            where 0 < y < 1; 0 and 1 mean False and True.  Rows (t2v) or columns (v2t) without a
            positive are left out; but a row of soft positives must have one.
        temperature: divides the scores; a float or a 0-dim tensor.
        weights: float [T, V] >= 0 or None (= 1), the weight of each negative in the denominator;
            entries at positives are ignored.  Weight 0 removes an entry from the loss.  Or one
            tensor per direction, ``{'t2v': ..., 'v2t': ...}``; a missing direction: 1.
        ambiguous: bool [T, V] or None, for ``own_pair`` only: A of ARL Eq. 8-9.  A row holds A of
            the text, a column A of the video.  They join the numerator of each pair and stay in the
            denominator, with their weight in both; entries at positives are ignored.
        counts: float [T] >= 0 or None (= 1), weight of each text in the mean over texts (t2v).  The
            mean over videos ignores it, unless counts are given per direction, ``{'t2v': [T],
            'v2t': [V]}``.
        columns: per direction, further entries in the denominators of its anchors: text-text and
            video-video scores, mined negatives, a queue.  With ``own_pair`` they enter each pair's
            denominator.
        form: ``'pooled'`` as in the module docstring; ``'own_pair'`` one term per annotated pair,
            whose sibling positives are neither positive nor negative (ARL Eq. 8-9); ``'outer_sum'``
            the mean over positives outside the logarithm.  With soft positives these means are
            weighted by y, and ``outer_sum`` is the cross-entropy with the targets y / sum of y; a
            pair of ``own_pair`` has y e^s where an annotated one has e^s.
        direction: ``'t2v'`` (mean over texts), ``'v2t'`` (mean over videos; for ``own_pair`` both
            mean over pairs) or ``'both'``, the mean of the two.

    Returns:
        0-dim tensor; 0 if no row has a positive.

    Raises:
        ValueError: unknown form or direction, ambiguous pairs with another form than ``own_pair``,
            shapes that differ; soft positives that are NaN or outside [0, 1], or a row (a column
            for ``'v2t'``) without a soft positive.

    Example:
        Each negative scores one less than its positive; small weights reduce the loss. ::

            >>> scores, positives = torch.eye(2), torch.eye(2).bool()
            >>> contrastive(scores, positives)  # log(1 + 1 / e)
            tensor(0.3133)
            >>> contrastive(scores, positives, weights=torch.full((2, 2), 0.1))
            tensor(0.0361)

        With ``outer_sum`` soft positives are the targets of a cross-entropy. ::

            >>> soft = torch.tensor([[0.9, 0.1], [0.1, 0.9]])
            >>> contrastive(scores, soft, form='outer_sum')
            tensor(0.4133)
    """
    if positives.is_floating_point():
        _check_rows(positives, direction)
    options = dict(temperature=temperature, weights=weights, ambiguous=ambiguous, counts=counts)
    options.update(columns=columns, form=form, direction=direction)
    sums = contrastive_sums(scores, positives, **options)
    return sum(loss_of_sums(terms, form) for terms in sums.values()) / len(sums)


class Sums(NamedTuple):
    """Terms of one direction: N anchors, texts (t2v) or videos (v2t), and P positives.

    Attributes:
        own: float [P], s of the positives.
        anchor: int64 [P], the anchor of each positive.
        negative: float [N], log of the sum of w e^s over all entries that are not positives, and
            over further columns; with soft positives, of (1 - y) w e^s over all entries.
        shared: float [N], the same over the ambiguous entries only, or None.
        counts: float [N], weight of each anchor, or None if all count equally.
        degree: float [P] in (0, 1], y of the positives, or None if each is 1.
    """

    own: Tensor
    anchor: Tensor
    negative: Tensor
    shared: Optional[Tensor] = None
    counts: Optional[Tensor] = None
    degree: Optional[Tensor] = None

    @staticmethod
    def join(parts: Sequence[Sums], direction: str) -> Sums:
        """Join the terms of consecutive blocks: more texts (t2v), or more texts per video (v2t).

        Args:
            parts: the blocks' terms, float [R] or [V], see :func:`contrastive_sums`.
            direction: direction of the parts.

        Example:
            ::

                >>> part = Sums(torch.ones(1), torch.tensor([0]), torch.zeros(1))
                >>> Sums.join([part, part], 'v2t').negative  # log 2
                tensor([0.6931])
                >>> Sums.join([part, part], 't2v').anchor
                tensor([0, 1])
        """
        own, anchors, negatives, shared, counts, degrees = zip(*parts)
        if direction == 't2v':
            starts = torch.tensor([len(x) for x in negatives]).cumsum(0).tolist()
            anchors = [x + start for x, start in zip(anchors, [0, *starts])]
        rest = []
        for of_parts in (negatives, shared, counts):
            if of_parts[0] is None:
                rest.append(None)
            elif direction == 't2v':
                rest.append(torch.cat(of_parts))
            else:
                rest.append(
                    of_parts[0] if of_parts is counts else torch.stack(of_parts).logsumexp(0)
                )
        degree = None if degrees[0] is None else torch.cat(degrees)
        return Sums(torch.cat(own), torch.cat(anchors), *rest, degree)


def contrastive_sums(
    scores: Tensor,
    positives: Tensor,
    *,
    temperature: float | Tensor = 1.0,
    weights: Optional[ByDirection] = None,
    ambiguous: Optional[Tensor] = None,
    counts: Optional[ByDirection] = None,
    columns: Optional[Mapping[str, Sequence[Columns]]] = None,
    form: str = 'pooled',
    direction: str = 'both',
) -> dict[str, Sums]:
    """Return the terms of the loss over a whole matrix, or over a block: some texts, all videos.

    Args:
        scores, positives, temperature, weights, ambiguous, counts, columns, form, direction: see
            :func:`contrastive`; float [R, V] and [R] for R texts.  Columns of videos (v2t) must be
            given to one block only: they are added in each block that has them.

    Returns:
        One per direction: ``'t2v'`` with R anchors, and ``'v2t'`` with V anchors over R texts.

    Raises:
        ValueError: as :func:`contrastive`, except for rows without a positive, which are left out.

    Example:
        Each text has a positive of score 1 and a negative of score 0. ::

            >>> contrastive_sums(torch.eye(2), torch.eye(2).bool())['t2v'].negative
            tensor([0., 0.])
    """
    _check(scores, positives, ambiguous, form, direction)
    for name, value in (('weights', weights), ('counts', counts), ('columns', columns)):
        _check_directions(name, value)
    logits = at_least_float32(scores) / temperature
    negatives = None if isinstance(weights, Mapping) else _negatives(logits, positives, weights)
    texts, videos = positives.nonzero(as_tuple=True)
    degree = at_least_float32(positives)[texts, videos] if positives.is_floating_point() else None
    by_way = counts if isinstance(counts, Mapping) else dict(t2v=counts)
    sums = {}
    for way, dim, anchor in (('t2v', 1, texts), ('v2t', 0, videos)):
        if direction in (way, 'both'):
            pushed, shared = negatives, None  # s + log w
            if pushed is None:
                pushed = _negatives(logits, positives, weights.get(way))
            negative = _logsumexp(pushed, dim)
            if ambiguous is not None:
                shared = _logsumexp(pushed.masked_fill(~ambiguous, LOG_ZERO), dim)
            for further in () if columns is None else columns.get(way, ()):
                negative = torch.logaddexp(negative, _of_columns(further, temperature, negative))
            sums[way] = Sums(
                own=logits[texts, videos],
                anchor=anchor,
                negative=negative,
                shared=shared,
                counts=by_way.get(way),
                degree=degree,
            )
    return sums


def loss_of_sums(sums: Sums, form: str) -> Tensor:
    """Return the loss of one direction, 0-dim; 0 if no positive counts.

    Args:
        sums: over all entries of N anchors.
        form: see :func:`contrastive`.

    Example:
        ::

            >>> one = Sums(torch.ones(1), torch.tensor([0]), torch.zeros(1))
            >>> loss_of_sums(one, 'pooled')  # log(1 + 1 / e)
            tensor(0.3133)
    """
    own, anchor, negative, shared, counts, degree = sums
    if not len(own):
        return negative.sum() * 0.0
    if form == 'own_pair':
        positive = own if degree is None else own + degree.log()
        pulled = positive if shared is None else torch.logaddexp(positive, shared[anchor])
        terms = torch.logaddexp(positive, negative[anchor]) - pulled
        often = None if counts is None else counts[anchor]
        if degree is not None:
            often = degree if often is None else often.to(degree.dtype) * degree
        return mean_of(terms, often)
    pulled, total, matched = pooled_of_sums(sums)
    if form == 'outer_sum':
        zeros = own.new_zeros(negative.shape)
        if degree is None:
            number = zeros.long().index_add(0, anchor, torch.ones_like(anchor))
            pulled = zeros.index_add(0, anchor, own) / number.clamp_min(1)
        else:
            whole = zeros.index_add(0, anchor, degree)
            pulled = zeros.index_add(0, anchor, degree * own) / torch.where(matched, whole, 1.0)
    return mean_of((total - pulled)[matched], None if counts is None else counts[matched])


def pooled_of_sums(sums: Sums) -> tuple[Tensor, Tensor, Tensor]:
    """Return, per anchor, log sums over positives and over all terms, and if it has a positive.

    Example:
        ::

            >>> one = Sums(torch.zeros(2), torch.tensor([0, 0]), torch.zeros(1))
            >>> pooled_of_sums(one)  # log 2, log 3
            (tensor([0.6931]), tensor([1.0986]), tensor([True]))
    """
    own, anchor, negative, *_, degree = sums
    zeros = own.new_zeros(negative.shape)
    positive = own if degree is None else own + degree.log()
    pooled = _logsumexp_by(positive, anchor, zeros)
    matched = zeros.bool().index_fill(0, anchor, True)
    return pooled, torch.logaddexp(pooled, negative), matched


def _check(
    scores: Tensor, positives: Tensor, ambiguous: Optional[Tensor], form: str, direction: str
) -> None:
    check_shapes(scores=scores, positives=positives)
    check_one_of(('pooled', 'own_pair', 'outer_sum'), form=form)
    if ambiguous is not None and form != 'own_pair':
        raise ValueError(f"ambiguous pairs need form='own_pair', not {form!r}")
    check_one_of((*WAYS, 'both'), direction=direction)
    if positives.is_floating_point() and not ((positives >= 0) & (positives <= 1)).all():
        raise ValueError('soft positives must lie in [0, 1], and none may be NaN')


def _check_directions(name: str, value: object) -> None:
    unknown = [way for way in value if way not in WAYS] if isinstance(value, Mapping) else []
    if unknown:
        raise ValueError(f"{name} must have the keys 't2v' and 'v2t', not {unknown[0]!r}")


def _check_rows(positives: Tensor, direction: str) -> None:
    of, dim = ('video', 0) if direction == 'v2t' else ('text', 1)
    alone = ~(positives > 0).any(dim)
    if alone.any():
        row = int(alone.int().argmax())
        raise ValueError(f'{of} {row} has no soft positive')


def _negatives(logits: Tensor, positives: Tensor, weights: Optional[Tensor]) -> Tensor:
    """Return s + log w of the negatives, LOG_ZERO elsewhere and where w is 0; float [T, V].

    With soft positives the weight is (1 - y) w.
    """
    if positives.is_floating_point():
        rest = 1 - at_least_float32(positives)
        weights = rest if weights is None else rest * at_least_float32(weights)
        positives = positives == 1
    if weights is None:
        return logits.masked_fill(positives, LOG_ZERO)
    weights = at_least_float32(weights)
    if not weights.requires_grad:
        return logits + weights.log().clamp_min_(LOG_ZERO).masked_fill_(positives, LOG_ZERO)
    absent = positives | (weights == 0)  # avoids the gradient of log 0
    return logits + weights.masked_fill(absent, 1.0).log().masked_fill(absent, LOG_ZERO)


def _of_columns(columns: Columns, temperature: float | Tensor, like: Tensor) -> Tensor:
    """Return the log sum of w e^s of each anchor [N], LOG_ZERO if it has no row."""
    logits = at_least_float32(columns.scores) / temperature
    none = torch.zeros_like(logits, dtype=torch.bool)
    sums = _logsumexp(_negatives(logits, none, columns.weights), 1)
    if columns.anchor is None:
        return sums
    return _logsumexp_by(sums, columns.anchor, torch.zeros_like(like))


def _logsumexp(x: Tensor, dim: int) -> Tensor:
    if not x.shape[dim]:  # no entries: log of 0
        return x.sum(dim) + LOG_ZERO
    return x.logsumexp(dim)


def _logsumexp_by(x: Tensor, anchor: Tensor, zeros: Tensor) -> Tensor:
    """Return log-sum-exp of x [P] by anchor [P], LOG_ZERO if it has no entry; ``zeros`` is [N]."""
    largest = torch.full_like(zeros, LOG_ZERO).scatter_reduce(0, anchor, x.detach(), 'amax')
    sums = zeros.index_add(0, anchor, (x - largest[anchor]).exp())
    return largest + sums.masked_fill(sums == 0, 1.0).log()


def mean_of(values: Tensor, counts: Optional[Tensor]) -> Tensor:
    """Return the mean of float [N], weighted by ``counts``.

    Example:
        ::

            >>> mean_of(torch.tensor([1.0, 4.0]), torch.tensor([2.0, 1.0]))
            tensor(2.)
    """
    if counts is None:
        return values.mean()
    counts = counts.to(values.dtype)
    total = counts.sum()
    return (values * counts).sum() / torch.where(total > 0, total, 1.0)
