"""Batches in which each clip meets another one of the same recording, close in time.

EgoVLP's scene-aware negatives (Lin et al., NeurIPS 2022, Sec. 3.2): same room, same hands, another
action, so that only the action can tell them apart.
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
class SceneBatchSampler(Sampler):
    """Batches of items, each joined by a neighbour of the same scene (EgoNCE).

    A neighbour is another clip of the same file (``path``) that begins less than ``window`` seconds
    earlier or later, drawn uniformly; a clip without one stays alone.  The neighbours come on top:
    an epoch still visits every item once, in twice as many batches.  (In EgoVLP's code the draw is
    among the clips of the same minute, the clip itself among them.)  What is drawn is a function of
    seed, epoch and item.

    In a config: ``batch_sampler=dict(type='SceneBatchSampler')`` beside the usual
    ``sampler=dict(type='EpochSampler')``; mmengine passes that sampler and ``batch_size``.

    Args:
        sampler: knows dataset, seed, epoch and rank.
        batch_size: items a rank, neighbours among them: even.
        window: seconds; the paper has one minute.

    Raises:
        ValueError: another sampler, an odd batch size, no positive window; videos without ``path``
            and ``start``; a text of several videos with ``epoch_unit='text'``, which has no place.
    """

    def __init__(self, sampler: EpochSampler, batch_size: int, *, window: float = 60.0) -> None:
        if not isinstance(sampler, EpochSampler):
            raise ValueError(f'SceneBatchSampler needs an EpochSampler, not {sampler!r}')
        if batch_size < 2 or batch_size % 2:
            raise ValueError(f'SceneBatchSampler: batch_size must be even, got {batch_size}')
        if not window > 0:
            raise ValueError(f'SceneBatchSampler: window must be positive, got {window}')
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
        self._items = np.split(order, borders)  # of each recording

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
        return int(np.random.default_rng((*key, 1)).choice(near))  # key alone: its transforms


def _item_videos(dataset: VideoTextDataset) -> np.ndarray:
    """Return the video of each item, int64 [items]; each needs a file and a start."""
    items = dataset.texts if dataset.epoch_unit == 'text' else dataset.videos_with_text
    if len(items) != len(dataset):
        raise ValueError(
            f'SceneBatchSampler: {len(dataset)} items of {len(items)}: it shows each once, without '
            'RepeatDataset'
        )
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
