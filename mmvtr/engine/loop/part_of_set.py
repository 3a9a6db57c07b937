"""A result on a part of a set says so: how many of its clips and texts it is of, and why."""

from __future__ import annotations

from typing import NamedTuple, Optional, Sequence

from torch.utils.data import Dataset

from mmvtr.datasets.videos.missing import LeftOut
from mmvtr.structures import Relation


class Part(NamedTuple):
    """The part of a set that a result covers, if not the whole.

    Attributes:
        videos, texts: in the gallery, and with a video there.
        of_videos, of_texts: of the whole set.
        broken, missing: videos that are not in the gallery; with ``videos`` they are ``of_videos``.
    """

    videos: int
    of_videos: int
    texts: int
    of_texts: int
    broken: int
    missing: int

    def in_words(self) -> str:
        """'941 of 1,000 clips and 941 of 1,000 texts'."""
        return (
            f'{self.videos:,} of {self.of_videos:,} clips and '
            f'{self.texts:,} of {self.of_texts:,} texts'
        )

    def numbers(self) -> dict[str, float]:
        """Return the counts as results, by key."""
        counts = dict(
            videos=self.videos,
            videos_broken=self.broken,
            videos_missing=self.missing,
            texts=self.texts,
            texts_without_video=self.of_texts - self.texts,
        )
        return {f'set/{name}': float(count) for name, count in counts.items()}


def part_of(
    dataset: Dataset, relation: Relation, broken: Sequence[tuple[str, str]]
) -> Optional[Part]:
    """Return which part of the whole set is in the relation; None if all of it is."""
    left_out = left_out_of(dataset)
    missing = len(left_out.names) if left_out else 0
    if not broken and not missing:
        return None
    # A text of broken videos stays in the set, without a match; one of missing videos does not.
    answerable, without = int(relation.positives.any(1).sum()), left_out.texts if left_out else 0
    videos = len(relation.video_ids)
    return Part(
        videos=videos,
        of_videos=videos + len(broken) + missing,
        texts=answerable,
        of_texts=len(relation.text_ids) + without,
        broken=len(broken),
        missing=missing,
    )


def left_out_of(dataset: Dataset) -> Optional[LeftOut]:
    """Return what a dataset left out as missing."""
    return getattr(dataset, 'left_out', None)


def counted(names: Sequence[str]) -> Optional[str]:
    """'4 videos (a, b, c, ...): not the whole set'; None of no names."""
    some = ', '.join([*names[:3], *['...'] * (len(names) > 3)])
    return f'{len(names)} videos ({some}): not the whole set' if names else None
