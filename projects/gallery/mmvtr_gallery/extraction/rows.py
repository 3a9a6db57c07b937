"""Read extracted rows as the vectors of a gallery."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Iterator, Mapping, NamedTuple, Optional, Union

import numpy as np
from torch import nn

from mmvtr.apis import origin_of
from mmvtr.datasets.annotation_values import Place, name_of, problem, shown
from mmvtr.datasets.folders import spelt_as_there
from mmvtr.datasets.problems import Problems
from mmvtr.datasets.tables.rows import name_in, read_raw, times_in
from mmvtr_gallery.extraction.parts import Parts

#: File in the folder of rows that names their model and input pipeline.
ORIGIN = 'origin.txt'


class Vectors(NamedTuple):
    """The vectors of N videos, none of them broken.

    Attributes:
        ids: N ids.
        vectors: float32 [N, D].
        paths: N video files.
        starts, ends: seconds; None = the whole file.
    """

    ids: list[str]
    vectors: np.ndarray
    paths: list[Optional[str]]
    starts: list[Optional[float]]
    ends: list[Optional[float]]


def listed_videos(path: Union[str, Path]) -> list[dict[str, Any]]:
    """Read a csv with a header: ``id``, ``path`` and, in seconds, ``start`` and ``end``.

    It is read by :func:`mmvtr.datasets.tables.rows.read_raw`, so it may also be a .jsonl or
    .parquet file.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a column is missing, unknown or occurs twice; rows whose id or path is empty,
            whose id occurs twice, or whose times are invalid. Names the lines.
    """
    path = Path(path)
    problems = Problems(name_of(path))
    rows = read_raw(path, problems)
    names = list(dict.fromkeys(name for _, row in rows for name in row))
    if rows and not {'id', 'path'} <= set(names) <= {'id', 'path', 'start', 'end'}:
        raise problem(
            Place(path),
            f'expected the columns id and path, and maybe start and end, found {shown(names)}',
        )
    records, first = [], {}
    for place, row in rows:
        record = times = None
        with problems.of('empty or unfit id or path'):
            record = _named(row, place)
        with problems.of('invalid time'):
            times = times_in(row, place)
        if record is None or times is None:
            continue
        with problems.of('id that occurs twice'):
            one = first.setdefault(record['id'], place)
            if one is not place:
                what = f'id {shown(record["id"])} occurs twice, the first is {one.inside}'
                raise problem(place, what)
        spans = {key: times[key] for key in ('start', 'end') if times[key] is not None}
        records.append(dict(record, **spans))
    problems.refuse()
    return records


def _named(row: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """Return id and path of a row."""
    record = {key: name_in(row, key, place) for key in ('id', 'path')}
    try:
        return dict(record, path=spelt_as_there(record['path']))
    except ValueError as error:
        raise problem(place, str(error)) from error


def stored_vectors(
    folder: Union[str, Path], model: nn.Module, videos: Mapping[str, Mapping[str, Any]]
) -> Iterator[Vectors]:
    """Yield the vectors in a folder of rows, file by file, without broken videos.

    Args:
        folder: what ``mmvtr extract_features --format parquet`` wrote.
        model: the model that must have made them.
        videos: ``path``, ``start`` and ``end`` of each video, by id.

    Raises:
        FileNotFoundError: no such folder of rows.
        RuntimeError: a damaged file.
        ValueError: rows of another model, rows without vectors, or a video that is not among
            ``videos``.
    """
    folder = Path(folder)
    if not (folder / ORIGIN).is_file():
        raise FileNotFoundError(f'{folder} holds no rows of an extraction: {ORIGIN} is missing')
    said, own = (folder / ORIGIN).read_text().split('\n')[0], origin_of(model)
    if said != own:
        raise ValueError(f'{folder} holds rows of {said}, but the checkpoint is {own}')
    for table in Parts(folder).tables(columns=['id', 'mean', 'error']):
        rows = [row for row in table.to_pylist() if row['error'] is None]
        for row in rows:
            if row['mean'] is None:
                raise ValueError(f'{folder}: the row of {row["id"]!r} has features, but no vector')
            if row['id'] not in videos:
                raise ValueError(f'{folder}: the video {row["id"]!r} is not in the list of videos')
        if rows:
            known = [videos[row['id']] for row in rows]
            yield Vectors(
                [row['id'] for row in rows],
                np.array([row['mean'] for row in rows], np.float32),
                *([video.get(key) for video in known] for key in ('path', 'start', 'end')),
            )
