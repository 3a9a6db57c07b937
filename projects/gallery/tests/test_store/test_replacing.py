"""A new store in the place of an old one: at every moment one of the two is there."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from mmvtr_gallery.store import create_store, open_store
from mmvtr_gallery.store.replacing import holds_gallery, replace_store

DIM = 6


class Killed(BaseException):
    """Takes the place of kill -9: nothing of the process moves or removes a file any more."""


def vectors(seed, count):
    return np.random.default_rng(seed).normal(size=(count, DIM)).astype(np.float32)


def made(store, name, seed):
    store.add([f'{name}{i}' for i in range(9)], vectors(seed, 9))
    store.refit(vectors(seed + 1, 12), temperature=0.5)
    store.keep_config(f'{{"name": "{name}"}}')
    store.persist()


def dies_after(patch, steps):
    """Let that many files be moved or removed, and then none; returns how many were."""
    done = []

    def counted(function):
        def step(*args, **kwargs):
            done.append(str(args[0]))
            if len(done) > steps:
                raise Killed
            return function(*args, **kwargs)

        return step

    for owner, name in (
        (os, 'replace'), (os, 'rename'), (os, 'unlink'), (Path, 'unlink'), (shutil, 'rmtree'),
    ):  # fmt: skip
        patch.setattr(owner, name, counted(getattr(owner, name)))
    return done


def held(folder):
    """Which store a folder holds, whole."""
    with open_store(folder, write=True) as store:
        name = store.config.read_text()[10:13]
        items = store.get([f'{name}{i}' for i in range(9)])
        seed = dict(old=1, new=5)[name]
        np.testing.assert_array_equal([item.vector for item in items], vectors(seed, 9))
        assert store.count() == 9 and len(store.search(vectors(9, 1), 9)[0]) == 9
        assert all(item.bias for item in items)
    return name


def test_killed_at_every_step(tmp_path, monkeypatch):
    pytest.importorskip('faiss')
    with create_store(tmp_path / 'old', DIM, geometry='inner_product') as store:
        made(store, 'old', 1)
    found = []
    for steps in range(60):
        work, folder = tmp_path / f'work{steps}', tmp_path / f'left{steps}'
        shutil.copytree(tmp_path / 'old', work)
        (work / 'notes.txt').write_text('of somebody else')
        done = ['']
        try:
            with monkeypatch.context() as patch:
                with replace_store(work, DIM, geometry='inner_product') as store:
                    made(store, 'new', 5)
                    store.close()
                    done = dies_after(patch, steps)
        except Killed:
            pass
        # What was left, without the lock that this process, which lives on, still has.
        shutil.copytree(work, folder, ignore=shutil.ignore_patterns('.lock'))
        found.append(held(folder))
        # The export after it finds its way, too, and leaves nothing of the two before.
        if found[-1] != found[-2:][0] or steps % 5 == 0:
            with replace_store(folder, DIM, geometry='inner_product') as store:
                made(store, 'new', 5)
            assert held(folder) == 'new' and (folder / 'notes.txt').exists()
            assert len([*folder.glob('biases-*')]) == len([*folder.glob('config-*')]) == 1
            assert len([*folder.glob('items*')]) == 1 and not (folder / '.new').exists()
        if len(done) <= steps:
            break
    assert found[0] == 'old' and found[-1] == 'new' and sorted(found, reverse=True) == found
    assert len(found) > 8


def test_an_error_in_the_block_leaves_the_old_store(tmp_path):
    pytest.importorskip('faiss')
    with create_store(tmp_path, DIM, geometry='inner_product') as store:
        made(store, 'old', 1)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for error in (ValueError, KeyboardInterrupt, OSError):
        with pytest.raises(error):
            with replace_store(tmp_path, DIM, geometry='inner_product') as store:
                store.add(['x'], vectors(5, 1))
                raise error
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert holds_gallery(tmp_path) and not holds_gallery(tmp_path / 'gone')


def test_a_reader_goes_on_with_the_new_store(tmp_path):
    pytest.importorskip('faiss')
    with create_store(tmp_path, DIM, geometry='inner_product') as store:
        made(store, 'old', 1)
    reader = open_store(tmp_path)
    with replace_store(tmp_path, DIM, geometry='inner_product') as store:
        made(store, 'new', 5)
        assert reader.get(['old3'])
    assert reader.get(['new3'])[0].id == 'new3' and reader.config.read_text() == '{"name": "new"}'


def test_what_is_left_is_of_the_last_store(tmp_path):
    pytest.importorskip('faiss')
    (tmp_path / 'bank.pth').write_bytes(b'of somebody else')
    for name in ('a', 'b'):
        with replace_store(tmp_path, DIM, geometry='inner_product') as store:
            store.add([name], vectors(1, 1))
            store.persist()
        assert open_store(tmp_path).get([name])[0].id == name and open_store(tmp_path).count() == 1
    with pytest.raises(ValueError, match='at least one'):
        with replace_store(tmp_path, DIM, geometry='inner_product') as store:
            store.add([], vectors(1, 0))
    assert open_store(tmp_path).get(['b'])
    assert sorted(path.name.split('-')[0] for path in tmp_path.iterdir()) == [
        'bank.pth',
        'biases',
        'items',
        'store.json',
    ]
