"""Annotation files as they are found in the wild, read strictly.

Whatever is wrong with one is an :class:`AnnotationError`: the file, the place in it, what was
expected and what was found. The readers turn a file into rows or objects, the accessors (from
:func:`string` to :func:`strings`) check a value before it is used, and :func:`annotation_errors`
catches what they let through.
"""

from __future__ import annotations

import csv
import io
import json
import re
import reprlib
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterable, Iterator, Optional, Sequence, Union
from unicodedata import category

#: Where a value stands: its file, then keys (str), positions (int), lines, rows and entries.
Where = tuple[Any, ...]
#: Characters of a found value that an error repeats, and those of the longest error.
SHOWN, LONGEST = 80, 500
#: Seconds, 116 days: what is longer is in another unit, or no time.
TOO_LONG = 1e7
#: From here on a number is no int64.
TOO_LARGE = 2**63
#: Characters of an id: it may name a file, and no file system takes more.
LONGEST_ID = 255
#: Letters by their category that show nothing: fillers of Hangul, the blank of Braille.
_BLANK = frozenset('\u115f\u1160\u3164\uffa0\u2800')
_NO_TEXT = re.compile('[\0\ud800-\udfff]')
_NUMBER = re.compile(r'[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?', re.ASCII)


class AnnotationError(ValueError):
    """An annotation file is not what it should be. Made by :meth:`at`.

    Attributes:
        file: it, or the name of a dataset without files.
        place: in the file, '' if it is about all of it.
        expected: there.
        found: there, the first 80 characters.
    """

    file: Union[Path, str] = ''
    place: str = ''
    expected: str = ''
    found: str = ''

    @classmethod
    def at(cls, where: Where, expected: str, found: str) -> AnnotationError:
        """The error of a place; its text has at most 500 characters.

        Args:
            where: file and steps, see :data:`Where`.
            expected: a phrase such as 'a caption'.
            found: another, or of a value :func:`shown`.
        """
        file, *steps = where
        place, expected = _cut(_place(steps), 120), _cut(expected, 160)
        found = _cut(found, SHOWN)
        said = f'{", " if place else ""}{place}: expected {expected}, found {found}'
        name, room = str(file), LONGEST - len(said)
        error = cls((name if len(name) <= room else f'...{name[3 - room :]}') + said)
        error.file, error.place, error.expected, error.found = file, place, expected, found
        return error


class Step(str):
    """A step of :data:`Where` in words, which is no key: shown as it is."""


class _Count(int):
    """A step of :data:`Where` that says what it counts: line 3."""

    def __str__(self) -> str:
        return f'{type(self).__name__.lower()} {int(self)}'


class Line(_Count):
    """Line n of a text file, from 1."""


class Row(_Count):
    """Row n of a table, from 1 below its header."""


class Entry(_Count):
    """Entry n of a list, from 0."""


class _Brief(reprlib.Repr):
    """The begin of a repr, without making all of it."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = 20

    def repr_str(self, x: str, level: int) -> str:
        return repr(x[: SHOWN + 1])

    def repr_bytes(self, x: bytes, level: int) -> str:
        return repr(x[: SHOWN + 1])


def shown(value: Any, length: int = SHOWN) -> str:
    """The first ``length`` characters of a value's repr."""
    try:
        text = _Brief().repr(value)
    except Exception:  # numbers of more digits than python prints, objects of any kind
        text = f'a {type(value).__name__}'
    return _cut(text, length)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f'{text[:length].removesuffix("...")}...'


def _place(steps: Iterable[Any]) -> str:
    place = ''
    for step in steps:
        if type(step) is int:
            place += f'[{step}]'
        else:
            name = shown(step, 40) if type(step) is str else str(step)
            place += f', {name}' if place else name
    return place


@contextmanager
def annotation_errors(files: Sequence[Path]) -> Iterator[None]:
    """Turn whatever a reader of these files lets through into an error of the last one.

    Args:
        files: those that were opened, in that order; may still grow. At least one.
    """
    try:
        yield
    except (AnnotationError, ImportError, MemoryError, OSError):
        raise
    except Exception as error:
        said = f'{type(error).__name__}: {error}'
        raise AnnotationError.at((files[-1],), 'annotations of its format', said) from error


# -- readers -----------------------------------------------------------------------------------


def read_text(path: Path) -> str:
    """All of a UTF-8 file, with or without its mark, line ends as they are.

    Raises:
        FileNotFoundError: no such file.
        AnnotationError: not UTF-8, or a null byte.
    """
    raw = path.read_bytes()
    try:
        text = raw.decode('utf-8-sig')
    except UnicodeDecodeError as error:
        where = path, Line(error.object.count(b'\n', 0, error.start) + 1)
        found = shown(error.object[error.start : error.start + SHOWN])
        raise AnnotationError.at(where, f'UTF-8 ({error.reason})', found) from error
    if '\0' in text:
        place = text.index('\0')
        where = path, Line(text.count('\n', 0, place) + 1)
        raise AnnotationError.at(where, 'no null byte', shown(text[place : place + SHOWN]))
    return text


