"""Samplers: which items an epoch visits, and in which order.

An item is requested by ``ItemKey(seed, epoch, index)``, not by a bare index: so persistent workers
know the epoch, and data are a function of the key alone.
"""

from __future__ import annotations

import math
from typing import Iterator, Optional, Sized

import numpy as np
from mmengine.dist import get_dist_info, sync_random_seed
from torch.utils.data import Sampler

from mmvtr.datasets.items import ItemKey
from mmvtr.datasets.video_text import VideoTextDataset
from mmvtr.functional.values import check_range
from mmvtr.registry import DATA_SAMPLERS


@DATA_SAMPLERS.register_module()
class EpochSampler(Sampler):
    """Visit every item once an epoch, in an order drawn from (seed, epoch), split over ranks.

    mmengine's loops call :meth:`set_epoch`; its Runner passes ``dataset`` and ``seed``.

    Args:
        dataset: anything with a length.
        seed: non-negative; None = one drawn on rank 0 and shared.
        shuffle: False keeps the dataset's order.
        round_up: repeat a few of the first items so that all ranks get equally many.
    """

    def __init__(
        self,
        dataset: Sized,
        seed: Optional[int] = None,
        *,
        shuffle: bool = True,
        round_up: bool = True,
    ) -> None:
        self.dataset = dataset
        self.seed = sync_random_seed() if seed is None else seed
        self.shuffle = shuffle
        self.round_up = round_up
        self.rank, self.world_size = get_dist_info()
        self.epoch = 0

    def __iter__(self) -> Iterator[ItemKey]:
        order = np.arange(len(self.dataset))
        if self.shuffle:
            order = np.random.default_rng((self.seed, self.epoch)).permutation(order)
        if self.round_up:
            order = np.resize(order, math.ceil(len(order) / self.world_size) * self.world_size)
        for index in order[self.rank :: self.world_size].tolist():
            yield ItemKey(self.seed, self.epoch, index)

    def __len__(self) -> int:
        """Return how many items this rank visits in an epoch."""
        extra = self.world_size - 1 if self.round_up else self.world_size - 1 - self.rank
        return (len(self.dataset) + extra) // self.world_size

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration."""
        self.epoch = epoch


@DATA_SAMPLERS.register_module()
class EnvironmentBatchSampler(Sampler):
    """Visit every item once an epoch, in batches of one environment each.

    Items, batches and their order are a function of the sampler's seed and epoch. All ranks get
    equally many: an environment whose number of items is not divisible by the number of ranks
    repeats a few, and its last, smaller batch is shared evenly.

    In a config: ``batch_sampler=dict(type='EnvironmentBatchSampler')`` beside the usual
    ``sampler=dict(type='EpochSampler')``; mmengine passes that sampler and ``batch_size``.

    Args:
        sampler: provides dataset, seed, epoch and rank; its own order is not used.
        batch_size: items per rank.

    Raises:
        ValueError: not a shuffling, rounding :class:`EpochSampler`; a dataset without environments;
            a text whose videos are in several environments.
    """

    def __init__(self, sampler: EpochSampler, batch_size: int) -> None:
        if not isinstance(sampler, EpochSampler) or not (sampler.shuffle and sampler.round_up):
            raise ValueError(
                'EnvironmentBatchSampler needs an EpochSampler with shuffle and round_up'
            )
        check_range('[1, inf]', batch_size=batch_size)
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
    _check_each_once(dataset)
    if dataset.epoch_unit == 'text':
        return np.array([_text_environment(text, of_video) for text in dataset.texts])
    return of_video[dataset.videos_with_text]


def _check_each_once(dataset: VideoTextDataset) -> None:
    items = dataset.texts if dataset.epoch_unit == 'text' else dataset.videos_with_text
    if len(items) != len(dataset):
        raise ValueError(
            f'the dataset shows {len(items)} items as {len(dataset)}, and its sampler expects each '
            'once: leave RepeatDataset out'
        )


def _text_environment(text: dict, of_video: np.ndarray) -> int:
    environments = {int(of_video[v]) for v in text['video_idx']}
    if len(environments) > 1:
        raise ValueError(
            f'text {text["text_id"]!r} has videos in environments {sorted(environments)}, so a '
            "batch cannot be of one; use epoch_unit='video'"
        )
    return environments.pop()


@DATA_SAMPLERS.register_module()
class SceneBatchSampler(Sampler):
    """Batches of items, each joined by a neighbour of the same scene (EgoNCE).

    A neighbour is another clip of the same file (``path``) that begins less than ``window`` seconds
    earlier or later, drawn uniformly; a clip without one has no neighbour.  Neighbours are extra
    items: an epoch still visits every item once, in twice as many batches.  (EgoVLP's code draws
    among the clips of the same minute, including the clip itself.)  The draw is a function of seed,
    epoch and item.

    In a config: ``batch_sampler=dict(type='SceneBatchSampler')`` beside the usual
    ``sampler=dict(type='EpochSampler')``; mmengine passes that sampler and ``batch_size``.

    Args:
        sampler: provides dataset, seed, epoch and rank.
        batch_size: items per rank, including neighbours: even.
        window: seconds; the paper uses one minute.

    Raises:
        ValueError: not a rounding :class:`EpochSampler`, an odd batch size, a window that is not
            positive; videos without ``path`` and ``start``; with ``epoch_unit='text'``, a text of
            several videos, which has no unique start.
    """

    def __init__(self, sampler: EpochSampler, batch_size: int, *, window: float = 60.0) -> None:
        if not isinstance(sampler, EpochSampler) or not sampler.round_up:
            raise ValueError('SceneBatchSampler needs an EpochSampler with round_up')
        if batch_size < 2 or batch_size % 2:
            raise ValueError(f'SceneBatchSampler: batch_size must be even, got {batch_size}')
        check_range('(0, inf]', window=window)
        self.sampler = sampler
        self.batch_size = batch_size
        self.window = window
        self._videos = _item_videos(sampler.dataset)
        records = [sampler.dataset.videos[v] for v in self._videos]
        self._starts = np.array([float(record['start']) for record in records])
        paths = [record['path'] for record in records]
        self._recording = np.unique(paths, return_inverse=True)[1]
        order = np.argsort(self._recording, kind='stable')
        borders = np.flatnonzero(np.diff(self._recording[order])) + 1
        self._items = np.split(order, borders)  # items of each recording

    def __iter__(self) -> Iterator[list[ItemKey]]:
        batch: list[ItemKey] = []
        anchors = 0
        for key in self.sampler:
            neighbour = self._neighbour(key)
            batch += [key] if neighbour is None else [key, key._replace(index=neighbour)]
            anchors += 1
            if anchors == self.batch_size // 2:
                yield batch
                batch, anchors = [], 0
        if batch:
            yield batch

    def __len__(self) -> int:
        """Return the batches per epoch."""
        return math.ceil(len(self.sampler) / (self.batch_size // 2))

    def neighbours(self, index: int) -> np.ndarray:
        """Return the items that may join item ``index``, int64 [n]."""
        items = self._items[self._recording[index]]
        near = np.abs(self._starts[items] - self._starts[index]) < self.window
        return items[near & (self._videos[items] != self._videos[index])]

    def _neighbour(self, key: ItemKey) -> int | None:
        near = self.neighbours(key.index)
        if not len(near):
            return None
        return int(np.random.default_rng((*key, 1)).choice(near))  # transforms use ``key`` alone


def _item_videos(dataset: VideoTextDataset) -> np.ndarray:
    """Return the video of each item, int64 [items]; each needs a file and a start."""
    _check_each_once(dataset)
    if dataset.epoch_unit == 'text':
        videos = [_only_video(text) for text in dataset.texts]
    else:
        videos = dataset.videos_with_text
    records = [dataset.videos[v] for v in videos]
    unknown = [record['video_id'] for record in records if not {'path', 'start'} <= record.keys()]
    if unknown:
        raise ValueError(
            f'SceneBatchSampler: {len(unknown)} of {len(records)} videos of '
            f'{type(dataset).__name__} have no path and start in a recording, e.g. {unknown[:5]}'
        )
    return np.array(videos)


def _only_video(text: dict) -> int:
    if len(text['video_idx']) > 1:
        raise ValueError(
            f'SceneBatchSampler: text {text["text_id"]!r} has {len(text["video_idx"])} videos, '
            "drawn anew each time; use epoch_unit='video'"
        )
    return text['video_idx'][0]
