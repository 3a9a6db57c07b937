"""Convert command-line text to a value of a given type.

A type is given as an annotation: ``str``, ``Optional[float]``, ``Sequence[str]``,
``Mapping[str, int]``; ``Any`` is an unknown type.  mmengine's ``DictAction`` knows no types: it
takes the spaces out of ``videos=My Clips``, and makes the number 123 of the name 00123.
"""

from __future__ import annotations

import ast
import collections.abc
import math
import os
import re
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Mapping, Optional, Sequence, Union, get_args, get_origin

SEQUENCES = (
    list, tuple, set, frozenset, collections.abc.Sequence, collections.abc.Iterable,
    collections.abc.Collection, collections.abc.Set,
)  # fmt: skip
WORDS = {'true': True, 'false': False, '1': True, '0': False}
CLOSING = {'[': ']', '(': ')', '{': '}'}
NUMBER = re.compile(r'[+-]?(\d|\.\d)[\d.eE+_-]*')
#: What a type is called in an error.
EXPECTED = {
    int: 'an integer',
    float: 'a number',
    bool: 'True or False',
    NoneType: 'None',
    list: 'a list (a,b or [a,b])',
    dict: "a dict ({'a': 1}, or its keys one by one: key.a=1)",
    str: 'a string',
}
#: Errors of a text that is not of a type.
UNFIT = (ValueError, KeyError, SyntaxError, TypeError, OverflowError, MemoryError, RecursionError)


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
    kinds = forms(kind)
    if not is_known(kind):
        return _guess(text)
    readers = {
        NoneType: {'None': None}.__getitem__,
        int: _integer,
        float: float,
        bool: lambda text: WORDS[text.lower()],
        list: lambda text: _list(text, kinds[list], bare=str not in kinds),
        dict: _dict,
        str: str,
    }
    in_its_place = list in kinds and str not in kinds  # a component's config in place of a list
    for form, reads in readers.items():
        if form in kinds or (form is dict and in_its_place):
            try:
                return reads(text)
            except UNFIT:
                continue
    raise ValueError(f'{_expected(kinds)} expected, got {text[:80]!r}')


def misfit(value: Any, kind: Any) -> str:
    """Return what was expected in place of a config's value; '' if it fits, or that is not known.

    A string does not fit where only numbers, True and False do, and a fraction is no integer.
    """
    kinds = forms(kind)
    if not {NoneType} < kinds.keys() | {NoneType} <= {NoneType, bool, int, float}:
        return ''
    whole = not isinstance(value, float) or value.is_integer() or math.isinf(value)
    if isinstance(value, str) or (int in kinds and float not in kinds and not whole):
        return f'{_expected(kinds)} expected, found {value!r:.80}'
    return ''


def _expected(kinds: Mapping[Any, Any]) -> str:
    """Return what the types of :func:`forms` are called in an error."""
    both = float in kinds and int in kinds
    return ' or '.join(EXPECTED[x] for x in kinds if x in EXPECTED and not (both and x is int))


def forms(kind: Any) -> dict[Any, Any]:
    """Map each form of value that a type admits to its type in the annotation.

    Forms are None, bool, int, float, str, list, dict and ``Any``, or ``object`` for what no text
    can represent.  A union has the forms of its parts, a ``Literal`` those of its values.
    """
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        by_form: dict[Any, Any] = {}
        for member in get_args(kind):
            by_form = {**by_form, **forms(member), **by_form}  # the first of a form
        return by_form
    if origin is Literal:
        return {type(value): type(value) for value in get_args(kind)}
    if origin is Annotated:
        return forms(get_args(kind)[0])
    base = NoneType if kind is None else origin or kind
    if base in (NoneType, bool, int, float, Any):
        return {base: base}
    if base in SEQUENCES:
        return {list: kind}
    if isinstance(base, type) and issubclass(base, collections.abc.Mapping):
        return {dict: kind}
    is_text = isinstance(base, type) and issubclass(base, (str, os.PathLike))
    return {str: str} if is_text else {Any if base is object else object: base}


def is_known(kind: Any) -> bool:
    """Return whether a type determines how a text is read: not ``Any`` or a custom class alone."""
    kinds = forms(kind)
    return Any not in kinds and bool(kinds.keys() - {object, NoneType})


