"""Environments of training videos: by length, by chance, or thinned out class by class.

A dataset calls its ``environments`` once with itself and gets the environment of each video; what
was done, with counts and a hash, stands in ``note``.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal, Optional, Union

import numpy as np

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
from mmvtr.registry import DATASETS, TASK_UTILS

if TYPE_CHECKING:
    from mmvtr.datasets.video_text import VideoTextDataset

Unit = Literal['frames', 'seconds']


class Environments:
    """Implement :meth:`assign`.

    Attributes:
        note: one line on the last call: the rule, the counts, a hash of ids and environments.
    """

    note = ''

    def __call__(self, dataset: VideoTextDataset) -> np.ndarray:
        """Int64 [V]: the environment of each video, -1 = it leaves the dataset.

        Raises:
            ValueError: the videos lack what the rule reads, or an environment is empty.
        """
        groups, rule = self.assign(dataset)
        self.note = f'{type(self).__name__}: {rule}; {_counts(groups)}; {_hash(dataset, groups)}'
        return groups

    def assign(self, dataset: VideoTextDataset) -> tuple[np.ndarray, str]:
        """Int64 [V] as above, and the rule in words."""
        raise NotImplementedError


@TASK_UTILS.register_module()
class LengthSplit(Environments):
    """Parts by length, the shortest videos in environment 0 (Satar et al., Sec. 3.3, Algorithm 2).

    The paper names the mean test length as its threshold, but its own counts are those of
    ``length < int(mean train length)``, the default here.

    Args:
        parts: number of environments, M.
        rule: 'adjusted', see :func:`~mmvtr.datasets.sampling.splits.adjusted_split`, or 'equal'
            parts.
        threshold: of an adjusted split's last two parts: 'train_mean', the mean length of the
            videos that it divides (with two parts, all), 'test_mean', that of ``test``, or a
            number of ``unit``. Means of frames are cut to whole frames.
        share: instead of a threshold: share of those videos that the first of the two gets.
        test: config of a dataset whose annotations give 'test_mean': a test statistic.
        unit: 'frames' (native) or 'seconds'.
        only: keep this environment alone; the other videos leave.

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
        if rule not in ('adjusted', 'equal'):
            raise ValueError(f"rule: 'adjusted' or 'equal', not {rule!r}")
        if isinstance(threshold, str) and threshold not in ('train_mean', 'test_mean'):
            raise ValueError(f"threshold: 'train_mean', 'test_mean' or a number, not {threshold!r}")
        if threshold != 'train_mean' and (share is not None or rule == 'equal'):
            raise ValueError(f'threshold={threshold!r} has no use beside {rule=}, {share=}')
        if share is not None and rule == 'equal':
            raise ValueError(f'{share=} has no use in an equal split')
        if (threshold == 'test_mean') != (test is not None):
            raise ValueError("threshold='test_mean' needs test, a dataset, and nothing else does")
        self.parts = parts
        self.rule = rule
        self.threshold = threshold
        self.share = share
        self.test = test
        self.unit = unit
        self.only = only

    def assign(self, dataset: VideoTextDataset) -> tuple[np.ndarray, str]:
        lengths = dataset.lengths(self.unit)
        if self.rule == 'equal':
            groups, said = equal_split(lengths, self.parts), 'equal'
        elif self.share is not None:
            groups = adjusted_split(lengths, self.parts, share=self.share)
            said = f'adjusted, share {self.share:g}'
        else:
            threshold, source = self._threshold(lengths)
            groups = adjusted_split(lengths, self.parts, threshold=threshold)
            said = f'adjusted, length < {threshold:g} {self.unit}, {source}'
        return _keep(groups, self.only), f'{self.parts} parts by length, {said}'

    def _threshold(self, lengths: np.ndarray) -> tuple[float, str]:
        """The threshold, and where it is from."""
        if self.threshold == 'train_mean':
            divided = lengths[last_two(lengths, self.parts)]
            return self._mean(divided, 'the mean train length')
        if self.threshold == 'test_mean':
            tested = _annotations(self.test).lengths(self.unit)
            return self._mean(tested, 'the mean test length (uses test statistics)')
        return self.threshold, 'as given'

    def _mean(self, lengths: np.ndarray, name: str) -> tuple[float, str]:
        mean = float(np.mean(lengths))
        return (int(mean) if self.unit == 'frames' else mean), f'{name} {mean:.2f}'


