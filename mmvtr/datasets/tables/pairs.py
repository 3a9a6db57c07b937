"""Pairs of a table's row (a text) and the video file that it refers to."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping, NamedTuple, Optional, Sequence

from mmvtr.datasets.annotation_values import shown
from mmvtr.datasets.problems import Problems
from mmvtr.datasets.records import Records
from mmvtr.datasets.tables.files import Source, Sources, Wanted, file_key
from mmvtr.datasets.tables.rows import Row, refuse


class Pair(NamedTuple):
    """A row of the table: a text of a video.

    Attributes:
        row: the row of the table.
        wanted: the video that it names.
        source: the video that was found; None if it is missing.
        key: key of its file, the same whether it exists or not, and for features.
        name: id of the video, equal for all spellings of it in the table.
        text_id: the table's, or else VIDEO_ID#N.
    """

    row: Row
    wanted: Wanted
    source: Optional[Source]
    key: str
    name: str
    text_id: str

    @property
    def file(self) -> str:
        """Id of the video's file, equal for all spellings of it in the table."""
        return self.source.file if self.source else self.key


def span_of(row: Row) -> str:
    """Return the id suffix of a part of a file; '' for a whole file."""
    if row.start is None and row.end is None:
        return ''
    end = 'end' if row.end is None else f'{row.end:.12g}'
    return f'_{row.start or 0:.12g}_{end}'


def pairs_of(rows: Sequence[Row], sources: Sources, root: Path, problems: Problems) -> list[Pair]:
    """Return a pair for each row.

    Args:
        rows: rows of the whole table.
        sources: location of the videos.
        root: their folder.
        problems: collects names of no video there; their rows are left out.
    """
    videos = [Wanted(row.video, span_of(row)) for row in rows]
    places = {video: row.place for video, row in zip(videos, rows)}
    files = sources.find(places, problems)
    named = {video.name: places[video] for video in files}
    keys = {name: file_key(name, root, place) for name, place in named.items()}
    known = {}  # of each video what its rows share
    for video, source in files.items():
        key = keys[video.name]
        known[video] = video, source, key, source.video_id if source else key + video.span
    pairs, numbers = [], dict.fromkeys((name for *_, name in known.values()), 0)
    for row, video in zip(rows, videos):
        if video in known:
            name = known[video][-1]
            text_id = row.text_id or f'{name}#{numbers[name]}'
            numbers[name] += 1
            pairs.append(Pair(row, *known[video], text_id))
    return pairs


def check_pairs(pairs: Sequence[Pair], problems: Problems, *, divided: bool) -> None:
    """Record rows that contradict an earlier one.

    Args:
        pairs: pairs of the whole table.
        problems: collects the contradictions.
        divided: whether the table has a column of splits.
    """
    texts: dict[str, Row] = {}
    first: dict[tuple[str, str], Row] = {}
    splits: dict[str, Row] = {}
    durations: dict[str, Row] = {}
    for pair in pairs:
        row = pair.row
        if row.text_id is not None and row.text:  # other rows are recorded already
            with problems.of('text_id of two texts'):
                what = f'text_id {shown(row.text_id)} has two texts'
                _check_same(row, texts.setdefault(row.text_id, row), 'text', what)
            with problems.of('text_id twice for a video'):
                _check_once(row, first.setdefault((pair.name, row.text_id), row))
        if divided:
            with problems.of('video of two splits'):
                earlier = splits.setdefault(pair.key, row)
                _check_same(row, earlier, 'split', f'{shown(row.video)} is of two splits')
        if row.duration is not None:
            with problems.of('video of two durations'):
                earlier = durations.setdefault(pair.file, row)
                _check_same(row, earlier, 'duration', f'{shown(row.video)} has two durations')


def repeated(pairs: Sequence[Pair]) -> list[str]:
    """Return a description of each row that repeats another's video and text; people may agree."""
    first: dict[tuple[str, str], Row] = {}
    differing = []
    for pair in pairs:
        row = pair.row
        earlier = first.setdefault((pair.name, row.text), row)
        if earlier is not row and row.text:
            what = f'{shown(row.video, 40)}, {shown(row.text, 60)}'
            differing.append(f'{row.place.inside} as {earlier.place.inside}: {what}')
    return differing


def _check_once(row: Row, first: Row) -> None:
    if first is not row:
        what = f'text_id {shown(row.text_id)} stands twice for {shown(row.video)}'
        refuse(row.place, what, 'one row of each text and video', row.text)


def _check_same(row: Row, first: Row, key: str, what: str) -> None:
    here, there = getattr(row, key), getattr(first, key)
    if here != there:
        value = f'{there:g}' if isinstance(there, float) else shown(there)
        refuse(row.place, what, f'{value} as in {first.place.inside}', here)


def make_videos(pairs: Sequence[Pair], seconds: Mapping[str, tuple[float, float]]) -> Records:
    """Return video records in the order of their first rows.

    Args:
        pairs: pairs whose videos exist.
        seconds: begin and end of the pictures of whole files, as far as known.
    """
    first: dict[str, Pair] = {}
    for pair in pairs:
        first.setdefault(pair.source.video_id, pair)
    return [_video(pair, seconds.get(pair.source.file)) for pair in first.values()]


def make_texts(pairs: Sequence[Pair]) -> Records:
    """Return text records; rows with one id are one text of several videos.

    Args:
        pairs: pairs whose videos exist.
    """
    place = {name: v for v, name in enumerate(dict.fromkeys(pair.name for pair in pairs))}
    texts: dict[str, dict[str, Any]] = {}
    for pair in pairs:
        name, v = pair.text_id, place[pair.name]
        if name in texts:
            texts[name]['video_idx'].append(v)
        else:
            texts[name] = dict(text_id=name, text=pair.row.text, video_idx=[v])
    return list(texts.values())


def _video(pair: Pair, seconds: Optional[tuple[float, float]]) -> dict[str, Any]:
    row, source = pair.row, pair.source
    begin, end = row.start or 0.0, row.end
    if seconds is not None:
        begin = max(begin, seconds[0])
        end = seconds[1] if end is None else min(end, seconds[1])
    record = dict(
        video_id=source.video_id,
        path=source.path,
        start=row.start,
        end=row.end,
        begin=begin if begin > (row.start or 0.0) else None,  # the pictures begin late
        duration=None if end is None else end - begin,
    )
    return {key: value for key, value in record.items() if value is not None}
