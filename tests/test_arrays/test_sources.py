"""Vectors and ids from the files and tables that users have."""

import numpy as np
import pytest
import torch

import mmvtr
from mmvtr.arrays import Rows, read_rows

pyarrow = pytest.importorskip('pyarrow')
from pyarrow import feather, parquet  # noqa: E402

RANDOM = np.random.default_rng(0)
VIDEOS = (RANDOM.normal(size=(60, 8)) + 0.5).astype('f4')
BANK = (RANDOM.normal(size=(50, 8)) + 0.5).astype('f4')
TEXTS = (RANDOM.normal(size=(9, 8)) + 0.5).astype('f4')
IDS = [f'v{i}' for i in range(60)]
EXPECTED = mmvtr.fit(VIDEOS, BANK, 'nnn', ids=IDS).search(TEXTS, 5)


def table(rows=slice(None), kind='fixed', dtype='f4', **more):
    given = VIDEOS[rows].astype(dtype)
    if kind == 'fixed':
        column = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(given.ravel()), 8)
    elif kind == 'large':
        column = pyarrow.array([*given], type=pyarrow.large_list(pyarrow.from_numpy_dtype(dtype)))
    else:
        column = pyarrow.array([*given])
    names = pyarrow.array(IDS[rows])
    return pyarrow.table(dict(id=names, tags=[['a', 'b']] * len(names), embedding=column, **more))


def same(one):
    found = one.search(TEXTS, 5)
    assert found.ids.tolist() == EXPECTED.ids.tolist()
    np.testing.assert_allclose(found.debiased, EXPECTED.debiased, atol=1e-6)


@pytest.mark.parametrize('kind', ['fixed', 'list', 'large'])
def test_files_of_parquet(kind, tmp_path):
    parquet.write_table(table(kind=kind), tmp_path / 'rows.parquet', row_group_size=7)
    np.save(tmp_path / 'log.npy', BANK)
    parquet.write_table(pyarrow.table(dict(text=[*BANK])), tmp_path / 'log.parquet')
    for bank in ('log.npy', 'log.parquet'):
        same(mmvtr.fit(tmp_path / 'rows.parquet', bank=str(tmp_path / bank), transform='nnn'))
    parts = [str(tmp_path / f'{i}.parquet') for i in range(3)]
    for i, path in enumerate(parts):
        parquet.write_table(table(slice(20 * i, 20 * i + 20), kind), path)
        np.save(f'{path}.npy', BANK[25 * i : 25 * i + 25] if i < 2 else BANK[:1])
    same(mmvtr.fit(parts, [f'{x}.npy' for x in parts[:2]], 'nnn'))


@pytest.mark.parametrize('dtype', ['f2', 'f4', 'f8'])
def test_tables_of_arrow(dtype, tmp_path):
    held = table(dtype=dtype)
    feather.write_feather(held, tmp_path / 'rows.arrow', compression='uncompressed')
    chunks = pyarrow.concat_tables([table(slice(0, 11)), table(slice(11, 60))])
    sources = [held, tmp_path / 'rows.arrow', held.combine_chunks().to_batches()[0], [held]]
    sources += [chunks, pyarrow.concat_tables([table(), table()]).slice(60)]
    for source in sources:
        rows = read_rows(source)
        found = np.concatenate(rows.vectors) if isinstance(rows.vectors, tuple) else rows.vectors
        assert np.array_equal(found, VIDEOS.astype(found.dtype)) and rows.ids == IDS
    for source in sources[4:]:
        same(mmvtr.fit(source, BANK, 'nnn'))
    column = held.column('embedding')
    assert np.array_equal(read_rows(column).vectors, VIDEOS.astype(dtype))
    same(
        mmvtr.fit(column.combine_chunks(), BANK, 'nnn', ids=IDS)
        if dtype != 'f2'
        else mmvtr.fit(VIDEOS, BANK, 'nnn', ids=pyarrow.array(IDS))
    )


def test_two_lines_name_the_columns(tmp_path):
    more = table(slice(0, 60), thumb=[*VIDEOS], key=list(range(60)))
    with pytest.raises(ValueError, match=r'rows has 2 columns of lists .*embedding, thumb.*: name'):
        mmvtr.fit(more)
    rows = read_rows(more, vectors='embedding', ids='key')
    assert isinstance(rows, Rows) and rows.ids == [*range(60)]
    assert mmvtr.fit(rows, BANK, 'nnn').ids_.tolist() == [*range(60)]
    same(mmvtr.fit(rows, BANK, 'nnn', ids=IDS))


