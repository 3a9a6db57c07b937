"""One contrastive loss for all papers, in log space.

Row t of ``scores[T, V]`` against its positives and weighted negatives:

    -log( sum_{v in P_t} e^{s_tv} / ( sum_{v in P_t} e^{s_tv} + sum_{v not in P_t} w_tv e^{s_tv} ) )

and, with ambiguous entries A_t (none of them in P_t), row t's pair with its positive p:

    -log( (e^{s_tp} + sum_{A_t} w_tv e^{s_tv}) / (e^{s_tp} + sum_{v not in P_t} w_tv e^{s_tv}) )
"""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor

from mmvtr.functional.precision import at_least_float32

#: Stands for log(0).  Finite, so that a row without negatives has a loss of 0 and no NaN gradient.
LOG_ZERO = -1e30


def contrastive(
    scores: Tensor,
    positives: Tensor,
    *,
    temperature: float | Tensor = 1.0,
    weights: Optional[Tensor] = None,
    ambiguous: Optional[Tensor] = None,
    form: str = 'pooled',
    direction: str = 'both',
) -> Tensor:
    """Contrastive loss of a text x video score matrix.

    Special cases: InfoNCE (DVTR Eq. 2) has one positive a row and no weights; the debiased
    contrastive loss (DVTR Eq. 13) has ``weights`` = eta; ``form='outer_sum'`` is SupCon; MS-SL's
    ``clip_nce`` is twice the pooled loss of the raw inner products.  ARL Eq. 10 is twice
    ``own_pair``; the other uses of its ambiguous sets (Tab. 6) are ``positives | ambiguous`` with
    ``form='outer_sum'``, and ``weights`` 0 at them.

    Args:
        scores: float [T, V]; half precision is computed in float32.
        positives: bool [T, V].  Rows (t2v) or columns (v2t) without a positive are left out.
        temperature: divides the scores; a float or a 0-dim tensor.
        weights: float [T, V] >= 0 or None (= 1), the weight of each negative in the denominator;
            entries at positives are ignored.  Weight 0 takes an entry out of the loss.
        ambiguous: bool [T, V] or None, for ``own_pair`` only: A of ARL Eq. 8-9.  A row's entries
            are A of the text, a column's those of the video.  They join the numerator of each pair
            and stay in the denominator, with their weight in both; entries at positives are
            ignored.  They are never pushed, and share the pull with the positive as e^s says.
        form: ``'pooled'`` as above; ``'own_pair'`` one term per annotated pair, whose sibling
            positives are neither positive nor negative (ARL Eq. 8-9); ``'outer_sum'`` the mean
            over positives outside the logarithm.
        direction: ``'t2v'`` (mean over texts), ``'v2t'`` (mean over videos; for ``own_pair`` both
            mean over pairs) or ``'both'``, the mean of the two.

    Returns:
        0-dim tensor; 0 where no row has a positive.

    Raises:
        ValueError: unknown form or direction, ambiguous pairs with another form than
            ``own_pair``, or shapes that differ.

    Example:
        Each negative scores one less than its positive; then it hardly counts. ::

            >>> scores, positives = torch.eye(2), torch.eye(2).bool()
            >>> contrastive(scores, positives)  # log(1 + 1 / e)
            tensor(0.3133)
            >>> contrastive(scores, positives, weights=torch.full((2, 2), 0.1))
            tensor(0.0361)
    """
    if scores.shape != positives.shape:
        raise ValueError(
            f'scores {tuple(scores.shape)} and positives {tuple(positives.shape)} differ'
        )
    if ambiguous is not None and form != 'own_pair':
        raise ValueError(f"ambiguous pairs need form='own_pair', not {form!r}")
    logits = at_least_float32(scores) / temperature
    if weights is None:
        negatives = logits.masked_fill(positives, LOG_ZERO)
    else:
        absent = positives | (weights == 0)
        negatives = logits + weights.masked_fill(absent, 1.0).log()
        negatives = negatives.masked_fill(absent, LOG_ZERO)
    ambiguous = torch.zeros_like(positives) if ambiguous is None else ambiguous
    t2v = (logits, negatives, positives, ambiguous)
    v2t = tuple(x.t() for x in t2v)
    if direction == 'both':
        return (_rows(*t2v, form) + _rows(*v2t, form)) / 2
    if direction not in ('t2v', 'v2t'):
        raise ValueError(f"direction must be 't2v', 'v2t' or 'both', not {direction!r}")
    return _rows(*(t2v if direction == 't2v' else v2t), form)


def _rows(
    logits: Tensor, negatives: Tensor, positives: Tensor, ambiguous: Tensor, form: str
) -> Tensor:
    """The loss of each row (each pair for ``own_pair``), averaged."""
    valid = positives.any(1)
    if not valid.any():
        return logits.sum() * 0.0
    negative = torch.logsumexp(negatives, 1)
    if form == 'own_pair':
        row, column = positives.nonzero(as_tuple=True)
        own = logits[row, column]
        shared = torch.logsumexp(negatives.masked_fill(~ambiguous, LOG_ZERO), 1)
        numerator = torch.logaddexp(own, shared[row])
        return (torch.logaddexp(own, negative[row]) - numerator).mean()
    positive = torch.logsumexp(logits.masked_fill(~positives, LOG_ZERO), 1)
    total = torch.logaddexp(positive, negative)
    if form == 'pooled':
        return (total - positive)[valid].mean()
    if form == 'outer_sum':
        mean = logits.masked_fill(~positives, 0.0).sum(1) / positives.sum(1).clamp_min(1)
        return (total - mean)[valid].mean()
    raise ValueError(f"form must be 'pooled', 'own_pair' or 'outer_sum', not {form!r}")
