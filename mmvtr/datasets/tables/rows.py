"""Rows of a table of videos and captions: csv, tsv, jsonl or parquet, checked one by one."""

from __future__ import annotations

import difflib
import math
from pathlib import Path
from types import MappingProxyType
from typing import Any, Mapping, NamedTuple, NoReturn, Optional, Sequence

from mmvtr.cli.hints import option
from mmvtr.datasets.annotation_files import check_columns, read_json_lines, read_table
from mmvtr.datasets.annotation_values import (
    Place,
    caption,
    field,
    name_of,
    problem,
    seconds,
    shown,
    string,
    wrong,
)
from mmvtr.datasets.folders import visible
from mmvtr.datasets.problems import Problems, collecting

#: Columns that a table may have, and whether they are required.
COLUMNS = dict(
    video=True, text=True, start=False, end=False, text_id=False, split=False, duration=False
)
#: Usual other names of the two required columns, to suggest the option that renames them.
USUAL = dict(
    video=('file', 'filename', 'file_name', 'path', 'clip', 'video_id', 'video_path', 'name', 'id'),
    text=('caption', 'captions', 'sentence', 'description', 'title', 'query', 'label'),
)
#: Suffixes of tables that are read as csv, and suffixes of all tables.
CSV = ('.csv', '.tsv')
TABLES = (*CSV, '.jsonl', '.ndjson', '.parquet')
#: Columns of names, and columns of seconds.
NAMES, TIMES = ('video', 'text_id', 'split'), ('start', 'end', 'duration')


class Row(NamedTuple):
    """A row: one text of one video.

    Attributes:
        place: file and line; for parquet files the row from 1.
        video: the table's name of the video.
        text: not empty.
        text_id: None if the table has none.
        start, end: seconds, the part of the file that the text describes; None = begin, end.
        duration: seconds of the whole file, if given.
        split: if given.
        more: values of all other columns.
    """

    place: Place
    video: str
    text: str
    text_id: Optional[str] = None
    start: Optional[float] = None
    end: Optional[float] = None
    duration: Optional[float] = None
    split: Optional[str] = None
    more: Mapping[str, Any] = MappingProxyType({})


class Table(NamedTuple):
    """All rows of a table, and which of the known columns it has."""

    rows: list[Row]
    columns: set[str]


def read_rows(path: Path, columns: Mapping[str, str], problems: Optional[Problems] = None) -> Table:
    """Return the checked rows of a table.

    In jsonl and parquet files ``text`` may be a list of texts; with a ``text_id`` ``ID`` their ids
    are ``ID#0``, ``ID#1`` ...

    Args:
        path: a .csv, .tsv, .jsonl or .parquet file.
        columns: from our name of a column (:data:`COLUMNS`) to the table's, if it differs.
        problems: collects malformed rows, for a caller that reports several problems together; the
            result omits these rows or their malformed values.

    Raises:
        FileNotFoundError: no such file.
        ImportError: a parquet file, and pyarrow is not installed.
        ValueError: an unknown suffix or column; a table without rows, without a required column or
            with a repeated one; rows with an empty or invalid value, or with inconsistent times.
    """
    unknown = [name for name in columns if name not in COLUMNS]
    if unknown:
        raise ValueError(
            f'columns: no column is called {shown(unknown[0])}; expected some of {[*COLUMNS]}'
        )
    if path.suffix.lower() not in TABLES and path.is_file():
        raise wrong(Place(path), f'a table, one of {", ".join(TABLES)} files', path.suffix)
    with collecting(name_of(path), problems) as problems:
        raw = read_raw(path, problems)
        names = list(dict.fromkeys(name for _, row in raw for name in row))
        ours = _ours(path, names, columns) if raw else {}
        others, nothing = {*names} - {*ours.values()}, {}
        rows = []
        for place, row in raw:
            values = {name: row.get(theirs) for name, theirs in ours.items()}
            more = {name: row[name] for name in row if name in others} if others else nothing
            rows += _rows_of(values, more, place, problems)
    return Table(rows, set(ours))


def read_raw(path: Path, problems: Problems) -> list[tuple[Place, dict[str, Any]]]:
    """Yield place and values of each row of a .jsonl, .parquet or csv file.

    Args:
        path: the file.
        problems: collects malformed rows.

    Raises:
        FileNotFoundError, ImportError, ValueError: see :func:`read_rows`.
    """
    if not path.is_file():
        raise FileNotFoundError(
            f'no such table: {name_of(path)} (one of {", ".join(TABLES)} files)'
        )
    suffix = path.suffix.lower()
    if suffix == '.parquet':
        rows = _read_parquet(path)
    else:
        rows = (
            read_json_lines(path, problems)
            if suffix in ('.jsonl', '.ndjson')
            else read_table(path, (), problems)
        )
    if not rows and not problems:
        raise problem(Place(path), 'has no rows; expected a header, and a row for each video')
    check_columns(list(dict.fromkeys(name for _, row in rows for name in row)), Place(path))
    return rows


def name_in(row: Mapping[str, Any], key: str, place: Place) -> str:
    """Return a string or whole number of a row as a non-empty one-line string.

    Raises:
        ValueError: not such a value.
    """
    return field(row, key, _name, place)


