"""Batches of one environment at a time, the same one on all ranks at a step.

So each step trains the one model of its environment, on the joint batch of all ranks.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Iterator

import numpy as np
from torch.utils.data import Sampler

from mmvtr.datasets.sampling.samplers import EpochSampler, ItemKey
from mmvtr.registry import DATA_SAMPLERS

if TYPE_CHECKING:
    from mmvtr.datasets.video_text import VideoTextDataset


@DATA_SAMPLERS.register_module()
class EnvironmentBatchSampler(Sampler):
    """Visit every item once an epoch, in batches of one environment each.

    Items, batches and their order are a function of the sampler's seed and epoch. All ranks get
    equally many: an environment whose items do not divide by them repeats a few, and its last,
    smaller batch is shared evenly.

    In a config: ``batch_sampler=dict(type='EnvironmentBatchSampler')`` beside the usual
    ``sampler=dict(type='EpochSampler')``; mmengine passes that sampler and ``batch_size``.

    Args:
        sampler: knows dataset, seed, epoch and rank; its own order is not used.
        batch_size: items a rank.

    Raises:
        ValueError: no shuffling, rounding :class:`EpochSampler`; a dataset without environments;
            a text whose videos are in several environments.
    """

    def __init__(self, sampler: EpochSampler, batch_size: int) -> None:
        if not isinstance(sampler, EpochSampler) or not (sampler.shuffle and sampler.round_up):
            raise ValueError(
                'EnvironmentBatchSampler needs an EpochSampler with shuffle and round_up'
            )
        if batch_size < 1:
            raise ValueError(f'batch_size must be at least 1, got {batch_size}')
        self.sampler = sampler
        self.batch_size = batch_size
        environments = _item_environments(sampler.dataset)
        self._items = [np.flatnonzero(environments == k) for k in np.unique(environments)]

    def __iter__(self) -> Iterator[list[ItemKey]]:
        seed, epoch, rank = self.sampler.seed, self.sampler.epoch, self.sampler.rank
        rng = np.random.default_rng((seed, epoch))
        steps = [step for items in self._items for step in self._steps(rng.permutation(items))]
        for number in rng.permutation(len(steps)):
            items = steps[number][rank :: self.sampler.world_size]
            yield [ItemKey(seed, epoch, index) for index in items.tolist()]

    def __len__(self) -> int:
        """Return the batches per epoch."""
        return sum(len(self._steps(items)) for items in self._items)

    def _steps(self, items: np.ndarray) -> list[np.ndarray]:
        """Return the joint batches of all ranks."""
        world_size = self.sampler.world_size
        items = np.resize(items, math.ceil(len(items) / world_size) * world_size)
        joint = self.batch_size * world_size
        return [items[start : start + joint] for start in range(0, len(items), joint)]


def _item_environments(dataset: VideoTextDataset) -> np.ndarray:
    """Return the environment of each item of an epoch, int64 [items]."""
    of_video = getattr(dataset, 'environments', None)
    if of_video is None:
        raise ValueError(
            f'EnvironmentBatchSampler: {type(dataset).__name__} has no environments; '
            "give it records=dict(environments=dict(type='LengthSplit'))"
        )
    items = dataset.texts if dataset.epoch_unit == 'text' else dataset.videos_with_text
    if len(items) != len(dataset):
        raise ValueError(
            f'EnvironmentBatchSampler: {len(dataset)} items of {len(items)}: it shows each '
            'once, without RepeatDataset'
        )
    if dataset.epoch_unit == 'text':
        return np.array([_text_environment(text, of_video) for text in dataset.texts])
    return of_video[dataset.videos_with_text]


def _text_environment(text: dict, of_video: np.ndarray) -> int:
    found = {int(of_video[v]) for v in text['video_idx']}
    if len(found) > 1:
        raise ValueError(
            f'text {text["text_id"]!r} has videos in environments {sorted(found)}, so a batch '
            "cannot be of one; use epoch_unit='video'"
        )
    return found.pop()
