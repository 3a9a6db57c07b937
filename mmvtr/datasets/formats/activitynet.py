"""ActivityNet Captions (Krishna et al., ICCV 2017) as paragraph retrieval.

The sentences of a video, stripped and joined by a space, are one text (Zhang et al., ECCV 2018).
They keep the order of the file, as published code does; it is not always temporal order.
"""

from __future__ import annotations

from typing import Iterator

from mmvtr.datasets.annotation_files import read_json
from mmvtr.datasets.annotation_values import (
    Place,
    caption,
    field,
    identifier,
    mapping,
    strings,
)
from mmvtr.datasets.formats.published import Annotations, Captions, PublishedDataset, Split
from mmvtr.registry import DATASETS

LISTS = 'collaborative-experts'
SPLITS = {
    'train': Split(f'{LISTS}/train_list.txt', 'train.json', 10009, 10009),
    'val1': Split(f'{LISTS}/val_1_list.txt', 'val_1.json', 4917, 4917),
    'val2': Split(f'{LISTS}/val_2_list.txt', 'val_2.json', 4885, 4885),
}


@DATASETS.register_module()
class ActivityNetDataset(PublishedDataset):
    """ActivityNet Captions: whole videos and their paragraphs.

    Papers train on 'train' and test on 'val1'; 'val2' describes videos of val1 a second time. A
    text has the id of its video, ``'v_...'``.

    Args:
        split: 'train', 'val1' or 'val2'.
        **kwargs: arguments of :class:`PublishedDataset`.
    """

    title = 'ActivityNet Captions'
    splits = SPLITS
    layout = f'train.json, val_1.json, val_2.json; optional {LISTS}/*_list.txt'
    example = 'v_QOlSCBRmfWY'
    root = 'data/activitynet'

    def read_split(self) -> Annotations:
        """Return the videos of the split's list, or all videos of its json, in order."""
        return self.listed(self._paragraphs(SPLITS[self.split].source))

    def held_out(self) -> Iterator[tuple[str, list[str]]]:
        """Return the videos of val1 and val2."""
        for name in ('val_1.json', 'val_2.json'):
            if (self.ann_root / name).is_file():
                yield name, list(read_json(self.ann_root / name, ()))

    def _paragraphs(self, name: str) -> Captions:
        path = self.file(name)
        paragraphs: Captions = {}
        for video, entry in read_json(path, ()).items():
            place = Place(path).key(video)
            sentences = field(mapping(entry, place), 'sentences', strings, place)
            text = ' '.join(sentence.strip() for sentence in sentences)
            paragraphs[identifier(video, place)] = [(video, caption(text, place))]
        return paragraphs
