"""Videos to Arrow rows: one process, several, Ray; what is broken, missing, killed."""

import os
import signal
import time

import numpy as np
import pyarrow as pa
import pytest
from mmengine.config import Config

from children import MP, log_of, run_tool, start_tool
from mmvtr.apis import encode_videos, vectors
from mmvtr_gallery.extraction.extractor import SCHEMA, Extractor, Reader, records_of
from mmvtr_gallery.extraction.parts import Parts
from mmvtr_gallery.extraction.rows import listed_videos
from mmvtr_gallery.extraction.share import Share
from tiny_sets import of_videos

COLLATE = "test_dataloader.update(collate_fn=dict(type='mmvtr.collate_retrieval'))\n"
CONFIG = of_videos('ab', frames=4) + COLLATE
GOOD = ('a', 'b', 'c', 'd', 'e')


@pytest.fixture(scope='module')
def folder(tmp_path_factory, write_video):
    path = tmp_path_factory.mktemp('extraction')
    (path / 'config.py').write_text(CONFIG)
    for number, name in enumerate(GOOD):
        write_video(path / f'{name}.mp4', [40 * number + 5 * i for i in range(3 + number)])
    (path / 'bad.mp4').write_bytes(b'no video')
    names = (*GOOD, 'bad', 'gone')
    lines = ''.join(f'{name},{path / name}.mp4,,\n' for name in names)
    (path / 'list.csv').write_text('id,path,start,end\n' + lines + f'part,{path / "e"}.mp4,0.1,\n')
    return path


def records(folder):
    rows = [line.split(',') for line in (folder / 'list.csv').read_text().splitlines()[1:]]
    return [dict(id=r[0], path=r[1], **(dict(start=float(r[2])) if r[2] else {})) for r in rows]


def by_id(tables):
    return {row['id']: row for table in tables for row in table.to_pylist()}


class ByLength:
    """Stands for a Debiaser."""

    def biases_of(self, gallery):
        return gallery.norm(dim=1)


def test_rows_are_what_the_model_says(folder):
    cfg = Config.fromfile(folder / 'config.py')
    extractor = Extractor(cfg, random_weights=True, features=True, debiaser=ByLength())
    tables = list(extractor.tables(records(folder), batch_size=3))
    assert [len(table) for table in tables] == [3, 3, 2]
    assert all(table.schema == SCHEMA for table in tables)
    rows = by_id(tables)
    assert [*rows] == [*GOOD, 'bad', 'gone', 'part']
    paths = [folder / f'{name}.mp4' for name in GOOD]
    expected = vectors(extractor.model, encode_videos(extractor.model, cfg, paths).levels)
    for name, vector in zip(GOOD, expected):
        np.testing.assert_allclose(rows[name]['mean'], vector, rtol=1e-5)
        assert rows[name]['bias'] == pytest.approx(vector.norm().item(), rel=1e-5)
        assert rows[name]['error'] is None and rows[name]['log_std'] is None
    assert [len(rows[name]['features']) for name in (*GOOD, 'part')] == [3, 4, 4, 4, 4, 4]
    assert rows['part']['mean'] != rows['e']['mean']
    for name, words in (('bad', 'Invalid data'), ('gone', 'does not exist')):
        assert words in rows[name]['error']
        assert all(rows[name][key] is None for key in ('mean', 'features', 'bias', 'log_std'))


def test_a_reader_decodes_what_an_extractor_encodes(folder):
    extractor = Extractor(folder / 'config.py', random_weights=True)
    given = pa.Table.from_pylist([dict(id=r['id'], path=r['path']) for r in records(folder)])
    read = Reader(folder / 'config.py')(given)
    assert extractor(read).equals(extractor(given))
    assert extractor(pa.table(read)).equals(extractor(given))
    only_broken = extractor(dict(id=['bad'], path=[str(folder / 'bad.mp4')]))
    assert only_broken.schema == SCHEMA and only_broken['error'].null_count == 0
    assert len(extractor(dict(id=[], path=[]))) == 0


