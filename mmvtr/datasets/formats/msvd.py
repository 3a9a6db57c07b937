"""MSVD (Chen & Dolan, ACL 2011): 1,970 clips with about 41 captions each, every one a text.

Captions come from X-Pool's json or CLIP4Clip's pickle, which is read without running code. Repeated
captions of a clip are kept: a text is a row, not a string.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mmvtr.datasets.annotation_files import read_ids, read_json
from mmvtr.datasets.annotation_values import (
    Place,
    caption,
    identifier,
    listing,
    mapping,
    strings,
)
from mmvtr.datasets.formats.published import Annotations, Captions, PublishedDataset, Split
from mmvtr.datasets.pickles import read_pickle
from mmvtr.registry import DATASETS

CAPTIONS = 'captions_msvd.json'
PICKLE = 'raw-captions.pkl'
SPLITS = {
    'train': Split('train_list.txt', CAPTIONS, 1200, 48774),
    'val': Split('val_list.txt', CAPTIONS, 100, 4290),
    'test': Split('test_list.txt', CAPTIONS, 670, 27763),
}


@DATASETS.register_module()
class MSVDDataset(PublishedDataset):
    """MSVD, the standard split of 1,200, 100 and 670 clips.

    Captions come from ``captions_msvd.json`` or else from ``raw-captions.pkl``, both clip id ->
    captions; a pickled caption may be a list of words. Caption n of a clip has the id ``CLIP#n``.

    Args:
        split: 'train', 'val' or 'test'.
        **kwargs: arguments of :class:`PublishedDataset`.

    Raises:
        ValueError: see :class:`PublishedDataset`; a pickle that holds more than containers and
            strings.
    """

    title = 'MSVD'
    splits = SPLITS
    layout = f'train_list.txt, val_list.txt, test_list.txt; {CAPTIONS} or {PICKLE}'
    example = '-4wsuPCjDBc_5_15'
    root = 'data/msvd'
    suffix = '.avi'

    def read_split(self) -> Annotations:
        """Return the clips of the split's list."""
        table = SPLITS[self.split].table
        path = self._caption_file()
        pickled = path.name == PICKLE
        content = read_pickle(path, 'plain captions') if pickled else read_json(path, ())
        names = read_ids(self.file(table))
        return Annotations(table, names, _with_ids(content, Place(path)), [path.name])

    def _caption_file(self) -> Path:
        pickled = self.ann_root / PICKLE
        there = pickled.is_file() and not (self.ann_root / CAPTIONS).is_file()
        return pickled if there else self.file(CAPTIONS)


def _with_ids(content: Any, whole: Place) -> Captions:
    return {
        identifier(name, whole): _clip(name, captions, whole.key(name))
        for name, captions in mapping(content, whole).items()
    }


def _clip(name: str, captions: Any, place: Place) -> list[tuple[str, str]]:
    return [
        (f'{name}#{n}', _sentence(sentence, place.at(f'caption {n}')))
        for n, sentence in enumerate(listing(captions, place))
    ]


def _sentence(sentence: Any, place: Place) -> str:
    if not isinstance(sentence, str):
        sentence = ' '.join(strings(sentence, place))
    return caption(sentence, place)
