"""Checks of the values in annotation files before they are used.

Each check below takes a value and its :class:`Place`.  A value that does not fit always raises a
ValueError that names the file and the row or key, and says what was expected and how the value
found begins, in at most :data:`LONGEST` characters.
"""

from __future__ import annotations

import math
import re
import reprlib
import unicodedata
from pathlib import Path
from typing import Any, Callable, Iterable, Mapping, NamedTuple, TypeVar, Union

from mmvtr.datasets.folders import is_file_name, visible

#: Maximum characters of a message, of the value found, and of a file's path (its end is shown).
LONGEST, SHOWN, PATH = 500, 80, 200

#: Numbers and times beyond these are rejected: they would overflow later computations.
MOST = 10**15
MOST_SECONDS = 1e9

T = TypeVar('T')


class Named(NamedTuple):
    """A step of a place: the name of a key."""

    name: Any


class Place(NamedTuple):
    """Location of a value for error messages: a file and the path in it ("line 3, 'duration'").

    Every value has a place and few are ever shown, so the text is built only when one is.
    """

    file: Union[str, Path]
    begin: str = ''
    steps: tuple[Union[str, Named], ...] = ()

    def at(self, step: str) -> Place:
        """Return the place of a row or key below this one."""
        return Place(self.file, self.begin, (*self.steps, step))

    def key(self, name: Any) -> Place:
        """Return the place under a name of any length."""
        return Place(self.file, self.begin, (*self.steps, Named(name)))

    @property
    def inside(self) -> str:
        """Return the path from the file to the value."""
        steps = [step if isinstance(step, str) else shown(step.name, 40) for step in self.steps]
        return ', '.join([self.begin, *steps] if self.begin else steps)

    def __str__(self) -> str:
        file, inside = name_of(self.file), self.inside
        return f'{file}: {cut(inside, 120)}' if inside else file


def wrong(place: Place, expected: str, found: Any) -> ValueError:
    """Return the ValueError for a value that is not what was expected."""
    return problem(place, f'expected {expected}, found {shown(found)}')


def problem(place: Place, what: str) -> ValueError:
    """Return the ValueError for any other problem at a place."""
    return ValueError(cut(f'{place}: {visible(what)}', LONGEST))


def name_of(file: Union[str, Path], length: int = PATH) -> str:
    """Return a path for a message; a long one is cut to its end."""
    path = visible(str(file))
    return path if len(path) <= length else f'...{path[-length:]}'


def shown(value: Any, length: int = SHOWN) -> str:
    """Return the repr of a value, cut to at most ``length`` characters plus dots."""
    begin = value[: length + 1] if isinstance(value, (str, bytes)) else value
    try:
        return cut(_REPR.repr(begin), length)
    except (ValueError, RecursionError):  # an integer of more digits than Python prints
        return f'<{type(value).__name__}>'


def present(entry: Mapping[str, Any], key: str, place: Place) -> Any:
    """Return an entry's value under a key, which must be there.

    Raises:
        ValueError: it has no such key.
    """
    if key not in entry:
        raise wrong(place, f'a key {key!r}', list(entry)[:9])
    return entry[key]


def field(entry: Mapping[str, Any], key: str, check: Callable[[Any, Place], T], place: Place) -> T:
    """Return an entry's value under a key, checked.

    Raises:
        ValueError: it has no such key, or ``check`` rejects the value.
    """
    value = present(entry, key, place)
    try:
        return check(value, place)
    except ValueError:  # a place for each of a million values would cost more than the checks
        return check(value, place.at(repr(key)))


def mapping(value: Any, place: Place) -> dict[str, Any]:
    """Return a value that must be a dict with string keys.

    Raises:
        ValueError: not a dict with string keys.
    """
    if not isinstance(value, dict):
        raise wrong(place, 'an object of keys and values', value)
    for key in value:
        if not isinstance(key, str):
            raise wrong(place, 'keys that are strings', key)
    return value


def listing(value: Any, place: Place) -> list[Any]:
    """Return a value that must be a list.

    Raises:
        ValueError: not a list.
    """
    if not isinstance(value, list):
        raise wrong(place, 'a list', value)
    return value


