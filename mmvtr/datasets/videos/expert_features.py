"""Features of several experts of a video, some of which may be absent (MMT)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, Optional

import numpy as np
import torch
from mmcv.transforms import BaseTransform
from mmengine.logging import MMLogger

from mmvtr.datasets.videos.feature_stores import FeatureStore, open_store
from mmvtr.datasets.videos.frame_sampling import uniform
from mmvtr.datasets.videos.video_io import BrokenVideoError
from mmvtr.errors import UnknownKey
from mmvtr.functional.values import check_one_of
from mmvtr.registry import TRANSFORMS

Results = dict[str, Any]


class Expert(NamedTuple):
    """An expert's feature store.

    Attributes:
        store: store of the features.
        dim: their width.
        seconds: time from one row to the next; None = unknown.
        max_tokens: maximum number of rows.
        mean: whether one row, the mean of all, replaces them.
        lacking: ids of videos without any.
    """

    store: FeatureStore
    dim: int
    seconds: Optional[float]
    max_tokens: int
    mean: bool
    lacking: set[str]


#: Functions that choose the rows to keep if there are too many.
CUTS = {'even': uniform, 'first': lambda rows, limit: rows[:limit]}


@TRANSFORMS.register_module()
class LoadExperts(BaseTransform):
    """Read the rows of all experts of a video, one expert below the other.

    A video that a store lacks has no such expert, which is not an error (nobody speaks); the log
    counts them.  Experts are numbered by name in alphabetical order, so that their order in a
    config does not matter.

    Args:
        experts: by name a dict of ``path`` (a store as for :class:`~mmvtr.datasets.LoadFeatures`,
            without the videos for which the expert has no output), ``dim`` (width of its rows),
            ``seconds`` (from one row to the next, default 1; None = unknown time), and, if it
            differs, its own ``max_tokens``; or ``mean=True``: one row, the mean of all its rows, of
            unknown time (CE's fixed experts).
        max_tokens: maximum number of rows per expert.
        cut: which rows to keep if there are more: ``'even'``, evenly from the first to the last, or
            ``'first'`` (CE).

    Raises:
        ValueError: no experts, ``max_tokens`` below 1 or combined with ``mean``, or an unknown
            ``cut``.
    """

    def __init__(
        self, experts: dict[str, dict[str, Any]], *, max_tokens: int = 30, cut: str = 'even'
    ) -> None:
        if not experts or max_tokens < 1:
            raise ValueError(
                'LoadExperts needs an expert and a max_tokens of at least 1, got '
                f'{sorted(experts)} and {max_tokens}'
            )
        check_one_of(CUTS, cut=cut)
        self.experts = {
            name: _expert(name, limit=max_tokens, **config)
            for name, config in sorted(experts.items())
        }
        self.cut = cut
        self.width = max(expert.dim for expert in self.experts.values())

    def check(self, videos: list[Results]) -> None:
        """Log how many videos each expert has, and warn of an expert that no video has: plausible
        for a gallery, but hardly for a training set.

        Raises:
            FileNotFoundError: no such store.
            KeyError: videos for which no expert has features.
            ValueError: files of a store are inconsistent.
        """
        ids = [video['video_id'] for video in videos]
        nothing = self.missing(videos)
        if nothing:
            raise UnknownKey(
                f'none of the experts {list(self.experts)} has features of {len(nothing)} of '
                f'{len(ids)} videos, e.g. {sorted(nothing)[:5]}'
            )
        counts = {name: len(set(ids) - expert.lacking) for name, expert in self.experts.items()}
        shown = ', '.join(f'{name} {count}' for name, count in counts.items())
        logger = MMLogger.get_current_instance()
        logger.info(f'experts of {len(ids)} videos: {shown}.')
        for name, count in counts.items():
            if not count and len(ids) > 1:
                logger.warning(
                    f'none of {len(ids)} videos has expert {name!r}: are '
                    f'{self.experts[name].store.path} the features of these?'
                )

    def missing(self, videos: list[Results]) -> list[str]:
        """Return ids of the videos without features of any expert.

        Raises:
            FileNotFoundError: no such store.
            ValueError: files of a store are inconsistent.
        """
        ids = [video['video_id'] for video in videos]
        for expert in self.experts.values():
            expert.store.check([], 'videos')
            expert.lacking.update(expert.store.missing(ids))
        nothing = set(ids).intersection(*(expert.lacking for expert in self.experts.values()))
        return [name for name in ids if name in nothing]

    def transform(self, results: Results) -> Results:
        """Set ``features`` and ``video_extra`` from ``video_id``.

        ``features`` are float32 [F, W], where W is the largest width and narrower rows are padded
        with zeros.  ``video_extra`` holds, for each row, the number of its ``expert`` and the
        ``second`` at which it begins, -1 if unknown: int64 [R], where R is the sum of all experts'
        ``max_tokens`` (1 for a mean), padded with -1.

        Raises:
            BrokenVideoError: an expert's features cannot be read.
            ValueError: their width is not ``dim``.
        """
        video_id = results['video_id']
        there = [
            (number, name, expert)
            for number, (name, expert) in enumerate(self.experts.items())
            if video_id not in expert.lacking
        ]
        parts = [self._rows(*row, video_id) for row in there]
        features, experts, seconds = (np.concatenate(part) for part in zip(*parts))
        results['features'] = features
        results['video_extra'] = {
            **results.get('video_extra', {}),
            'expert': self._padded(experts),
            'second': self._padded(seconds),
        }
        return results

    def _rows(
        self, number: int, name: str, expert: Expert, video_id: str
    ) -> tuple[np.ndarray, ...]:
        """Return one expert's rows float32 [F, W], number int64 [F] and seconds int64 [F]."""
        features = _read(name, expert, video_id)
        if expert.mean:
            features = features.mean(0, keepdims=True, dtype=np.float64)
        chosen = CUTS[self.cut](np.arange(len(features)), expert.max_tokens)
        rows = np.zeros((len(chosen), self.width), np.float32)
        rows[:, : expert.dim] = features[chosen]
        seconds = np.full(len(chosen), -1.0) if expert.seconds is None else chosen * expert.seconds
        return rows, np.full(len(chosen), number), seconds.astype(np.int64)

    def _padded(self, tags: np.ndarray) -> torch.Tensor:
        """Return tags of the kept rows padded with -1, int64 [F] -> [R]."""
        padded = torch.full((sum(e.max_tokens for e in self.experts.values()),), -1)
        padded[: len(tags)] = torch.from_numpy(tags)
        return padded


def _expert(
    name: str,
    *,
    limit: int,
    path: str,
    dim: int,
    seconds: Optional[float] = 1.0,
    max_tokens: Optional[int] = None,
    mean: bool = False,
) -> Expert:
    if max_tokens is not None and (max_tokens < 1 or mean):
        raise ValueError(
            f'LoadExperts: max_tokens of {name!r} must be at least 1, and left out with a mean; '
            f'got max_tokens={max_tokens} and mean={mean}'
        )
    tokens = 1 if mean else limit if max_tokens is None else max_tokens
    return Expert(open_store(Path(path)), dim, None if mean else seconds, tokens, mean, set())


def _read(name: str, expert: Expert, video_id: str) -> np.ndarray:
    """Return one expert's features, float [F, D], F > 0."""
    try:
        features = expert.store.read(video_id)
    except ValueError as error:
        raise BrokenVideoError(f'expert {name!r}: {error}') from error
    if features.shape[1] != expert.dim:
        raise ValueError(
            f'expert {name!r}: {expert.store.path}: features of {video_id!r} are '
            f'{features.shape[1]} wide, but dim is {expert.dim}'
        )
    return features
