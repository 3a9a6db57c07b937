"""Rankings whose first places follow another order than the rest, for the scores of any model.

Rows are queries, columns are the gallery, in one direction.  Precision at 1 depends on the first
place only, recall at 5 and 10 on the others: one list may serve both (docs/agreement.md).
"""

from __future__ import annotations

import math
from typing import Optional

import torch
from torch import Tensor

from mmvtr.functional.similarities.tiles import Tiles, as_tiles, refuse_non_finite
from mmvtr.functional.values import arrays_too, check_range, check_shapes, product

__all__ = ['expected_truth', 'first_places', 'sure_first']

#: Default temperature of a query: this share of how far its best score exceeds its mean, which
#: transfers between the scores of different models (docs/agreement.md).
SHARE = 0.05
#: Rounding error of a softmax sum over 16,384 texts in float32.
ROUNDING = 1e-5


@arrays_too
def first_places(scores: Tensor, leaders: Tensor, *, places: int = 1) -> Tensor:
    """Return scores that rank the best items of one matrix first, then all others by another.

    Args:
        scores: float [Q, N], which rank all items but the first.
        leaders: float [Q, N]; its ``places`` highest come first, in their order.
        places: number of first places, 1 to N.  Among equals the lowest index comes first.

    Returns:
        float [Q, N], float32 or better: the scores, with values above the row's highest for the
        first places.

    Raises:
        ValueError: shapes that differ, values that are not finite, ``places`` out of range.

    Example:
        ::

            >>> scores, leaders = torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0.0, 0.0, 1.0]])
            >>> first_places(scores, leaders).argsort(1, descending=True)
            tensor([[2, 0, 1]])
    """
    check_shapes(scores=scores, leaders=leaders)
    refuse_non_finite(scores)
    refuse_non_finite(leaders, name='leaders')
    if not 1 <= places <= scores.shape[1]:
        raise ValueError(
            f'places must be 1 to {scores.shape[1]}, the number of gallery items, not {places}'
        )
    leaders = leaders.detach().clone()
    ordered, top = scores.clone(), scores.amax(1, keepdim=True)
    step = top.abs().clamp_min(1)
    for place in range(places, 0, -1):  # argmax is deterministic for ties, topk is not
        best = leaders.argmax(1, keepdim=True)
        ordered.scatter_(1, best, top + place * step)
        leaders.scatter_(1, best, -math.inf)
    return ordered


@arrays_too
def expected_truth(
    scores: Tensor, implied: Tensor | Tiles, *, temperature: Optional[float | Tensor] = None
) -> Tensor:
    """Return how likely each gallery text b is true of a query, given which texts a imply it.

        E_ib = sum over a of softmax_a(s_ia / T) p(a implies b)

    A loss over pairs has taught the softmax which text was written for a clip.  Whatever that text
    implies is true of the clip as well: a general text, which no clip ranks first because many
    share it, collects the probability of all specific texts that imply it.  Texts a may be the
    gallery itself, or others of which one is likely to be right, such as training captions.

    Args:
        scores: float [Q, A], s, of the queries with the texts a.
        implied: float [A, N] in [0, 1], probability that text a (row) implies each gallery text, or
            its tiles (:meth:`~mmvtr.datasets.CaptionImplication.among`).
        temperature: T, which divides scores; positive.  None = for each query :data:`SHARE` of how
            far its best score exceeds its mean, whatever the unit of the scores.

    Returns:
        float [Q, N] in [0, 1], float32 or better.

    Raises:
        ValueError: a score or an implication that is not finite, different texts a in the two
            matrices, a temperature that is not positive.

    Source: ours; a decision of least risk under the model's own posterior.

    Example:
        Texts 0 and 1 imply text 2, which is not annotated for any clip. ::

            >>> implied = torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [0.0, 0.0, 1.0]])
            >>> expected_truth(torch.tensor([[0.5, 0.5, 0.1]]), implied, temperature=0.1)
            tensor([[0.4955, 0.4955, 1.0000]])
            >>> expected_truth(torch.tensor([[50.0, 49.9, 10.0]]), implied)  # of any unit
            tensor([[0.5373, 0.4627, 1.0000]])
    """
    implied = as_tiles(implied)._replace(name='implied')
    if scores.dim() != 2 or implied.shape[0] != scores.shape[1]:
        raise ValueError(
            f'implied is {list(implied.shape)}, scores are {list(scores.shape)}: expected one row '
            'of implied for each column of scores'
        )
    if temperature is not None:
        check_range('(0, inf]', temperature=temperature)
    refuse_non_finite(scores)
    written = _softmax(scores, temperature)
    truth = written.new_empty(len(written), implied.shape[1])
    for part, tile in implied.finite().parts():
        truth[:, part] = product(written, tile.to(written))
    return truth.clamp(max=1.0)


def _softmax(scores: Tensor, temperature: Optional[float | Tensor]) -> Tensor:
    """Return the softmax of each row, at a temperature or at the default share of its score gap."""
    if temperature is not None:
        return (scores / torch.as_tensor(temperature).to(scores)).softmax(1)
    best = scores.amax(1, keepdim=True)
    gap = best - scores.mean(1, keepdim=True)
    # Scores that are all equal have no gap and get a uniform distribution.
    return ((scores - best) / (SHARE * gap).clamp_min(torch.finfo(scores.dtype).tiny)).softmax(1)


@arrays_too
def sure_first(scores: Tensor, truth: Tensor, *, sure: float = 0.8, places: int = 1) -> Tensor:
    """Return scores that rank the best surely true items first, then all others by their scores.

    If fewer than ``places`` items of a row are that sure, the surest follow.

    Args:
        scores: float [Q, N].
        truth: float [Q, N], probability that each item is true, such as :func:`expected_truth`.
        sure: in [0, 1], smallest probability of a first item; 0 = the scores' own order.
        places: number of first places, 1 to N.

    Returns:
        float [Q, N], float32 or better, see :func:`first_places`.

    Raises:
        ValueError: see :func:`first_places`; ``sure`` out of range.

    Example:
        Item 1 is the best of the two that are sure. ::

            >>> scores = torch.tensor([[0.9, 0.5, 0.1]])
            >>> truth = torch.tensor([[0.3, 0.8, 0.9]])
            >>> sure_first(scores, truth, sure=0.8).argsort(1, descending=True)
            tensor([[1, 0, 2]])
            >>> sure_first(scores, truth, sure=0.95).argsort(1, descending=True)
            tensor([[2, 0, 1]])
    """
    check_range('[0, 1]', sure=sure)
    check_shapes(scores=scores, truth=truth)
    refuse_non_finite(truth, name='truth')
    refuse_non_finite(scores)
    # Sure items get their rank by score, which is above 1: a sum could round differences of scores
    # away.  Among equals the first has the higher rank.
    places_of = scores.argsort(dim=1, descending=True, stable=True).argsort(dim=1)
    ranks = (scores.shape[1] + 1 - places_of).to(truth)
    leaders = torch.where(truth >= sure - ROUNDING, ranks, truth.clamp(max=1))
    return first_places(scores, leaders, places=places)
