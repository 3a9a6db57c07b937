"""What a table says, in four kinds of files, and what is no table."""

import json
import math

import pytest

from mmvtr.datasets.annotation_values import Place
from mmvtr.datasets.tables.rows import Row, read_rows

CSV = (
    'video,text,start,end,text_id,split,duration\na.mp4, a dog ,1.5,4,t0,train,9\nb,two,,,7,val,\n'
)


def written(folder, content, name='my.csv'):
    path = folder / name
    path.write_text(content, encoding='utf-8')
    return path


@pytest.mark.parametrize('name, separator', [('my.csv', ','), ('my.csv', ';'), ('my.tsv', '\t')])
def test_csv_and_tsv(tmp_path, name, separator):
    path = written(tmp_path, CSV.replace(',', separator), name)
    rows, columns = read_rows(path, {})
    assert rows == [
        Row(Place(path, 'line 2'), 'a.mp4', 'a dog', 't0', 1.5, 4.0, 9.0, 'train'),
        Row(Place(path, 'line 3'), 'b', 'two', '7', None, None, None, 'val'),
    ]
    assert columns == {'video', 'text', 'start', 'end', 'text_id', 'split', 'duration'}


def test_json_lines(tmp_path):
    lines = [
        dict(video='a', text='a dog', start=1, end=2.5),
        dict(video=12, text=['one', 'two'], text_id='t', more=[1]),
    ]
    path = written(tmp_path, '\n\n'.join(map(json.dumps, lines)), 'my.jsonl')
    with pytest.raises(ValueError, match=r"my.jsonl: line 1, 'text_id': expected a name"):
        read_rows(path, {})
    lines[0]['text_id'] = 5
    path = written(tmp_path, '\n\n'.join(map(json.dumps, lines)), 'my.jsonl')
    rows, columns = read_rows(path, {})
    assert columns == {'video', 'text', 'start', 'end', 'text_id'}
    assert [(r.video, r.text, r.text_id, r.start, r.end) for r in rows] == [
        ('a', 'a dog', '5', 1.0, 2.5),
        ('12', 'one', 't#0', None, None),
        ('12', 'two', 't#1', None, None),
    ]


def test_parquet(tmp_path):
    pyarrow = pytest.importorskip('pyarrow')
    parquet = pytest.importorskip('pyarrow.parquet')
    path = tmp_path / 'my.parquet'
    content = dict(
        video=['a', 'b'], text=[['x', 'y'], ['z']], start=[None, 2.0], end=[math.nan, 3.0]
    )
    parquet.write_table(pyarrow.table(content), path)
    rows, _ = read_rows(path, {})
    assert [(r.place.inside, r.video, r.text, r.start, r.end) for r in rows] == [
        ('row 1', 'a', 'x', None, None),
        ('row 1', 'a', 'y', None, None),
        ('row 2', 'b', 'z', 2.0, 3.0),
    ]
    path.write_bytes(b'PAR1 nothing')
    with pytest.raises(ValueError, match='my.parquet: not a parquet file'):
        read_rows(path, {})


def test_parquet_without_its_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__('sys').modules, 'pyarrow', None)
    with pytest.raises(
        ImportError, match=r"my.parquet: reading parquet needs .pip install -e '.\[parquet\]'"
    ):
        read_rows(written(tmp_path, '', 'my.parquet'), {})


def test_columns_of_other_names(tmp_path):
    path = written(tmp_path, 'filename,caption,from\na,x,2\n')
    rows, columns = read_rows(path, dict(video='filename', text='caption', start='from'))
    assert rows[0][1:5] == ('a', 'x', None, 2.0) and columns == {'video', 'text', 'start'}


@pytest.mark.parametrize(
    'header, columns, said',
    [
        (
            'filename,text',
            {},
            r"the table has \['filename', 'text'\]; `columns=dict\(video='file",
        ),
        ('Video,text', {}, r"`columns=dict\(video='Video'\)`"),
        ('video,Caption', {}, r"`columns=dict\(text='Caption'\)`"),
        ('vidoe,text', {}, r"`columns=dict\(video='vidoe'\)`"),
        ('x,y', {}, r"no column 'video' for 'video'; the table has \['x', 'y'\]$"),
        ('video,text', dict(split='part'), "no column 'part' for 'split'"),
        ('video,text', dict(txt='text'), "no column is called 'txt'; expected some of"),
    ],
)
def test_columns_that_are_not_there(tmp_path, header, columns, said):
    with pytest.raises(ValueError, match=said) as error:
        read_rows(written(tmp_path, f'{header}\na,b\n'), columns)
    assert len(str(error.value)) < 500


