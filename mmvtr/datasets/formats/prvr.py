"""Partially relevant video retrieval: each caption describes one moment of an untrimmed video.

Captions come from MS-SL's text files (Dong et al., ACM MM 2022) or else from the official
annotations. Only these have the times of the moments, which are used in evaluation alone.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Iterator, NamedTuple, Optional

from mmengine.logging import MMLogger

from mmvtr.datasets.annotation_files import read_lines
from mmvtr.datasets.annotation_values import (
    Place,
    caption,
    identifier,
    problem,
    seconds,
    unique,
    wrong,
)
from mmvtr.datasets.formats.published import Annotations, Captions, PublishedDataset
from mmvtr.datasets.records import Records


class Moment(NamedTuple):
    """A caption and the start and end, in seconds, of the moment that it describes."""

    text: str
    start: float
    end: float


class Untrimmed(NamedTuple):
    """A video of the official annotations: its duration, and its moments in the file's order."""

    duration: float
    moments: list[Moment]


#: Official annotations by video id.
Official = dict[str, Untrimmed]


class PRVRDataset(PublishedDataset):
    """Base class of a PRVR dataset split; subclasses implement :meth:`read_official`.

    With ``TextData/<collection><split>.caption.txt`` in ``ann_root`` the set is what that file
    lists, else all of the official file. Papers test on one set, called val or test, so the file of
    split 'test' may have either name. Caption n of a video has MS-SL's id ``VIDEO#enc#n``, the key
    of its word features.

    A text has ``start`` and ``end`` and a video its ``duration``, in seconds, if the official file
    exists. A moment that ends after its video is cut there; one that is empty or lies outside of
    its video, and a caption that the official file lacks, have no times. The log counts them.

    Args:
        split: 'train' or 'test'.
        **kwargs: arguments of :class:`PublishedDataset`.

    Attributes:
        collection: the dataset as MS-SL's files call it.
    """

    collection: str

    def read_official(self, split: str) -> Official:
        """Return the official annotations of a split, whose file exists."""
        raise NotImplementedError

    def load_annotations(self) -> tuple[Records, Records]:
        """Return videos and texts of the split, with times if they are known."""
        self._official = self.read_official(self.split) if self._has_official(self.split) else None
        videos, texts = super().load_annotations()
        note = self._add_times(videos, texts)
        if note:
            MMLogger.get_current_instance().info(f'{self.title} {self.split}: {note}.')
        return videos, texts

    def read_split(self) -> Annotations:
        """Return the captions of the text file, or else of the official file."""
        path = self._caption_file(self.split)
        if path is not None:
            captions = read_captions(path)
            return Annotations(path.name, list(captions), captions, [path.name])
        source = self.file(self.splits[self.split].source).name
        captions = {
            name: [(caption_id(name, n), moment.text) for n, moment in enumerate(video.moments)]
            for name, video in self._official.items()
        }
        return Annotations(source, list(captions), captions, [source])

    def held_out(self) -> Iterator[tuple[str, list[str]]]:
        """Return the videos of the test split."""
        path = self._caption_file('test')
        if path is not None:
            yield path.name, list(read_captions(path))
        elif self._has_official('test'):
            yield self.splits['test'].source, list(self.read_official('test'))

    def _caption_file(self, split: str) -> Optional[Path]:
        for name in ('test', 'val') if split == 'test' else (split,):
            path = self.ann_root / 'TextData' / f'{self.collection}{name}.caption.txt'
            if path.is_file():
                return path
        return None

    def _has_official(self, split: str) -> bool:
        return (self.ann_root / self.splits[split].source).is_file()

    def _add_times(self, videos: Records, texts: Records) -> str:
        """Add the times of the official file; return a sentence for the log."""
        source = self.splits[self.split].source
        if self._official is None:
            return f'there is no {source} in {self.ann_root}, so no moment has its times'
        for video in videos:
            if video['video_id'] in self._official:
                video['duration'] = self._official[video['video_id']].duration
        moments = {
            caption_id(name, n): moment
            for name, video in self._official.items()
            for n, moment in enumerate(video.moments)
        }
        cut, outside, unknown = [], [], []
        for text in texts:
            moment = moments.get(text['text_id'])
            if moment is None or letters(moment.text) != letters(text['text']):
                unknown.append(text['text_id'])
                continue
            end = min(moment.end, videos[text['video_idx'][0]]['duration'])
            if moment.start >= end:
                outside.append(text['text_id'])
                continue
            text.update(start=moment.start, end=end)
            if end < moment.end:
                cut.append(text['text_id'])
        counted = {
            'end after their video and are cut there': cut,
            'lie outside their video or have no length and go without times': outside,
            f'are not in {source} and go without times': unknown,
        }
        return '; '.join(
            f'{len(ids)} of {len(texts)} moments {fate} (e.g. {ids[0]})'
            for fate, ids in counted.items()
            if ids
        )


def caption_id(video: str, number: int) -> str:
    """Return MS-SL's id of a caption."""
    return f'{video}#enc#{number}'


def letters(text: str) -> str:
    """Return the lower-case letters and digits of a text: MS-SL's files change the rest."""
    return re.sub(r'[\W_]+', '', text).lower()


def read_captions(path: Path) -> Captions:
    """Return the captions of MS-SL's lines ``VIDEO#enc#N caption``; the id ends at the first space.

    Raises:
        ValueError: a line without video, '#' or caption, a repeated id, or no line at all.
    """
    lines = read_lines(path)
    ids = unique(((_caption_id(line, place), place) for place, line in lines), 'text')
    captions: Captions = {}
    for text_id, (place, line) in zip(ids, lines):
        text = caption(line[len(text_id) + 1 :].strip(), place)
        captions.setdefault(text_id.partition('#')[0], []).append((text_id, text))
    if not captions:
        raise problem(Place(path), 'has no captions')
    return captions


def _caption_id(line: str, place: Place) -> str:
    text_id, _, text = line.partition(' ')
    video, mark, _ = text_id.partition('#')
    if not (video and mark and text):
        raise wrong(place, "'VIDEO#enc#N caption'", line)
    identifier(video, place)
    return identifier(text_id, place)


def read_moment(text: Any, times: Any, place: Place) -> Moment:
    """Return a moment from a caption and its two times.

    Raises:
        ValueError: an invalid caption, or not two valid times; names ``place``.
    """
    text = caption(text, place)
    if not isinstance(times, (list, tuple)) or len(times) != 2:
        raise wrong(place, 'start and end', times)
    return Moment(text.strip(), *(seconds(time, place) for time in times))
