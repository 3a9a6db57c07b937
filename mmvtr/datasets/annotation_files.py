"""Strict readers of annotation files as they are found in practice.

Published csv lists are often re-saved by spreadsheets with other separators; a row that does not
fit its header is an error that names the line, never a shifted column.  Rows come with their place,
so that checks of their values can name it (:mod:`mmvtr.datasets.annotation_values`).
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, Iterator, Optional, Sequence

from mmvtr.datasets.annotation_values import (
    Place,
    identifier,
    mapping,
    name_of,
    present,
    problem,
    shown,
    unique,
    wrong,
)
from mmvtr.datasets.problems import Problems, collecting


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file without its byte-order mark; line ends are kept.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not UTF-8, or null characters; names the line.
    """
    raw = Path(path).read_bytes().removeprefix(codecs.BOM_UTF8)
    for mark, encoding in _MARKS.items():
        if raw.startswith(mark):
            remedy = f'{_SAVE}, or convert it: `iconv -f {encoding} -t utf-8`'
            raise problem(Place(path), f'expected UTF-8, found {encoding.upper()}; {remedy}')
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        near = raw[max(error.start - 20, 0) : error.end].splitlines()[-1]
        where = f'byte {error.start} ({_line(raw, error.start)}, the end of {shown(near)})'
        what = f'not UTF-8: {error.reason} at {where}; {_SAVE}'
        raise problem(Place(path), what) from error
    if '\0' in text:
        place = Place(path, _line(raw, raw.index(0)))
        raise problem(place, f'expected text without null characters; is it UTF-16? {_SAVE}')
    return text


def read_table(
    path: Path, columns: Sequence[str], problems: Optional[Problems] = None
) -> list[tuple[Place, dict[str, str]]]:
    """Return the rows of a csv file with a header; commas, semicolons or tabs, any line ends.

    Args:
        path: the file.
        columns: columns that it must have.
        problems: collects rows of another width, for a caller that reports several problems
            together.

    Returns:
        Place (its first line) and values of each row: all columns of the file, names and values
        without surrounding space.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not UTF-8, not csv (an unterminated quote, a field of more than 131,072
            characters), a column that is missing or repeated (ignoring case), another separator,
            rows of more or fewer fields than the header.
    """
    text = read_text(path)
    header = io.StringIO(text, newline='').readline()
    delimiter = max(',;\t', key=header.count)
    rows = _csv_rows(path, text, delimiter)
    place, names = next(rows, (Place(path), []))
    names = [name.strip().strip('\ufeff').strip() for name in names]
    _check_header(place, names, header, columns)
    table = []
    with collecting(name_of(path), problems) as problems:
        for place, row in rows:
            if len(row) == len(names):
                table.append((place, dict(zip(names, map(str.strip, row)))))
                continue
            with problems.of('row of another width'):
                quotes = f'; a value with {delimiter!r} in it must be in quotes'
                raise problem(
                    place,
                    f'expected {len(names)} fields, as the header has, found {shown(row)}'
                    f'{quotes if len(row) > len(names) else ""}',
                )
    return table


def check_columns(names: Sequence[str], place: Place) -> None:
    """Raise ValueError if two columns have the same name, ignoring spaces and case."""
    small = [name.strip().casefold() for name in names]
    twice = next((name for name, n in Counter(small).items() if n > 1 and name), None)
    if twice is not None:
        alike = [name for name, other in zip(names, small) if other == twice]
        raise problem(
            place,
            f'the column {shown(alike[0])} stands twice ({shown(alike)}); name each column once: '
            'rename or delete the others',
        )


def read_bare_table(path: Path, width: int) -> list[tuple[Place, list[str]]]:
    """Return the place and ``width`` values of each row of a csv file without a header.

    Raises:
        FileNotFoundError: no such file.
        ValueError: see :func:`read_table`; a row of another width.
    """
    rows = list(_csv_rows(path, read_text(path), ','))
    for place, row in rows:
        if len(row) != width:
            raise wrong(place, f'{width} fields', row)
    return rows


def read_json(path: Path, keys: Sequence[str]) -> dict[str, Any]:
    """Return a json object that must have ``keys``.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not a json object, a key is missing, or is repeated in any object of the file.
    """
    content = mapping(_parse(read_text(path), Place(path)), Place(path))
    for key in keys:
        present(content, key, Place(path))
    return content


def read_rows(path: Path) -> list[tuple[Place, dict[str, Any]]]:
    """Return the objects of a json list, each with its place.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not json, not a list of objects, or one of them repeats a key.
    """
    rows = _parse(read_text(path), Place(path))
    if not isinstance(rows, list):
        raise wrong(Place(path), 'a list of objects', rows)
    places = (Place(path, f'entry {number}') for number in range(len(rows)))
    return [(place, mapping(row, place)) for place, row in zip(places, rows)]


