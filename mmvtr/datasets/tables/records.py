"""From the rows of a table, and the files that they mean, to the records of a dataset."""

from __future__ import annotations

import itertools
from typing import Any, Iterator, Mapping, NamedTuple, Optional, Sequence

from mmvtr.datasets.annotation_values import shown
from mmvtr.datasets.tables.files import Source, Wanted
from mmvtr.datasets.tables.rows import Row, refuse


class Pair(NamedTuple):
    """A text of a video.

    Attributes:
        row: what the table says.
        wanted: the video that it names.
        source: the video itself; None if it is missing.
        key: of its file, the same whether it is there or not, and for features.
    """

    row: Row
    wanted: Wanted
    source: Optional[Source]
    key: str

    @property
    def name(self) -> str:
        """Of the video, the same however the table writes it."""
        return self.key + self.wanted.span


def span_of(row: Row) -> str:
    """What the id of a part of a file ends in; '' of a whole file."""
    if row.start is None and row.end is None:
        return ''
    end = 'end' if row.end is None else f'{row.end:.12g}'
    return f'_{row.start or 0:.12g}_{end}'


def check_division(pairs: Sequence[Pair]) -> None:
    """Raise ValueError, with the row, where a file is of two splits."""
    first: dict[str, Row] = {}
    for pair in pairs:
        row, one = pair.row, first.setdefault(pair.key, pair.row)
        if one.split != row.split:
            expected = f'{shown(one.split)} as in {one.place.inside}'
            refuse(row.place, f'{shown(row.video)} is of two splits', expected, row.split)


def told_durations(pairs: Sequence[Pair]) -> dict[str, float]:
    """Seconds of whole files by the table; ValueError where it says two of one file."""
    first: dict[str, Row] = {}
    for pair in pairs:
        row = pair.row
        if row.duration is None:
            continue
        one = first.setdefault(pair.source.file, row)
        if one.duration != row.duration:
            expected = f'{one.duration:g} as in {one.place.inside}'
            refuse(row.place, f'{shown(row.video)} has two durations', expected, row.duration)
    return {file: row.duration for file, row in first.items()}


def with_text_ids(pairs: Sequence[Pair]) -> list[Pair]:
    """The same pairs, all of whose texts have ids: the table's, or else VIDEO_ID#N."""
    numbers: dict[str, Iterator[int]] = {}
    named = []
    for pair in pairs:
        video_id = pair.source.video_id if pair.source else pair.name
        number = next(numbers.setdefault(video_id, itertools.count()))
        text_id = pair.row.text_id or f'{video_id}#{number}'
        named.append(pair._replace(row=pair.row._replace(text_id=text_id)))
    return named


def make_videos(pairs: Sequence[Pair], seconds: Mapping[str, float]) -> list[dict[str, Any]]:
    """Records of the videos in the order of their first rows.

    Args:
        pairs: whose videos are there.
        seconds: of whole files, as far as known.
    """
    first: dict[str, Pair] = {}
    for pair in pairs:
        first.setdefault(pair.source.video_id, pair)
    return [_video(pair, seconds.get(pair.source.file)) for pair in first.values()]


def make_texts(pairs: Sequence[Pair]) -> list[dict[str, Any]]:
    """Records of the texts; rows of one id are one text of several videos.

    Args:
        pairs: with ids of the texts, whose videos are there.

    Raises:
        ValueError: another text of an id, or an id twice for a video; names the row.
    """
    place = {name: v for v, name in enumerate(dict.fromkeys(p.source.video_id for p in pairs))}
    texts: dict[str, dict[str, Any]] = {}
    first: dict[str, Row] = {}
    for pair in pairs:
        row, text_id, v = pair.row, pair.row.text_id, place[pair.source.video_id]
        one = first.setdefault(text_id, row)
        text = texts.setdefault(text_id, dict(text_id=text_id, text=row.text, video_idx=[]))
        if text['text'] != row.text:
            expected = f'{shown(one.text)} as in {one.place.inside}'
            refuse(row.place, f'text_id {shown(text_id)} has two texts', expected, row.text)
        if v in text['video_idx']:
            what = f'text_id {shown(text_id)} stands twice for {shown(row.video)}'
            refuse(row.place, what, 'one row of each text and video', row.text)
        text['video_idx'].append(v)
    return list(texts.values())


def _video(pair: Pair, seconds: Optional[float]) -> dict[str, Any]:
    row, source = pair.row, pair.source
    start, end = row.start or 0.0, row.end
    if seconds is not None:
        end = seconds if end is None else min(end, seconds)
        if start >= end:
            what = f'the clip begins after {shown(row.video)} has ended'
            refuse(row.place, what, f"'start' below {seconds:g}", row.start)
    record = dict(
        video_id=source.video_id,
        path=source.path,
        start=row.start,
        end=row.end,
        duration=None if end is None else end - start,
    )
    return {key: value for key, value in record.items() if value is not None}
