"""Checks and statistics of lists of video and text records."""

from __future__ import annotations

import hashlib
import math
from typing import Any, Literal, Optional, Sequence

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from mmvtr.datasets.annotation_values import (
    Place,
    caption,
    mapping,
    present,
    problem,
    shown,
    string,
    unique,
    wrong,
)
from mmvtr.functional.values import check_one_of

Records = list[dict[str, Any]]
Unit = Literal['frames', 'seconds']
#: Keys of times in seconds.
TIMES = frozenset(('start', 'end', 'duration'))
#: Key of a video record that holds its length, by unit.
LENGTHS = dict(frames='num_frames', seconds='duration')


def keep(videos: Records, texts: Records, stay: Sequence[int]) -> tuple[Records, Records]:
    """Return the videos at positions ``stay`` and their texts, renumbered from 0."""
    place = {v: new for new, v in enumerate(stay)}
    for text in texts:
        text['video_idx'] = [place[v] for v in text['video_idx'] if v in place]
    return [videos[v] for v in stay], [text for text in texts if text['video_idx']]


def ids_hash(videos: Records, texts: Records) -> str:
    """Return 8 hex digits of a hash of a set's ids, in order; it identifies the set in results."""
    ids = '\n'.join([v['video_id'] for v in videos] + [t['text_id'] for t in texts])
    return hashlib.sha256(ids.encode()).hexdigest()[:8]


def lengths(videos: Records, unit: Unit, name: str) -> np.ndarray:
    """Return the videos' lengths, float64 [V], in native frames or in seconds.

    Args:
        videos: records.
        unit: unit of the lengths.
        name: name of the caller, for errors.

    Raises:
        ValueError: another unit, or a video of unknown length (names its id).
    """
    check_one_of(LENGTHS, unit=unit)
    key = LENGTHS[unit]
    unknown = [video['video_id'] for video in videos if key not in video]
    if unknown:
        raise ValueError(
            f'{name}: {len(unknown)} of {len(videos)} videos have no known length in {unit}, e.g. '
            f'{shown(unknown[:5])}'
        )
    return np.array([video[key] for video in videos], dtype=np.float64)


def environments_of(videos: Records, place: Place) -> Optional[np.ndarray]:
    """Return the ``environment`` of each video, int64 [V]; None if there are none.

    Raises:
        ValueError: only some videos have one.
    """
    groups = [video['environment'] for video in videos if 'environment' in video]
    if 0 < len(groups) < len(videos):
        raise problem(place, f'{len(groups)} of {len(videos)} videos have an environment, not all')
    return np.array(groups, dtype=np.int64) if groups else None


def class_table(records: Records, kind: str) -> torch.Tensor:
    """Return the classes of each record, int64 [N, A], padded with -1."""
    rows = [torch.tensor(record['classes'][kind], dtype=torch.int64) for record in records]
    return pad_sequence(rows, batch_first=True, padding_value=-1)


def moment_ratio(text: dict[str, Any], videos: Records) -> float:
    """Return a text's moment length over its video's length; NaN if unknown."""
    video = videos[text['video_idx'][0]]
    if len(text['video_idx']) > 1 or 'start' not in text or 'duration' not in video:
        return math.nan
    ratio = (text['end'] - text['start']) / video['duration']
    return round(ratio, 9)  # absorbs floating-point error: a fifth is .2


def texts_of(texts: Records, num_videos: int) -> list[list[int]]:
    """Return the text indices of each video."""
    by_video: list[list[int]] = [[] for _ in range(num_videos)]
    for t, text in enumerate(texts):
        for v in text['video_idx']:
            by_video[v].append(t)
    return by_video


def check_records(videos: Records, texts: Records, place: Place) -> None:
    """Raise ValueError unless records are as :meth:`.VideoTextDataset.load_annotations` says."""
    for kind, records in (('video', videos), ('text', texts)):
        for n, record in enumerate(records):
            try:
                _check_record(kind, record, place)
            except ValueError:  # a place is made only when there is an error
                _check_record(kind, record, place.at(f'{kind} {n}'))
        check_ids(kind, records, place)
    check_texts(texts, len(videos), place)


def _check_record(kind: str, record: Any, place: Place) -> None:
    mapping(record, place)
    for key in ('video_id',) if kind == 'video' else ('text_id', 'text', 'video_idx'):
        present(record, key, place)
    for key in TIMES & record.keys():
        _seconds(record[key], place.at(key))
    if kind == 'text' and ('start' in record) != ('end' in record):
        raise problem(place, "has one of 'start' and 'end', expected both or none")
    if 'start' in record and 'end' in record and record['end'] <= record['start']:
        raise problem(place, f'ends at {record["end"]} s, before its start at {record["start"]} s')


def _seconds(value: Any, place: Place) -> None:
    numeric = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not numeric or not math.isfinite(value):
        raise wrong(place, 'a number of seconds', value)


def check_ids(kind: str, records: Records, place: Place) -> None:
    """Raise ValueError if an id is not a string or is repeated; the message names both places."""
    try:
        distinct = len({string(record[f'{kind}_id'], place) for record in records})
    except ValueError:
        distinct = -1
    if distinct < len(records):  # places are made only when there is an error
        rows = ((record[f'{kind}_id'], place.at(f'{kind} {n}')) for n, record in enumerate(records))
        unique(((string(name, row), row) for name, row in rows), kind)


def check_texts(texts: Records, num_videos: int, place: Place) -> None:
    """Raise ValueError if a text is not a valid caption or refers to no existing video."""
    for n, text in enumerate(texts):
        try:
            _check_text(text, num_videos, place)
        except ValueError:  # a place is made only when there is an error
            _check_text(text, num_videos, place.at(f'text {n} ({text["text_id"]!r})'))


def _check_text(text: dict[str, Any], num_videos: int, place: Place) -> None:
    caption(text['text'], place)
    places = text['video_idx']
    whole = isinstance(places, (list, tuple)) and all(
        isinstance(v, (int, np.integer)) and not isinstance(v, bool) for v in places
    )
    if not whole:
        expected = 'a list of whole numbers, positions in the list of videos'
        raise wrong(place.at('video_idx'), expected, places)
    if not text['video_idx']:
        raise problem(place, 'belongs to no video')
    unknown = [v for v in text['video_idx'] if not 0 <= v < num_videos]
    if unknown:
        raise problem(place, f'belongs to video {unknown[0]}, but there are {num_videos}')