def times_in(row: Mapping[str, Any], place: Place) -> dict[str, Optional[float]]:
    """Return ``start``, ``end`` and ``duration`` of a row in seconds; None for empty values.

    Raises:
        ValueError: not a number, or inconsistent times.
    """
    if row.keys().isdisjoint(TIMES):
        return dict.fromkeys(TIMES)
    times = {
        key: None if _is_empty(row.get(key)) else field(row, key, seconds, place) for key in TIMES
    }
    _check_times(**times, place=place)
    return times


def refuse(place: Place, what: str, expected: str, found: Any) -> NoReturn:
    """Raise the ValueError of a value that is inconsistent with other known facts."""
    raise problem(place, f'{what}; expected {expected}, found {shown(found)}')


def some(names: Sequence[str], most: int = 3) -> str:
    """Return the first few names, each cut to 40 characters."""
    names = [*map(visible, names)]
    cut = [name if len(name) <= 40 else f'{name[:37]}...' for name in names[:most]]
    return ', '.join(cut) + (', ...' if len(names) > most else '')


# -- files -----------------------------------------------------------------------------------------


def _read_parquet(path: Path) -> list[tuple[Place, dict[str, Any]]]:
    try:
        from pyarrow import ArrowException, parquet  # optional: large, and few tables need it
    except ImportError as error:
        raise ImportError(
            f"{path}: reading parquet needs `pip install -e '.[parquet]'` (pyarrow)"
        ) from error
    try:
        check_columns(parquet.read_schema(path).names, Place(path))
        rows = parquet.read_table(path).to_pylist()
    except (ArrowException, OSError) as error:
        raise problem(Place(path), f'not a parquet file: {error}') from error
    return [(Place(path, f'row {number}'), row) for number, row in enumerate(rows, 1)]


def _ours(path: Path, names: list[str], columns: Mapping[str, str]) -> dict[str, str]:
    """Return a map from expected column names to the table's."""
    ours = {}
    for name, needed in COLUMNS.items():
        theirs = columns.get(name, name)
        if theirs in names:
            ours[name] = theirs
        elif needed or name in columns:
            near = _nearest(name, theirs, names)
            hint = f'; `{option(f"columns.{name}", near)}` reads the nearest' if near else ''
            raise problem(
                Place(path),
                f'no column {shown(theirs)} for {name!r}; the table has {shown(names)}{hint}',
            )
    return ours


def _nearest(name: str, column: str, names: Sequence[str]) -> Optional[str]:
    """Return a column that may be meant: one with a similar or a usual name."""
    small = {str(other).strip().lower(): str(other) for other in names}
    alike = difflib.get_close_matches(column.lower(), small, n=1)
    usual = [other for other in USUAL.get(name, ()) if other in small]
    return next((small[other] for other in (*alike, *usual)), None)


# -- values ----------------------------------------------------------------------------------------


def _rows_of(
    row: dict[str, Any], more: dict[str, Any], place: Place, problems: Problems
) -> list[Row]:
    """Yield one row for each text of a table's row.

    A row whose caption or times are recorded as invalid has no caption or times: its file is still
    looked up, so that one report covers both.
    """
    try:
        names, times = _names(row, place), times_in(row, place)
        texts = field(row, 'text', _texts, place)
    except ValueError:  # of each kind, the first is recorded
        names, times, texts = None, dict.fromkeys(TIMES), ['']
        with problems.of('empty or unfit name'):
            names = _names(row, place)
        with problems.of('invalid time'):
            times = times_in(row, place)
        with problems.of('empty or unfit caption'):
            texts = field(row, 'text', _texts, place)
        if names is None:
            return []
    video, text_id, split = (names.get(name) for name in NAMES)
    ids = [text_id] * len(texts)
    if text_id is not None and len(texts) > 1:
        ids = [f'{text_id}#{n}' for n in range(len(texts))]
    rest = *times.values(), split, more
    return [Row(place, video, *one, *rest) for one in zip(texts, ids)]


def _names(row: Mapping[str, Any], place: Place) -> dict[str, str]:
    return {name: name_in(row, name, place) for name in NAMES if name in row}


def _name(value: Any, place: Place) -> str:
    if isinstance(value, str) and value.isprintable() and (name := value.strip()):
        return name  # most names
    if type(value) is int:
        return str(value)
    if _is_empty(value) or not isinstance(value, str):
        raise wrong(place, 'a name or a whole number, not empty', value)
    name = string(value, place).strip()
    if '\n' in name or '\r' in name:
        raise wrong(place, 'a name of one line (is there a quote that does not close?)', value)
    return name


def _texts(value: Any, place: Place) -> list[str]:
    texts = value if isinstance(value, list) else [value]
    if not texts:
        raise wrong(place, 'a text, or several', texts)
    return [caption(text, place).strip() for text in texts]


def _is_empty(value: Any) -> bool:
    """Return whether a value is empty: nothing, spaces, or what pandas writes for it."""
    nan = isinstance(value, float) and math.isnan(value)
    return value is None or nan or (isinstance(value, str) and not value.strip())


def _check_times(
    start: Optional[float], end: Optional[float], duration: Optional[float], place: Place
) -> None:
    if duration == 0:
        raise wrong(place.at("'duration'"), 'a duration above 0 s', duration)
    if end is not None and (start or 0.0) >= end:
        refuse(place, 'the clip ends before it begins', "'start' below 'end'", [start, end])
    if duration is not None and (start or 0.0) >= duration:
        refuse(
            place, 'the clip begins after its file', "'start' below 'duration'", [start, duration]
        )
