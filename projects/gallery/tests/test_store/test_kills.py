"""A store after kill -9 at any moment of add, delete, refit, undo, persist, and a full disk."""

import os
import random
import resource
import signal
import time

import numpy as np
import pytest

from children import MP, in_child
from mmvtr_gallery.store import create_store, open_store

pytest.importorskip('faiss')

DIM, BATCH, GONE = 8, 40, 15


def vectors(seed, count=BATCH):
    return np.random.default_rng(seed).normal(size=(count, DIM)).astype(np.float32)


def temperature(step):
    return 0.5 + step / 1000


#: What follows what: an undo takes the delete, the undo before it, or the refit back.
CYCLE = ('add', 'refit', 'delete', 'undo', 'undo', 'persist', 'refit', 'undo')


def after(steps):
    """What a store holds after so many steps: its ids, and the last temperature."""
    ids, last, before = [], None, None
    for step in range(steps):
        name = CYCLE[step % len(CYCLE)]
        if name not in ('undo', 'persist'):
            before = ids, last
        if name == 'add':
            ids = ids + [f'{step}-{i}' for i in range(BATCH)]
        elif name == 'refit':
            last = temperature(step)
        elif name == 'delete':
            ids = ids[GONE:]
        elif name == 'undo':
            (ids, last), before = before, (ids, last)
    return ids, last


def work(folder, journal, done):
    """One step after the other, for ever; the journal has a byte for each that is complete."""
    with open_store(folder, write=True) as store, open(journal, 'ab', buffering=0) as file:
        for step in range(done, 10**6):
            name = CYCLE[step % len(CYCLE)]
            if name == 'add':
                names = [f'{step}-{i}' for i in range(BATCH)]
                store.add(names, vectors(step), metadata=dict(step=[step] * BATCH))
            elif name == 'refit':
                store.refit(vectors(step), temperature=temperature(step), fewer=True)
            elif name == 'delete':
                store.delete(after(step)[0][:GONE])
            elif name == 'undo':
                store.undo()
            elif name == 'persist':
                store.persist()
            file.write(b'.')


def killed(folder, kills, seed):
    """Kills at random moments, and what the store holds after each."""
    rng, journal = random.Random(seed), folder / 'journal'
    create_store(folder / 'store', DIM, geometry='inner_product').close()
    journal.write_bytes(b'')
    steps = []
    for _ in range(kills):
        start = journal.stat().st_size
        child = MP.Process(target=work, args=(folder / 'store', journal, start))
        child.start()
        until = time.monotonic() + 120
        while journal.stat().st_size <= start and child.is_alive() and time.monotonic() < until:
            time.sleep(0.002)
        time.sleep(rng.expovariate(6))
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        done = journal.stat().st_size
        assert done > start and child.exitcode == -signal.SIGKILL
        with open_store(folder / 'store', write=True) as store:
            held = [after(n) for n in (done, done + 1) if matches(store, *after(n))]
            assert held, (done, store.count(), store.last_refit)
            if not matches(
                store, *after(done)
            ):  # the step was complete, but not yet in the journal
                journal.write_bytes(b'.' * (done + 1))
        steps.append(done)
    return steps


def matches(store, ids, last):
    """Whether a store holds these items, with the biases of the refit of that temperature."""
    debiaser = store.debiaser
    temperature = None if debiaser is None else debiaser.options_['temperature']
    if store.count() != len(ids) or temperature != last:
        return False
    items = store.get(ids) if ids else []
    wanted = {}
    for item in items:
        step, row = map(int, item.id.split('-'))
        wanted.setdefault(step, vectors(step))
        assert np.array_equal(item.vector, wanted[step][row]) and item.metadata == dict(step=step)
    if items:
        given = np.array([item.bias for item in items])
        expected = np.zeros(len(items))
        if debiaser is not None:
            stacked = np.stack([item.vector for item in items])
            expected = debiaser.biases_of(stacked).numpy()
        np.testing.assert_allclose(given, expected, atol=1e-5)
    return True


def test_killed(tmp_path):
    assert len(killed(tmp_path, 3, seed=5)) == 3


@pytest.mark.nightly
def test_killed_thirty_times(tmp_path):
    assert len(killed(tmp_path, 30, seed=7)) == 30


def fill_the_disk(folder):
    """In a child: files above 100 kB cannot be written, as on a full disk."""
    store = create_store(folder, DIM, geometry='inner_product')
    store.add([f'0-{i}' for i in range(BATCH)], vectors(0))
    names, many = [f'new{i}' for i in range(9000)], vectors(1, 9000)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limit[1]))
    try:
        store.add(names, many)
    except OSError as error:
        message = str(error)
    resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert len(message) < 500 and len(message.splitlines()) == 1, message
    assert open_store(folder).count() == BATCH
    assert store.count() == BATCH
    store.add(names, many)
    assert open_store(folder).count() == BATCH + 9000
    store.close()


def test_a_full_disk(tmp_path):
    log = tmp_path / 'log.txt'
    assert in_child(log, fill_the_disk, tmp_path / 'store') == 0, log.read_text()
