"""YouCook2 (Zhou et al., AAAI 2018): steps of cooking videos, an instruction each.

A clip is a segment of a video. The test set's segments are not public, so the field trains on the
training videos and tests on the validation videos.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator, NamedTuple, Optional

from mmengine.logging import MMLogger

from mmvtr.datasets.annotation_files import (
    AnnotationError,
    Line,
    Where,
    duration,
    identifier,
    integer,
    mapping,
    read_fields,
    read_json,
    sequence,
    shown,
    string,
)
from mmvtr.datasets.formats.prvr import read_moment
from mmvtr.datasets.formats.published import Annotations, PublishedDataset, Records, Split
from mmvtr.registry import DATASETS

ANNOTATIONS = 'youcookii_annotations_trainval.json'
FRAMES = 'yc2_duration_frame.csv'
SPLITS = {
    'train': Split(ANNOTATIONS, 'training', 10337, 10337),
    'val': Split(ANNOTATIONS, 'validation', 3492, 3492),
}


class _Segment(NamedTuple):
    """When a clip is, in seconds of its video, and its instruction."""

    start: float
    end: float
    text: str


@DATASETS.register_module()
class YouCook2Dataset(PublishedDataset):
    """YouCook2, a video and a text for each segment.

    Both ids are ``VIDEO_N``, N being the segment's ``id`` in the json. A video has ``start``,
    ``end`` and ``duration`` in seconds; and ``num_frames``, the segment's part of its video's
    frames, where ``yc2_duration_frame.csv`` is there (video, seconds, frames; no header), which the
    log says. Verbs and nouns have no classes: ``classes=dict(type='CaptionClasses', ...)``.

    Args:
        split: 'train' or 'val'.
        ann_root: see :class:`PublishedDataset`.
        **kwargs: of :class:`PublishedDataset`.

    Raises:
        FileNotFoundError: see :class:`PublishedDataset`.
        ValueError: see :class:`PublishedDataset`; a segment that ends before it begins, or after
            its video.
    """

    title = 'YouCook2'
    splits = SPLITS
    layout = f'{ANNOTATIONS}; optionally {FRAMES}'
    example = 'GLd3aX16zBg_0'

    def __init__(self, split: str, *, ann_root: str = 'data/youcook2', **kwargs: Any) -> None:
        super().__init__(split, ann_root=ann_root, **kwargs)

    def read_records(self) -> tuple[Records, Records]:
        """Segments of the split in the json's order, and their instructions."""
        videos, texts = super().read_records()
        rates = self._frame_rates()
        for video in videos:
            segment = self._segments[video['video_id']]
            length = segment.end - segment.start
            video.update(start=segment.start, end=segment.end, duration=length)
            if rates is not None:
                video['num_frames'] = max(1, round(length * rates[_video(video['video_id'])]))
        return videos, texts

    def read_split(self) -> Annotations:
        """Segments of the videos of the split's subset."""
        path = self.file(ANNOTATIONS)
        self._segments = _read_segments(path, self.splits[self.split].source)
        captions = {name: [(name, segment.text)] for name, segment in self._segments.items()}
        return Annotations(path, list(captions), [path], captions)

    def video_record(self, name: str) -> dict[str, Any]:
        """A clip's file is its whole video's."""
        return dict(super().video_record(_video(name)), video_id=name)

    def held_out(self) -> Iterator[tuple[Path, list[str]]]:
        """None: a video of the json is of one subset."""
        return iter(())

    def _frame_rates(self) -> Optional[dict[str, float]]:
        """Frames a second of each video of the split, None if their file is not there."""
        path = self.find(FRAMES)
        log = MMLogger.get_current_instance()
        if path is None:
            path = self.ann_root / FRAMES
            log.info(f'{self.title} {self.split}: no {path}, so no clip has a number of frames.')
            return None
        rates = _read_rates(path)
        lacking = sorted({_video(name) for name in self._segments} - rates.keys())
        if lacking:
            found = f'none of {len(lacking)}, e.g. {shown(lacking[:5])}'
            raise AnnotationError.at((path,), f'the videos of {ANNOTATIONS}', found)
        log.info(f'{self.title} {self.split}: numbers of frames by {path}.')
        return rates


def _video(name: str) -> str:
    """The video of a clip ``VIDEO_N``."""
    return name.rpartition('_')[0]


def _read_segments(path: Path, subset: str) -> dict[str, _Segment]:
    """Segments of a subset by ``VIDEO_N``."""
    segments: dict[str, _Segment] = {}
    database = mapping(read_json(path, 'database')['database'], (path, 'database'))
    for video, entry in database.items():
        where = (path, identifier(video, (path, 'database')))
        mapping(entry, where, 'subset', 'duration', 'annotations')
        annotations = sequence(entry['annotations'], (*where, 'annotations'))
        if string(entry['subset'], (*where, 'subset')) != subset:
            continue
        length = duration(entry['duration'], (*where, 'duration'))
        for n, annotation in enumerate(annotations):
            place = (*where, 'annotations', n)
            number, found = _segment(annotation, length, place)
            if f'{video}_{number}' in segments:
                raise AnnotationError.at((*place, 'id'), 'each id once', f'{number} again')
            segments[f'{video}_{number}'] = found
    return segments


def _segment(annotation: Any, length: float, where: Where) -> tuple[int, _Segment]:
    """The id and the content of an annotation of a video of so many seconds."""
    mapping(annotation, where, 'id', 'sentence', 'segment')
    number = integer(annotation['id'], (*where, 'id'))
    text, start, end = read_moment(annotation['sentence'], annotation['segment'], where)
    if not start < end <= length:
        expected = f'a segment that ends after it begins, within {length} s'
        raise AnnotationError.at((*where, 'segment'), expected, f'{start} to {end} s')
    return number, _Segment(start, end, text)


def _read_rates(path: Path) -> dict[str, float]:
    """Frames a second by video, from lines of video, seconds and frames."""
    rates: dict[str, float] = {}
    for number, row in read_fields(path):
        where = (path, Line(number))
        if len(row) != 3:
            raise AnnotationError.at(where, 'video, seconds and frames', shown(row))
        if identifier(row[0], where) in rates:
            raise AnnotationError.at(where, 'each video once', f'{shown(row[0])} again')
        frames = integer(row[2], (*where, 'frames'), digits=True)
        if frames == 0:
            raise AnnotationError.at((*where, 'frames'), 'at least one frame', '0')
        rates[row[0]] = frames / duration(row[1], (*where, 'seconds'), digits=True)
    return rates
