"""Existence of the files that a table refers to: missing ones, broken ones, and their times."""

from __future__ import annotations

from typing import NamedTuple, Optional, Sequence

from mmvtr.datasets.annotation_values import cut, shown
from mmvtr.datasets.folders import visible
from mmvtr.datasets.problems import Problems
from mmvtr.datasets.records import Records
from mmvtr.datasets.tables.pairs import Pair, make_videos
from mmvtr.datasets.tables.rows import refuse
from mmvtr.datasets.videos.video_files import pictures_span
from mmvtr.datasets.videos.video_io import BrokenVideoError


class Seen(NamedTuple):
    """The files found for some pairs.

    Attributes:
        here: pairs whose videos exist.
        gone: the first pair of each missing video, by name.
        videos: number of videos, including missing ones.
        files: number of files opened.
        seconds: begin and end of the pictures of whole files, as far as known.
        broken: names and reasons of files that are not videos.
    """

    here: list[Pair]
    gone: dict[str, Pair]
    videos: int
    files: int
    seconds: dict[str, tuple[float, float]]
    broken: list[str]

    def __add__(self, other: Seen) -> Seen:
        """Return the union with another one that shares no file."""
        return Seen(
            self.here + other.here,
            {**self.gone, **other.gone},
            self.videos + other.videos,
            self.files + other.files,
            {**self.seconds, **other.seconds},
            self.broken + other.broken,
        )

    def videos_there(self) -> Records:
        """Return records of the videos found, without clips that lie outside of their file."""
        records = make_videos(self.here, self.seconds)
        return [record for record in records if record.get('duration', 1) > 0]


def look(pairs: Sequence[Pair], problems: Problems, *, seconds: bool) -> Seen:
    """Return which files exist and how long they are.

    Args:
        pairs: pairs of a split, or of the whole table.
        problems: collects clips that contain no picture of their file.
        seconds: open the files whose duration the table does not state.
    """
    gone: dict[str, Pair] = {}
    for pair in pairs:
        if pair.source is None:
            gone.setdefault(pair.name, pair)
    here = [pair for pair in pairs if pair.source is not None]
    durations = [(pair.source.file, pair.row.duration) for pair in here]
    spans = {file: (0.0, duration) for file, duration in durations if duration is not None}
    paths = {pair.source.file: pair.source.path for pair in here if pair.source.path}
    paths = paths if seconds else {}
    broken = []
    for file in [file for file in paths if file not in spans]:
        try:
            spans[file] = pictures_span(paths[file])
        except (BrokenVideoError, OSError) as error:
            broken.append(visible(cut(str(error), 120)))
    for pair in {pair.name: pair for pair in reversed(here)}.values():
        with problems.of('clip without pictures of its file'):
            _check_times(pair, *spans.get(pair.source.file, (None, None)))
    videos = len({pair.name for pair in here}) + len(gone)
    return Seen(here, gone, videos, len(paths), spans, broken)


def _check_times(pair: Pair, begin: Optional[float], end: Optional[float]) -> None:
    """Raise ValueError, with the row, if a clip contains no picture of its file."""
    row = pair.row
    if end is not None and (row.start or 0.0) >= end:
        what = f'the clip begins after {shown(row.video)} has ended'
        refuse(row.place, what, f"'start' below {end:g}", row.start)
    if begin is not None and row.end is not None and row.end <= begin:
        what = f'the clip ends before {shown(row.video)} shows its first picture'
        refuse(row.place, what, f"'end' above {begin:g}", row.end)
