"""Splits of training videos by length, and removals: pure functions of numpy arrays.

Satar et al., "Towards Debiasing Frame Length Bias in Text-Video Retrieval via Causal Intervention":
Algorithm 1 removes a class' shortest or longest videos, Algorithm 2 divides all of them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any, Literal, Mapping, Optional, Sequence

import numpy as np

from mmvtr.functional.values import check_one_of, check_range

#: Verb class and noun class, the paper's "class".
Action = tuple[int, int]
Order = Literal['guard_first', 'as_printed']


def equal_split(lengths: np.ndarray, parts: int) -> np.ndarray:
    """Return a division into parts of equally many videos, the shortest in part 0.

    Args:
        lengths: [V], positive; equal ones keep their order.
        parts: M; if M does not divide V, the first parts have one video more.

    Returns:
        int64 [V], the part of each video, 0 to M - 1.

    Raises:
        ValueError: a length that is not positive and finite, fewer than 2 parts, more parts than
            videos.
    """
    return _numbered(np.array_split(_to_part(lengths, parts), parts), lengths)


def adjusted_split(
    lengths: np.ndarray,
    parts: int,
    *,
    threshold: Optional[float] = None,
    share: Optional[float] = None,
) -> np.ndarray:
    """Return parts from repeatedly halving the sorted videos; a threshold divides the last two.

    Algorithm 2: part 0 is the shorter half, part 1 the shorter half of the rest, and so on; with
    M = 2 there is no halving, and the threshold divides all videos.

    Args:
        lengths: [V], positive; equal ones keep their order.
        parts: M.
        threshold: of the last two parts, the first has the videos with ``length < threshold``.
        share: instead of ``threshold``: the first has this share of them, rounded down (the paper's
            th); it may separate videos of equal length.

    Returns:
        int64 [V], the part of each video, 0 to M - 1.

    Raises:
        ValueError: see :func:`equal_split`; not exactly one of ``threshold`` and ``share``; a share
            outside (0, 1); a part without a video.
    """
    if (threshold is None) == (share is None):
        raise ValueError(f'give one of threshold and share, got {threshold} and {share}')
    if share is not None:
        check_range('(0, 1)', share=share)
    *halves, rest = _halvings(lengths, parts)
    if share is None:
        cut = int(np.searchsorted(np.asarray(lengths)[rest], threshold, side='left'))
    else:
        cut = math.floor(share * len(rest) + 1e-9)  # 0.29 * 100 is 28.999...
    return _numbered([*halves, rest[:cut], rest[cut:]], lengths)


def last_two(lengths: np.ndarray, parts: int) -> np.ndarray:
    """Return the videos, shortest first, that :func:`adjusted_split` divides by its threshold.

    With 2 parts these are all videos.

    Raises:
        ValueError: see :func:`equal_split`.
    """
    return _halvings(lengths, parts)[-1]


def random_like(groups: np.ndarray, seed: int) -> np.ndarray:
    """Return random groups of the given sizes, the control of a split or removal (RmvRand).

    Args:
        groups: int [V].
        seed: with V, it determines the permutation, whatever the groups.

    Returns:
        int [V], a permutation of ``groups``.
    """
    return groups[np.random.default_rng(seed).permutation(len(groups))]


def clips_to_remove(
    lengths: np.ndarray,
    test_mean: float,
    *,
    delta: float,
    alpha: int,
    order: Order = 'guard_first',
    opposite: bool = False,
) -> np.ndarray:
    """Return the clips of a class that Algorithm 1 removes to bring its train mean near the test's.

    The shortest are removed, one by one, while ``test_mean >= train mean + delta``, in the opposite
    case the longest while ``train mean >= test_mean + delta``. The train mean is that of the videos
    left.

    Args:
        lengths: [N], of the class' training videos; ties are broken by order, the first is
            shortest.
        test_mean: mean length of its test videos.
        delta: tolerated discrepancy, at least 0.
        alpha: minimum number of videos left in the class, at least 1.
        order: 'guard_first' removes only while more than ``alpha`` are left; 'as_printed' removes
            first and then stops at ``alpha`` or fewer: even the smallest class loses one.
        opposite: remove as many from the wrong end (the contrary row of Table 8).

    Returns:
        int64 positions of the removed videos, in the order of their removal.

    Raises:
        ValueError: a length that is not positive and finite, no video, delta < 0, alpha < 1,
            unknown order.
    """
    check_range('[0, inf]', delta=delta)
    check_range('[1, inf]', alpha=alpha)
    check_one_of(('guard_first', 'as_printed'), order=order)
    ascending = _ascending(lengths)
    if not len(ascending):
        raise ValueError('the class has no training video')
    shortest = test_mean >= np.mean(lengths) + delta
    sequence = ascending if shortest else ascending[::-1]
    sorted_lengths = np.asarray(lengths, dtype=np.float64)[sequence]
    left = np.arange(len(sequence), 0, -1)  # videos left before each removal
    means = np.cumsum(sorted_lengths[::-1])[::-1] / left
    too_far = test_mean >= means + delta if shortest else means >= test_mean + delta
    allowed = left > alpha
    if order == 'as_printed':
        allowed[0] = True
    count = int(np.logical_and.accumulate(too_far & allowed).sum())
    return (sequence[::-1] if opposite else sequence)[:count]


def removals(
    lengths: np.ndarray,
    actions: Sequence[Sequence[Action]],
    test_means: Mapping[Action, float],
    **limits: Any,
) -> dict[Action, np.ndarray]:
    """Return Algorithm 1's removals for each class in ascending order (RmvAll), or for one
    (RmvOne).

    A video of several classes is removed from all of them: a later class no longer counts it, an
    earlier one may fall below ``alpha``.

    Args:
        lengths: [V], of the training videos.
        actions: the classes of each training video.
        test_means: mean test length of the classes to treat; others are unchanged.
        **limits: delta, alpha, order and opposite of :func:`clips_to_remove`.

    Returns:
        From each class that loses videos to their int64 positions; no video occurs twice.

    Raises:
        ValueError: see :func:`clips_to_remove`.
    """
    lengths = np.asarray(lengths, dtype=np.float64)
    gone = np.zeros(len(lengths), dtype=bool)
    removed = {}
    for action, members in class_members(actions).items():
        members = members[~gone[members]]
        if action not in test_means or not len(members):
            continue
        chosen = members[clips_to_remove(lengths[members], test_means[action], **limits)]
        if len(chosen):
            gone[chosen] = True
            removed[action] = chosen
    return removed


def class_members(actions: Sequence[Sequence[Action]]) -> dict[Action, np.ndarray]:
    """Return the ascending video positions of each class, int64; classes ascending."""
    members = defaultdict(list)
    for v, of_video in enumerate(actions):
        for action in set(of_video):
            members[action].append(v)
    return {action: np.array(members[action]) for action in sorted(members)}


def class_means(lengths: np.ndarray, actions: Sequence[Sequence[Action]]) -> dict[Action, float]:
    """Return the mean video length of each class, classes ascending."""
    lengths = np.asarray(lengths, dtype=np.float64)
    return {action: float(lengths[v].mean()) for action, v in class_members(actions).items()}


def _halvings(lengths: np.ndarray, parts: int) -> list[np.ndarray]:
    """Return the positions of the first M - 2 parts, and the rest for the last two."""
    rest = _to_part(lengths, parts)
    halves = []
    for _ in range(parts - 2):
        half = len(rest) // 2
        halves.append(rest[:half])
        rest = rest[half:]
    return [*halves, rest]


def _numbered(parts: Sequence[np.ndarray], lengths: np.ndarray) -> np.ndarray:
    sizes = [len(part) for part in parts]
    if min(sizes) == 0:
        low, high = np.min(lengths), np.max(lengths)
        raise ValueError(
            f'a part has no video: the sizes are {sizes}, lengths go from {low:g} to {high:g}'
        )
    groups = np.empty(len(lengths), dtype=np.int64)
    for number, part in enumerate(parts):
        groups[part] = number
    return groups


def _to_part(lengths: np.ndarray, parts: int) -> np.ndarray:
    if not isinstance(parts, int) or parts < 2:
        raise ValueError(f'parts must be an int of at least 2, got {parts!r}')
    if len(lengths) < parts:
        raise ValueError(f'{parts} parts cannot be made of {len(lengths)} videos')
    return _ascending(lengths)


def _ascending(lengths: np.ndarray) -> np.ndarray:
    lengths = np.asarray(lengths, dtype=np.float64)
    wrong = np.flatnonzero(~(np.isfinite(lengths) & (lengths > 0)))
    if len(wrong):
        raise ValueError(
            f'{len(wrong)} of {len(lengths)} videos have no positive length, '
            f'e.g. video {wrong[0]}: {lengths[wrong[0]]}'
        )
    return np.argsort(lengths, kind='stable')