@pytest.mark.parametrize(
    'row, said',
    [
        ('a,,,,,', "line 3, 'text': expected a caption, which is not empty, found ''"),
        (',x,,,,', "line 3, 'video': expected a name or a whole number, not empty, found ''"),
        ('a,x,5,5,,', "line 3: the clip ends before it begins; expected 'start' below 'end'"),
        ('a,x,,0,,', 'line 3: the clip ends before it begins'),
        ('a,x,soon,,,', "line 3, 'start': expected a time in seconds, found 'soon'"),
        ('a,x,-1,,,', "line 3, 'start': expected a time in seconds"),
        ('a,x,,inf,,', "line 3, 'end': expected a time in seconds"),
        ('a,x,9,,,9', 'line 3: the clip begins after its file'),
        ('a,x,,,,0', "line 3, 'duration': expected a duration above 0 s"),
        ('a,x,,', '6 fields'),
    ],
)
def test_rows_that_do_not_fit(tmp_path, row, said):
    start = 'video,text,start,end,other,duration\na,x,,,,\n'
    with pytest.raises(ValueError, match=said) as error:
        read_rows(written(tmp_path, f'{start}{row}\n'), {})
    assert 'my.csv' in str(error.value) and len(str(error.value)) < 500


@pytest.mark.parametrize(
    'line, said',
    [
        (dict(video='a', text=[]), "line 1, 'text': expected a text, or several"),
        (dict(video='a', text=5), "line 1, 'text': expected a string, found 5"),
        (dict(video='a', text=None), "line 1, 'text': expected a string, found None"),
        (dict(video='a', text=['x', ' ']), "line 1, 'text': expected a caption"),
        (dict(video=['a'], text='x'), r"line 1, 'video': expected a name .* found \['a'\]"),
        (dict(video='a', text='x', start=True), "line 1, 'start': expected a time"),
        (dict(video='a', text='x', split=None), "line 1, 'split': expected a name"),
        (dict(video='a', text='x', start=['y' * 10_000]), "line 1, 'start': expected a time"),
        ([1], 'line 1: expected an object'),
    ],
)
def test_json_of_other_types(tmp_path, line, said):
    with pytest.raises(ValueError, match=said) as error:
        read_rows(written(tmp_path, json.dumps(line), 'my.jsonl'), {})
    assert len(str(error.value)) < 500


def test_ndjson_is_jsonl(tmp_path):
    lines = '{"video": "a", "text": "x"}\n{"video": "b", "text": "y"}\n'
    rows = read_rows(written(tmp_path, lines, 'my.ndjson'), {}).rows
    assert [(row.video, row.text) for row in rows] == [('a', 'x'), ('b', 'y')]


def test_files_that_are_no_tables(tmp_path):
    with pytest.raises(FileNotFoundError, match='no such table: .*gone.csv'):
        read_rows(tmp_path / 'gone.csv', {})
    with pytest.raises(
        ValueError, match=r"expected a table, one of .csv, .tsv, .* files, found '.xlsx'"
    ):
        read_rows(written(tmp_path, 'x', 'my.xlsx'), {})
    with pytest.raises(ValueError, match='my.csv: has no rows'):
        read_rows(written(tmp_path, 'video,text\n'), {})
    (tmp_path / 'my.csv').write_bytes(b'video,text\na,caf\xe9\n')
    with pytest.raises(ValueError, match='my.csv: not UTF-8'):
        read_rows(tmp_path / 'my.csv', {})
    with pytest.raises(ValueError, match='my.csv'):
        read_rows(written(tmp_path, 'video,text\na,"never ends\n'), {})
    with pytest.raises(ValueError, match='my.jsonl.* not valid json'):
        read_rows(written(tmp_path, '{"video": ', 'my.jsonl'), {})
