"""Checks of annotation values: what fits, what does not, and what the error says."""

import json
import re
import subprocess

import pytest

from mmvtr.datasets import annotation_files as files
from mmvtr.datasets import annotation_values as values
from mmvtr.datasets.annotation_values import LONGEST, Place, shown, wrong

PLACE = Place('folder/list.json', "'a'").at('entry 3')
DEEP = [[]]
for _ in range(5000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    'check, value, expected',
    [
        (values.seconds, 3, 3.0),
        (values.seconds, '12.5', 12.5),
        (values.seconds, '.5', 0.5),
        (values.seconds, '1e2', 100.0),
        (values.duration, 0.1, 0.1),
        (values.number, 7, 7),
        (values.number, '007', 7),
        (values.caption, 'A dog\nruns.', 'A dog\nruns.'),
        (values.caption, '...', '...'),
        (values.caption, '一个人', '一个人'),
        (values.identifier, 'a b/c.d-e#0', 'a b/c.d-e#0'),
        (values.strings, [], []),
        (values.mapping, {'a': 1}, {'a': 1}),
    ],
)
def test_what_fits(check, value, expected):
    found = check(value, PLACE)
    assert found == expected and type(found) is type(expected)


@pytest.mark.parametrize(
    'check, bad',
    [
        (values.seconds, [True, None, -1, 'x', '', '1_0', ' 1', 'inf', '1e999', float('nan')]),
        (values.seconds, [float('inf'), 10**400, 1e10, [1], '9' * 400, '-1', '٣']),
        (values.duration, [0, '0', '0.0', False]),
        (values.number, [True, 1.0, -1, '-1', '1.5', '', '²', 10**15, '9' * 5000, None]),
        (values.caption, ['', ' \n', '\u200b', '\u200d\ufeff', '\u0301', 'a\0b', 'a\ud800', 7]),
        (values.caption, [None, True, ['a'], b'a']),
        (values.identifier, ['', ' ', '.', '..', '../a', 'a/../b', '/a', 'a/', 'a//b', '..\\a']),
        (values.identifier, ['\\a', 'a\0', 'a\n', 'a\u200b', '\ud800', 'x' * 256, 7, None, True]),
        (values.strings, ['a', [1], None, ['a\0']]),
        (values.listing, [{}, 'a', None, (1,)]),
        (values.mapping, [[], 'a', None, {1: 2}]),
        (values.string, [1, None, 'a\0', '\udfff']),
    ],
)
def test_what_does_not(check, bad):
    for value in bad:
        with pytest.raises(ValueError, match="^folder/list.json: 'a', entry 3: expected .*, found"):
            check(value, PLACE)


@pytest.mark.parametrize(
    'value',
    ['x' * 300_000, 10**10_000, DEEP, ['é' * 999] * 999, {'k' * 999: 1}, b'x' * 999, None],
    ids=range(7),
)
def test_messages_are_short_whatever_came(value):
    assert len(shown(value)) <= 80
    long = Place('folder/' * 200 + 'list.json').key(value).key('k' * 999).at('x' * 999)
    message = str(wrong(long, 'y' * 999, value))
    assert len(message) <= LONGEST == 500 and 'list.json' in message
    message = str(wrong(long, 'a time in seconds', value))
    assert 'expected a time in seconds, found ' in message


def test_how_a_value_begins():
    assert shown('a' * 100) == "'" + 'a' * 76 + '...'
    assert shown(['a', 1]) == "['a', 1]"
    assert shown('\u200b') == "'\\u200b'"


def test_fields_and_names():
    assert values.field(dict(a='1'), 'a', values.number, PLACE) == 1
    with pytest.raises(ValueError, match=r"entry 3: expected a key 'a', found \['b'\]"):
        values.field(dict(b=1), 'a', values.number, PLACE)
    with pytest.raises(ValueError, match="entry 3, 'a': expected a number from 0, found None"):
        values.field(dict(a=None), 'a', values.number, PLACE)
    places = [Place('f', f'line {i}') for i in range(3)]
    assert values.unique(zip('abc', places), 'video') == ['a', 'b', 'c']
    with pytest.raises(ValueError, match="^f: line 2: a second video 'a', the first is line 0$"):
        values.unique(zip('aba', places), 'video')
    with pytest.raises(ValueError, match="^g: a second video 'a', the first is f: line 0$"):
        values.unique([('a', places[0]), ('a', Place('g'))], 'video')


