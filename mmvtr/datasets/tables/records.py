"""From pairs of a text and a video to the records of a dataset."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Sequence

from mmvtr.datasets.records import Records
from mmvtr.datasets.tables.pairs import Pair


def make_videos(pairs: Sequence[Pair], seconds: Mapping[str, tuple[float, float]]) -> Records:
    """Return video records in the order of their first rows.

    Args:
        pairs: whose videos are there.
        seconds: at which the pictures of whole files begin and end, as far as known.
    """
    first: dict[str, Pair] = {}
    for pair in pairs:
        first.setdefault(pair.source.video_id, pair)
    return [_video(pair, seconds.get(pair.source.file)) for pair in first.values()]


def make_texts(pairs: Sequence[Pair]) -> Records:
    """Return text records; rows with one id are one text of several videos.

    Args:
        pairs: with ids of the texts, whose videos are there.
    """
    place = {name: v for v, name in enumerate(dict.fromkeys(p.source.video_id for p in pairs))}
    texts: dict[str, dict[str, Any]] = {}
    for pair in pairs:
        row, v = pair.row, place[pair.source.video_id]
        text = dict(text_id=row.text_id, text=row.text, video_idx=[])
        texts.setdefault(row.text_id, text)['video_idx'].append(v)
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
        begin=begin if begin > (row.start or 0.0) else None,  # the picture comes late
        duration=None if end is None else end - begin,
    )
    return {key: value for key, value in record.items() if value is not None}