def test_the_whole_life_takes_them(tmp_path):
    for name, rows in (('a', slice(0, 40)), ('b', slice(40, 60)), ('all', slice(None))):
        parquet.write_table(table(rows), tmp_path / f'{name}.parquet')
    one = mmvtr.fit(tmp_path / 'a.parquet', BANK, 'nnn').add(tmp_path / 'b.parquet')
    assert one.ids_.tolist() == IDS
    one.update(tmp_path / 'b.parquet').save(tmp_path)
    again = mmvtr.Debiaser.load(tmp_path, tmp_path / 'all.parquet')
    assert np.array_equal(again.scores(TEXTS), one.scores(TEXTS))
    alone = mmvtr.Debiaser.load(tmp_path)
    alone.add(table(slice(0, 1)).set_column(0, 'id', pyarrow.array(['new'])))
    assert len(alone) == 61


def test_arrays_of_npy_stay_on_disk(tmp_path):
    np.save(tmp_path / 'x.npy', VIDEOS.astype('f2'))
    np.save(tmp_path / 'y.npy', np.tile(VIDEOS, (2, 1)).astype('f2'))
    rows = read_rows([tmp_path / 'x.npy', str(tmp_path / 'y.npy')])
    assert all(isinstance(x, np.memmap) for x in rows.vectors) and rows.ids is None
    one = mmvtr.fit([tmp_path / 'x.npy', str(tmp_path / 'y.npy')], BANK, 'nnn')
    expected = mmvtr.fit(np.tile(VIDEOS, (3, 1)).astype('f2'), BANK, 'nnn')
    assert np.array_equal(one.search(TEXTS, 9).ids, expected.search(TEXTS, 9).ids)


def test_a_table_of_lancedb(tmp_path):
    lancedb = pytest.importorskip('lancedb')
    made = lancedb.connect(tmp_path).create_table('clips', table().drop_columns(['tags']))
    same(mmvtr.fit(made, BANK, 'nnn'))


def test_what_cannot_be_read_is_named(tmp_path, monkeypatch):
    parquet.write_table(table(), tmp_path / 'rows.parquet')
    uneven = pyarrow.table(dict(v=[[1.0, 2.0], [1.0]]))
    empty = pyarrow.table(dict(v=[[1.0, 2.0], None]))
    hole = pyarrow.table(dict(v=[[1.0, 2.0], [3.0, None]]))
    no_id = pyarrow.table(dict(id=['a', None], v=[[1.0, 2.0], [3.0, 1.0]]))
    (tmp_path / 'cut.parquet').write_bytes((tmp_path / 'rows.parquet').read_bytes()[:100])
    (tmp_path / 'cut.npy').write_bytes(b'abc')
    (tmp_path / 'x.csv').write_text('a,b')
    for source, said in (
        (uneven, r"rows, column 'v': row 1 has 1 numbers, row 0 has 2"),
        (empty, r"rows, column 'v': row 1 is empty"),
        (hole, r"rows, column 'v': row 1 has an empty number"),
        (no_id, r"rows, column 'id': 1 ids are empty"),
        (pyarrow.table(dict(a=[1])), 'has 0 columns of lists of numbers'),
        (tmp_path / 'x.csv', 'must be a file of .npy, .parquet'),
        (tmp_path / 'cut.parquet', 'cut.parquet cannot be read'),
        (tmp_path / 'cut.npy', 'cut.npy is not an array of numbers'),
        ([table(), pyarrow.table(dict(v=[*VIDEOS]))], r'rows\[1\] has no ids, and rows\[0\] has'),
    ):
        with pytest.raises(ValueError, match=said):
            mmvtr.fit(source)
    with pytest.raises(FileNotFoundError, match='there is no file'):
        mmvtr.fit(tmp_path / 'no.parquet')
    with pytest.raises(ValueError, match="has no column 'x'; it has id, tags, embedding"):
        read_rows(tmp_path / 'rows.parquet', ids='x')
    with pytest.raises(TypeError, match='must be a file, a table, an array'):
        read_rows(3)
    with pytest.raises(ValueError, match='further videos have width 3'):
        mmvtr.fit(Rows((VIDEOS, VIDEOS[:, :3])))
    monkeypatch.setitem(__import__('sys').modules, 'pyarrow', None)
    with pytest.raises(ImportError, match=r"pip install -e '.\[parquet\]'"):
        mmvtr.fit(tmp_path / 'rows.parquet')


def test_torch_ids_and_sources():
    one = mmvtr.fit([table()], torch.from_numpy(BANK), 'nnn')
    assert one.ids_.tolist() == IDS
