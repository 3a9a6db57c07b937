"""Concatenated and repeated datasets: mmengine's wrappers for our datasets.

mmengine's own wrappers need ``full_init`` and ``metainfo`` of its ``BaseDataset``; here the indices
and ids of videos and texts, which define the positives of a batch, must also be renumbered.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import Any, Mapping, Optional, Sequence, Union

from torch.utils.data import Dataset

from mmvtr.datasets.annotation_values import shown
from mmvtr.datasets.items import ItemKey, item_key, kept_keys
from mmvtr.datasets.records import Records
from mmvtr.datasets.video_text import VideoTextDataset
from mmvtr.datasets.videos.missing import LeftOut
from mmvtr.registry import DATASETS

#: Record keys that a record transform computes on one set; their values mean nothing in another
#: set.
OF_ONE_SET = ('classes', 'actions', 'agreement', 'environment')


@DATASETS.register_module()
class RepeatDataset(Dataset):
    """Repeat each item several times an epoch, each time with new random choices.

    All other attributes are those of the wrapped set.

    Args:
        dataset: the set, or its config.
        times: how often an epoch visits each item, 1 or more.

    Raises:
        ValueError: ``times`` is not a positive integer.
    """

    def __init__(self, dataset: Union[Dataset, dict[str, Any]], times: int) -> None:
        if not isinstance(times, int) or times < 1:
            raise ValueError(f'RepeatDataset: times must be a positive integer, not {shown(times)}')
        self.dataset = DATASETS.build(dataset) if isinstance(dataset, dict) else dataset
        self.times = times

    def __getattr__(self, name: str) -> Any:
        if name == 'dataset' or name.startswith('__'):  # not set yet in a worker's copy
            raise AttributeError(name)
        return getattr(self.dataset, name)

    def protocol(self) -> dict[str, Any]:
        """Return the protocol of the set, and how often an epoch repeats it."""
        return {**self.dataset.protocol(), 'times an epoch': self.times}

    def __len__(self) -> int:
        return self.times * len(self.dataset)

    def __getitem__(self, key: Union[ItemKey, int]) -> dict[str, Any]:
        key = item_key(key)
        number, index = divmod(key.index, len(self.dataset))
        return self.dataset[ItemKey(key.seed, key.epoch * self.times + number, index)]


@DATASETS.register_module()
class ConcatDataset(VideoTextDataset):
    """Concatenation of datasets for joint training, each with its own files and pipelines.

    Videos and texts are numbered consecutively across the sets, and an id becomes ``NAME/ID``, so
    that ids of different sets never collide and a text has positives in its own set only.  An epoch
    visits the items of all sets, each as often as its own set does (:class:`RepeatDataset`).

    Args:
        datasets: two or more sets, or their configs.
        names: prefixes of the ids by set; default: the class of each, numbered if not unique.
        records: record transforms of the joint set, see :class:`VideoTextDataset`.

    Attributes:
        sets: the sets by name.

    Raises:
        ValueError: fewer than two sets, names that are not unique, sets of different
            ``epoch_unit``, or a set whose own ``records`` add keys of :data:`OF_ONE_SET`.
    """

    def __init__(
        self,
        datasets: Sequence[Union[VideoTextDataset, dict[str, Any]]],
        *,
        names: Optional[Sequence[str]] = None,
        records: Optional[Mapping[str, Any]] = None,
    ) -> None:
        built = [DATASETS.build(x) if isinstance(x, dict) else x for x in datasets]
        if len(built) < 2:
            raise ValueError(f'ConcatDataset: two sets or more expected, got {len(built)}')
        names = _names(built) if names is None else list(names)
        if len(names) != len(built) or len(set(names)) < len(names):
            raise ValueError(f'ConcatDataset: names must be {len(built)}, one per set, not {names}')
        self.sets = dict(zip(names, built))
        units = {name: dataset.epoch_unit for name, dataset in self.sets.items()}
        if len(set(units.values())) > 1:
            raise ValueError(f'ConcatDataset: the sets differ in epoch_unit: {units}')
        self._refuse_of_one_set()
        self._ends = list(accumulate(map(len, built)))
        self._videos_before = [0, *accumulate(len(dataset.videos) for dataset in built)]
        self._texts_before = [0, *accumulate(len(dataset.texts) for dataset in built)]
        super().__init__([], [], epoch_unit=built[0].epoch_unit, records=records)
        if len(self.videos) < self._videos_before[-1] or len(self.texts) < self._texts_before[-1]:
            raise ValueError(
                'ConcatDataset: a record transform that leaves videos or texts out must be given '
                'to each set'
            )
        for name, dataset in self.sets.items():
            for video, reason in dataset.known_broken.items():
                self.known_broken[f'{name}/{video}'] = reason

        lacking = [(name, x.left_out) for name, x in self.sets.items() if x.left_out]
        if lacking:
            whole = [x.left_out or (0, 0, len(x.videos), len(x.texts)) for x in built]
            self.left_out = LeftOut(
                tuple(f'{name}/{video}' for name, left in lacking for video in left.names),
                sum(left.texts for _, left in lacking),
                sum(counts[2] for counts in whole),
                sum(counts[3] for counts in whole),
            )

    def _refuse_of_one_set(self) -> None:
        for name, dataset in self.sets.items():
            for key in OF_ONE_SET:
                if any(key in record for record in (*dataset.videos, *dataset.texts)):
                    raise ValueError(
                        f'ConcatDataset: records of {name} have {key!r}, which is counted in one '
                        'set alone: give the record transform to the ConcatDataset'
                    )

    def load_annotations(self) -> tuple[Records, Records]:
        """Return the records of all sets, numbered consecutively."""
        videos, texts = [], []
        for k, (name, dataset) in enumerate(self.sets.items()):
            videos += [dict(v, video_id=f'{name}/{v["video_id"]}') for v in dataset.videos]
            texts += [self._moved(k, name, text) for text in dataset.texts]
        return videos, texts

    def origin(self) -> str:
        """Return the origins of all sets, joined by plus signs."""
        return ' + '.join(dataset.origin() for dataset in self.sets.values())

    def lacks(self) -> Optional[str]:
        """Return what the sets lack, by set."""
        lacking = {name: dataset.lacks() for name, dataset in self.sets.items()}
        return '; '.join(f'{name}: {lack}' for name, lack in lacking.items() if lack) or None

    def protocol(self) -> dict[str, Any]:
        """Return the protocol of the joint set and of each of its sets."""
        protocols = {name: dataset.protocol() for name, dataset in self.sets.items()}
        split = ' + '.join(
            ' '.join(filter(None, (protocol['dataset'], protocol['split'])))
            for protocol in protocols.values()
        )
        return {**super().protocol(), 'split': split, 'sets': protocols}

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, key: Union[ItemKey, int]) -> dict[str, Any]:
        """Return an item of one of the sets, see :class:`VideoTextDataset`."""
        key = item_key(key)
        k = bisect_right(self._ends, key.index)
        name, dataset = list(self.sets.items())[k]
        start = self._ends[k - 1] if k else 0
        item = dataset[ItemKey(key.seed, key.epoch, key.index - start)]
        if 'broken' in item:
            return self._moved(k, name, item)
        texts = [self._moved(k, name, text) for text in item['texts']]
        return dict(video=self._moved(k, name, item['video']), texts=texts)

    def _video(self, v: int) -> dict[str, Any]:
        k = bisect_right(self._videos_before, v) - 1
        name, dataset = list(self.sets.items())[k]
        return self._moved(k, name, dataset._video(v - self._videos_before[k]))

    def _text(self, t: int) -> dict[str, Any]:
        k = bisect_right(self._texts_before, t) - 1
        name, dataset = list(self.sets.items())[k]
        return self._moved(k, name, dataset._text(t - self._texts_before[k]))

    def _moved(self, k: int, name: str, part: dict[str, Any]) -> dict[str, Any]:
        """Return a record, half of an item or broken item of set ``k`` with the joint set's indices
        and ids, and the keys that the joint ``records`` have added."""
        first_video, first_text = self._videos_before[k], self._texts_before[k]
        part = dict(part)
        if 'broken' in part:
            video, reason = part['broken']
            part['broken'] = (f'{name}/{video}', reason)
        for key in ('video_id', 'text_id'):
            if key in part:
                part[key] = f'{name}/{part[key]}'
        if 'true_videos' in part:
            part['true_videos'] = [first_video + v for v in part['true_videos']]
        videos = part.get('video_idx')
        if isinstance(videos, list):  # a text's positions
            part['video_idx'] = [first_video + v for v in videos]
        elif videos is not None:
            part['video_idx'] = first_video + videos
            part.update(kept_keys(self.videos[part['video_idx']]))
        if 'text_idx' in part:
            part['text_idx'] += first_text
            part.update(kept_keys(self.texts[part['text_idx']]))
        return part


def _names(sets: Sequence[Dataset]) -> list[str]:
    """Return the class name of each set, numbered where it is not unique."""
    kinds = [dataset.protocol()['dataset'].removesuffix('Dataset') for dataset in sets]
    return [
        kind if kinds.count(kind) == 1 else f'{kind}{kinds[: i + 1].count(kind)}'
        for i, kind in enumerate(kinds)
    ]