def read_lines(path: Path) -> list[tuple[int, str]]:
    """The lines of a UTF-8 file that are not empty, stripped, with their numbers from 1.

    Raises:
        FileNotFoundError: no such file.
        AnnotationError: see :func:`read_text`.
    """
    lines = read_text(path).replace('\r\n', '\n').replace('\r', '\n').split('\n')
    return [(number, line.strip()) for number, line in enumerate(lines, 1) if line.strip()]


def read_ids(path: Path) -> list[str]:
    """Read a list of ids, one a line; empty lines and surrounding space do not count.

    Raises:
        FileNotFoundError: no such file.
        AnnotationError: no id at all, one twice, or what is none.
    """
    ids: dict[str, int] = {}
    for number, line in read_lines(path):
        name = identifier(line, (path, Line(number)))
        _refuse_second(name in ids, (path, Line(number)), name)
        ids[name] = number
    if not ids:
        raise AnnotationError.at((path,), 'at least one id', 'none')
    return list(ids)


def read_fields(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows of a csv file, header and all: the number of its last line and stripped fields.

    Commas, semicolons or tabs, whichever its first line has most of; empty rows do not count.

    Raises:
        FileNotFoundError: no such file.
        AnnotationError: see :func:`read_text`; not csv.
    """
    text = read_text(path)
    delimiter = max(',;\t', key=re.split('[\r\n]', text, maxsplit=1)[0].count)
    reader = csv.reader(io.StringIO(text, newline=''), delimiter=delimiter, strict=True)
    try:
        for fields in reader:
            if fields:
                yield reader.line_num, [field.strip() for field in fields]
    except csv.Error as error:
        line = reader.line_num
        found = ''.join(re.split('\r\n|\n|\r', text)[line - 1 : line])
        raise AnnotationError.at((path, Line(line)), f'csv ({error})', shown(found)) from error


def read_table(
    path: Path, columns: Sequence[str], *, unique: Sequence[str] = ()
) -> list[dict[str, str]]:
    """Read a csv file with a header, see :func:`read_fields`.

    Args:
        path: the file.
        columns: columns that it must have.
        unique: those of them that hold an id, which no other row has.

    Returns:
        One dict a row, all columns of the file, values without surrounding space.

    Raises:
        FileNotFoundError: no such file.
        AnnotationError: a column is missing or there twice, a row has more or fewer fields than
            the header, there is no row, an id is none or of two rows.
    """
    lines = read_fields(path)
    _, header = next(lines, (1, []))
    if any(header.count(column) != 1 for column in columns) or len(set(header)) < len(header):
        expected = f'the columns {", ".join(columns)}, each once'
        raise AnnotationError.at((path, Line(1)), expected, shown(header))
    rows = []
    for number, fields in lines:
        if len(fields) != len(header):
            found = f'{len(fields)}: {shown(fields)}'
            raise AnnotationError.at((path, Line(number)), f'{len(header)} fields', found)
        rows.append(dict(zip(header, fields)))
    if not rows:
        raise AnnotationError.at((path,), 'at least one row below its header', 'none')
    for column in unique:
        once(((path, Row(n), column), row[column]) for n, row in enumerate(rows, 1))
    return rows


def read_json(path: Path, *keys: str) -> dict[str, Any]:
    """Read a json object that must have ``keys``.

    Raises:
        FileNotFoundError: no such file.
        AnnotationError: see :func:`read_text`; not json, a key twice in one object, no object, or
            a key is missing.
    """
    return mapping(_parse_json(read_text(path), (path,)), (path,), *keys)


def read_rows(path: Path, *keys: str) -> list[tuple[Where, dict[str, Any]]]:
    """Read a json list of objects that all have ``keys``; each with where it stands.

    Raises:
        FileNotFoundError: no such file.
        AnnotationError: see :func:`read_json`; no list, an empty one, or a key is missing.
    """
    rows = sequence(_parse_json(read_text(path), (path,)), (path,))
    if not rows:
        raise AnnotationError.at((path,), 'at least one entry', 'none')
    places = [(path, Entry(number)) for number in range(len(rows))]
    return [(where, mapping(row, where, *keys)) for where, row in zip(places, rows)]


def read_json_lines(path: Path, *keys: str) -> list[tuple[Where, dict[str, Any]]]:
    """Read a file of one json object a line, as :func:`read_rows`; empty lines do not count.

    Raises:
        FileNotFoundError: no such file.
        AnnotationError: see :func:`read_json`; no line, or a key is missing.
    """
    rows = []
    for number, line in read_lines(path):
        where = (path, Line(number))
        rows.append((where, mapping(_parse_json(line, where), where, *keys)))
    if not rows:
        raise AnnotationError.at((path,), 'at least one line', 'none')
    return rows


class _Twice(Exception):
    """A key of one json object that has two values."""


def _parse_json(text: str, where: Where) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        line = where if len(where) > 1 else (*where, Line(error.lineno))
        found = shown(text[error.pos : error.pos + SHOWN]) if error.pos < len(text) else 'its end'
        raise AnnotationError.at(line, f'json ({error.msg})', found) from error
    except _Twice as error:
        found = f'{shown(error.args[0], 40)} again'
        raise AnnotationError.at(where, 'json with each key of an object once', found) from error
    except RecursionError as error:
        raise AnnotationError.at(where, 'json of fewer levels', shown(text)) from error
    except ValueError as error:  # a number of more than 4,300 digits
        raise AnnotationError.at(where, 'json of shorter numbers', str(error)) from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _Twice(next(key for n, key in enumerate(keys) if key in keys[:n]))
    return content


# -- accessors: each gives the value back, or raises the AnnotationError of its place -------------


def string(value: Any, where: Where) -> str:
    """A string of valid characters, maybe an empty one."""
    if not isinstance(value, str) or not _is_text(value):
        raise AnnotationError.at(where, 'a string', shown(value))
    return value


def caption(value: Any, where: Where) -> str:
    """A string in which there is something to read."""
    if not is_visible(value):
        raise AnnotationError.at(where, 'a caption', shown(value))
    return value


def identifier(value: Any, where: Where) -> str:
    """A string of visible characters, at most 255, without space before or after it."""
    if not is_id(value):
        raise AnnotationError.at(where, 'an id', shown(value))
    return value


def number_or_id(value: Any, where: Where) -> str:
    """An id that may be a number in json, as a string."""
    if type(value) is int and 0 <= value < TOO_LARGE:
        return str(value)
    return identifier(value, where)


def integer(value: Any, where: Where, *, digits: bool = False) -> int:
    """A number from 0 that fits int64; with ``digits``, the digits of one (from a text file)."""
    found = value
    if digits and isinstance(value, str) and value.isascii() and value.isdecimal():
        found = int(value) if len(value) < 20 else TOO_LARGE
    if type(found) is not int or not 0 <= found < TOO_LARGE:
        raise AnnotationError.at(where, 'a number from 0', shown(value))
    return found


def seconds(value: Any, where: Where, *, digits: bool = False) -> float:
    """A time from 0 up to 10 million seconds; with ``digits``, the digits of one."""
    found = float(value) if digits and is_number(value) else value
    if type(found) not in (int, float) or not 0 <= found < TOO_LONG:
        raise AnnotationError.at(where, 'a time in seconds', shown(value))
    return float(found)


def duration(value: Any, where: Where, *, digits: bool = False) -> float:
    """:func:`seconds` of a video: more than none."""
    found = seconds(value, where, digits=digits)
    if found == 0:
        raise AnnotationError.at(where, 'a duration above 0', shown(value))
    return found


def mapping(value: Any, where: Where, *keys: str) -> dict[str, Any]:
    """A dict that has these keys."""
    if not isinstance(value, dict):
        expected = f'an object with {", ".join(keys)}' if keys else 'an object'
        raise AnnotationError.at(where, expected, shown(value))
    for key in keys:
        if key not in value:
            raise AnnotationError.at(where, f'the key {key!r}', shown([*value]))
    return value


def sequence(value: Any, where: Where, length: Optional[int] = None) -> list[Any]:
    """A list, of this length."""
    if not isinstance(value, list) or length not in (None, len(value)):
        expected = 'a list' if length is None else f'a list of {length}'
        raise AnnotationError.at(where, expected, shown(value))
    return value


def strings(value: Any, where: Where) -> list[str]:
    """A list of strings, see :func:`string`."""
    if not isinstance(value, list):
        raise AnnotationError.at(where, 'a list of strings', shown(value))
    for n, item in enumerate(value):
        if not isinstance(item, str) or not _is_text(item):
            raise AnnotationError.at((*where, n), 'a string', shown(item))
    return value


def once(ids: Iterable[tuple[Where, Any]]) -> None:
    """See that these are ids, none of them a second time; each with where it stands."""
    seen = set()
    for where, name in ids:
        _refuse_second(identifier(name, where) in seen, where, name)
        seen.add(name)


def is_visible(value: Any) -> bool:
    """Whether it is a string in which there is something to see, see :func:`caption`."""
    return isinstance(value, str) and _is_text(value) and _shows(value)


def is_id(value: Any) -> bool:
    """See :func:`identifier`."""
    return (
        isinstance(value, str)
        and len(value) <= LONGEST_ID
        and value.isprintable()
        and value.strip() == value
        and _shows(value)
    )


def is_number(value: Any) -> bool:
    """Whether it is a string of the digits of a number, with point and exponent if it likes."""
    return isinstance(value, str) and _NUMBER.fullmatch(value) is not None


def _refuse_second(is_second: bool, where: Where, name: str) -> None:
    if is_second:
        raise AnnotationError.at(where, 'each id once', f'{shown(name)} again')


def _is_text(value: str) -> bool:
    """Neither a null byte nor half of a surrogate pair, which no file could hold."""
    return '\0' not in value if value.isascii() else _NO_TEXT.search(value) is None


def _shows(text: str) -> bool:
    """A letter, a number or a sign is in it, not only space, zero width and control characters."""
    if text.isascii() and text.isprintable():
        return text != '' and not text.isspace()
    return any(category(c)[0] in 'LNPS' and c not in _BLANK for c in text)
