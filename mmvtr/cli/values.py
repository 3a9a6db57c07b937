"""Convert command-line text to a value of a given type.

A type is given as an annotation: ``str``, ``Optional[float]``, ``Sequence[str]``,
``Mapping[str, int]``; ``Any`` is an unknown type.
"""

from __future__ import annotations

import ast
import collections.abc
import os
import re
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Mapping, Sequence, Union, get_args, get_origin

SEQUENCES = (
    list, tuple, set, frozenset, collections.abc.Sequence, collections.abc.Iterable,
    collections.abc.Collection, collections.abc.Set,
)  # fmt: skip
MAPPINGS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
TRUTH = {'true': True, 'false': False, '1': True, '0': False}
CLOSING = {'[': ']', '(': ')', '{': '}'}
NUMBER = re.compile(r'[+-]?(\d|\.\d)[\d.eE+_-]*')


class Written(str):
    """A text as it was typed, whose type is not known yet."""


def read(text: str, kind: Any = Any) -> Any:
    """Return the value of a text, converted to a type.

    A string stays as typed, with its spaces, commas, quotes and brackets.  For a union, the first
    type that accepts the text is used, in the order None, a number, True or False, a list, a dict,
    a string.  In a list, ``[a, b]``, ``(a, b)`` or ``a,b``, spaces around an element and quotes are
    stripped; in a union with a string, a list needs its brackets.

    Args:
        text: what was typed.
        kind: an annotation.  For ``Any``, or a class that no text can represent, the text decides:
            a Python literal is that value, ``a,b`` and ``[a,b]`` are lists, quotes are stripped
            from a quoted text, and anything else is a string.

    Raises:
        ValueError: the text cannot be converted; says what was expected.
    """
    kinds = alternatives(kind)
    if _any(kinds) or not any(map(_known, kinds)):
        return _guess(text)
    for take, reads in READERS:
        for one in filter(take, kinds):
            try:
                return reads(text, one, kinds)
            except (ValueError, OverflowError):
                continue
    if _in_braces(text) and any(map(_is_sequence, kinds)):
        return _mapping(text, dict, kinds)  # a component's config in place of a list
    raise ValueError(f'{expected(kinds)} expected, got {text[:80]!r}')


def alternatives(kind: Any) -> list[Any]:
    """Return the types of a union, [kind] for a single type, the values' types for a Literal."""
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return [one for part in get_args(kind) for one in alternatives(part)]
    if origin is Literal:
        return list(dict.fromkeys(map(type, get_args(kind))))
    if origin is Annotated:
        return alternatives(get_args(kind)[0])
    return [NoneType if kind is None else kind]


def like(value: Any) -> Any:
    """Return a type that a value has: any number for an integer, ``Any`` for None."""
    if isinstance(value, (bool, float, str)):
        return type(value)
    if isinstance(value, int):
        return Union[int, float]
    if isinstance(value, (list, tuple)):
        # Only if all elements have one type: None or a dict may be replaced by anything.
        inner = {like(one) for one in value}
        element = inner.pop() if len(inner) == 1 else Any
        return tuple[element, ...] if isinstance(value, tuple) else list[element]
    return dict if isinstance(value, Mapping) else Any


def inside(kind: Any, key: str) -> Any:
    """Return the type of a mapping's value or of a sequence's element; ``Any`` if unknown."""
    for one in alternatives(kind):
        arguments = get_args(one)
        if _is_mapping(one) and len(arguments) == 2:
            return arguments[1]
        if _is_sequence(one) and key.isdigit():
            return _elements(one, int(key) + 1)[-1]
    return Any


def takes_text(kinds: Sequence[Any]) -> bool:
    """Return whether one of the types is a string or a path."""
    return any(map(_is_text, kinds))


def is_known(kind: Any) -> bool:
    """Return whether a type determines how a text is read: not ``Any`` or a custom class alone."""
    kinds = alternatives(kind)
    return not _any(kinds) and any(_known(one) and one is not NoneType for one in kinds)


def part(value: Any, name: str) -> Any:
    """Return a nested value's entry at a key, or at a list index; None if there is none."""
    if isinstance(value, (list, tuple)):
        return value[int(name)] if name.isdigit() and int(name) < len(value) else None
    return value.get(name) if hasattr(value, 'get') else None


def expected(kinds: Sequence[Any]) -> str:
    """Describe types in words: 'a number or None'."""
    words = []
    for one in kinds:
        if one is int and float in kinds:
            continue
        if _is_sequence(one):
            words.append('a list (a,b or [a,b])')
        elif _is_mapping(one):
            words.append("a dict ({'a': 1}, or its keys one by one: key.a=1)")
        else:
            words.append(WORDS.get(one, 'a string' if _is_text(one) else ''))
    return ' or '.join(filter(None, dict.fromkeys(words)))


WORDS = {bool: 'True or False', int: 'an integer', float: 'a number', NoneType: 'None'}


def _any(kinds: Sequence[Any]) -> bool:
    return any(one is Any or one is object for one in kinds)


def _is_sequence(kind: Any) -> bool:
    return kind in SEQUENCES or get_origin(kind) in SEQUENCES


def _is_mapping(kind: Any) -> bool:
    return kind in MAPPINGS or get_origin(kind) in MAPPINGS


def _is_text(kind: Any) -> bool:
    # Python 3.10 calls list[int] a type, of which there are no subclasses.
    return (
        get_origin(kind) is None and isinstance(kind, type) and issubclass(kind, (str, os.PathLike))
    )


