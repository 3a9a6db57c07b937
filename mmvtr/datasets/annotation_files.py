"""Annotation files as they are found in the wild, read strictly.

Published csv lists come back from spreadsheets with other separators; a row that does not fit its
header is an error that names the line, never a shifted column.  Rows come with their place, so that
whoever reads their values can name it (:mod:`mmvtr.datasets.annotation_values`).
"""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from pathlib import Path
from typing import Any, Iterator, Sequence

from mmvtr.datasets.annotation_values import (
    Place,
    identifier,
    mapping,
    once,
    present,
    problem,
    shown,
    wrong,
)


def read_text(path: Path) -> str:
    """All of a UTF-8 file, line ends as they are, without a mark at its beginning.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not UTF-8.
    """
    try:
        with open(path, encoding='utf-8-sig', newline='') as file:
            return file.read()
    except UnicodeDecodeError as error:
        raise problem(Place(path), f'no UTF-8: {error.reason} at byte {error.start}') from error


def read_table(path: Path, columns: Sequence[str]) -> list[tuple[Place, dict[str, str]]]:
    """Read a csv file with a header; commas, semicolons or tabs, any line ends, UTF-8.

    Args:
        path: the file.
        columns: columns that it must have, each once.

    Returns:
        Place and values of each row: all columns of the file, without surrounding space.

    Raises:
        FileNotFoundError: no such file.
        ValueError: no UTF-8, no csv (a quote that does not end, a field of more than 131,072
            characters), a column that is missing, a row of more or fewer fields than the header.
    """
    text = read_text(path)
    header = io.StringIO(text, newline='').readline()
    rows = _csv_rows(path, text, max(',;\t', key=header.count))
    place, found = next(rows, (Place(path), []))
    unfit = [column for column in columns if found.count(column) != 1]
    if unfit:
        raise wrong(place, f'columns {unfit}, each once', found)
    table = []
    for place, row in rows:
        if len(row) != len(found):
            raise wrong(place, f'{len(found)} fields, as the header has', row)
        table.append((place, dict(zip(found, (value.strip() for value in row)))))
    return table


def read_bare_table(path: Path, width: int) -> list[tuple[Place, list[str]]]:
    """Read a csv file without a header: place and ``width`` values of each row.

    Raises:
        FileNotFoundError: no such file.
        ValueError: as of :func:`read_table`; a row of another width.
    """
    rows = list(_csv_rows(path, read_text(path), ','))
    for place, row in rows:
        if len(row) != width:
            raise wrong(place, f'{width} fields', row)
    return rows


def read_json(path: Path, keys: Sequence[str]) -> dict[str, Any]:
    """Read a json object that must have ``keys``.

    Raises:
        FileNotFoundError: no such file.
        ValueError: no json object, a key is missing, or stands twice in any object of the file.
    """
    content = mapping(_parse(read_text(path), Place(path)), Place(path))
    for key in keys:
        present(content, key, Place(path))
    return content


def read_rows(path: Path) -> list[tuple[Place, dict[str, Any]]]:
    """Read a json list of objects, each with its place.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not json, not a list of objects, or a key stands twice in one of them.
    """
    rows = _parse(read_text(path), Place(path))
    if not isinstance(rows, list):
        raise wrong(Place(path), 'a list of objects', rows)
    places = (Place(path, f'entry {number}') for number in range(len(rows)))
    return [(place, mapping(row, place)) for place, row in zip(places, rows)]


def read_json_lines(path: Path) -> list[tuple[Place, dict[str, Any]]]:
    """Read a file of one json object a line, as :func:`read_rows`; empty lines do not count.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a line that is no json object, or has a key twice.
    """
    return [(place, mapping(_parse(line, place), place)) for place, line in read_lines(path)]


def read_lines(path: Path) -> list[tuple[Place, str]]:
    """The lines of a UTF-8 file that are not empty, stripped, each with its place.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not UTF-8.
    """
    lines = io.StringIO(read_text(path), newline=None)  # any line ends
    stripped = [(number, line.strip()) for number, line in enumerate(lines, 1)]
    return [(Place(path, f'line {number}'), line) for number, line in stripped if line]


def read_ids(path: Path) -> list[str]:
    """Read a list of ids, one a line; empty lines and surrounding space do not count.

    Raises:
        FileNotFoundError: no such file.
        ValueError: no id at all, one that is no id, one twice.
    """
    ids = once(((identifier(line, place), place) for place, line in read_lines(path)), 'video')
    if not ids:
        raise problem(Place(path), 'lists no video')
    return ids


def read_column(path: Path, column: str) -> list[str]:
    """The ids in a column of a csv file that :func:`read_table` reads.

    Raises:
        FileNotFoundError: no such file.
        ValueError: as of :func:`read_table`; no row, a value that is no id, one twice.
    """
    rows = read_table(path, (column,))
    if not rows:
        raise problem(Place(path), 'has no rows')
    return once(((identifier(row[column], at), at) for at, row in rows), 'video')


def _csv_rows(path: Path, text: str, delimiter: str) -> Iterator[tuple[Place, list[str]]]:
    """Rows that are not empty."""
    reader = csv.reader(io.StringIO(text, newline=''), delimiter=delimiter, strict=True)
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise problem(Place(path, f'line {reader.line_num}'), f'no csv: {error}') from error
        if row is None:
            return
        if row:
            yield Place(path, f'line {reader.line_num}'), row


def _parse(text: str, place: Place) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_pairs)
    except RecursionError as error:
        raise problem(place, 'not valid json to read, nested too deeply') from error
    except ValueError as error:  # also an integer of more digits than python reads
        raise problem(place, f'not valid json: {error}') from error


def _pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of json; of two values of a key python would drop one without a word."""
    content = dict(found)
    if len(content) < len(found):
        counts = Counter(key for key, _ in found)
        raise ValueError(f'a second key {shown(counts.most_common(1)[0][0])} in an object')
    return content
