"""What annotation files say, read with the standard library alone: the campaign's own readings.

They know the published formats and nothing of the project's readers.  They are neither kind nor
complete: what cannot be read without a guess is :class:`Unreadable`, and whoever accepts such a
file has guessed.
"""

from __future__ import annotations

import csv
import io
import json
import pickle
import re
from pathlib import Path
from typing import Any, Iterable


class Unreadable(ValueError):
    """A file that says nothing certain."""


def require(condition: Any, what: str = 'not as the format has it') -> None:
    """Unreadable unless a condition holds."""
    if not condition:
        raise Unreadable(what)


def text(path: Path) -> str:
    """All of a UTF-8 file."""
    try:
        found = path.read_bytes().decode('utf-8')
    except UnicodeDecodeError as error:
        raise Unreadable(str(error)) from error
    return found.removeprefix('\ufeff')


def lines(path: Path) -> list[str]:
    """Those that are not empty."""
    return [line.strip() for line in re.split('\r\n|\r|\n', text(path)) if line.strip()]


def json_value(content: str) -> Any:
    """A json value, in no object of which a key stands twice."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        require(len(dict(pairs)) == len(pairs), 'a key twice')
        return dict(pairs)

    try:
        return json.loads(content, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise Unreadable(str(error)) from error


def json_file(path: Path) -> Any:
    """The value of a json file."""
    return json_value(text(path))


def json_lines(path: Path) -> list[Any]:
    """The value of each line that is not empty."""
    return [json_value(line) for line in lines(path)]


def table(path: Path, columns: tuple[str, ...], some: tuple[str, ...] = ()) -> list[dict[str, str]]:
    """Rows of a csv file with a header, by whatever separator its header has these columns.

    Of ``some`` it has each once or not at all.
    """
    content = text(path)
    found = []
    for separator in ',;\t':
        try:
            rows = [row for row in rows_of(content, separator) if row]
            # A mark of the encoding is no part of a name, wherever files were joined.
            rows[:1] = [[x.strip().strip('\ufeff').strip() for x in row] for row in rows[:1]]
        except Unreadable:
            continue
        if rows and all(rows[0].count(column) == 1 for column in columns):
            found.append(rows)
    require(found, f'no header with {columns}')
    header, *rows = max(found, key=lambda rows: len(rows[0]))
    require(all(header.count(column) < 2 for column in some), 'a column twice')
    require(all(len(row) == len(header) for row in rows), 'a row of another width')
    return [dict(zip(header, (value.strip() for value in row))) for row in rows]


def rows_of(content: str, separator: str = ',') -> list[list[str]]:
    """Rows of csv, empty ones too."""
    try:
        return list(csv.reader(io.StringIO(content, newline=''), delimiter=separator, strict=True))
    except csv.Error as error:
        raise Unreadable(str(error)) from error


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise Unreadable(f'{module}.{name}')


def pickled(path: Path) -> Any:
    """Containers, strings and numbers."""
    try:
        return _Plain(io.BytesIO(path.read_bytes()), encoding='utf-8').load()
    except Exception as error:
        raise Unreadable(repr(error)) from error


# -- values --------------------------------------------------------------------------------------


def string(value: Any) -> str:
    """A string."""
    require(isinstance(value, str), f'no string: {value!r:.60}')
    return value


def number_of(value: Any) -> float:
    """A time or a count, as a number or its digits."""
    if isinstance(value, str):
        require(re.fullmatch(r'[0-9.]+([eE][+-]?[0-9]+)?', value), f'no number: {value:.60}')
        try:
            value = float(value)
        except ValueError as error:
            raise Unreadable(str(error)) from error
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    require(number and 0 <= value < 1e15, f'no number: {value!r:.60}')
    return value


def whole_of(value: Any) -> int:
    """A whole number, as a number or its digits."""
    number = number_of(value)
    require(number == int(number))
    return int(number)


def listing(value: Any) -> list:
    """A list."""
    require(isinstance(value, list), f'no list: {value!r:.60}')
    return value


def get(entry: Any, *keys: str) -> Any:
    """What an object has under keys, one value or a list of them."""
    require(isinstance(entry, dict), f'no object: {entry!r:.60}')
    require(all(key in entry for key in keys), f'lacks some of {keys}')
    values = [entry[key] for key in keys]
    return values[0] if len(keys) == 1 else values


def items_of(value: Any) -> Iterable[tuple[str, Any]]:
    """Keys and values of an object."""
    require(isinstance(value, dict), f'no object: {value!r:.60}')
    return [(string(key), item) for key, item in value.items()]