def string(value: Any, place: Place) -> str:
    """Return a value that must be a string valid in UTF-8, without null characters; may be empty.

    Raises:
        ValueError: not such a string.
    """
    if not isinstance(value, str):
        raise wrong(place, 'a string', value)
    if not value.isascii() and any('\ud800' <= char <= '\udfff' for char in value):
        raise wrong(place, 'text without halves of a surrogate pair', value)
    if '\0' in value:
        raise wrong(place, 'text without null characters', value)
    return value


def strings(value: Any, place: Place) -> list[str]:
    """Return a value that must be a list of strings.

    Raises:
        ValueError: not a list of strings.
    """
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise wrong(place, 'a list of strings', value)
    return [string(item, place) for item in value]


def caption(value: Any, place: Place) -> str:
    """Return a value that must be a string with visible characters.

    Raises:
        ValueError: not a string, or only spaces and invisible characters.
    """
    if isinstance(value, str) and value[:1].isalnum() and value.isprintable():
        return value  # most captions
    text = string(value, place)
    if not any(char.isalnum() or unicodedata.category(char)[0] in 'LNPS' for char in text):
        raise wrong(place, 'a caption, which is not empty', value)
    return text


def identifier(value: Any, place: Place) -> str:
    """Return the id of a video or a text: a string that can name a file.

    Raises:
        ValueError: not such a string, see :func:`~mmvtr.datasets.folders.is_file_name`.
    """
    if not isinstance(value, str) or not is_file_name(value):
        raise wrong(place, 'an id, a visible string that can be the name of a file', value)
    return value


def seconds(value: Any, place: Place) -> float:
    """Return a time in seconds from a number or its digits.

    Raises:
        ValueError: negative, not finite, beyond 1e9, or no number.
    """
    if isinstance(value, str):
        time = float(value) if _DIGITS.fullmatch(value) else math.nan
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        time = float(value) if -MOST < value < MOST else math.nan
    else:
        time = math.nan
    if not 0 <= time <= MOST_SECONDS:
        raise wrong(place, 'a time in seconds', value)
    return time


def duration(value: Any, place: Place) -> float:
    """Return a time above 0; see :func:`seconds`.

    Raises:
        ValueError: not such a time.
    """
    time = seconds(value, place)
    if time == 0:
        raise wrong(place, 'a duration above 0 s', value)
    return time


def number(value: Any, place: Place) -> int:
    """Return a whole number from 0, given as such or as digits.

    Raises:
        ValueError: not such a number, or 16 digits or more.
    """
    if isinstance(value, str) and len(value) < 16 and value.isascii() and value.isdecimal():
        value = int(value)
    if type(value) is not int or not 0 <= value < MOST:
        raise wrong(place, 'a number from 0', value)
    return value


def unique(names: Iterable[tuple[str, Place]], what: str) -> list[str]:
    """Return names in their order; raise ValueError if one is repeated.

    Args:
        names: each with its place.
        what: kind of the names, for the message: ``'video'`` or ``'text'``.

    Raises:
        ValueError: a repeated name; the message has the places of both.
    """
    first: dict[str, Place] = {}
    for name, place in names:
        if name in first:
            other = first[name]
            where = other.inside if other.file == place.file else str(other)
            raise problem(place, f'a second {what} {shown(name)}, the first is {cut(where, 120)}')
        first[name] = place
    return list(first)


def unique_in(
    rows: Iterable[tuple[Place, Mapping[str, Any]]],
    key: str,
    what: str,
    check: Callable[[Any, Place], str] = identifier,
) -> list[str]:
    """Return the rows' values under a key in order; raise if one is repeated, see :func:`unique`.

    Raises:
        ValueError: see :func:`field` and :func:`unique`.
    """
    return unique(((field(row, key, check, place), place) for place, row in rows), what)


def cut(text: str, length: int = LONGEST) -> str:
    """Return the beginning of a long text, and dots."""
    return text if len(text) <= length else f'{text[: length - 3]}...'


_DIGITS = re.compile(r'([0-9]{1,300}\.?[0-9]{0,300}|\.[0-9]{1,300})([eE][+-]?[0-9]{1,3})?')

_REPR = reprlib.Repr()
_REPR.maxlevel, _REPR.maxstring, _REPR.maxother, _REPR.maxlong = 4, 2 * SHOWN, 2 * SHOWN, SHOWN
_REPR.maxlist = _REPR.maxdict = _REPR.maxtuple = _REPR.maxset = _REPR.maxfrozenset = 9
