"""VATEX (Wang et al., ICCV 2019), its English captions, in the splits that papers compare on.

The official test set has no public captions, so HGR (Chen et al., CVPR 2020) divides the 3,000
official validation clips in two, and CLIP2Video divides them in another way.
"""

from __future__ import annotations

from mmvtr.datasets.annotation_files import read_rows
from mmvtr.datasets.annotation_values import caption, field, listing, unique_in
from mmvtr.datasets.formats.published import Annotations, Captions, PublishedDataset, Split
from mmvtr.registry import DATASETS

TRAINING = 'vatex_training_v1.0.json'
VALIDATION = 'vatex_validation_v1.0.json'
SPLITS = {
    'train': Split('train_list.txt', TRAINING, 25991, 259910),
    'val': Split('val_list.txt', VALIDATION, 1500, 15000),
    'test': Split('test_list.txt', VALIDATION, 1500, 15000),
    'test_1k5': Split('test1k5_sec_list.txt', VALIDATION, 1500, 15000),
}


@DATASETS.register_module()
class VATEXDataset(PublishedDataset):
    """VATEX with ten English captions per clip.

    Captions are ``enCap`` of the official json lists. Caption n of a clip has the id ``CLIP#n``.
    'test_1k5' (CLIP2Video's second list) holds 776 clips of 'val': do not choose a checkpoint on
    'val' when testing on it.

    Args:
        split: 'train', 'val', 'test' or 'test_1k5'.
        **kwargs: arguments of :class:`PublishedDataset`.

    Raises:
        ValueError: see :class:`PublishedDataset`; a clip that a json file repeats.
    """

    title = 'VATEX'
    splits = SPLITS
    layout = f'{TRAINING}, {VALIDATION}; {", ".join(split.table for split in SPLITS.values())}'
    example = 'Ptf_2VRj-V0_000122_000132'
    root = 'data/vatex'

    def read_split(self) -> Annotations:
        """Return the clips of the split's list; 'train' has no list: all clips of its json."""
        if self.split != 'train':
            self.file(SPLITS[self.split].table)
        return self.listed(self._captions(SPLITS[self.split].source))

    def _captions(self, name: str) -> Captions:
        path = self.file(name)
        rows = read_rows(path)
        captions: Captions = {}
        for clip, (place, entry) in zip(unique_in(rows, 'videoID', 'clip'), rows):
            texts = field(entry, 'enCap', listing, place)
            captions[clip] = [
                (f'{clip}#{n}', caption(text, place.at(f"'enCap' {n}")))
                for n, text in enumerate(texts)
            ]
        return captions