@TASK_UTILS.register_module()
class RandomSplit(Environments):
    """The control of a split: environments of the same sizes, drawn at random.

    Args:
        like: config of the split, e.g. a :class:`LengthSplit`.
        seed: of the draw; runs that keep one environment each draw the same parts.
        only: keep this environment alone; the other videos leave.
    """

    def __init__(self, like: dict, *, seed: int = 0, only: Optional[int] = None) -> None:
        self.like = TASK_UTILS.build(like)
        self.seed = seed
        self.only = only

    def assign(self, dataset: VideoTextDataset) -> tuple[np.ndarray, str]:
        groups = random_like(self.like(dataset), self.seed)
        return _keep(groups, self.only), f'seed {self.seed}, sizes of ({self.like.note})'


@TASK_UTILS.register_module()
class RemoveByLength(Environments):
    """RmvAll and RmvOne (Satar et al., Algorithm 1): the train length of a class nears the test's.

    Shortest or longest videos of a class (verb, noun) leave, the others are environment 0. Only
    classes of both sets count. The mean test lengths are test statistics.

    Args:
        test: config of the dataset to test on; its annotations are read.
        action: the one class to treat, (verb, noun); None = all.
        delta: discrepancy of the means that may stay, in ``unit``. The paper's 10 and 60 do not
            give its counts.
        alpha: a class that has no more videos loses none.
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

    def assign(self, dataset: VideoTextDataset) -> tuple[np.ndarray, str]:
        test = _annotations(self.test)
        actions = _actions(dataset)
        test_means = class_means(test.lengths(self.unit), _actions(test))
        train = class_members(actions).keys()
        common = self._treated(train & test_means.keys())
        removed = removals(
            dataset.lengths(self.unit),
            actions,
            {action: test_means[action] for action in common},
            **self.limits,
        )
        groups = np.zeros(len(dataset.videos), dtype=np.int64)
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
        wanted = 'class' if self.action is None else f'class {self.action}'
        raise ValueError(f'RemoveByLength: no {wanted} (verb, noun) is in both train and test')


@TASK_UTILS.register_module()
class RemoveRandom(Environments):
    """RmvRand, the control of a removal: as many videos leave, drawn at random.

    Args:
        like: config of the removal, a :class:`RemoveByLength`.
        seed: of the draw.
    """

    def __init__(self, like: dict, *, seed: int = 0) -> None:
        self.like = TASK_UTILS.build(like)
        self.seed = seed

    def assign(self, dataset: VideoTextDataset) -> tuple[np.ndarray, str]:
        groups = random_like(self.like(dataset), self.seed)
        return groups, f'seed {self.seed}, as many as ({self.like.note})'


def _keep(groups: np.ndarray, only: Optional[int]) -> np.ndarray:
    known = np.unique(groups[groups >= 0]).tolist()
    if only is not None and only not in known:
        raise ValueError(f'only={only!r}: the environments are {known}')
    return groups if only is None else np.where(groups == only, groups, -1)


def _annotations(dataset: Any) -> VideoTextDataset:
    """A dataset from its config, without its pipelines: those look for videos and features."""
    if not isinstance(dataset, dict):
        return dataset
    return DATASETS.build({**dataset, 'video_pipeline': [], 'text_pipeline': []})


def _actions(dataset: VideoTextDataset) -> list[list[Action]]:
    for video in dataset.videos:
        if 'actions' not in video:
            raise ValueError(
                f'{type(dataset).__name__}: video {video["video_id"]!r} has no actions '
                '(verb and noun classes) to go by'
            )
    return [[tuple(action) for action in video['actions']] for video in dataset.videos]


def _counts(groups: np.ndarray) -> str:
    counts = Counter(groups.tolist())
    left_out = counts.pop(-1, 0)
    kept = ' / '.join(str(counts[environment]) for environment in sorted(counts))
    return f'{kept} videos, {left_out} left out'


def _hash(dataset: VideoTextDataset, groups: np.ndarray) -> str:
    rows = [f'{video["video_id"]}\t{group}' for video, group in zip(dataset.videos, groups)]
    return 'sha ' + hashlib.sha256('\n'.join(rows).encode()).hexdigest()[:8]