def test_bad_batches(folder):
    extractor = Extractor(folder / 'config.py', random_weights=True)
    with pytest.raises(ValueError, match='no pretrained weights for encoder.frames, encoder.text'):
        Extractor(folder / 'config.py')
    for batch, message in (
        (dict(id=['a']), r"columns id and path, .* found \['id'\]"),
        (dict(id=['a'], path=['x'], where=['y']), 'may have start and end'),
        (dict(id=['a', 'b'], path=['x'] * 2, start=[1, 2], end=[2, 1]), 'batch: row 1: the clip e'),
        (dict(id=['a'], path=['x'], start=[-1.0]), "batch: row 0, 'start': expected a time"),
        (dict(id=['a'], path=['x'], end=['soon']), "batch: row 0, 'end': expected a time"),
        (dict(id=[''], path=['x']), "row 0: id must be a string, not empty, found ''"),
        (dict(id=['a'], path=[None]), "row 0: path must be a string, not empty, found 'None'"),
    ):
        with pytest.raises(ValueError, match=message):
            extractor(batch)
    cfg = Config.fromfile(folder / 'config.py')
    cfg.model.similarity = dict(type='TokenSimilarity')
    with pytest.raises(ValueError, match='are not inner products'):
        Extractor(cfg, random_weights=True)


def test_times_of_numpy_and_pandas():
    times = np.array([1, np.nan], np.float32)
    for start, end in ((times, np.array([2, 3])), ([1, None], [np.float16(2), np.int8(3)])):
        found = records_of(dict(id=['a', 'b'], path=['x', 'y'], start=start, end=end))
        assert found == [
            dict(video_id='a', path='x', start=1.0, end=2.0), dict(video_id='b', path='y', end=3.0)
        ]  # fmt: skip


def test_shares_are_disjoint_and_whole():
    ids = [f'v{i}' for i in range(100)]
    shares = [Share(rank, 4, 0).places(ids) for rank in range(4)]
    assert sorted(sum(shares, [])) == list(range(100))
    assert all(10 < len(share) < 45 for share in shares)
    backwards = Share(1, 4, 0).places(ids[::-1])
    assert {ids[::-1][i] for i in backwards} == {ids[i] for i in shares[1]}


def arguments(out, *further):
    return [
        'config.py', '--format', 'parquet', '--out', out, '--videos', 'list.csv',
        '--batch-size', 2, '--random-weights', *further,
    ]  # fmt: skip


def extract(folder, out, *further):
    return run_tool(folder, 'extract_features.py', *arguments(out, *further))


def test_processes_give_the_rows_of_one(folder, tmp_path):
    expected = by_id(Extractor(folder / 'config.py', random_weights=True).tables(records(folder)))
    out = tmp_path / 'rows'
    running = [
        start_tool(
            folder, 'extract_features.py', *arguments(out),
            environ=dict(RANK=str(rank), WORLD_SIZE='2'),
        )
        for rank in range(2)
    ]  # fmt: skip
    for child in running:
        child.join(100)
        assert child.exitcode == 0, log_of(folder, child).read_text()
    code, printed = extract(folder, out)  # of any other number of processes
    assert code == 0 and '0 videos to do, 8 are there' in printed
    rows = by_id(Parts(out).tables())
    assert sorted(rows) == sorted(expected)
    assert sum(len(table) for table in Parts(out).tables()) == len(expected)  # none twice
    for name, row in rows.items():
        assert row['error'] == expected[name]['error']
        if row['error'] is None:
            np.testing.assert_allclose(row['mean'], expected[name]['mean'], rtol=1e-5)
    code, printed = extract(folder, out, '--features')
    assert code == 1 and 'holds features of another origin' in printed


