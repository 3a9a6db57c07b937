"""From rows of an extraction to the vectors of a gallery."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any, Iterator, Mapping, NamedTuple, Optional, Union

import numpy as np
from torch import nn

from mmvtr.apis import origin_of
from mmvtr.extraction.parts import Parts

#: File in the folder of rows that says of which model and which input they are.
ORIGIN = 'origin.txt'


class Vectors(NamedTuple):
    """Those of N videos, none of them broken.

    Attributes:
        ids: N of them.
        vectors: float32 [N, D].
        paths: of their files.
        starts, ends: seconds, None = of the whole file.
    """

    ids: list[str]
    vectors: np.ndarray
    paths: list[Optional[str]]
    starts: list[Optional[float]]
    ends: list[Optional[float]]


def listed_videos(path: Union[str, Path]) -> list[dict[str, Any]]:
    """Videos of a csv with a header: ``id``, ``path`` and, in seconds, ``start`` and ``end``.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: a column is missing or unknown, an id is empty or occurs twice, a time is no
            number; names the line.
    """
    with open(path, newline='', encoding='utf-8') as file:
        reader = csv.DictReader(file)
        names = set(reader.fieldnames or ())
        if not {'id', 'path'} <= names <= {'id', 'path', 'start', 'end'}:
            raise ValueError(
                f'{path}: the columns id and path are expected, start and end possible; found '
                f'{str(reader.fieldnames)[:80]}'
            )
        records, seen = [], set()
        for row in reader:
            where = f'{path}, line {reader.line_num}'
            if not row['id'] or not row['path'] or row['id'] in seen:
                raise ValueError(f'{where}: id {str(row["id"])[:80]!r} is empty or occurs twice')
            seen.add(row['id'])
            try:
                times = {k: float(row[k]) for k in ('start', 'end') if row.get(k)}
            except ValueError as error:
                raise ValueError(f'{where}: seconds expected, {error}') from None
            records.append(dict(id=row['id'], path=row['path'], **times))
    if not records:
        raise ValueError(f'{path} lists no video')
    return records


def stored_vectors(
    folder: Union[str, Path], model: nn.Module, videos: Mapping[str, Mapping[str, Any]]
) -> Iterator[Vectors]:
    """The vectors in a folder of rows, file by file; those of broken videos are left out.

    Args:
        folder: what ``tools/extract_features.py --format parquet`` wrote.
        model: that these are to be of.
        videos: by id, their ``path``, ``start`` and ``end``.

    Raises:
        FileNotFoundError: no such folder of rows.
        RuntimeError: a damaged file.
        ValueError: rows of another model, rows without vectors, or of a video that is not among
            ``videos``.
    """
    folder = Path(folder)
    if not (folder / ORIGIN).is_file():
        raise FileNotFoundError(f'{folder} holds no rows of an extraction: {ORIGIN} is missing')
    said, own = (folder / ORIGIN).read_text().split('\n')[0], origin_of(model)
    if said != own:
        raise ValueError(f'{folder} holds rows of {said}, the checkpoint is {own}')
    for table in Parts(folder).tables(columns=['id', 'mean', 'error']):
        rows = [row for row in table.to_pylist() if row['error'] is None]
        for row in rows:
            if row['mean'] is None:
                raise ValueError(f'{folder}: the row of {row["id"]!r} has features and no vector')
            if row['id'] not in videos:
                raise ValueError(f'{folder}: the video {row["id"]!r} is not in the list of videos')
        if rows:
            known = [videos[row['id']] for row in rows]
            yield Vectors(
                [row['id'] for row in rows],
                np.array([row['mean'] for row in rows], np.float32),
                *([video.get(key) for video in known] for key in ('path', 'start', 'end')),
            )