def _known(kind: Any) -> bool:
    return kind in WORDS or _is_text(kind) or _is_sequence(kind) or _is_mapping(kind)


# -- readers: text, type, all types that it may be ------------------------------------------------


def _none(text: str, kind: Any, kinds: Sequence[Any]) -> None:
    if text != 'None':
        raise ValueError(text)


def _int(text: str, kind: Any, kinds: Sequence[Any]) -> int:
    try:
        return int(text)
    except ValueError:
        number = float(text)
        if not number.is_integer():  # 1e4 is an integer, 1.5 is not
            raise
        return int(number)


def _float(text: str, kind: Any, kinds: Sequence[Any]) -> float:
    return float(text)


def _bool(text: str, kind: Any, kinds: Sequence[Any]) -> bool:
    if text.lower() not in TRUTH:
        raise ValueError(text)
    return TRUTH[text.lower()]


def _sequence(text: str, kind: Any, kinds: Sequence[Any]) -> Any:
    content = _enclosed(text.strip(), '[(')
    if content is None and (takes_text(kinds) or _in_braces(text)):
        raise ValueError(text)
    parts = split(text if content is None else content)
    values = [_element(part, one) for part, one in zip(parts, _elements(kind, len(parts)))]
    bracket = '' if content is None else text.strip()[0]
    of_tuples = tuple in (kind, get_origin(kind))
    return tuple(values) if bracket == '(' or (of_tuples and not bracket) else values


def _in_braces(text: str) -> bool:
    return text.strip()[:1] == '{'


def _mapping(text: str, kind: Any, kinds: Sequence[Any]) -> dict:
    try:
        value = ast.literal_eval(text.strip())
    except (SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise ValueError(text) from error
    if not isinstance(value, dict):
        raise ValueError(text)
    return value


def _text(text: str, kind: Any, kinds: Sequence[Any]) -> str:
    return str(text)


READERS = [
    (lambda kind: kind is NoneType, _none),
    (lambda kind: kind is int, _int),
    (lambda kind: kind is float, _float),
    (lambda kind: kind is bool, _bool),
    (_is_sequence, _sequence),
    (_is_mapping, _mapping),
    (_is_text, _text),
]


def _guess(text: str) -> Any:
    """Return the value of a text whose type is unknown."""
    bare = text.strip()
    if bare == 'None':
        return None
    if bare.lower() in ('true', 'false'):
        return TRUTH[bare.lower()]
    if NUMBER.fullmatch(bare) or bare.startswith('{'):
        try:
            return ast.literal_eval(bare)
        except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
            return str(text)  # 00123, 1.2.3, {name}
    if len(bare) > 1 and bare[0] == bare[-1] and bare[0] in '\'"':
        return bare[1:-1]
    try:
        content = _enclosed(bare, '[(')
        parts = split(bare if content is None else content)
    except ValueError:
        return str(text)
    if content is None and parts in ([], [bare]):
        return str(text)
    values = [_element(part, Any) for part in parts]
    return tuple(values) if bare[0] == '(' and content is not None else values


# -- lists ----------------------------------------------------------------------------------------


def split(text: str) -> list[str]:
    """Split a text at commas, except inside brackets and quoted elements.

    Raises:
        ValueError: unbalanced brackets.
    """
    parts, start, open_brackets, quote = [], 0, [], ''
    for place, letter in enumerate(text):
        if quote:
            quote = '' if letter == quote else quote
        elif letter in '\'"' and not text[start:place].strip(' [('):
            quote = letter if letter in text[place + 1 :] else ''
        elif letter in CLOSING:
            open_brackets.append(CLOSING[letter])
        elif letter in CLOSING.values():
            if not open_brackets or open_brackets.pop() != letter:
                raise ValueError(f'brackets do not match: {text[:80]!r}')
        elif letter == ',' and not open_brackets:
            parts.append(text[start:place].strip())
            start = place + 1
    if open_brackets:
        raise ValueError(f'brackets do not match: {text[:80]!r}')
    rest = text[start:].strip()
    return parts + [rest] if rest else parts


def _enclosed(text: str, brackets: str) -> Any:
    """Return the text inside brackets around the whole text; None if there are none."""
    if len(text) < 2 or text[0] not in brackets or text[-1] != CLOSING[text[0]]:
        return None
    try:
        split(text[1:-1])
    except ValueError:  # (a),(b)
        return None
    return text[1:-1]


def _element(text: str, kind: Any) -> Any:
    """Convert an element of a list as :func:`read` does, without the quotes of a quoted string."""
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in '\'"'
    kinds = alternatives(kind)
    if quoted and (_any(kinds) or takes_text(kinds)):
        return str(text[1:-1])
    return read(text, kind)


def _elements(kind: Any, count: int) -> list[Any]:
    """Return the types of the first ``count`` elements of a sequence."""
    arguments = [one for one in get_args(kind) if one is not Ellipsis]
    if get_origin(kind) is tuple and Ellipsis not in get_args(kind):
        return [*arguments, *[Any] * count][:count]
    return [arguments[0] if arguments else Any] * count


def written(value: Any, *, inside: bool = False) -> str:
    """Return the text that :func:`read` reads back, quoted inside lists if needed.

    Example:
        ::

            >>> written(['a b', 1])
            "['a b',1]"
    """
    if isinstance(value, (list, tuple)):
        return '[' + ','.join(written(one, inside=True) for one in value) + ']'
    if inside and isinstance(value, str) and re.search(r'[\s,()\[\]{}]', value):
        return f"'{value}'"
    return str(value)
