"""nDCG, EPIC-KITCHENS' mAP and standard AP of graded relevance, from one sort of the scores.

Ties get the expected value over all their orders, and chance is exact.  Relevance is the overlap of
the verbs and nouns of a text and a video.
"""

from __future__ import annotations

from typing import Literal, Mapping, NamedTuple, Union

import torch
from torch import Tensor

from mmvtr.functional.metrics.relevance import (
    expected_gains,
    precision_at_hits,
    queries,
    rank_rows,
    share_of_best_gain,
)
from mmvtr.functional.values import arrays_too, check_shapes, product

__all__ = [
    'Graded',
    'class_overlap',
    'class_relevance',
    'graded_chance',
    'graded_values',
    'intersection_over_union',
    'mean_over_queries',
]

#: Depth of nDCG: 'relevant' = as many places as a query has candidates of relevance > 0
#: (EPIC-KITCHENS-100), a number, or None = all.
Depth = Union[Literal['relevant'], int, None]


class Graded(NamedTuple):
    """Values of Q queries, float64 [Q] in [0, 1].

    Attributes:
        ndcg: discounted gain over the best possible one; NaN if nothing is relevant.
        epic_ap: mean over the hits (relevance exactly 1) of (summed *relevance* down to the hit) /
            rank: the mAP of EPIC-KITCHENS-100's retrieval benchmark. Partly relevant candidates
            above a hit add to it, so it is not an average precision, and at least as large. NaN if
            there is no hit.
        ap: average precision of the hits; NaN if there is none.
    """

    ndcg: Tensor
    epic_ap: Tensor
    ap: Tensor


@arrays_too
def graded_values(
    scores: Tensor, relevance: Tensor, *, k: Depth = 'relevant', dim: int = 1
) -> Graded:
    """Return nDCG, EPIC's mAP and standard AP of each query, for graded relevance.

    DCG = sum over ranks i <= k of relevance / log2(i + 1) (Damen et al., IJCV 2022; the official
    evaluation).

    Args:
        scores: float [T, V], higher is better.
        relevance: float [T, V] in [0, 1].
        k: depth of nDCG, see :data:`Depth`.
        dim: dimension of the candidates: 1 = videos for text queries, 0 = texts for video queries.

    Returns:
        float64 [Q] each.

    Example:
        A half relevant video stands above the only hit, and two places count. ::

            >>> scores, relevance = torch.tensor([[.9, .5, .1]]), torch.tensor([[.5, 1., 0.]])
            >>> ndcg, epic_ap, ap = graded_values(scores, relevance)
            >>> [round(x.item(), 4) for x in (ndcg, epic_ap, ap)]  # (.5 + 1) / 2, 1 / 2
            [0.8597, 0.75, 0.5]

    Raises:
        ValueError: a score is NaN, shapes differ, or an invalid depth.
    """
    _check(scores, relevance, k)
    parts = [_graded_values(*part, k) for part in queries(scores, relevance, dim)]
    return Graded(*map(torch.cat, zip(*parts)))


@arrays_too
def graded_chance(relevance: Tensor, *, k: Depth = 'relevant', dim: int = 1) -> Graded:
    """Return the mean of :func:`graded_values` over all orders of the candidates, without a sort.

    Every place has the mean relevance in expectation. With n candidates, h hits and relevance S in
    all, place i holds a hit with probability h/n, and the expected relevance above it is
    ``(i-1)(S-1)/(n-1)``; so ``epic_ap`` is the mean over the places of
    ``(1 + (i-1)(S-1)/(n-1)) / i``, and ``ap`` the same with S = h.

    Args:
        relevance: float [T, V] in [0, 1].
        k: depth of nDCG, see :data:`Depth`.
        dim: dimension of the candidates, see :func:`graded_values`.

    Returns:
        float64 [Q] each.

    Raises:
        ValueError: an invalid depth, or a NaN.

    Example:
        Two candidates: the hit is first, or after half a hit. ::

            >>> relevance = torch.tensor([[1., .5]])
            >>> graded_chance(relevance).epic_ap.item(), graded_chance(relevance).ap.item()
            (0.875, 0.75)
    """
    _check(relevance, relevance, k)
    parts = [_graded_chance(part, k) for part, _ in queries(relevance, relevance, dim)]
    return Graded(*map(torch.cat, zip(*parts)))


