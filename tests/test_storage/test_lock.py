"""The lock of a folder: one holder, who lives."""

import errno
import fcntl
import json
import os
import signal
import subprocess
import time

import pytest

from children import MP, in_child
from mmvtr.signals import Ending
from mmvtr.storage import FolderInUse, FolderLock, in_use
from mmvtr.storage.atomic import lives, this_process
from mmvtr.storage.lock import NAME


def left_behind(folder):
    """What a killed training leaves: the file, and nobody who has it open."""
    folder.mkdir(exist_ok=True)
    about = dict(pid=gone(), host='here', since='2026-01-02 03:04:05')
    (folder / NAME).write_text(json.dumps(about))


def gone() -> int:
    """Number of a process that has ended."""
    process = subprocess.Popen(['true'])
    process.wait()
    return process.pid


def test_a_full_disk_is_told_with_the_file(tmp_path, full_disk):
    with full_disk(5), pytest.raises(OSError) as error:
        FolderLock(tmp_path).take()
    assert error.value.filename.startswith(str(tmp_path / '.lock'))
    with FolderLock(tmp_path) as lock:
        lock.take()


def test_held_and_given_back(tmp_path):
    folder = tmp_path / 'deep' / 'work'
    with FolderLock(folder) as lock:
        assert lock.take() is None
        assert [path.name for path in folder.iterdir()] == ['.lock']
        with pytest.raises(FolderInUse) as error:
            FolderLock(folder).take()
        assert f'{folder} is in use by process {os.getpid()} of ' in str(error.value)
        assert len(str(error.value)) < 500 and 'delete' not in str(error.value)
        assert [path.name for path in folder.iterdir()] == ['.lock']
    assert not list(folder.iterdir())
    lock.release()  # twice does no harm
    with FolderLock(folder) as lock:
        assert lock.take() is None


def test_an_exception_gives_it_back(tmp_path):
    with pytest.raises(ZeroDivisionError), FolderLock(tmp_path) as lock:
        lock.take()
        raise ZeroDivisionError
    assert not list(tmp_path.iterdir())


def test_of_a_process_that_is_gone(tmp_path):
    left_behind(tmp_path)
    with FolderLock(tmp_path) as lock:
        note = lock.take()
        assert 'taken over from process' in note and 'since 2026-01-02 03:04:05' in note
        assert json.loads((tmp_path / NAME).read_text())['pid'] == os.getpid()
        assert [path.name for path in tmp_path.iterdir()] == [NAME]


@pytest.mark.parametrize('content', [b'[1, 2]', b'\xff\xfe', b'{"host": 1}'])
def test_damaged_files_of_nobody_are_taken_over(tmp_path, content):
    (tmp_path / NAME).write_bytes(content)
    with FolderLock(tmp_path) as lock:
        assert 'from an unknown process, which is gone' in lock.take()


def wait_until(true, seconds=20):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_deleted_file_of_another_one_stays(tmp_path):
    """Whoever deletes the file by hand lets a second process in; the first one leaves its file."""
    with FolderLock(tmp_path) as first:
        first.take()
        (tmp_path / NAME).unlink()
        with FolderLock(tmp_path) as second:
            assert second.take() is None
            first.release()
            assert (tmp_path / NAME).exists()
            with pytest.raises(FolderInUse):
                FolderLock(tmp_path).take()


def test_in_use(tmp_path):
    assert not in_use(tmp_path)
    with FolderLock(tmp_path) as lock:
        lock.take()
        assert in_use(tmp_path)
    left_behind(tmp_path)
    assert not in_use(tmp_path)


def leaves_a_child(folder):
    """Killed with a worker that outlives it."""
    with FolderLock(folder) as lock:
        lock.take()
        if not os.fork():
            folder.with_name('forked').write_text(str(os.getpid()))
            time.sleep(60)
            os._exit(1)
        wait_until(lambda: folder.with_name('forked').exists())
        os.kill(os.getpid(), signal.SIGKILL)


def test_children_of_who_is_gone_do_not_keep_it(tmp_path):
    """A worker that outlives a killed training keeps nobody out."""
    child = MP.Process(target=leaves_a_child, args=(tmp_path / 'work',))
    child.start()
    child.join(20)
    assert child.exitcode == -signal.SIGKILL
    with FolderLock(tmp_path / 'work') as lock:
        assert 'is taken over from process' in lock.take()
    os.kill(int((tmp_path / 'forked').read_text()), signal.SIGKILL)


def test_without_locks(tmp_path, monkeypatch):
    def none(*args):
        raise OSError(errno.ENOTSUP, 'not supported')

    monkeypatch.setattr(fcntl, 'flock', none)
    with FolderLock(tmp_path) as lock:
        assert 'keeps no second process out: no locks here (not supported)' in lock.take()
        assert not in_use(tmp_path)


def hold_as_a_training(folder):
    """With the last words of a training, which give the lock back."""
    with Ending(str(folder), ['train.py']) as ending, FolderLock(folder) as lock:
        ending.release = lock.release
        lock.take()
        folder.with_name('held').touch()
        time.sleep(60)


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGKILL])
def test_ended_from_outside(tmp_path, number):
    child = MP.Process(target=hold_as_a_training, args=(tmp_path / 'work',))
    child.start()
    wait_until((tmp_path / 'held').exists)
    os.kill(child.pid, number)
    child.join(20)
    assert child.exitcode == (143 if number == signal.SIGTERM else -number)
    left = [path.name for path in (tmp_path / 'work').iterdir()]
    assert left == ([] if number == signal.SIGTERM else ['.lock'])
    with FolderLock(tmp_path / 'work') as lock:
        assert (lock.take() is None) == (number == signal.SIGTERM)


def forks(folder):
    with FolderLock(folder) as lock:
        lock.take()
        pid = os.fork()
        if not pid:
            folder.with_name('forked').touch()
            time.sleep(60)
            os._exit(1)
        wait_until(folder.with_name('forked').exists)
        os.kill(pid, signal.SIGTERM)
        assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGTERM
        assert (folder / '.lock').exists()


def test_a_worker_that_ends_keeps_it(tmp_path):
    assert in_child(tmp_path / 'log.txt', forks, tmp_path / 'work') == 0


def race(folder, barrier, results, number):
    lock = FolderLock(folder)
    barrier.wait()
    try:
        lock.take()
        results[number] = 1
    except FolderInUse:
        results[number] = 2
    barrier.wait()  # nobody ends before all have tried
    lock.release()


@pytest.mark.parametrize('stale', [False, True])
def test_of_many_starts_one_wins(tmp_path, stale):
    for number in range(4):
        folder = tmp_path / str(number)
        if stale:
            left_behind(folder)
        barrier, results = MP.Barrier(4), MP.Array('i', 4)
        children = [MP.Process(target=race, args=(folder, barrier, results, i)) for i in range(4)]
        for child in children:
            child.start()
        for child in children:
            child.join(60)
        assert sorted(results) == [1, 2, 2, 2]
        assert not list(folder.iterdir())


def test_a_folder_that_is_a_file(tmp_path):
    (tmp_path / 'work').write_text('')
    with pytest.raises(OSError):
        FolderLock(tmp_path / 'work').take()


def test_lives():
    here = this_process()
    assert lives(here) is True
    assert lives(here._replace(pid=1, started=0)) is True  # of another user, maybe
    assert lives(here._replace(host='elsewhere')) is None
    assert lives(here._replace(pid=gone(), started=0)) is False
