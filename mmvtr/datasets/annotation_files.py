"""Annotation files as they are found in the wild, read strictly.

Published csv lists come back from spreadsheets with other separators; a row that does not fit its
header is an error that names the line, never a shifted column.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any, Mapping, Sequence


def read_table(path: Path, columns: Sequence[str]) -> list[dict[str, str]]:
    """Read a csv file with a header; commas, semicolons or tabs, any line ends, UTF-8.

    Args:
        path: the file.
        columns: columns that it must have.

    Returns:
        One dict a row, all columns of the file, values without surrounding space.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a column is missing, or a row has more or fewer fields than the header.
    """
    with open(path, encoding='utf-8-sig', newline='') as file:
        header = file.readline()
        file.seek(0)
        reader = csv.DictReader(file, delimiter=max(',;\t', key=header.count), strict=True)
        found = reader.fieldnames or []
        missing = [column for column in columns if column not in found]
        if missing:
            raise ValueError(f'{path}: expected columns {list(columns)}, found {list(found)}')
        rows = []
        for row in reader:
            if None in row or None in row.values():
                raise ValueError(f'{path}, line {reader.line_num}: {len(found)} fields expected')
            rows.append({column: value.strip() for column, value in row.items()})
    return rows


def read_json(path: Path, keys: Sequence[str]) -> dict[str, Any]:
    """Read a json object that must have ``keys``.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not json, or a key is missing.
    """
    content = _parse_json(path)
    found = list(content) if isinstance(content, dict) else type(content).__name__
    if not isinstance(content, dict) or any(key not in content for key in keys):
        raise ValueError(f'{path}: expected keys {list(keys)}, found {found}')
    return content


def read_rows(path: Path, keys: Mapping[str, type]) -> list[dict[str, Any]]:
    """Read a json list of objects that all have ``keys``, with values of these types.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not json, not a list of objects, or a key is missing or of another type.
    """
    rows = _parse_json(path)
    if not isinstance(rows, list):
        raise ValueError(f'{path}: expected a list, found {type(rows).__name__}')
    for number, row in enumerate(rows):
        _check_row(row, keys, f'{path}: entry {number}')
    return rows


def read_json_lines(path: Path, keys: Mapping[str, type]) -> list[dict[str, Any]]:
    """Read a file of one json object a line, as :func:`read_rows`; empty lines do not count.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a line is not json, no object, or a key is missing or of another type.
    """
    rows = []
    for number, line in read_lines(path):
        try:
            rows.append(json.loads(line))
        except ValueError as error:
            raise ValueError(f'{path}, line {number} is not valid json: {error}') from error
        _check_row(rows[-1], keys, f'{path}, line {number}')
    return rows


def read_lines(path: Path) -> list[tuple[int, str]]:
    """The lines of a UTF-8 file that are not empty, stripped, with their numbers from 1.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not UTF-8.
    """
    lines = path.read_text(encoding='utf-8-sig').split('\n')
    return [(number, line.strip()) for number, line in enumerate(lines, 1) if line.strip()]


def read_ids(path: Path) -> list[str]:
    """Read a list of ids, one a line; empty lines and surrounding space do not count.

    Raises:
        FileNotFoundError: no such file.
        ValueError: no id at all.
    """
    ids = [line for _, line in read_lines(path)]
    if not ids:
        raise ValueError(f'{path} lists no video')
    return ids


def strings(value: Any, where: str) -> list[str]:
    """``value`` itself if it is a list of strings.

    Raises:
        ValueError: it is not; names ``where``.
    """
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(f'{where}: expected a list of strings')
    return value


def _check_row(row: Any, keys: Mapping[str, type], where: str) -> None:
    for key, kind in keys.items():
        if not isinstance(row, dict) or not isinstance(row.get(key), kind):
            raise ValueError(f'{where} has no {key!r} ({kind.__name__})')


def _parse_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding='utf-8'))
    except ValueError as error:  # of json, or of UTF-8
        raise ValueError(f'{path} is not valid json: {error}') from error