@arrays_too
def mean_over_queries(values: Tensor, *, without_match: Literal['left_out', 'zero']) -> Tensor:
    """Return the mean of the values [Q], NaN for queries without a match.

    Args:
        values: float [Q].
        without_match: 'left_out' of the mean, or 'zero': they count as failures (the evaluation of
            RANP). The official EPIC-KITCHENS code has no rule: with one such query its mean is NaN,
            like ``values.mean()``.

    Returns:
        0-dim; NaN if all are left out.

    Example:
        ::

            >>> values = torch.tensor([0.5, 1.0, torch.nan])
            >>> mean_over_queries(values, without_match='left_out')
            tensor(0.7500)
            >>> mean_over_queries(values, without_match='zero')
            tensor(0.5000)
    """
    return values.nanmean() if without_match == 'left_out' else values.nan_to_num(nan=0).mean()


def _graded_values(scores: Tensor, relevance: Tensor, k: Depth) -> Graded:
    ranking = rank_rows(scores)
    gains = relevance.gather(1, ranking.order).double()
    hits = (gains == 1).double()
    return Graded(
        share_of_best_gain(expected_gains(gains, ranking), relevance, _depth(relevance, k)),
        precision_at_hits(hits, gains, ranking),
        precision_at_hits(hits, hits, ranking),
    )


def _graded_chance(relevance: Tensor, k: Depth) -> Graded:
    gains, hits = relevance.double(), (relevance == 1).double()
    mean = gains.mean(1, keepdim=True).expand(gains.shape)
    return Graded(
        share_of_best_gain(mean, relevance, _depth(relevance, k)),
        *(_chance_of_hits(hits.any(1), total.sum(1), gains.shape[1]) for total in (gains, hits)),
    )


def _chance_of_hits(known: Tensor, total: Tensor, count: int) -> Tensor:
    """Return the mean over n places i of ``(1 + (i-1)(S-1)/(n-1)) / i``; as the 1/i sum up to H, it
    is ``(H + (n - H)(S-1)/(n-1)) / n``."""
    harmonic = (1 / torch.arange(1, count + 1, dtype=torch.float64, device=total.device)).sum()
    further = (count - harmonic) * (total - 1) / max(count - 1, 1)
    return ((harmonic + further) / count).where(known, torch.nan)


def _depth(relevance: Tensor, k: Depth) -> Union[int, Tensor]:
    if k == 'relevant':
        return (relevance > 0).sum(1, keepdim=True)
    return relevance.shape[1] if k is None else k


def _check(scores: Tensor, relevance: Tensor, k: Depth) -> None:
    check_shapes(scores=scores, relevance=relevance)
    check_depth(k)


def check_depth(k: Depth) -> None:
    """Raise ValueError unless ``k`` is a :data:`Depth`.

    Raises:
        ValueError: names the value.

    Example:
        ::

            >>> check_depth(0)
            Traceback (most recent call last):
            ValueError: k must be 'relevant', a positive int or None (all), not 0
    """
    if k is not None and k != 'relevant' and not (isinstance(k, int) and k > 0):
        raise ValueError(f"k must be 'relevant', a positive int or None (all), not {k!r}")


#: Texts at a time: intersections of 512 x 9,668 are 20 MB.
ROWS = 512


@arrays_too
def class_relevance(
    text_classes: Mapping[str, Tensor], video_classes: Mapping[str, Tensor]
) -> Tensor:
    """Return the mean over the kinds of class of the two sets' intersection over union.

    EPIC's kinds are verb and noun, and a text that describes another clip of the same action has
    relevance 1. Two empty sets have no overlap: that kind counts 0. Eq. 6 of the frame-length paper
    prints the intersection in the noun's denominator; the union is meant.

    Args:
        text_classes: by kind, int64 [T, A], the classes of each text, padded with -1. A class
            that occurs twice counts once.
        video_classes: the same kinds, int64 [V, A']; A and A' may differ by kind.

    Example:
        "take plate" against a clip "take plate and cup", then one "wash plate". ::

            >>> text = dict(verb=torch.tensor([[0]]), noun=torch.tensor([[2]]))
            >>> video = dict(verb=torch.tensor([[0], [2]]), noun=torch.tensor([[2, 13], [2, -1]]))
            >>> class_relevance(text, video)
            tensor([[0.7500, 0.5000]])

    Returns:
        float32 [T, V] in [0, 1]; exactly 1 if all sets are equal.

    Raises:
        ValueError: no kinds, different kinds in the two, not integer [N, A], or different numbers
            of rows.
    """
    _check_classes(text_classes, video_classes)
    kinds = list(text_classes)
    relevance = intersection_over_union(text_classes[kinds[0]], video_classes[kinds[0]])
    for kind in kinds[1:]:
        relevance += intersection_over_union(text_classes[kind], video_classes[kind])
    return relevance.div_(len(kinds))


