"""How much a text and a video have in common, from the classes of their verbs and nouns.

The official relevance of EPIC-KITCHENS-100 (Damen et al., IJCV 2022): a pair is graded, not right
or wrong.
"""

from __future__ import annotations

from typing import Mapping

import torch
from torch import Tensor

from mmvtr.functional.arrays_too import arrays_too

__all__ = ['class_overlap', 'class_relevance', 'intersection_over_union']

#: Texts at a time: intersections of 512 x 9,668 are 20 MB.
ROWS = 512


@arrays_too
def class_relevance(
    text_classes: Mapping[str, Tensor], video_classes: Mapping[str, Tensor]
) -> Tensor:
    """Mean over the kinds of class of the two sets' intersection over union.

    EPIC's kinds are verb and noun, and a text that describes another clip of the same action is
    of relevance 1. Two empty sets have nothing in common, so that kind counts 0. Eq. 6 of the
    frame-length paper prints the intersection in the noun's denominator; the union is meant.

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
        float32 [T, V] in [0, 1]; 1 exactly where all sets are equal.

    Raises:
        ValueError: no kinds, other kinds in the two, not integer [N, A], or rows of a different
            number.
    """
    _check(text_classes, video_classes)
    kinds = list(text_classes)
    relevance = intersection_over_union(text_classes[kinds[0]], video_classes[kinds[0]])
    for kind in kinds[1:]:
        relevance += intersection_over_union(text_classes[kind], video_classes[kind])
    return relevance.div_(len(kinds))


@arrays_too
def class_overlap(
    text_classes: Mapping[str, Tensor], video_classes: Mapping[str, Tensor]
) -> Tensor:
    """Whether text and video share a class of every kind (EgoVLP's positives).

    Args:
        text_classes: by kind, int64 [T, A], padded with -1.
        video_classes: the same kinds, int64 [V, A'].

    Returns:
        bool [T, V].

    Raises:
        ValueError: as :func:`class_relevance`.

    Example:
        "take plate and cup" against a clip "take plate", then one "take knife". ::

            >>> text = dict(verb=torch.tensor([[0]]), noun=torch.tensor([[2, 13]]))
            >>> video = dict(verb=torch.tensor([[0], [0]]), noun=torch.tensor([[2], [4]]))
            >>> class_overlap(text, video)
            tensor([[ True, False]])
    """
    _check(text_classes, video_classes)
    shared = [
        intersection_over_union(sets, video_classes[kind]) > 0
        for kind, sets in text_classes.items()
    ]
    return torch.stack(shared).all(0)


@arrays_too
def intersection_over_union(a: Tensor, b: Tensor) -> Tensor:
    """Sets against sets: int64 [N, A] and [M, B], padded with -1 -> float32 [N, M] in [0, 1].

    Jaccard's index. A product of 0/1 matrices over the classes that occur on both sides, ``ROWS``
    rows at a time; exact, as the counts are small integers. Two empty sets: 0.

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
    with torch.autocast(has.device.type, enabled=False):
        for start in range(0, len(a), ROWS):
            rows = slice(start, start + ROWS)
            common = _has(a[rows], shared) @ has
            union = a_sizes[rows] + b_sizes - common
            torch.div(common, union.clamp(min=1), out=result[rows])
    return result


def _has(sets: Tensor, classes: Tensor) -> Tensor:
    """Float32 [N, C] of 0 and 1: whether a set has each of the sorted classes."""
    place = torch.searchsorted(classes, sets)
    known = torch.isin(sets, classes)
    column = torch.where(known, place, len(classes))
    marks = torch.zeros(len(sets), len(classes) + 1, device=sets.device)
    return marks.scatter_(1, column, 1.0)[:, :-1]


def _sizes(sets: Tensor) -> Tensor:
    """Float32 [N]: how many different classes a set has."""
    ordered = sets.sort(dim=1).values
    before = torch.nn.functional.pad(ordered[:, :-1], (1, 0), value=-1)[:, : ordered.shape[1]]
    return ((ordered != before) & (ordered >= 0)).sum(1).float()


def _check(text_classes: Mapping[str, Tensor], video_classes: Mapping[str, Tensor]) -> None:
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
        counts = {len(sets) for sets in classes.values()}
        if len(counts) > 1:
            raise ValueError(f'{name} classes of different numbers of rows: {sorted(counts)}')
