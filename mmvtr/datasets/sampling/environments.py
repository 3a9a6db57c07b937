"""Environments of training videos: by length, at random, or by removing clips class by class.

They are record transforms: a video gets its ``environment``, or is removed.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Literal, Optional, Union

import numpy as np

from mmvtr.datasets.annotation_values import shown
from mmvtr.datasets.record_transforms import read_annotations
from mmvtr.datasets.records import Records, Unit, keep, lengths
from mmvtr.datasets.sampling.splits import (
    Action,
    Order,
    adjusted_split,
    class_means,
    class_members,
    equal_split,
    last_two,
    random_like,
    removals,
)
from mmvtr.functional.values import check_one_of
from mmvtr.registry import TASK_UTILS


class Environments:
    """Base class of environments; subclasses implement :meth:`assign`.

    Attributes:
        note: one line about the last call: the rule, the counts, a hash of ids and environments.
    """

    note = ''

    def __call__(self, videos: Records, texts: Records) -> tuple[Records, Records]:
        """Set each video's ``environment``; remove videos of environment -1 and texts of these
        alone.

        Raises:
            ValueError: the videos lack keys that the rule reads, an environment is empty, or no
                video is left.
        """
        groups = self.groups(videos)
        stay = np.flatnonzero(groups >= 0).tolist()
        for v in stay:
            videos[v]['environment'] = int(groups[v])
        return keep(videos, texts, stay)

    def groups(self, videos: Records) -> np.ndarray:
        """Return each video's environment, int64 [V], -1 = removed; set ``note`` to the rule."""
        groups, rule = self.assign(videos)
        if groups.shape != (len(videos),):
            raise ValueError(
                f'{len(videos)} environments expected, one per video, got {list(groups.shape)}'
            )
        self.note = f'{type(self).__name__}: {rule}; {_counts(groups)}; {_hash(videos, groups)}'
        return groups

    def assign(self, videos: Records) -> tuple[np.ndarray, str]:
        """Return each video's environment, int64 [V], and a description of the rule."""
        raise NotImplementedError


@TASK_UTILS.register_module()
class LengthSplit(Environments):
    """Split by length, shortest videos in environment 0 (Satar et al., Sec. 3.3, Algorithm 2).

    The paper names the mean test length as its threshold, but its own counts are those of
    ``length < int(mean train length)``, the default here.

    Args:
        parts: number of environments, M.
        rule: 'adjusted', see :func:`~mmvtr.datasets.sampling.splits.adjusted_split`, or 'equal'
            parts.
        threshold: divides an adjusted split's last two parts: 'train_mean', the mean length of the
            videos that it divides (with two parts, all), 'test_mean', that of ``test``, or a number
            in ``unit``. Means of frames are cut to whole frames.
        share: instead of a threshold: the share of those videos in the first of the two parts.
        test: config of a dataset whose annotations give 'test_mean': a test statistic.
        unit: 'frames' (native) or 'seconds'.
        only: keep only this environment; the other videos are removed.

    Raises:
        ValueError: unknown or contradictory arguments.
    """

    def __init__(
        self,
        parts: int = 2,
        *,
        rule: Literal['adjusted', 'equal'] = 'adjusted',
        threshold: Union[Literal['train_mean', 'test_mean'], float] = 'train_mean',
        share: Optional[float] = None,
        test: Optional[dict] = None,
        unit: Unit = 'frames',
        only: Optional[int] = None,
    ) -> None:
        check_one_of(('adjusted', 'equal'), rule=rule)
        if isinstance(threshold, str) and threshold not in ('train_mean', 'test_mean'):
            raise ValueError(
                f"threshold must be 'train_mean', 'test_mean' or a number, not {threshold!r}"
            )
        if threshold != 'train_mean' and (share is not None or rule == 'equal'):
            raise ValueError(f'threshold={threshold!r} has no use beside {rule=}, {share=}')
        if share is not None and rule == 'equal':
            raise ValueError(f'{share=} has no use in an equal split')
        if (threshold == 'test_mean') != (test is not None):
            raise ValueError(
                "threshold='test_mean' needs test=, a dataset, which no other threshold takes"
            )
        self.parts = parts
        self.rule = rule
        self.threshold = threshold
        self.share = share
        self.test = test
        self.unit = unit
        self.only = only

    def assign(self, videos: Records) -> tuple[np.ndarray, str]:
        long = lengths(videos, self.unit, type(self).__name__)
        if self.rule == 'equal':
            groups, description = equal_split(long, self.parts), 'equal'
        elif self.share is not None:
            groups = adjusted_split(long, self.parts, share=self.share)
            description = f'adjusted, share {self.share:g}'
        else:
            threshold, source = self._threshold(long)
            groups = adjusted_split(long, self.parts, threshold=threshold)
            description = f'adjusted, length < {threshold:g} {self.unit}, {source}'
        return _keep(groups, self.only), f'{self.parts} parts by length, {description}'

    def _threshold(self, long: np.ndarray) -> tuple[float, str]:
        """Return the length threshold and its origin."""
        if self.threshold == 'train_mean':
            divided = long[last_two(long, self.parts)]
            return self._mean(divided, 'the mean train length')
        if self.threshold == 'test_mean':
            tested = read_annotations(self.test).lengths(self.unit)
            return self._mean(tested, 'the mean test length (uses test statistics)')
        return self.threshold, 'as given'

    def _mean(self, long: np.ndarray, name: str) -> tuple[float, str]:
        mean = float(np.mean(long))
        return (int(mean) if self.unit == 'frames' else mean), f'{name} {mean:.2f}'


