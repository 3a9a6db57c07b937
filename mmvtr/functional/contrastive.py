"""One contrastive loss for all papers, in log space.

Row t of ``scores[T, V]`` against its positives and weighted negatives:

    -log( sum_{v in P_t} e^{s_tv} / ( sum_{v in P_t} e^{s_tv} + sum_{v not in P_t} w_tv e^{s_tv} ) )

and, with ambiguous entries A_t (none of them in P_t), row t's pair with its positive p:

    -log( (e^{s_tp} + sum_{A_t} w_tv e^{s_tv}) / (e^{s_tp} + sum_{v not in P_t} w_tv e^{s_tv}) )
"""

from __future__ import annotations

from typing import Optional

from torch import Tensor

from mmvtr.functional.log_sums import from_sums, log_sums, weighted_logits


def contrastive(
    scores: Tensor,
    positives: Tensor,
    *,
    temperature: float | Tensor = 1.0,
    weights: Optional[Tensor] = None,
    ambiguous: Optional[Tensor] = None,
    counts: Optional[Tensor] = None,
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
        counts: float [T] >= 0 or None (= 1), how much each text counts in the mean over texts
            (t2v).  The mean over videos does not read it.
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
    refuse_ambiguous(ambiguous, form)
    directions = ('t2v', 'v2t') if direction == 'both' else (direction,)
    logits, negatives = weighted_logits(scores, positives, temperature, weights)
    pairs = positives.nonzero(as_tuple=True)
    losses = []
    for one in directions:
        sums = log_sums(negatives, form, one, ambiguous=ambiguous)
        own = logits[pairs], pairs[one == 'v2t']
        losses.append(from_sums(sums, form, own, counts=counts if one == 't2v' else None))
    return sum(losses) / len(losses)


def refuse_ambiguous(ambiguous: Optional[Tensor], form: str) -> None:
    """Raise ValueError where there are ambiguous pairs, bool [T, V], that a form does not read.

    Example:
        ::

            >>> refuse_ambiguous(None, 'pooled')
    """
    if ambiguous is not None and form != 'own_pair':
        raise ValueError(f"ambiguous pairs need form='own_pair', not {form!r}")
