"""The one file of cells that effects.py keeps: ``cells.jsonl``, a line for each test.

The outcomes of test queries are nine tenths of it, so they are strings of one sign a query.
"""

from __future__ import annotations

import json
import math
import threading
from pathlib import Path
from typing import Any, Mapping, Sequence, Union

NAME = 'cells.jsonl'
#: Fields that tell a cell from all others.
KEY = ('condition', 'method', 'seed', 'role')
#: Of a query that has no outcome.
NONE = '-'
#: Trainings of one process end in several threads.
LOCK = threading.Lock()

Key = tuple[str, str, int, str]


def read_records(folder: Path) -> list[tuple[str, Any]]:
    """All lines as (where, JSON value); nothing where there is no file.

    Raises:
        ValueError: a line is no JSON.
    """
    path, records = folder / NAME, []
    if not path.exists():
        return []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        where = f'{path}, line {number}'
        try:
            records.append((where, json.loads(line)))
        except ValueError as error:
            raise ValueError(f'{where}: no JSON ({error}); remove it and run again') from None
    return records


def put_record(folder: Path, record: Mapping[str, Any]) -> None:
    """Add a cell, in place of the one that has its key; the file is whole at any time."""
    with LOCK:
        known = {key_of(given): given for _, given in read_records(folder)}
        known[key_of(record)] = record
        lines = [json.dumps(known[key], separators=(',', ':')) + '\n' for key in sorted(known)]
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f'{NAME}.part'
        part.write_text(''.join(lines))
        part.replace(folder / NAME)


def key_of(record: Mapping[str, Any]) -> Key:
    """Its condition, method, seed and role."""
    return tuple(record[name] for name in KEY)


def packed(values: Sequence[Union[float, None]]) -> Union[str, list]:
    """One sign a query, where all outcomes are digits or absent; else the list itself."""
    signs = [NONE if x is None else f'{x:g}' for x in values]
    return ''.join(signs) if all(len(sign) == 1 for sign in signs) else list(values)


def unpacked(given: Union[str, Sequence[Union[float, None]]]) -> list[float]:
    """Inverse of :func:`packed`, with NaN where a query has no outcome.

    Raises:
        ValueError, TypeError: it is neither of the two forms.
    """
    values = [None if x == NONE else int(x) for x in given] if isinstance(given, str) else given
    return [math.nan if x is None else float(x) for x in values]