def like(value: Any) -> Any:
    """Return a type that a value has: any number for an integer, ``Any`` for None."""
    if isinstance(value, (bool, float, str)):
        return type(value)
    if isinstance(value, int):
        return Union[int, float]
    if isinstance(value, (list, tuple)):
        # Only if all elements have one type: None or a dict may be replaced by anything.
        inner = {like(item) for item in value}
        element = inner.pop() if len(inner) == 1 else Any
        return tuple[element, ...] if isinstance(value, tuple) else list[element]
    return dict if isinstance(value, Mapping) else Any


def inside(kind: Any, key: str) -> Any:
    """Return the type of a mapping's value or of a sequence's element; ``Any`` if unknown."""
    kinds = forms(kind)
    if len(get_args(kinds.get(dict))) == 2:
        return get_args(kinds[dict])[1]
    return _element_of(kinds[list]) if list in kinds and key.isdigit() else Any


def part(value: Any, name: str) -> Any:
    """Return a nested value's entry at a key, or at a list index; None if there is none."""
    if isinstance(value, (list, tuple)):
        return value[int(name)] if name.isdigit() and int(name) < len(value) else None
    return value.get(name) if hasattr(value, 'get') else None


def full_keys(option: str, shortcuts: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the config keys that an option sets: those of its shortcut, or the option itself."""
    first, dot, rest = option.partition('.')
    return [f'{key}{dot}{rest}' for key in shortcuts.get(first, [first])]


def lacking_part(cfg: Any, option: str) -> Optional[str]:
    """Return the first key of an option in a part that a config does not have, or None."""
    for key in full_keys(option, cfg.get('shortcuts') or {}):
        holder: Any = cfg
        for name in key.split('.')[:-1]:
            holder = None if holder is None else part(holder, name)
        if holder is None:
            return key
    return None


def written(value: Any, *, nested: bool = False) -> str:
    """Return the text that :func:`read` reads back, quoted inside lists if needed.

    Example:
        ::

            >>> written(['a b', 1])
            "['a b',1]"
    """
    if isinstance(value, (list, tuple)):
        return '[' + ','.join(written(item, nested=True) for item in value) + ']'
    if nested and isinstance(value, str) and re.search(r'[\s,()\[\]{}]', value):
        return f"'{value}'"
    return str(value)


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        if not float(text).is_integer():  # 1e4 is an integer, 1.5 is not
            raise
        return int(float(text))


def _dict(text: str) -> dict:
    value = ast.literal_eval(text.strip())
    if not isinstance(value, dict):
        raise ValueError(text)
    return value


def _guess(text: str) -> Any:
    """Return the value of a text whose type is unknown."""
    bare = text.strip()
    try:
        if bare == 'None' or NUMBER.fullmatch(bare) or bare.startswith('{'):
            return ast.literal_eval(bare)
        if bare.lower() in ('true', 'false'):
            return WORDS[bare.lower()]
        quoted = _unquoted(bare)
        return _list(bare, list, bare=False) if quoted is None else quoted
    except UNFIT:  # 00123, 1.2.3, {name}
        pass
    try:
        parts = split(bare)
        return str(text) if parts in ([], [bare]) else _list(bare, list, bare=True)
    except ValueError:
        return str(text)


def _list(text: str, kind: Any, *, bare: bool) -> Any:
    """Return a list or a tuple; ``bare``: it may lack its brackets."""
    text = text.strip()
    content = _enclosed(text)
    if content is None and (not bare or text.startswith('{')):
        raise ValueError(text)
    values = []
    element = _element_of(kind)
    for word in split(text if content is None else content):
        unquoted = _unquoted(word) if {Any, str} & forms(element).keys() else None
        values.append(read(word, element) if unquoted is None else unquoted)
    is_tuple = text[:1] == '(' if content is not None else tuple in (kind, get_origin(kind))
    return tuple(values) if is_tuple else values


def _element_of(kind: Any) -> Any:
    """Return the type of a sequence's elements, a union if they have several."""
    return Union[tuple(x for x in get_args(kind) if x is not Ellipsis) or (Any,)]


def _unquoted(text: str) -> Optional[str]:
    """Return a text without the quotes around it; None if it has none."""
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in '\'"'
    return str(text[1:-1]) if is_quoted else None


def _enclosed(text: str) -> Optional[str]:
    """Return the text inside brackets around the whole text; None if there are none."""
    if len(text) < 2 or text[0] + text[-1] not in ('[]', '()'):
        return None
    try:
        split(text[1:-1])
    except ValueError:  # (a),(b)
        return None
    return text[1:-1]


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
