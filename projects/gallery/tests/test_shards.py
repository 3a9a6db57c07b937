"""A gallery in files: fitted file by file, here and on Ray, equal to the whole; killed."""

import os
import re
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import mmvtr
from children import in_child
from mmvtr.functional.similarities.tiles import Gaps, as_tiles
from mmvtr.functional.transforms.transform_table import OF_QUERIES
from mmvtr.storage.lock import FolderInUse, FolderLock
from mmvtr_gallery import shards
from mmvtr_gallery.shards import UNFINISHED, fit_shards

pa = pytest.importorskip('pyarrow')
parquet = pytest.importorskip('pyarrow.parquet')

WIDTH = 12


def drawn(count, seed=0):
    """Vectors of unequal lengths, some of them near to everything."""
    rng = np.random.default_rng(seed)
    found = rng.normal(size=(count, WIDTH)) + np.exp(rng.normal(size=(count, 1)))
    return (found * rng.uniform(0.5, 2, (count, 1))).astype('f4')


def in_files(folder, sizes, seed=0):
    """The files of a gallery, and the whole of it."""
    folder.mkdir(exist_ok=True)
    whole, paths, start = drawn(sum(sizes), seed), [], 0
    for number, size in enumerate(sizes):
        rows = whole[start : start + size]
        lists = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), WIDTH)
        names = [f'{seed}-{i}' for i in range(start, start + size)]
        paths.append(folder / f'part{seed}-{number}.parquet')
        parquet.write_table(pa.table({'id': names, 'embedding': lists}), paths[-1])
        start += size
    return paths, whole


def written(out, paths):
    tables = pa.concat_tables([parquet.read_table(out / f'{x.stem}.parquet') for x in paths])
    vectors = np.stack(tables['vector'].to_numpy(zero_copy_only=False))
    return tables['id'].to_pylist(), tables['bias'].to_numpy(), vectors


def assert_of_whole(out, paths, whole, bank, *how, seed=0, **options):
    fitted = mmvtr.fit(whole, bank, *how, ids=[f'{seed}-{i}' for i in range(len(whole))], **options)
    ids, biases, vectors = written(out, paths)
    assert ids == fitted.ids_.tolist()
    near = 1e-6 * max(1, fitted.biases_.abs().max())  # inner products are not around 1
    np.testing.assert_allclose(biases, fitted.biases_, rtol=0, atol=near)
    np.testing.assert_allclose(vectors, fitted.as_vectors(), rtol=0, atol=near)
    return fitted


@pytest.mark.parametrize('sizes', [(7,), (1, 40, 3), (30, 30, 1, 1, 25)])
@pytest.mark.parametrize('transform', ['auto', *OF_QUERIES])
def test_files_give_the_biases_of_the_whole(tmp_path, transform, sizes):
    paths, whole = in_files(tmp_path / 'rows', sizes)
    texts = drawn(60, seed=1)
    bank = np.concatenate([texts, texts[:9]])  # weighted: a log with repeats
    made = fit_shards(paths, bank, transform, out=tmp_path / 'out')
    fitted = assert_of_whole(tmp_path / 'out', paths, whole, bank, transform)
    assert made.transform_ == fitted.transform_ and made.why_ == fitted.why_
    further = drawn(5, seed=2)
    for one in (made, mmvtr.Debiaser.load(tmp_path / 'out')):
        torch.testing.assert_close(
            one.biases_of(further), fitted.biases_of(further), atol=1e-6, rtol=0
        )
        np.testing.assert_array_equal(one.query(texts), fitted.query(texts))
    assert not (tmp_path / 'out' / UNFINISHED).exists()


def test_options_reach_the_fit(tmp_path):
    paths, whole = in_files(tmp_path / 'rows', (20, 31))
    bank = drawn(50, seed=1)
    for number, (transform, options) in enumerate((
        ('sinkhorn', dict(temperature=0.07, iterations=30, tolerance=1e-3)),
        ('unbalanced_sinkhorn', dict(temperature='5%', marginal_penalty=0.3)),
        ('nnn', dict(neighbours=3, alpha=0.4)),
    )):  # fmt: skip
        for geometry in ('cosine', 'inner_product'):
            out = tmp_path / f'{number}{geometry}'
            fit_shards(paths, bank, transform, out=out, geometry=geometry, **options)
            assert_of_whole(out, paths, whole, bank, transform, geometry=geometry, **options)


def test_score_gaps_of_parts_sum_to_that_of_the_whole():
    rng = np.random.default_rng(0)
    for _ in range(50):
        scores = torch.from_numpy(rng.normal(3, 1, size=(rng.integers(1, 9), rng.integers(2, 40))))
        cuts = sorted({0, scores.shape[1], *rng.integers(1, scores.shape[1], 3).tolist()})
        parts = [scores[:, a:b] for a, b in zip(cuts, cuts[1:])]
        found = sum((Gaps.of(as_tiles(x)) for x in parts[1:]), start=Gaps.of(as_tiles(parts[0])))
        exact = (scores.amax(1) - scores.mean(1)).mean().item()
        assert found.mean == pytest.approx(exact, rel=1e-12) and found.columns == scores.shape[1]
    alike = Gaps.of(as_tiles(torch.full((3, 5), 0.1)))
    assert (alike + alike).mean == 0


