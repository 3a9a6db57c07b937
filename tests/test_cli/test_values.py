"""Texts of a command line as values of the type that is wanted."""

import random
from contextlib import suppress
from pathlib import Path
from typing import Any, Callable, Literal, Mapping, Optional, Sequence, Union

import pytest

from mmvtr.cli.values import Written, inside, is_known, like, part, read

ODD = [
    'My Clips', ' two  spaces ', 'a,b', '2024', '00123', '1e5', 'None', 'true', 'nan', '[20] clip',
    '[x]', '(a),(b)', "it's", '"quoted"', 'a=b', r'C:\new\table', 'Übung é', '视频 🎬', '-4ws',
    '{x}', '',
]  # fmt: skip


@pytest.mark.parametrize('text', ODD)
@pytest.mark.parametrize('kind', [str, Path, Literal['raise', 'skip'], Union[str, Path]])
def test_a_string_stays_as_it_is_typed(text, kind):
    assert read(text, kind) == text
    assert type(read(Written(text), kind)) is str


@pytest.mark.parametrize('text', [text for text in ODD if text != 'None'])
def test_an_optional_string_as_well(text):
    assert read(text, Optional[str]) == text


@pytest.mark.parametrize(
    ('text', 'kind', 'value'),
    [
        ('None', Optional[str], None),
        ('None', Optional[float], None),
        ('32', int, 32),
        ('1e4', int, 10_000),
        ('2e-4', float, 2e-4),
        ('1', float, 1.0),
        ('-.5', Union[int, float], -0.5),
        ('7', Union[int, float], 7),
        ('True', bool, True),
        ('false', bool, False),
        ('0', bool, False),
        ('1', Union[bool, float], 1.0),
        ('0.3', Union[Literal['auto'], float], 0.3),
        ('auto', Union[Literal['auto'], float], 'auto'),
        ('3', Union[int, Sequence[str]], 3),
        ('ret7', Union[int, Sequence[str]], ['ret7']),
        ('a,b', Union[str, Sequence[str]], 'a,b'),
        ('[a,b]', Union[str, Sequence[str]], ['a', 'b']),
        ('2024,00123', list[str], ['2024', '00123']),
        ('[1, 2]', list[float], [1.0, 2.0]),
        ("['b']", Sequence[str], ['b']),
        ("[My Clips, 'a,b', C:\\new]", Sequence[str], ['My Clips', 'a,b', r'C:\new']),
        ('[]', list[int], []),
        ('(1,2)', tuple[int, ...], (1, 2)),
        ('1,x', tuple[int, str], (1, 'x')),
        ('[(a,b),(c,d)]', list[tuple[str, str]], [('a', 'b'), ('c', 'd')]),
        ("{'a': 1}", Mapping[str, int], {'a': 1}),
        ("[{'a': 1}, {'b': 2}]", Any, [{'a': 1}, {'b': 2}]),
        ("[{'a': 1}, {'b': 2}]", list[dict], [{'a': 1}, {'b': 2}]),
        ("[{'a': 1}]", list[Union[list, int]], [{'a': 1}]),
        ('skip', Union[Literal['raise', 'skip'], dict[str, str]], 'skip'),
        ('.5', Union[float, Callable], 0.5),
    ],
)
def test_of_a_type(text, kind, value):
    found = read(text, kind)
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize(
    ('text', 'value'),
    [
        ('3', 3), ('2e-4', 2e-4), ('None', None), ('true', True), ('False', False),
        ('word', 'word'), ('two words', 'two words'), ('00123', '00123'),
        ('2024-01-02', '2024-01-02'),
        ('1.2.3', '1.2.3'), ("'2024'", '2024'), ('a,b', ['a', 'b']), ('1,2', [1, 2]),
        ('[1,[2,3]]', [1, [2, 3]]), ('[(a,b),(c,d)]', [('a', 'b'), ('c', 'd')]),
        ('(1,2)', (1, 2)),
        ("{'a': 1}", {'a': 1}), ('{a', '{a'), ('[open', '[open'), ("don't, do", ["don't", 'do']),
        ('[a, "b"] =1', '[a, "b"] =1'), ('"a,b" c', '"a,b" c'), ('a,', ['a']), ('', ''),
        ('encoder.frames.,encoder.text.', ['encoder.frames.', 'encoder.text.']),
    ],
)  # fmt: skip
def test_of_no_known_type(text, value):
    assert read(text, Any) == value and type(read(text)) is type(value)


@pytest.mark.parametrize(
    ('text', 'kind', 'expected'),
    [
        ('x', int, "an integer expected, got 'x'"),
        ('1.5', int, 'an integer'),
        ('', float, 'a number expected'),
        ('yes', Optional[bool], 'True or False or None'),
        ('a,2', list[int], r'a list \(a,b or \[a,b\]\)'),
        ('a', dict, 'a dict .* key.a=1'),
    ],
)
def test_what_does_not_fit(text, kind, expected):
    with pytest.raises(ValueError, match=expected):
        read(text, kind)


def test_types_of_values():
    assert like('x') is str and like(True) is bool and like(0.5) is float and like(None) is Any
    assert read('2.5', like(8)) == 2.5
    assert read('2024,1e5', like(['a'])) == ['2024', '1e5']
    assert read('1,x', like(['a', 1])) == [1, 'x']
    assert read("{'b': 2}", like({'a': 1})) == {'b': 2}


def test_what_is_inside():
    assert inside(Optional[Mapping[str, int]], 'a') is int
    assert inside(Union[str, dict[str, str]], 'skip') is str
    assert inside(Sequence[float], '3') is float and inside(tuple[int, str], '1') == Union[int, str]
    assert inside(str, 'a') is Any and inside(Any, 'a') is Any
    assert is_known(Optional[str]) and not is_known(Any) and not is_known(Optional[Callable])
    nested = dict(a=[dict(b=3)])
    assert part(part(part(nested, 'a'), '0'), 'b') == 3
    assert part(nested, 'x') is None and part([1], '5') is None and part('text', '0') is None


def test_any_text_has_a_value():
    letters, draw = 'a1, []()"\'{}=-.N', random.Random(0)
    for _ in range(3000):
        text = ''.join(draw.choices(letters, k=draw.randrange(12)))
        read(text)
        assert read(text, str) == text
        for kind in (int, list[str], Optional[Sequence[float]], dict, bool):
            with suppress(ValueError):
                read(text, kind)
