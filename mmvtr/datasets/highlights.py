"""People's grades of the parts of a video for a text: QVHighlights' files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, Union

import numpy as np

from mmvtr.datasets.annotation_files import read_json_lines
from mmvtr.datasets.annotation_values import (
    Place,
    duration,
    field,
    identifier,
    listing,
    number,
    string,
    unique,
    wrong,
)
from mmvtr.registry import TASK_UTILS

#: Seconds of a graded part, and the highest grade.
SECONDS, HIGHEST = 2, 4


class Highlights(NamedTuple):
    """What P people say of the C parts of a video for one text.

    Attributes:
        query_id: of the text.
        text: as it was written.
        video_id: 'NUsG9BgSes0_210.0_360.0': YouTube's id, and seconds of its file.
        duration: seconds.
        grades: int64 [C, P], 0 to 4, of parts of two seconds; 0 of those outside of the moment.
    """

    query_id: str
    text: str
    video_id: str
    duration: float
    grades: np.ndarray


@TASK_UTILS.register_module()
def read_highlights(path: Union[str, Path]) -> list[Highlights]:
    """``highlight_*.jsonl`` of QVHighlights (Lei et al., NeurIPS 2021): grades of three people.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a line of another form, a grade out of range, a part beyond the video or twice,
            a query twice; no lines.
    """
    rows = read_json_lines(Path(path))
    if not rows:
        raise ValueError(f'{path} holds no line')
    found = [_read(entry, place) for place, entry in rows]
    unique(((one.query_id, place) for one, (place, _) in zip(found, rows)), 'qid')
    return found


def _read(entry: dict[str, Any], place: Place) -> Highlights:
    length = field(entry, 'duration', duration, place)
    parts = [number(x, place) for x in field(entry, 'relevant_clip_ids', listing, place)]
    rated = [_grades(x, place) for x in field(entry, 'saliency_scores', listing, place)]
    grades = np.zeros((int(length / SECONDS), len(rated[0]) if rated else 3), np.int64)
    if len(parts) != len(set(parts)) or not all(0 <= part < len(grades) for part in parts):
        raise wrong(place, f'different relevant_clip_ids from 0 to {len(grades) - 1}', parts)
    if len(rated) != len(parts) or any(len(row) != grades.shape[1] for row in rated):
        raise wrong(place, 'saliency_scores of each of the relevant_clip_ids by as many', rated)
    if parts:
        grades[parts] = rated
    name = str(field(entry, 'qid', number, place))
    texts = field(entry, 'query', string, place), field(entry, 'vid', identifier, place)
    return Highlights(name, *texts, length, grades)


def _grades(value: Any, place: Place) -> list[int]:
    grades = [number(x, place) for x in listing(value, place)]
    if not grades or not all(0 <= grade <= HIGHEST for grade in grades):
        raise wrong(place, f'grades of 0 to {HIGHEST}', value)
    return grades
