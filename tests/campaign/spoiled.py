"""Seeded ways to spoil an annotation file: its bytes, its text, or the tree of its json.

Each takes a generator and what is to be spoiled; the result may be read as well as before.
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from random import Random
from typing import Any, Callable, Iterator, Optional

DEEP = 100_000
HUGE = 300_000

#: What no reader can use where something else belongs.
INVISIBLE = (
    *('', ' ', '\t ', '\u200b', '\u200d\u2060\ufeff', '\xa0', '\u2028', '\0', 'a\0b', '\ud800'),
)
LEAVING = ('../x', '../../etc/passwd', '/etc/passwd', 'a/../../x', '..\\x', '.', '..', 'a\0/../b')
NUMBERS = (
    0,
    7,
    0.5,
    -1,
    -3.5,
    1e308,
    1e-320,
    10**399,
    2**63,
    float('nan'),
    float('inf'),
    -float('inf'),
)
VALUES = (None, True, False, 7, [], {}, [[]], [None], {'a': {}}, 'x', 'x' * HUGE, 'ä' * 300, '7')
CHARACTERS = (
    *('"', '""', "'", ',', ';', '\t', '\n', '\r', '\0', '\ufeff', '\xa0', '\u200b', '##', '{', '['),
)

Way = Callable[[Random, bytes], bytes]


def spoil(random: Random, path: Path) -> str:
    """Spoil a file in one seeded way.

    Returns:
        The name of the way.
    """
    content = path.read_bytes()
    ways = [*BYTES, *TEXT, *(TREE * 2 if _tree(path.suffix, content) is not None else ())]
    way = random.choice(ways)
    if way in TREE:
        tree = _tree(path.suffix, content)
        path.write_bytes(_dump(random, path.suffix, way(random, tree)))
    else:
        path.write_bytes(way(random, content))
    return way.__name__.strip('_')


# -- bytes -------------------------------------------------------------------------------------


def _flip(random: Random, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(random.choice((1, 1, 3, 20))):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _cut(random: Random, content: bytes) -> bytes:
    return content[: random.randrange(len(content))]


def _cut_out(random: Random, content: bytes) -> bytes:
    begin, end = _span(random, content)
    return content[:begin] + content[end:]


def _insert(random: Random, content: bytes) -> bytes:
    return _put(random, content, random.randbytes(random.choice((1, 4, 50))))


def _insert_null(random: Random, content: bytes) -> bytes:
    return _put(random, content, b'\0' * random.choice((1, 5)))


def _insert_no_utf8(random: Random, content: bytes) -> bytes:
    return _put(random, content, random.choice((b'\xff', b'\xe9', b'\xc3', b'\xed\xa0\x80')))


def _repeat(random: Random, content: bytes) -> bytes:
    begin, end = _span(random, content)
    return content[:end] + content[begin:]


def _swap(random: Random, content: bytes) -> bytes:
    a, b = sorted(_span(random, content))
    middle = (a + b) // 2
    return content[:a] + content[middle:b] + content[a:middle] + content[b:]


def _not_a_number(random: Random, content: bytes) -> bytes:
    """As float32, or as much of it as fits there."""
    place = random.randrange(0, len(content), 4)
    return (
        content[:place] + random.choice((b'\0\0\xc0\x7f', b'\0\0\x80\xff')) + content[place + 4 :]
    )


BYTES: tuple[Way, ...] = (
    *(_flip, _cut, _cut_out, _insert, _insert_null, _insert_no_utf8, _repeat, _swap),
    _not_a_number,
)


def _span(random: Random, content: bytes) -> tuple[int, int]:
    begin = random.randrange(len(content))
    return begin, min(len(content), begin + random.choice((2, 8, 40, 200)))


def _put(random: Random, content: bytes, piece: bytes) -> bytes:
    place = random.randrange(len(content) + 1)
    return content[:place] + piece + content[place:]


# -- text --------------------------------------------------------------------------------------


def _insert_character(random: Random, content: bytes) -> bytes:
    return _put(random, content, random.choice(CHARACTERS).encode())


def _insert_huge(random: Random, content: bytes) -> bytes:
    return _put(random, content, random.choice((b'x', b'7', b'"', b'[', b'{"a":')) * HUGE)


def _other_delimiter(random: Random, content: bytes) -> bytes:
    return content.replace(b',', random.choice((b';', b'\t', b'|', b',,')))


def _other_ends(random: Random, content: bytes) -> bytes:
    return content.replace(b'\n', random.choice((b'\r\n', b'\r', b'\n\n', b'\x0b')))


def _on_a_line(change: Callable[[Random, list[bytes], int], list[bytes]]) -> Way:
    def way(random: Random, content: bytes) -> bytes:
        lines = content.split(b'\n')
        position = random.randrange(len(lines))
        return b'\n'.join(
            lines[:position] + change(random, lines, position) + lines[position + 1 :]
        )

    way.__name__ = change.__name__
    return way


def _line_twice(random: Random, lines: list[bytes], i: int) -> list[bytes]:
    return [lines[i], lines[i]]


def _line_gone(random: Random, lines: list[bytes], i: int) -> list[bytes]:
    return []


def _other_line(random: Random, lines: list[bytes], i: int) -> list[bytes]:
    return [random.choice((b' ', b'\xe2\x80\x8b', b'"', b',', *(v.encode() for v in LEAVING)))]


def _field(random: Random, lines: list[bytes], i: int) -> list[bytes]:
    fields = lines[i].split(b',')
    some = [v.encode('utf-8', 'surrogatepass') for v in (*INVISIBLE, *LEAVING)]
    some += [repr(number).encode() for number in NUMBERS[:3]] + [
        b'9' * 400,
        b'nan',
        b'inf',
        b'1e999',
    ]
    fields[random.randrange(len(fields))] = random.choice((*some, b'y' * HUGE, b'True', b'[]'))
    return [b','.join(fields)]


def _word(random: Random, lines: list[bytes], i: int) -> list[bytes]:
    words = lines[i].split(b' ')
    some = [v.encode('utf-8', 'surrogatepass') for v in (*INVISIBLE, *LEAVING)]
    some += [b'9' * 5000, b'nan', b'-1', b'1_0']
    words[random.randrange(len(words))] = random.choice(some)
    return [b' '.join(words)]


def _column_more(random: Random, lines: list[bytes], i: int) -> list[bytes]:
    return [lines[i] + b',more']


def _column_less(random: Random, lines: list[bytes], i: int) -> list[bytes]:
    return [lines[i].rpartition(b',')[0]]


def _column_twice(random: Random, content: bytes) -> bytes:
    """A column more, with the name of another one and the values of a third."""
    header, *rows = content.split(b'\n')
    names = header.split(b',')
    values = [row.split(b',')[random.randrange(len(names)) % len(row.split(b','))] for row in rows]
    wider = [row + b',' + value if row else row for row, value in zip(rows, values)]
    return b'\n'.join([header + b',' + random.choice(names), *wider])


TEXT: tuple[Way, ...] = (
    _column_twice,
    *(_insert_character, _insert_huge, _other_delimiter, _other_ends),
    *map(_on_a_line, (_line_twice, _line_gone, _other_line, _field, _word)),
    *map(_on_a_line, (_column_more, _column_less)),
)


# -- trees -------------------------------------------------------------------------------------


def _other_value(random: Random, tree: Any) -> Any:
    return _at_some_place(random, tree, lambda value: random.choice(VALUES))


def _other_number(random: Random, tree: Any) -> Any:
    return _at_some_place(random, tree, lambda v: random.choice(NUMBERS), (int, float))


def _other_string(random: Random, tree: Any) -> Any:
    return _at_some_place(random, tree, lambda v: random.choice((*INVISIBLE, *LEAVING)), (str,))


def _emptied(random: Random, tree: Any) -> Any:
    return _at_some_place(random, tree, lambda value: type(value)(), (list, dict, str))


def _deep(random: Random, tree: Any) -> Any:
    depth = random.choice((5, 300))

    def deep(value: Any) -> Any:
        for _ in range(depth):
            value = [value]
        return value

    return _at_some_place(random, tree, deep)


def _key_gone(random: Random, tree: Any) -> Any:
    return _at_some_place(random, tree, lambda d: _without(d, random.choice([*d] or [''])), (dict,))


def _key_renamed(random: Random, tree: Any) -> Any:
    def renamed(content: dict) -> dict:
        old = random.choice([*content] or [''])
        new = random.choice(('other', 'k' * HUGE, *INVISIBLE, *LEAVING))
        return {new if key == old else key: value for key, value in content.items()}

    return _at_some_place(random, tree, renamed, (dict,))


def _row_twice(random: Random, tree: Any) -> Any:
    def twice(rows: list) -> list:
        return rows + [random.choice(rows)] if rows else rows

    return _at_some_place(random, tree, twice, (list,))


def _row_gone(random: Random, tree: Any) -> Any:
    def gone(rows: list) -> list:
        position = random.randrange(len(rows)) if rows else 0
        return rows[:position] + rows[position + 1 :]

    return _at_some_place(random, tree, gone, (list,))


def _swapped(random: Random, tree: Any) -> Any:
    places = [*_places(tree)]
    a, b = random.choice(places), random.choice(places)
    values = _get(tree, a), _get(tree, b)
    if a[: len(b)] == b or b[: len(a)] == a:  # one holds the other
        return tree
    return _set(_set(tree, a, values[1]), b, values[0])


TREE = (
    *(_other_value, _other_value, _other_number, _other_string, _emptied, _deep),
    *(_key_gone, _key_renamed, _row_twice, _row_gone, _swapped),
)

Path_ = tuple[Any, ...]


def _tree(suffix: str, content: bytes) -> Any:
    """The content of json, json lines (as a list) or a pickle, else None."""
    if suffix == '.json':
        return json.loads(content)
    if suffix == '.jsonl':
        return [json.loads(line) for line in content.splitlines()]
    return pickle.loads(content) if suffix == '.pkl' else None


def _dump(random: Random, suffix: str, tree: Any) -> bytes:
    if suffix == '.pkl':
        return pickle.dumps(tree)
    if suffix == '.jsonl':
        rows = tree if isinstance(tree, list) else [tree]
        return '\n'.join(map(json.dumps, rows)).encode()
    text = json.dumps(tree)
    if random.random() < 0.05:  # deeper than a tree of python can be built
        place = random.choice([i for i, char in enumerate(text) if char in '[{'] or [0])
        text = text[:place] + '[' * DEEP + ']' * DEEP + text[place:]
    return text.encode()


def _places(tree: Any, here: Path_ = ()) -> Iterator[Path_]:
    yield here
    if isinstance(tree, (dict, list)):
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from _places(value, (*here, key))


def _get(tree: Any, place: Path_) -> Any:
    for key in place:
        tree = tree[key]
    return tree


def _set(tree: Any, place: Path_, value: Any) -> Any:
    """A copy with another value at a place."""
    if not place:
        return value
    changed = tree.copy()
    changed[place[0]] = _set(tree[place[0]], place[1:], value)
    return changed


def _at_some_place(
    random: Random, tree: Any, change: Callable[[Any], Any], kinds: Optional[tuple] = None
) -> Any:
    def fits(value: Any) -> bool:
        return kinds is None or (isinstance(value, kinds) and not isinstance(value, bool))

    places = [place for place in _places(tree) if fits(_get(tree, place))]
    if not places:
        return tree
    place = random.choice(places)
    return _set(tree, place, change(_get(tree, place)))


def _without(content: dict, key: Any) -> dict:
    return {other: value for other, value in content.items() if other != key}
