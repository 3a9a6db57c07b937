"""QVHighlights: human saliency ratings of parts of videos for a text; Moment-DETR's metrics."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping, NamedTuple, Sequence, Union

import numpy as np
import torch
from torch import Tensor

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

#: Duration of a rated part in seconds, and the highest rating.
SECONDS, HIGHEST = 2, 4


class Highlights(NamedTuple):
    """The ratings that P annotators gave the C parts of a video for one text.

    Attributes:
        query_id: id of the text.
        text: the query.
        video_id: 'NUsG9BgSes0_210.0_360.0': YouTube's id, and start and end in seconds.
        duration: seconds.
        grades: int64 [C, P], 0 to 4, for parts of two seconds; 0 outside the annotated moment.
    """

    query_id: str
    text: str
    video_id: str
    duration: float
    grades: np.ndarray


def read_highlights(path: Union[str, Path]) -> list[Highlights]:
    """Read the human ratings in ``highlight_*.jsonl`` of QVHighlights (Lei et al., NeurIPS 2021).

    Raises:
        FileNotFoundError: no such file.
        ValueError: a malformed line, a grade out of range, a part beyond the video or listed twice,
            a query listed twice; no lines.
    """
    rows = read_json_lines(Path(path))
    if not rows:
        raise ValueError(f'{path} has no line')
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
        raise wrong(place, 'saliency_scores for each of the relevant_clip_ids, equally many', rated)
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


#: Lowest grade that counts as a highlight, by the papers' names.
LEVELS = dict(fair=2, good=3, very_good=4)


def highlight_figures(
    scores: Mapping[str, Sequence[float]], grades: Mapping[str, Sequence[Sequence[int]]]
) -> dict[str, float]:
    """Return mAP and HIT@1 of highlights, in percent, at each grade threshold (Moment-DETR).

    Each annotator's highlights are the parts that they gave the threshold or more.  mAP is the mean
    of :func:`interpolated_precision` over annotators and queries; an annotator without highlights
    counts 0.  HIT@1 is the percentage of queries whose top part is a highlight for some annotator;
    among tied parts the earliest is the top one.  Papers report ``very_good``.

    As in Moment-DETR's code, parts without a score get 0, and scores beyond the rated parts are
    ignored, except for HIT@1, where such a top part is wrong.

    Args:
        scores: by query, the scores of the parts of its video in order.
        grades: by query, int [C, P], see :func:`read_highlights`.

    Returns:
        ``<level>_map`` and ``<level>_hit1`` for the levels of :data:`LEVELS`.

    Raises:
        ValueError: no queries, a query in only one of the two, no scores, a NaN.
    """
    if not grades or scores.keys() != grades.keys():
        few = sorted(map(str, scores.keys() ^ grades.keys()))[:5]
        raise ValueError(
            f'scores must be given for the graded queries and no others, which differ in {few}'
        )
    found: dict[str, list[Tensor]] = {}
    for query, rated in grades.items():
        given = torch.as_tensor(scores[query], dtype=torch.float64)
        if given.ndim != 1 or not len(given):
            raise ValueError(f'query {query!r}: expected one score for each part')
        if given.isnan().any():
            raise ValueError(f'query {query!r}: a score is NaN')
        for name, value in _of_query(given, torch.as_tensor(rated)).items():
            found.setdefault(name, []).append(value)
    return {name: 100 * float(torch.stack(values).mean()) for name, values in found.items()}


def _of_query(given: Tensor, rated: Tensor) -> dict[str, Tensor]:
    fitted = given.new_zeros(len(rated))
    both = min(len(given), len(rated))
    fitted[:both] = given[:both]
    first, found = int(given.argmax()), {}
    for name, least in LEVELS.items():
        good = rated >= least
        each = [interpolated_precision(fitted, good[:, person]) for person in range(good.shape[1])]
        found[f'{name}_map'] = torch.stack(each).mean()
        hit = first < len(rated) and bool(good[first].any())
        found[f'{name}_hit1'] = given.new_tensor(float(hit))
    return found


def interpolated_precision(scores: Tensor, relevant: Tensor) -> Tensor:
    """Return the average precision of one ranked list as defined by QVHighlights and Video2GIF.

    The thresholds are the distinct scores of relevant parts.  The precision at a threshold is the
    maximum over it and all lower scores; the mean is over thresholds, so relevant parts with equal
    scores count once (Lei et al., NeurIPS 2021; Gygli et al., CVPR 2016).

    Args:
        scores: float [C], higher is more relevant.
        relevant: bool [C].

    Example:
        ::

            >>> relevant = torch.tensor([True, False, True])
            >>> interpolated_precision(torch.tensor([.9, .8, .7]), relevant)
            tensor(0.8333, dtype=torch.float64)

    Returns:
        0-dim float64 in [0, 1]; 0 where no part is relevant.

    Raises:
        ValueError: no parts, lengths that differ, or a NaN.
    """
    if scores.ndim != 1 or scores.shape != relevant.shape or not len(scores):
        raise ValueError(
            f'scores {list(scores.shape)} and relevant {list(relevant.shape)}: expected one of '
            'each for each part'
        )
    if scores.isnan().any():
        raise ValueError('a score is NaN')
    levels, group = scores.unique(return_inverse=True)  # ascending
    found = torch.zeros(2, len(levels), dtype=torch.float64, device=scores.device)
    found[0].index_add_(0, group, relevant.double())
    found[1].index_add_(0, group, torch.ones_like(relevant, dtype=torch.float64))
    right, taken = found.flip(1).cumsum(1).flip(1)
    best = (right / taken).cummax(0).values
    own = found[0] > 0
    return best[own].mean() if own.any() else right.new_zeros(())
