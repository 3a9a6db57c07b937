"""Annotation files as they are found in the wild, read strictly.

Published csv lists come back from spreadsheets with other separators; a row that does not fit its
header is an error that names the line, never a shifted column.
"""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any, Sequence


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
    try:
        content = json.loads(path.read_text(encoding='utf-8'))
    except json.JSONDecodeError as error:
        raise ValueError(f'{path} is not valid json: {error}') from error
    found = list(content) if isinstance(content, dict) else type(content).__name__
    if not isinstance(content, dict) or any(key not in content for key in keys):
        raise ValueError(f'{path}: expected keys {list(keys)}, found {found}')
    return content