@TASK_UTILS.register_module()
class RandomSplit(Environments):
    """Random environments of the same sizes as a length split, its control.

    Args:
        like: config of the split, e.g. a :class:`LengthSplit`.
        seed: seed of the draw; runs that each keep one environment draw the same parts.
        only: keep only this environment; the other videos are removed.
    """

    def __init__(self, like: dict, *, seed: int = 0, only: Optional[int] = None) -> None:
        self.like = TASK_UTILS.build(like)
        self.seed = seed
        self.only = only

    def assign(self, videos: Records) -> tuple[np.ndarray, str]:
        groups = random_like(self.like.groups(videos), self.seed)
        return _keep(groups, self.only), f'seed {self.seed}, sizes of ({self.like.note})'


@TASK_UTILS.register_module()
class RemoveByLength(Environments):
    """Removal that moves a class' mean train length towards the test's (Satar et al., Algorithm 1).

    The shortest or longest videos of a class (verb, noun) are removed, the others are environment
    0. Only classes of both sets count. The mean test lengths are test statistics.

    Args:
        test: config of the dataset to test on; its annotations are read.
        action: the only class to treat, (verb, noun); None = all.
        delta: tolerated discrepancy of the means, in ``unit``. The paper's 10 and 60 do not
            reproduce its counts.
        alpha: a class of at most this many videos loses none.
        order: 'guard_first' tests alpha before a removal, 'as_printed' after it; see
            :func:`~mmvtr.datasets.sampling.splits.clips_to_remove`.
        opposite: remove as many from the wrong end (the contrary row of Table 8).
        unit: 'frames' (native) or 'seconds'.
    """

    def __init__(
        self,
        test: dict,
        *,
        action: Optional[Action] = None,
        delta: float = 10.0,
        alpha: int = 60,
        order: Order = 'guard_first',
        opposite: bool = False,
        unit: Unit = 'frames',
    ) -> None:
        self.test = test
        self.action = None if action is None else tuple(action)
        self.limits = dict(delta=delta, alpha=alpha, order=order, opposite=opposite)
        self.unit = unit

    def assign(self, videos: Records) -> tuple[np.ndarray, str]:
        test = read_annotations(self.test)
        actions = _actions(videos)
        test_means = class_means(test.lengths(self.unit), _actions(test.videos))
        train = class_members(actions).keys()
        common = self._treated(train & test_means.keys())
        removed = removals(
            lengths(videos, self.unit, type(self).__name__),
            actions,
            {action: test_means[action] for action in common},
            **self.limits,
        )
        groups = np.zeros(len(videos), dtype=np.int64)
        for positions in removed.values():
            groups[positions] = -1
        skipped = f'{len(train - test_means.keys())} classes only in train, '
        skipped += f'{len(test_means.keys() - train)} only in test'
        limits = ' '.join(f'{name}={value}' for name, value in self.limits.items())
        return groups, (
            f'{limits} in {self.unit}, {len(removed)} of {len(common)} classes thinned out '
            f'({skipped}), uses test statistics'
        )

    def _treated(self, common: set[Action]) -> set[Action]:
        if self.action is None and common:
            return common
        if self.action in common:
            return {self.action}
        what = 'class' if self.action is None else f'class {self.action}'
        raise ValueError(f'RemoveByLength: no {what} (verb, noun) is in both train and test')