def test_further_files_get_biases_of_the_same_fit_and_others_stay(tmp_path):
    paths, whole = in_files(tmp_path / 'rows', (20, 30))
    more, further = in_files(tmp_path / 'rows', (9,), seed=3)
    bank, out = drawn(60, seed=1), tmp_path / 'out'
    fit_shards(paths, bank, 'sinkhorn', out=out)
    times = [(out / f'{x.stem}.parquet').stat().st_mtime_ns for x in paths]
    fit_shards([*paths, *more], bank, 'sinkhorn', out=out)
    assert times == [(out / f'{x.stem}.parquet').stat().st_mtime_ns for x in paths]
    fitted = assert_of_whole(out, paths, whole, bank, 'sinkhorn')
    np.testing.assert_allclose(written(out, more)[1], fitted.biases_of(further), atol=1e-6)
    for other in (
        dict(bank=drawn(60, seed=4)),
        dict(transform='nnn'),
        dict(geometry='inner_product'),
    ):
        with pytest.raises(ValueError, match='another folder'):
            fit_shards(paths, **{**dict(bank=bank, transform='sinkhorn'), **other}, out=out)


def test_lancedb_takes_the_files_again_after_a_kill(tmp_path):
    lancedb = pytest.importorskip('lancedb')
    paths, whole = in_files(tmp_path / 'rows', (20, 30))
    bank, out = drawn(60, seed=1), tmp_path / 'out'
    made = fit_shards(paths, bank, 'nnn', out=out)
    page = (Path(__file__).parents[1] / 'docs/rows.md').read_text()
    block = next(x for x in re.findall(r'```python\n(.*?)```', page, re.S) if 'lancedb' in x)
    given = dict(paths=[out / x.name for x in paths])
    exec(block.replace("'db'", repr(str(tmp_path / 'db'))), given)
    loop = block[block.index('for path') :]
    exec(loop, given)
    table, asked = given['table'], drawn(7, seed=5)
    assert isinstance(table, lancedb.table.Table) and table.count_rows() == 50
    found = [
        [x['id'] for x in table.search(row).distance_type('dot').limit(5).to_list()]
        for row in made.query(asked)
    ]
    ids = [f'0-{i}' for i in range(50)]
    assert found == mmvtr.fit(whole, bank, 'nnn', ids=ids).search(asked, 5).ids.tolist()


def test_float16_and_no_vectors(tmp_path):
    paths, whole = in_files(tmp_path / 'rows', (20, 30))
    bank = drawn(60, seed=1)
    fit_shards(paths, bank, 'csls', out=tmp_path / 'half', dtype='float16')
    fit_shards(paths, bank, 'csls', out=tmp_path / 'none', dtype=None)
    half, none = (parquet.read_table(tmp_path / x / 'part0-0.parquet') for x in ('half', 'none'))
    assert half.schema.field('vector').type == pa.list_(pa.float16(), WIDTH + 1)
    assert none.column_names == ['id', 'bias'] and none['bias'].equals(half['bias'])


def test_refusals(tmp_path):
    paths, _ = in_files(tmp_path / 'rows', (5, 6))
    bank, out = drawn(60, seed=1), tmp_path / 'out'
    twin = tmp_path / paths[0].name
    twin.write_bytes(paths[0].read_bytes())
    wrong = tmp_path / 'wrong.npy'
    np.save(wrong, np.eye(WIDTH, dtype='f4') * (np.arange(WIDTH) != 4)[:, None])
    for given, message in (
        (dict(files=[*paths, twin]), 'would both be written as part0-0'),
        (dict(files=[]), 'no files'),
        (dict(files=[*paths, wrong]), 'wrong.npy: videos: row 4 is all zeros'),
        (dict(bank=drawn(60)[:, 1:]), 'part0-0.parquet: rows have width 12, the videos 11'),
        (dict(bank=drawn(3)), 'nothing to fit: raw'),
        (dict(transform='dbsn'), 'transform must be one of'),
        (dict(dtype='int8'), 'dtype must be'),
        (dict(geometry='maxsim'), 'geometry must be'),
    ):
        with pytest.raises(ValueError, match=message):
            fit_shards(**{**dict(files=paths, bank=bank, out=out), **given})
    with pytest.raises(FileNotFoundError, match='no file'):
        fit_shards([tmp_path / 'nowhere.npy'], bank, out=out)
    lock = FolderLock(out)
    lock.take()
    with lock, pytest.raises(FolderInUse):
        fit_shards(paths, bank, out=out)