@arrays_too
def class_overlap(
    text_classes: Mapping[str, Tensor], video_classes: Mapping[str, Tensor]
) -> Tensor:
    """Return whether text and video share a class of every kind (EgoVLP's positives).

    Args:
        text_classes: by kind, int64 [T, A], padded with -1.
        video_classes: the same kinds, int64 [V, A'].

    Returns:
        bool [T, V].

    Raises:
        ValueError: see :func:`class_relevance`.

    Example:
        "take plate and cup" against a clip "take plate", then one "take knife". ::

            >>> text = dict(verb=torch.tensor([[0]]), noun=torch.tensor([[2, 13]]))
            >>> video = dict(verb=torch.tensor([[0], [0]]), noun=torch.tensor([[2], [4]]))
            >>> class_overlap(text, video)
            tensor([[ True, False]])
    """
    _check_classes(text_classes, video_classes)
    shared = [
        intersection_over_union(sets, video_classes[kind]) > 0
        for kind, sets in text_classes.items()
    ]
    return torch.stack(shared).all(0)


@arrays_too
def intersection_over_union(a: Tensor, b: Tensor) -> Tensor:
    """Return Jaccard's index of sets: int64 [N, A] and [M, B], padded with -1 -> float32 [N, M].

    In [0, 1]. A product of 0/1 matrices over the classes that occur on both sides, ``ROWS`` rows
    at a time; exact, as the counts are small integers. Two empty sets: 0.

    Example:
        ::

            >>> intersection_over_union(torch.tensor([[2, 5]]), torch.tensor([[5, 2], [2, -1]]))
            tensor([[1.0000, 0.5000]])
    """
    shared = a.unique()
    shared = shared[torch.isin(shared, b) & (shared >= 0)]
    a_sizes, b_sizes = _sizes(a)[:, None], _sizes(b)
    has = _has(b, shared).t()
    result = has.new_empty(len(a), len(b))
    for start in range(0, len(a), ROWS):
        rows = slice(start, start + ROWS)
        common = product(_has(a[rows], shared), has)
        union = a_sizes[rows] + b_sizes - common
        torch.div(common, union.clamp(min=1), out=result[rows])
    return result


def _has(sets: Tensor, classes: Tensor) -> Tensor:
    """Return whether each set has each of the sorted classes, float32 [N, C] of 0 and 1."""
    place = torch.searchsorted(classes, sets)
    listed = torch.isin(sets, classes)
    column = torch.where(listed, place, len(classes))
    marks = torch.zeros(len(sets), len(classes) + 1, device=sets.device)
    return marks.scatter_(1, column, 1.0)[:, :-1]


def _sizes(sets: Tensor) -> Tensor:
    """Return the number of different classes in each set, float32 [N]."""
    ordered = sets.sort(dim=1).values
    before = torch.nn.functional.pad(ordered[:, :-1], (1, 0), value=-1)[:, : ordered.shape[1]]
    return ((ordered != before) & (ordered >= 0)).sum(1).float()


def _check_classes(text_classes: Mapping[str, Tensor], video_classes: Mapping[str, Tensor]) -> None:
    if not text_classes or set(text_classes) != set(video_classes):
        raise ValueError(
            f'class relevance needs the same kinds of classes in texts and videos, not '
            f'{sorted(text_classes)} and {sorted(video_classes)}'
        )
    for name, classes in (('text', text_classes), ('video', video_classes)):
        for kind, sets in classes.items():
            if sets.dim() != 2 or sets.is_floating_point():
                raise ValueError(
                    f'{name} classes {kind!r} must be integer [N, A], padded with -1, not '
                    f'{sets.dtype} {list(sets.shape)}'
                )
        counts = {kind: len(sets) for kind, sets in classes.items()}
        if len({*counts.values()}) > 1:
            raise ValueError(
                f'each kind of {name} classes must have a row per {name}, not {counts}'
            )
