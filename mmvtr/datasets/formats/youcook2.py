"""YouCook2 (Zhou et al., AAAI 2018): steps of cooking videos, each with one instruction.

A clip is a segment of a video. The test set's segments are not public, so papers train on the
training videos and test on the validation videos.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator, NamedTuple, Optional

from mmengine.logging import MMLogger

from mmvtr.datasets.annotation_files import read_bare_table, read_json
from mmvtr.datasets.annotation_values import (
    Place,
    duration,
    field,
    identifier,
    listing,
    mapping,
    number,
    present,
    problem,
    shown,
    string,
    unique,
    wrong,
)
from mmvtr.datasets.formats.prvr import read_moment
from mmvtr.datasets.formats.published import Annotations, PublishedDataset, Split
from mmvtr.datasets.records import Records
from mmvtr.registry import DATASETS

ANNOTATIONS = 'youcookii_annotations_trainval.json'
FRAMES = 'yc2_duration_frame.csv'
SUBSETS = ('training', 'validation', 'testing')
#: Maximum plausible frame rate of a video.
MOST_RATE = 10_000
SPLITS = {
    'train': Split(ANNOTATIONS, 'training', 10337, 10337),
    'val': Split(ANNOTATIONS, 'validation', 3492, 3492),
}


class _Segment(NamedTuple):
    """A segment: start and end in seconds of its video, and its instruction."""

    start: float
    end: float
    text: str


@DATASETS.register_module()
class YouCook2Dataset(PublishedDataset):
    """YouCook2, a video and a text for each segment.

    Both ids are ``VIDEO_N``, N being the segment's ``id`` in the json. A video has ``start``,
    ``end`` and ``duration`` in seconds; and ``num_frames``, the segment's share of its video's
    frames, if ``yc2_duration_frame.csv`` exists (video, seconds, frames; no header), which the log
    states. Verbs and nouns have no classes: :class:`~mmvtr.datasets.CaptionClasses` finds them.

    Args:
        split: 'train' or 'val'.
        **kwargs: arguments of :class:`PublishedDataset`.

    Raises:
        ValueError: see :class:`PublishedDataset`; a segment that ends before it begins.
    """

    title = 'YouCook2'
    splits = SPLITS
    layout = f'{ANNOTATIONS}; optionally {FRAMES}'
    example = 'GLd3aX16zBg_0'
    root = 'data/youcook2'

    def load_annotations(self) -> tuple[Records, Records]:
        """Return the segments of the split in the json's order, and their instructions."""
        videos, texts = super().load_annotations()
        rates = self._frame_rates()
        for video in videos:
            segment = self._segments[video['video_id']]
            length = segment.end - segment.start
            video.update(start=segment.start, end=segment.end, duration=length)
            if rates is not None:
                video['num_frames'] = max(1, round(length * rates[_video(video['video_id'])]))
        return videos, texts

    def read_split(self) -> Annotations:
        """Return the segments of the videos in the split's subset."""
        path = self.file(ANNOTATIONS)
        self._segments = _read_segments(path, self.splits[self.split].source)
        captions = {name: [(name, segment.text)] for name, segment in self._segments.items()}
        return Annotations(ANNOTATIONS, list(captions), captions, [ANNOTATIONS])

    def video_record(self, name: str) -> dict[str, Any]:
        """Return a segment's record, whose file is its whole video's."""
        return dict(super().video_record(_video(name)), video_id=name)

    def held_out(self) -> Iterator[tuple[str, list[str]]]:
        """Return nothing: each video of the json is in one subset only."""
        return iter(())

    def _frame_rates(self) -> Optional[dict[str, float]]:
        """Return the frame rate of each video of the split; None without their file."""
        path = self.ann_root / FRAMES
        log = MMLogger.get_current_instance()
        if not path.is_file():
            log.info(f'{self.title} {self.split}: no {path}, so no clip has a number of frames.')
            return None
        rates = _read_rates(path)
        lacking = sorted({_video(name) for name in self._segments} - rates.keys())
        if lacking:
            what = f'lacks {len(lacking)} videos of {ANNOTATIONS}, e.g. {shown(lacking[:5])}'
            raise problem(Place(path), what)
        log.info(f'{self.title} {self.split}: numbers of frames are taken from {path}.')
        return rates


def _video(name: str) -> str:
    """Return the video id of a segment ``VIDEO_N``."""
    return name.rpartition('_')[0]


def _read_segments(path: Path, subset: str) -> dict[str, _Segment]:
    """Return the segments of a subset by ``VIDEO_N``."""
    segments: dict[str, _Segment] = {}
    place = Place(path, "'database'")
    for video, value in mapping(read_json(path, ('database',))['database'], place).items():
        identifier(video, place)
        here = place.key(video)
        entry = mapping(value, here)
        annotations = field(entry, 'annotations', listing, here)
        if field(entry, 'subset', string, here) not in SUBSETS:
            raise wrong(here, f"a 'subset' of {[*SUBSETS]}", entry['subset'])
        if entry['subset'] == subset:
            parsed = [
                _segment(annotation, here.at(f'annotation {i}'))
                for i, annotation in enumerate(annotations)
            ]
            names = unique(((f'{video}_{n}', at) for n, at, _ in parsed), 'segment')
            segments.update(zip(names, (segment for *_, segment in parsed)))
    return segments


def _segment(value: Any, place: Place) -> tuple[int, Place, _Segment]:
    """Return the id of an annotation, its place and its segment."""
    annotation = mapping(value, place)
    identity = field(annotation, 'id', number, place)
    times = present(annotation, 'segment', place)
    text, start, end = read_moment(present(annotation, 'sentence', place), times, place)
    if end <= start:
        raise problem(place, f'the segment ends before it begins: {start} to {end} s')
    return identity, place, _Segment(start, end, text)


def _read_rates(path: Path) -> dict[str, float]:
    """Return the frame rate by video, from lines of video, seconds and frames."""
    rows = read_bare_table(path, 3)
    names = unique(((identifier(row[0], place), place) for place, row in rows), 'video')
    return dict(zip(names, (_rate(row, place) for place, row in rows)))


def _rate(row: list[str], place: Place) -> float:
    length, frames = duration(row[1], place), duration(row[2], place)
    if not frames / length < MOST_RATE:
        raise wrong(place, f'less than {MOST_RATE} frames a second', row)
    return frames / length
