"""Two halves of a training set, for models that judge each other's pairs (CrossFittedBelief)."""

from __future__ import annotations

import hashlib
from typing import Literal, Optional

from mmvtr.datasets.annotation_values import shown
from mmvtr.datasets.records import Records, keep
from mmvtr.registry import TASK_UTILS


@TASK_UTILS.register_module()
class Halves:
    """Give each video and each text its ``half``, 0 or 1; a batch then carries them.

    The half of a video depends on its id and the seed alone, that of a text is the half of its
    first own video.  Clips of one film have ids of their own, so that they may be in both halves.
    For sets that are joined (:class:`~mmvtr.datasets.ConcatDataset`) each set takes it.

    Args:
        keep: only this half stays, 0 or 1; None: both.
        seed: of the division.

    Attributes:
        note: seed, half and counts, once called.

    Raises:
        ValueError: a ``keep`` that is none of these; (called) a half without a video.
    """

    note = ''

    def __init__(self, keep: Optional[Literal[0, 1]] = None, *, seed: int = 0) -> None:
        if keep is not None and (type(keep) is not int or keep not in (0, 1)):
            raise ValueError(f'keep: 0, 1 or None, not {shown(keep)}')
        self.keep = keep
        self.seed = seed

    def __call__(self, videos: Records, texts: Records) -> tuple[Records, Records]:
        for video in videos:
            video['half'] = half_of(video['video_id'], self.seed)
        for text in texts:
            text['half'] = videos[text['video_idx'][0]]['half']
        ones = sum(video['half'] for video in videos)
        if not 0 < ones < len(videos):
            raise ValueError(
                f'Halves: seed {self.seed} leaves one half of {len(videos)} videos empty; take '
                'another seed'
            )
        counts = f'{len(videos) - ones} / {ones} videos'
        self.note = f'seed {self.seed}: {counts}'
        if self.keep is None:
            return videos, texts
        self.note += f', half {self.keep} is kept'
        stay = [v for v, video in enumerate(videos) if video['half'] == self.keep]
        return keep(videos, [text for text in texts if text['half'] == self.keep], stay)


def half_of(video_id: str, seed: int) -> int:
    """Return the half of a video, 0 or 1: the last bit of the SHA-256 of ``'{seed}:{video_id}'``.

    That bit changes with the seed for each id by itself (of a CRC for all ids alike).
    """
    return hashlib.sha256(f'{seed}:{video_id}'.encode()).digest()[-1] & 1
