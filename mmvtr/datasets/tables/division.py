"""Random division of a table's videos into splits, if the table does not define them.

A video is in one split, and videos that share a text are in the same split.  The same table and
seed give the same splits on any machine and in any order of the rows, and adding a few rows moves
few videos.
"""

from __future__ import annotations

import hashlib
import math
from typing import Iterable, Mapping


def divide(pairs: Iterable[tuple[str, str]], fractions: Mapping[str, float], seed: int) -> dict:
    """Return a random split for each video.

    Args:
        pairs: video and text of each row.
        fractions: share of the videos (of groups of videos that share texts) by split; 0 or more,
            summing to 1.
        seed: seed of the draw.

    Returns:
        From each video to the name of its split.

    Raises:
        ValueError: invalid fractions, or more splits than there are groups.
    """
    check_fractions(fractions)
    groups = _groups(pairs)
    ordered = sorted(
        groups, key=lambda group: hashlib.sha256(f'{seed} {group[0]}'.encode()).digest()
    )
    counts = _counts(len(groups), fractions)
    names = (name for name, count in counts.items() for _ in range(count))
    return {video: name for group, name in zip(ordered, names) for video in group}


def check_fractions(fractions: Mapping[str, float]) -> None:
    """Raise ValueError unless all are 0 or more and they sum to 1."""
    numbers = all(isinstance(x, (int, float)) and 0 <= x <= 1 for x in fractions.values())
    if not numbers or not math.isclose(sum(fractions.values()), 1, abs_tol=1e-6):
        raise ValueError(
            'fractions: expected a share from 0 to 1 for each split, 1 in all, found '
            f'{str(dict(fractions))[:80]}'
        )


def _groups(pairs: Iterable[tuple[str, str]]) -> list[list[str]]:
    """Return groups of videos connected by shared texts, sorted."""
    leader: dict[str, str] = {}

    def find(video: str) -> str:
        while leader[video] != video:
            leader[video] = leader[leader[video]]
            video = leader[video]
        return video

    owner: dict[str, str] = {}
    for video, text in pairs:
        leader.setdefault(video, video)
        leader[find(video)] = find(owner.setdefault(text, video))
    groups: dict[str, list[str]] = {}
    for video in sorted(leader):
        groups.setdefault(find(video), []).append(video)
    return list(groups.values())


def _counts(total: int, fractions: Mapping[str, float]) -> dict[str, int]:
    """Return the groups per split: shares rounded down, at least 1; the largest gets the rest."""
    shares = {name: share for name, share in fractions.items() if share > 0}
    if total < len(shares):
        raise ValueError(
            f'{total} videos (those that share a text counted as one) cannot be divided into '
            f"{len(shares)} splits {list(shares)}; give the table a 'split' column, or test on all "
            "of it with split='all'"
        )
    counts = {name: max(1, math.floor(share * total + 1e-9)) for name, share in shares.items()}
    while (rest := total - sum(counts.values())) < 0:
        counts[max(counts, key=counts.__getitem__)] -= 1
    counts[max(shares, key=shares.__getitem__)] += rest
    return counts