def killed_at(first, files, bank, out):
    write = shards.write_atomically

    def killed(path, *rest):
        write(path, *rest)
        if path == first:
            os.kill(os.getpid(), signal.SIGKILL)

    shards.write_atomically = killed
    fit_shards(files, bank, 'sinkhorn', out=out)


@pytest.mark.parametrize('after', [pytest.param('rows', marks=pytest.mark.nightly), 'biases'])
def test_a_killed_call_goes_on(tmp_path, after):
    """A call killed at its first file of rows or of biases: what is there is not made again."""
    paths, whole = in_files(tmp_path / 'rows', (20, 30, 10))
    bank, out = drawn(60, seed=1), tmp_path / 'out'
    np.save(tmp_path / 'bank.npy', bank)
    first = dict(rows=out / 'part0-0.parquet', biases=out / UNFINISHED / 'part0-0.npy')[after]
    call = (first, paths, tmp_path / 'bank.npy', out)
    assert in_child(tmp_path / 'log', killed_at, *call) == -signal.SIGKILL and first.exists()
    made = first.stat().st_mtime_ns
    if after == 'biases':
        with pytest.raises(ValueError, match='of other files'):
            fit_shards(paths[:2], bank, 'sinkhorn', out=out)
        # What a killed call has made is used: a mark in it is found again.
        marked = np.load(first)
        np.save(first, marked + 1)
        fit_shards(paths, bank, 'sinkhorn', out=out)
        fresh = mmvtr.fit(whole, bank, 'sinkhorn').biases_.numpy()
        expected = fresh + np.repeat([1 - 20 / 60, -20 / 60], [20, 40])
        np.testing.assert_allclose(written(out, paths)[1], expected, atol=1e-6)
        return
    fit_shards(paths, bank, 'sinkhorn', out=out)
    assert first.stat().st_mtime_ns == made
    assert_of_whole(out, paths, whole, bank, 'sinkhorn')


@pytest.fixture(scope='module')
def ray():
    # A worker is nice by 15, and would wait for minutes on a busy machine.
    os.environ.setdefault('RAY_worker_niceness', '0')
    ray = pytest.importorskip('ray', reason='Ray is an extra: pip install -e projects/gallery[ray]')
    given = dict(num_cpus=8, include_dashboard=False, log_to_driver=False)
    ray.init(**given, object_store_memory=2**27)
    yield ray
    ray.shutdown()


@pytest.mark.nightly
@pytest.mark.parametrize('workers', [2, 3, 8])
@pytest.mark.parametrize('transform', ['nnn', 'unbalanced_sinkhorn'])
def test_ray_gives_the_biases_of_the_whole(ray, tmp_path, transform, workers):
    sizes = np.random.default_rng(workers).integers(1, 90, workers).tolist()
    paths, whole = in_files(tmp_path / 'rows', sizes)
    bank = drawn(60, seed=1)
    fit_shards(paths, bank, transform, out=tmp_path / 'out', engine='ray')
    assert_of_whole(tmp_path / 'out', paths, whole, bank, transform)
    wrong = tmp_path / 'wrong.npy'
    np.save(wrong, np.zeros((3, WIDTH)))
    with pytest.raises(ValueError, match='wrong.npy: videos: row 0 is all zeros'):
        fit_shards([*paths, wrong], bank, transform, out=tmp_path / 'other', engine='ray')


@pytest.mark.nightly
def test_workers_that_are_killed_cost_their_files_only(ray, tmp_path):
    paths, whole = in_files(tmp_path / 'rows', [4000] * 8)
    bank, out, failed = drawn(2000, seed=1), tmp_path / 'out', []

    def fit():
        try:
            fit_shards(paths, bank, 'sinkhorn', out=out, engine='ray', iterations=12)
        except BaseException as error:  # noqa: BLE001 - whatever it is
            failed.append(error)

    thread, killed = threading.Thread(target=fit), 0
    thread.start()
    while thread.is_alive():
        time.sleep(0.3)
        if killed < 3 and (busy := workers_of(os.getpid())):
            os.kill(busy[0], signal.SIGKILL)
            killed += 1
    assert not failed and killed == 3
    assert_of_whole(out, paths, whole, bank, 'sinkhorn', iterations=12)


def workers_of(driver):
    """Return processes of Ray below a process that run a task now."""
    found, parents = [], {}
    for name in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open(f'/proc/{name}/stat') as file:
                parents[int(name)] = int(file.read().rpartition(')')[2].split()[1])
            with open(f'/proc/{name}/cmdline') as file:
                if file.read().startswith('ray::_on_worker'):
                    found.append(int(name))
        except OSError:
            pass

    def below(one):
        while one in parents:
            if one == driver:
                return True
            one = parents[one]
        return False

    return [x for x in found if below(x)]
