"""What is no table is refused the same way, whether it is one's own data or a list of videos."""

import json

import pytest

from mmvtr.datasets.tables.rows import read_rows

pytest.importorskip('mmvtr_gallery', reason='pip install -e projects/gallery')

from mmvtr_gallery.extraction.rows import listed_videos  # noqa: E402


def own(path):
    return [(row.video, row.text, row.start, row.end) for row in read_rows(path, {}).rows]


def listing(path):
    keys = ('id', 'path', 'start', 'end')
    return [tuple(video.get(key) for key in keys) for video in listed_videos(path)]


#: The readers, and what each calls its first two columns.
READERS = {own: ('video', 'text'), listing: ('id', 'path')}
both = pytest.mark.parametrize('read, names', READERS.items(), ids=['own', 'list'])


def written(folder, content, names, name='t.csv'):
    """A file in which A and B stand for the names of the columns."""
    one, two = names
    raw = content if isinstance(content, bytes) else content.encode()
    path = folder / name
    path.write_bytes(raw.replace(b'A', one.encode()).replace(b'B', two.encode()))
    return path


@both
@pytest.mark.parametrize(
    'content',
    [
        'A,B,start,end\nx,y,1,2.5\nz,w,,\n',
        '\ufeffA,B,start,end\r\nx,y,1,2.5\r\n\r\nz,w,,\r\n',
        'A;B;start;end\nx;y;1;2.5\nz;w;;\n',
        '\ufeffA\tB\tstart\tend\rx\ty\t1\t2.5\rz\tw\t\t',
        '"A"," B ","start","end"\nx," y",1,2.5\n"z",w,"",\n',
    ],
)
def test_tables_as_people_save_them(tmp_path, read, names, content):
    path = written(tmp_path, content, names)
    assert read(path) == [('x', 'y', 1.0, 2.5), ('z', 'w', None, None)]


@both
@pytest.mark.parametrize(
    'content, said',
    [
        # times that are none
        ('A,B,start\nx,y,soon\n', "line 2, 'start': expected a time in seconds, found 'soon'"),
        ('A,B,start\nx,y,1:30\n', "line 2, 'start': expected a time in seconds"),
        ('A,B,end\nx,y,1\nz,w,nan\n', "line 3, 'end': expected a time in seconds"),
        ('A,B,end\nx,y,-1\n', "line 2, 'end': expected a time in seconds"),
        ('A,B,start\nx,y,1e400\n', "line 2, 'start': expected a time in seconds"),
        ('A,B,start,end\nx,y,5,4\n', "line 2: the clip ends before it begins"),
        ('A,B,start,end\nx,y,5,5\n', "line 2: the clip ends before it begins"),
        # rows of another width
        ('A,B\nx,y,z\n', r"line 2: expected 2 fields.*must be in quotes"),
        ('A,B\nx,y\nz\n', r"line 3: expected 2 fields, as the header has, found \['z'\]$"),
        ('A;B\nx;y;\n', r"line 2: expected 2 fields.*a value with ';' in it"),
        # quotes that swallow what follows
        ('A,B\nx,"y\nz,w\nu,v\n', r'line 2: no csv: .*a quote \("\) that opens in this row does'),
        ('A,B\nx,y\n"z,w\nu,v\n', r'line 3: no csv: .*does not close'),
        ('A,B\nx,"y\nz,"w\n', r'line 2: no csv: .*is written twice'),
        # columns that stand twice
        ('A,B,B\nx,y,z\n', r"line 1: the column '\w+' stands twice"),
        ('A,B,A\nx,y,z\n', r"line 1: the column '\w+' stands twice"),
        ('A,B, B \nx,y,z\n', r"line 1: the column '\w+' stands twice"),
        ('\ufeffA;B;\ufeffA\nx;y;z\n', r"line 1: the column '\w+' stands twice"),
        ('A,B,start,Start\nx,y,1,2\n', r"line 1: the column 'start' stands twice \(\['start', 'S"),
        # other separators, other encodings
        ('A|B\nx|y\n', r"line 1: the columns are separated by '\|'; expected commas, semi"),
        ('sep=;\nA;B\nx;y\n', "line 1: 'sep=;' is a note for Excel .*; delete this line"),
        ('"sep=,"\nA,B\nx,y\n', "line 1: .* delete this line"),
        (b'A,B\nx,y\ncaf\xe9,z\n', r"not UTF-8: .* \(line 3, the end of b'caf\\xe9'\); save it"),
        (b'A;B\r\nx;Gr\xfc\xdfe\r\n', r"not UTF-8: .*line 2, the end of b'x;Gr\\xfc'"),
        ('A,B\nx,y\n'.encode('utf-16'), 'expected UTF-8, found UTF-16; save it as UTF-8'),
        ('A,B\nx,y\0\n', 'line 2: expected text without null characters'),
        (b'A,B\nx,y\n' + b'\0' * 100, 'line 3: expected text without null characters'),
        # nothing in it
        ('', 'has no rows'),
        ('\ufeff', 'has no rows'),
        ('A,B\n', 'has no rows'),
        ('A,B\n\n\n', 'has no rows'),
        # values that are none
        ('A,B\n,y\n', "line 2, '(video|id)': expected a name or a whole number, not empty"),
        ('A,B\n"x\nz",y\n', "line 2, '(video|id)': expected a name of one line"),
    ],
)  # fmt: skip
def test_what_is_no_table(tmp_path, read, names, content, said):
    path = written(tmp_path, content, names)
    with pytest.raises(ValueError, match=f't.csv: {said}'):
        read(path)


