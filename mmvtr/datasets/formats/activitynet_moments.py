"""ActivityNet Captions (Krishna et al., ICCV 2017) as partially relevant video retrieval.

Each sentence is a text. :class:`~mmvtr.datasets.ActivityNetDataset` reads the same files as
paragraphs.
"""

from __future__ import annotations

from typing import Any

from mmvtr.datasets.annotation_files import read_json
from mmvtr.datasets.annotation_values import (
    Place,
    duration,
    field,
    identifier,
    listing,
    mapping,
    wrong,
)
from mmvtr.datasets.formats.prvr import Official, PRVRDataset, Untrimmed, read_moment
from mmvtr.datasets.formats.published import Split
from mmvtr.registry import DATASETS

SPLITS = {
    'train': Split('TextData/activitynettrain.caption.txt', 'train.json', 9043, 33721),
    'test': Split('TextData/activitynettest.caption.txt', 'val_1.json', 4430, 15753),
}


@DATASETS.register_module()
class ActivityNetMomentsDataset(PRVRDataset):
    """ActivityNet Captions: whole videos and the sentences of their moments.

    Papers train on 9,043 videos of train and test on 4,430 of val_1; MS-SL's text files list them.
    Without these files all videos of the json are read, and the log says so.

    Args:
        split: 'train' or 'test'.
        **kwargs: arguments of :class:`PRVRDataset`.
    """

    title = 'ActivityNet Captions (moments)'
    collection = 'activitynet'
    splits = SPLITS
    layout = 'TextData/activitynet{train,test}.caption.txt, train.json, val_1.json'
    example = 'v_QOlSCBRmfWY'
    root = 'data/activitynet'

    def read_official(self, split: str) -> Official:
        """Return sentences and their timestamps, in the order of the file."""
        path = self.file(SPLITS[split].source)
        return {
            identifier(name, Place(path)): _read_video(entry, Place(path).key(name))
            for name, entry in read_json(path, ()).items()
        }


def _read_video(value: Any, place: Place) -> Untrimmed:
    entry = mapping(value, place)
    sentences, times = (field(entry, key, listing, place) for key in ('sentences', 'timestamps'))
    if len(times) != len(sentences):
        raise wrong(place, f"{len(sentences)} 'timestamps', one a sentence", times)
    moments = [
        read_moment(text, pair, place.at(f'moment {n}'))
        for n, (text, pair) in enumerate(zip(sentences, times))
    ]
    return Untrimmed(field(entry, 'duration', duration, place), moments)