def read_json_lines(
    path: Path, problems: Optional[Problems] = None
) -> list[tuple[Place, dict[str, Any]]]:
    """Return the objects of a json lines file as :func:`read_rows` does; empty lines are skipped.

    Args:
        path: the file.
        problems: collects malformed lines, for a caller that reports several problems together.

    Raises:
        FileNotFoundError: no such file.
        ValueError: lines that are not a json object, or repeat a key.
    """
    rows = []
    with collecting(name_of(path), problems) as problems:
        for place, line in read_lines(path):
            with problems.of('line that is not a json object'):
                rows.append((place, mapping(_parse(line, place), place)))
    return rows


def read_lines(path: Path) -> list[tuple[Place, str]]:
    """Return the non-empty lines of a UTF-8 file, stripped, each with its place.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not UTF-8.
    """
    lines = io.StringIO(read_text(path), newline=None)  # any line ends
    stripped = [(number, line.strip()) for number, line in enumerate(lines, 1)]
    return [(Place(path, f'line {number}'), line) for number, line in stripped if line]


def read_ids(path: Path) -> list[str]:
    """Return a list of ids, one per line; empty lines and surrounding space are ignored.

    Raises:
        FileNotFoundError: no such file.
        ValueError: no id at all, an invalid id, or a repeated one.
    """
    ids = unique(((identifier(line, place), place) for place, line in read_lines(path)), 'video')
    if not ids:
        raise problem(Place(path), 'lists no video')
    return ids


def read_column(path: Path, column: str) -> list[str]:
    """Return the ids in a column of a csv file, read by :func:`read_table`.

    Raises:
        FileNotFoundError: no such file.
        ValueError: see :func:`read_table`; no row, an invalid id, or a repeated one.
    """
    rows = read_table(path, (column,))
    if not rows:
        raise problem(Place(path), 'has no rows')
    return unique(((identifier(row[column], at), at) for at, row in rows), 'video')


#: What to do about a file of another encoding; without a byte-order mark it cannot be identified.
_SAVE = "save it as UTF-8 in the program that wrote it (Excel: 'CSV UTF-8')"
#: Byte-order marks of other encodings; the longer marks first.
_MARKS = {
    codecs.BOM_UTF32_LE: 'utf-32',
    codecs.BOM_UTF32_BE: 'utf-32',
    codecs.BOM_UTF16_LE: 'utf-16',
    codecs.BOM_UTF16_BE: 'utf-16',
}


def _line(raw: bytes, start: int) -> str:
    """Return the line number of a byte offset."""
    return f'line {len((raw[:start] + b"x").splitlines())}'


def _check_header(place: Place, names: list[str], line: str, columns: Sequence[str]) -> None:
    if re.match(r'"?sep=', line, re.IGNORECASE):
        raise problem(
            place, f'{shown(line.strip())} is a note for Excel and no header; delete this line'
        )
    if len(names) == 1 and '|' in line:
        raise problem(
            place,
            "the columns are separated by '|'; expected commas, semicolons or tabs: save it with "
            'one of these',
        )
    check_columns(names, place)
    unfit = [column for column in columns if column not in names]
    if unfit:
        raise wrong(place, f'columns {unfit}, each once', names)


def _csv_rows(path: Path, text: str, delimiter: str) -> Iterator[tuple[Place, list[str]]]:
    """Return the non-empty rows, each with the number of its first line."""
    reader = csv.reader(io.StringIO(text, newline=''), delimiter=delimiter, strict=True)
    while True:
        place = Place(path, f'line {reader.line_num + 1}')
        try:
            row = next(reader, None)
        except csv.Error as error:
            hint = ''
            if 'end of data' in str(error):
                hint = '; a quote (") that opens in this row does not close'
            elif 'expected after' in str(error):
                hint = '; a quote (") inside of a quoted value is written twice'
            raise problem(place, f'no csv: {error}{hint}') from error
        if row is None:
            return
        if row:
            yield place, row


def _parse(text: str, place: Place) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_pairs)
    except RecursionError as error:
        raise problem(place, 'not valid json: nested too deeply') from error
    except ValueError as error:  # also an integer of more digits than Python parses
        raise problem(place, f'not valid json: {error}') from error


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a json object; raise on a repeated key (Python silently keeps its last value)."""
    content = dict(pairs)
    if len(content) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise ValueError(f'a second key {shown(counts.most_common(1)[0][0])} in an object')
    return content