@both
@pytest.mark.parametrize(
    'lines, said',
    [
        ('{"A": "x", "B": "y", "B": "z"}', r"line 1: not valid json: a second key '\w+' in an"),
        ('{"A": "x", "B": "y"}\n{"A": "x", "A": "z"}', r"line 2: .* a second key '\w+'"),
        ('{"A": "x", "B": "y", "Start": 1, "start": 2}', "the column 'Start' stands twice"),
        ('{"A": "x", "B": "y", "start": "2 s"}', "line 1, 'start': expected a time in seconds"),
        ('{"A": "x", "B": "y", "start": 9, "end": 1}', 'line 1: the clip ends before it begins'),
        ('{"A": "x", "B": "y", "end": {"s": 1, "s": 2}}', "line 1: .* a second key 's'"),
        ('["x", "y"]', 'line 1: expected an object of keys and values'),
        ('\n\n', 'has no rows'),
    ],
)  # fmt: skip
def test_what_is_no_jsonl(tmp_path, read, names, lines, said):
    with pytest.raises(ValueError, match=f't.jsonl: {said}'):
        read(written(tmp_path, lines, names, 't.jsonl'))


@both
def test_all_rows_are_told_at_once(tmp_path, read, names):
    rows = ['A,B,start', 'x,y,soon', ',y,', 'z,w', 'u,v,later', 'a,b,', '"",c,', 't,u,never']
    with pytest.raises(ValueError) as error:
        read(written(tmp_path, '\n'.join([*rows, *[f'q{n},w,no' for n in range(9)]]), names))
    lines = str(error.value).splitlines()
    assert lines[0].endswith('t.csv has 3 kinds of problems:')
    assert lines[1].startswith('  row of another width (1): line 4: expected 3 fields')
    times = next(line for line in lines if 'invalid time (12): ' in line)
    assert times.count('expected a time in seconds') == 3 and times.endswith('; ...')
    assert sum(' or unfit ' in line and '(2): line 3' in line for line in lines) == 1


def test_parquet_with_a_column_twice(tmp_path):
    pyarrow = pytest.importorskip('pyarrow')
    parquet = pytest.importorskip('pyarrow.parquet')
    columns = [pyarrow.array(['x']), pyarrow.array(['y']), pyarrow.array(['z'])]
    for read, (one, two) in READERS.items():
        for third in (one, two.upper()):
            table = pyarrow.table(columns, names=[one, two, third])
            parquet.write_table(table, tmp_path / 't.parquet')
            with pytest.raises(ValueError, match=r"t.parquet: the column '\w+' stands twice"):
                read(tmp_path / 't.parquet')


def test_lists_of_videos(tmp_path):
    path = tmp_path / 'list.jsonl'
    path.write_text('\n'.join(map(json.dumps, [dict(id=7, path='http:a.mp4', end=2)])))
    assert listed_videos(path) == [dict(id='7', path='http:a.mp4', end=2.0)]
    path = tmp_path / 'list.csv'
    for content, said in (
        ('id,path,length\na,x,1\n', r"expected the columns id and path, .*'length'"),
        ('id,file\na,x\n', r"expected the columns id and path, .*\['id', 'file'\]"),
        ('id,path\na,x\nb,y\na,z\nb,w\n', r'id that occurs twice \(2\): line 4: .*; line 5: id'),
        ('id,path\na,\n', "line 2, 'path': expected a name"),
    ):
        path.write_text(content)
        with pytest.raises(ValueError, match=said):
            listed_videos(path)
    with pytest.raises(FileNotFoundError, match='no such table: .*gone.csv'):
        listed_videos(tmp_path / 'gone.csv')


@pytest.mark.parametrize('name', ['café.mp4', 'Größe.mkv', 'が.webm'])
def test_paths_of_a_list_in_either_spelling(tmp_path, name):
    import unicodedata

    there = tmp_path / unicodedata.normalize('NFD', name)
    there.touch()
    (tmp_path / 'list.csv').write_text(f'id,path\na,{tmp_path / name}\n', encoding='utf-8')
    assert listed_videos(tmp_path / 'list.csv') == [dict(id='a', path=str(there))]