def five_rows(folder, rows, made):
    """In a child: five rows, the fifth not yet in a file of two, and no end."""
    parts = Parts(rows, rows=2)
    extractor = Extractor(folder / 'config.py', random_weights=True)
    for i, table in enumerate(extractor.tables(records(folder), batch_size=1)):
        parts.add(table)
        made.send('row')
        time.sleep(100 * (i == 4))


def test_a_kill_loses_nothing(folder, tmp_path):
    """A file of rows is complete when it is there; what came later is made again."""
    made, theirs = MP.Pipe(duplex=False)
    running = MP.Process(target=five_rows, args=(folder, tmp_path / 'rows', theirs))
    running.start()
    theirs.close()
    for _ in range(5):
        assert made.recv() == 'row'
    os.kill(running.pid, signal.SIGKILL)
    running.join()
    assert len(Parts(tmp_path / 'rows').ids()) == 4
    parts = Parts(tmp_path / 'rows')
    left = [r for r in records(folder) if r['id'] not in parts.ids()]
    with parts:
        for table in Extractor(folder / 'config.py', random_weights=True).tables(left):
            parts.add(table)
    assert sorted(by_id(parts.tables())) == sorted(r['id'] for r in records(folder))


def test_parts(tmp_path):
    table = pa.Table.from_pylist([dict(id='a')], SCHEMA)
    parts = Parts(tmp_path, rows=100, seconds=0.05)
    parts.add(table)
    assert not parts.ids()
    time.sleep(0.06)
    parts.add(pa.Table.from_pylist([dict(id='b')], SCHEMA))  # late
    assert parts.ids() == {'a', 'b'}
    with pytest.raises(RuntimeError, match='boom'), parts:
        parts.add(table)
        raise RuntimeError('boom')
    (path,) = tmp_path.glob('*.parquet')
    path.write_bytes(b'PAR1 and no more')
    with pytest.raises(RuntimeError, match=f'{path.name} is damaged: remove it'):
        parts.ids()


@pytest.mark.parametrize(
    ('text', 'message'),
    [
        ('id\na\n', "expected the columns id and path, .* found ['id']"),
        ('id,path\na,x\na,y\n', "line 3: id 'a' occurs twice, the first is line 2"),
        ('id,path,start\na,x,soon\n', "line 2, 'start': expected a time in seconds"),
        ('id,path\n', 'has no rows'),
    ],
)  # fmt: skip
def test_bad_lists(tmp_path, text, message):
    (tmp_path / 'list.csv').write_text(text)
    with pytest.raises(ValueError) as caught:
        listed_videos(tmp_path / 'list.csv')
    assert all(part in str(caught.value) for part in message.split('.* '))


def test_what_does_not_go_together(folder):
    for further, message in (
        (['--texts'], '--texts needs npy or hdf5'),
        (['--videos', 'nowhere.csv'], 'nowhere.csv'),
    ):
        code, printed = extract(folder, 'x', *further)
        assert code == 1 and message in printed and 'Traceback' not in printed
    code, printed = run_tool(
        folder, 'extract_features.py', 'config.py', '--out', 'x', '--engine', 'ray'
    )
    assert code == 1 and '--engine needs --format parquet' in printed


@pytest.mark.nightly
def test_ray_gives_the_same_rows(folder, tmp_path):
    pytest.importorskip('ray', reason='Ray is an extra: pip install -e projects/gallery[ray]')
    code, printed = extract(folder, tmp_path / 'rows', '--engine', 'ray')
    assert code == 0, printed
    expected = by_id(Extractor(folder / 'config.py', random_weights=True).tables(records(folder)))
    rows = by_id(Parts(tmp_path / 'rows').tables())
    assert sorted(rows) == sorted(expected)
    for name, row in rows.items():
        assert row['error'] == expected[name]['error']
        if row['error'] is None:
            np.testing.assert_allclose(row['mean'], expected[name]['mean'], rtol=1e-5)
