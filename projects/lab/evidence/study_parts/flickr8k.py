"""Flickr8k (Hodosh, Young and Hockenmaier, JAIR 2013) without its pixels: captions for captions.

Its 1,000 test images are the ones whose caption #2 people have judged against other images, so a
model that is trained on the captions of the 6,000 others can be judged by them
(projects/lab/evidence/pages/judged_training.md).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Optional, Sequence

from mmvtr.datasets.annotation_files import read_ids, read_lines
from mmvtr.datasets.annotation_values import Place, caption, shown, wrong
from mmvtr.datasets.formats.published import Annotations, Captions, PublishedDataset, Split
from mmvtr.registry import DATASETS
from study_parts import image_judgments  # noqa: F401 - registers the readers of its judgments

TOKENS = 'Flickr8k.token.txt'
SPLITS = {
    'train': Split('Flickr_8k.trainImages.txt', TOKENS, 6000, 12000),
    'dev': Split('Flickr_8k.devImages.txt', TOKENS, 1000, 1000),
    'test': Split('Flickr_8k.testImages.txt', TOKENS, 1000, 1000),
}
#: The captions of an image that ask, by split: the judged one asks in the test, and in training
#: nobody sees a caption of that place.
ASKS = dict(train=(3, 4), dev=(2,), test=(2,))
COUNT = 5


@DATASETS.register_module()
class Flickr8kCaptionsDataset(PublishedDataset):
    """Flickr8k as text alone: some captions of an image are the item, the others the queries.

    A record of an item has ``captions``, the list of those that it is known by, for
    :class:`~study_parts.caption_items.CaptionFrames`; no image is opened.  Caption n of an image
    has the id ``IMAGE#n``, as the judgments call it.

    Args:
        split: 'train', 'dev' or 'test'.
        seen: places, 0 to 4, of the captions that are the item.
        asks: those that are texts; None = 3 and 4 in training, else 2, the judged one.
        **kwargs: of :class:`PublishedDataset`.

    Raises:
        ValueError: see :class:`PublishedDataset`; a place that is none or is in both lists; a line
            that is no caption, an image without five.
    """

    title = 'Flickr8k'
    splits = SPLITS
    layout = f'{TOKENS}, Flickr_8k.trainImages.txt, Flickr_8k.devImages.txt, ...testImages.txt'
    example = '1000268201_693b08cb0e.jpg'
    root = 'data/flickr8k'
    suffix = ''

    def __init__(
        self,
        split: str,
        *,
        seen: Sequence[int] = (0, 1),
        asks: Optional[Sequence[int]] = None,
        **kwargs: Any,
    ) -> None:
        self.seen = tuple(seen)
        self.asks = ASKS.get(split, ()) if asks is None else tuple(asks)
        places = self.seen + self.asks
        if not self.seen or not {*places} <= {*range(COUNT)} or len({*places}) < len(places):
            raise ValueError(
                f'Flickr8k: seen and asks are different places, 0 to {COUNT - 1}, not '
                f'{self.seen} and {self.asks}'
            )
        self._captions: Captions = {}
        super().__init__(split, **kwargs)

    def read_split(self) -> Annotations:
        """Return the images of the split's list and the query captions of each."""
        table = self.splits[self.split].table
        names = read_ids(self.file(table))
        self._captions = read_captions(self.file(TOKENS))
        asks = {name: [own[place] for place in self.asks] for name, own in self._captions.items()}
        return Annotations(table, names, asks, [TOKENS])

    def video_record(self, name: str) -> dict[str, Any]:
        """Return an item's record with its ``captions``."""
        own = self._captions.get(name, ())
        texts = [text for place, (_, text) in enumerate(own) if place in self.seen]
        return dict(super().video_record(name), captions=texts)


def read_captions(path: Path) -> Captions:
    """Read ``Flickr8k.token.txt``: lines of ``IMAGE#n``, a tab and a caption, n from 0 to 4.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a line of another form; an image that has not each of its five once.
    """
    found: dict[str, dict[int, tuple[str, str]]] = {}
    for place, line in read_lines(path):
        name, tab, text = line.partition('\t')
        image, mark, number = name.rpartition('#')
        if not (tab and mark and image and number in map(str, range(COUNT))):
            raise wrong(place, "'IMAGE#n', n from 0 to 4, a tab and a caption", line)
        own = found.setdefault(image, {})
        if int(number) in own:
            raise wrong(place, 'a caption that is not there yet', name)
        own[int(number)] = name, caption(text, place)
    for image, own in found.items():
        if len(own) < COUNT:
            raise wrong(Place(path), f'captions #0 to #4 of {shown(image)}', sorted(own))
    return {image: [own[n] for n in range(COUNT)] for image, own in found.items()}