@pytest.mark.parametrize(
    'content, message',
    [
        (b'a,b\n1,"2\n', 'line 2: no csv: unexpected end of data'),
        (b'a,b\n1,' + b'2' * 131_073, 'line 2: no csv: field larger than field limit'),
        (b'a,b\n1,2\n1\n', r"line 3: expected 2 fields, as the header has, found \['1'\]"),
        (
            b'a,a,b\n',
            r"line 1: the column 'a' stands twice \(\['a', 'a'\]\); name each column once",
        ),
        (b'a\n1\n', r"line 1: expected columns \['b'\], each once, found"),
        (b'', r"expected columns \['a', 'b'\], each once, found \[\]"),
        (b'a,b\n\xff,2', r'not UTF-8: invalid start byte at byte 4 \(line 2, '),
    ],
)
def test_tables_that_are_none(tmp_path, content, message):
    path = tmp_path / 'list.csv'
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f'list.csv: {message}'):
        files.read_table(path, ('a', 'b'))


@pytest.mark.parametrize('ends', ['\n', '\r\n', '\r'])
@pytest.mark.parametrize('delimiter', ',;\t')
def test_tables_as_spreadsheets_save_them(tmp_path, ends, delimiter):
    path = tmp_path / 'list.csv'
    lines = ['a,b', '', '1 ,"x;, y"', '2,z']
    text = ends.join(lines).replace(',', delimiter, 3).replace('2,', f'2{delimiter}')
    path.write_bytes(b'\xef\xbb\xbf' + text.encode())
    rows = [row for _, row in files.read_table(path, ('b', 'a'))]
    assert [row['a'] for row in rows] == ['1', '2'] and rows[1]['b'] == 'z'
    assert str(files.read_table(path, ('a',))[1][0]).endswith('list.csv: line 4')


@pytest.mark.parametrize(
    'content, message',
    [
        ('{"a": 1, "b": {"c": 1, "c": 2}}', "not valid json: a second key 'c' in an object"),
        ('[' * 100_000, 'not valid json: nested too deeply'),
        ('{"a": ' + '9' * 5000 + '}', 'not valid json: .*4300'),
        ('{"a": 1', 'not valid json: Expecting'),
        ('[1]', 'expected an object of keys and values, found .1'),
        ('{"b": 1}', r"expected a key 'a', found \['b'\]"),
        (b'\xff', 'not UTF-8'),
    ],
)
def test_json_that_is_none(tmp_path, content, message):
    path = tmp_path / 'list.json'
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=f'list.json: {message}'):
        files.read_json(path, ('a',))


def test_rows_have_their_places(tmp_path):
    path = tmp_path / 'rows'
    path.write_text(json.dumps([dict(a=1), dict(a=2)]))
    assert [str(place) for place, _ in files.read_rows(path)] == [
        f'{path}: entry 0', f'{path}: entry 1'
    ]  # fmt: skip
    path.write_text('{"a": 1}\n\n{"a": 2}\r\n[]')
    with pytest.raises(ValueError, match='rows: line 4: expected an object of keys and values'):
        files.read_json_lines(path)
    path.write_text('b\n\na\n b\n')
    with pytest.raises(ValueError, match="rows: line 4: a second video 'b', the first is line 1"):
        files.read_ids(path)
    path.write_text('b\n..\n')
    with pytest.raises(ValueError, match=r"rows: line 2: expected an id, .* found '\.\.'"):
        files.read_ids(path)
    path.write_text('a\n')
    with pytest.raises(ValueError, match='rows: has no rows'):
        files.read_column(path, 'a')


@pytest.mark.parametrize('encoding', ['utf-16', 'utf-16-be', 'utf-32', 'utf-32-be'])
@pytest.mark.parametrize('text', ['a,b\n動画,2\n', 'a,b\n“red” dog,2\n', 'a,b\nплывёт,2\n'])
def test_the_hint_for_a_marked_encoding_does_as_it_says(tmp_path, encoding, text):
    path = tmp_path / 'notes.csv'
    path.write_bytes((text if encoding[-1].isdigit() else '\ufeff' + text).encode(encoding))
    with pytest.raises(ValueError, match='expected UTF-8, found UTF-(16|32)') as error:
        files.read_text(path)
    command = re.search('`(iconv .*)`', str(error.value))[1]
    path.write_bytes(subprocess.run([*command.split(), path], capture_output=True).stdout)
    assert files.read_text(path) == text


@pytest.mark.parametrize(
    'encoding', ['shift_jis', 'cp1252', 'latin1', 'gb18030', 'euc_kr', 'koi8_r']
)
def test_no_encoding_is_guessed(tmp_path, encoding):
    text = dict(
        shift_jis='動画', cp1252='“é”', latin1='é', gb18030='视频', euc_kr='영상', koi8_r='кот'
    )
    path = tmp_path / 'notes.csv'
    path.write_bytes(f'a,b\n{text[encoding]},2\n'.encode(encoding))
    with pytest.raises(ValueError, match='not UTF-8') as error:
        files.read_text(path)
    assert 'iconv' not in str(error.value)