@TASK_UTILS.register_module()
class RemoveRandom(Environments):
    """Removal of videos at random (RmvRand), as many as a removal by length: its control.

    Args:
        like: config of the removal by length, a :class:`RemoveByLength`.
        seed: seed of the draw.
    """

    def __init__(self, like: dict, *, seed: int = 0) -> None:
        self.like = TASK_UTILS.build(like)
        self.seed = seed

    def assign(self, videos: Records) -> tuple[np.ndarray, str]:
        groups = random_like(self.like.groups(videos), self.seed)
        return groups, f'seed {self.seed}, as many as ({self.like.note})'


def _keep(groups: np.ndarray, only: Optional[int]) -> np.ndarray:
    environments = np.unique(groups[groups >= 0]).tolist()
    if only is not None and only not in environments:
        raise ValueError(f'only={only!r}: the environments are {environments}')
    return groups if only is None else np.where(groups == only, groups, -1)


def _actions(videos: Records) -> list[list[Action]]:
    for video in videos:
        if 'actions' not in video:
            raise ValueError(
                f'video {video["video_id"]!r} has no actions (verb and noun classes) to go by'
            )
    return [[tuple(action) for action in video['actions']] for video in videos]


def _counts(groups: np.ndarray) -> str:
    counts = Counter(groups.tolist())
    left_out = counts.pop(-1, 0)
    kept = ' / '.join(str(counts[environment]) for environment in sorted(counts))
    return f'{kept} videos, {left_out} left out'


def _hash(videos: Records, groups: np.ndarray) -> str:
    rows = [f'{video["video_id"]}\t{group}' for video, group in zip(videos, groups)]
    return 'sha ' + hashlib.sha256('\n'.join(rows).encode()).hexdigest()[:8]


@TASK_UTILS.register_module()
class Halves:
    """Record transform that gives each video and text a ``half``, 0 or 1, which batches then carry.

    The half of a video depends on its id and the seed alone; that of a text is the half of its
    first video.  Clips of one film have different ids, so they may be in both halves.  For joined
    sets (:class:`~mmvtr.datasets.ConcatDataset`) put it into each set's ``records``.

    Args:
        keep: keep only this half, 0 or 1; None: both.
        seed: seed of the division.

    Attributes:
        note: seed, half and counts, once called.

    Raises:
        ValueError: another ``keep``; (called) a half without a video.
    """

    note = ''

    def __init__(self, keep: Optional[Literal[0, 1]] = None, *, seed: int = 0) -> None:
        if keep is not None and (type(keep) is not int or keep not in (0, 1)):
            raise ValueError(f'keep must be 0, 1 or None, not {shown(keep)}')
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

    That bit changes with the seed independently for each id (with a CRC, for all ids alike).
    """
    return hashlib.sha256(f'{seed}:{video_id}'.encode()).digest()[-1] & 1
