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
from mmvtr.cli.signals import Ending
from mmvtr.storage import FolderInUse, FolderLock
from mmvtr.storage.atomic import lives, this_process


def write_lock(folder, **changes):
    """A lock of this process, or of another one."""
    folder.mkdir(exist_ok=True)
    text = dict(this_process()._asdict(), since='2026-01-02 03:04:05', nonce='') | changes
    (folder / '.lock').write_text(json.dumps(text))


def gone() -> int:
    """Number of a process that has ended."""
    process = subprocess.Popen(['true'])
    process.wait()
    return process.pid


def age(folder, seconds):
    then = time.time() - seconds
    os.utime(folder / '.lock', (then, then))


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


@pytest.mark.parametrize('why', ['ended', 'another start', 'killed, not yet buried'])
def test_of_a_process_that_is_gone(tmp_path, why):
    if why == 'ended':
        write_lock(tmp_path, pid=gone())
    elif why == 'another start':  # its number was given anew
        write_lock(tmp_path, started=1)
    else:
        zombie = subprocess.Popen(['sleep', '60'])
        zombie.kill()
        os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
        write_lock(tmp_path, pid=zombie.pid, started=0)
    with FolderLock(tmp_path) as lock:
        note = lock.take()
        assert 'taken over from process' in note and 'since 2026-01-02 03:04:05' in note
        assert json.loads((tmp_path / '.lock').read_text())['pid'] == os.getpid()
        assert [path.name for path in tmp_path.iterdir()] == ['.lock']


@pytest.mark.parametrize(
    'changes', [dict(host='elsewhere'), dict(place='01234567'), dict(pid='x'), dict(pid=-1)]
)
def test_of_a_process_that_cannot_be_seen(tmp_path, changes):
    write_lock(tmp_path, **changes)
    with pytest.raises(FolderInUse) as error:
        FolderLock(tmp_path).take()
    said = str(error.value)
    assert f'delete that file, or wait until nobody has touched it for {300} s' in said
    assert str(tmp_path / '.lock') in said and len(said) < 500
    who = 'an unknown process' if 'pid' in changes else f'process {os.getpid()} of '
    assert who in said and ('elsewhere' in said) == ('host' in changes)
    age(tmp_path, 290)
    with pytest.raises(FolderInUse, match='touched 2[89]. s ago|touched 290 s ago'):
        FolderLock(tmp_path).take()
    age(tmp_path, 310)
    with FolderLock(tmp_path) as lock:
        assert 'taken over from' in lock.take()


@pytest.mark.parametrize('content', [b'', b'[1, 2]', b'\xff\xfe', b'{"host": 1}'])
def test_damaged_locks_are_waited_for(tmp_path, content):
    (tmp_path / '.lock').write_bytes(content)
    with pytest.raises(FolderInUse, match='in use by an unknown process'):
        FolderLock(tmp_path).take()
    age(tmp_path, 400)
    with FolderLock(tmp_path) as lock:
        assert 'an unknown process' in lock.take()


def test_it_is_touched(tmp_path):
    with FolderLock(tmp_path, beat=0.05) as lock:
        lock.take()
        age(tmp_path, 1000)
        wait_until(lambda: time.time() - (tmp_path / '.lock').stat().st_mtime < 100)


def test_a_deleted_one_is_put_back(tmp_path):
    with FolderLock(tmp_path, beat=0.05) as lock:
        lock.take()
        (tmp_path / '.lock').unlink()
        wait_until((tmp_path / '.lock').exists)
        with pytest.raises(FolderInUse):
            FolderLock(tmp_path).take()


def wait_until(true, seconds=20):
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def hold(folder):
    """Hold the lock for a minute; the file ``held`` beside the folder says that it is there."""
    with FolderLock(folder, beat=0.05) as lock:
        lock.take()
        folder.with_name('held').touch()
        time.sleep(60)


def test_who_has_lost_it_ends(tmp_path):
    """As after a suspension that was so long that another one has taken it over."""
    log = tmp_path / 'log.txt'
    child = MP.Process(target=in_child_log, args=(log, hold, tmp_path / 'work'))
    child.start()
    wait_until((tmp_path / 'held').exists)
    os.kill(child.pid, signal.SIGSTOP)
    write_lock(tmp_path / 'work', host='elsewhere', pid=77)
    os.kill(child.pid, signal.SIGCONT)
    child.join(20)
    assert child.exitcode == 1
    assert 'was taken over by process 77 of elsewhere' in log.read_text()
    assert json.loads((tmp_path / 'work' / '.lock').read_text())['pid'] == 77


def test_a_deleted_lock_lets_nobody_in(tmp_path):
    """Whoever deletes the file by hand while a process writes."""
    with FolderLock(tmp_path) as lock:
        lock.take()
        for _ in range(2):
            (tmp_path / '.lock').unlink()
            with pytest.raises(FolderInUse, match='its lock .* was deleted, but the process that'):
                FolderLock(tmp_path).take()
            assert not (tmp_path / '.lock').exists()
            lock._place()  # as the holder does when it looks next
    with FolderLock(tmp_path) as other:
        assert other.take() is None


def test_children_of_who_is_gone_do_not_keep_it(tmp_path):
    """A worker that outlives a killed training has its folder open."""
    folder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    write_lock(tmp_path, pid=gone())
    with FolderLock(tmp_path) as lock:
        assert 'is taken over from process' in lock.take()
    os.close(folder)


def test_without_locks_of_folders(tmp_path, monkeypatch):
    def none(*args):
        raise OSError(errno.ENOTSUP, 'not supported')

    monkeypatch.setattr(fcntl, 'flock', none)
    with FolderLock(tmp_path) as lock:
        assert lock.take() is None
        with pytest.raises(FolderInUse, match='is in use by process'):
            FolderLock(tmp_path).take()


def in_child_log(log, function, *args):
    with open(log, 'a') as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    function(*args)


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


def race(folders, barrier, results, number):
    for turn, folder in enumerate(folders):
        lock = FolderLock(folder)
        barrier.wait()
        try:
            lock.take()
            results[4 * turn + number] = 1
        except FolderInUse:
            results[4 * turn + number] = 2
        barrier.wait()  # nobody ends before all have tried
        lock.release()


@pytest.mark.parametrize('stale', [False, True])
def test_of_many_starts_one_wins(tmp_path, stale):
    folders = [tmp_path / str(turn) for turn in range(4)]
    if stale:
        for folder in folders:
            write_lock(folder, pid=gone())
    barrier, results = MP.Barrier(4), MP.Array('i', 16)
    children = [MP.Process(target=race, args=(folders, barrier, results, i)) for i in range(4)]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
    for turn, folder in enumerate(folders):
        assert sorted(results[4 * turn : 4 * turn + 4]) == [1, 2, 2, 2]
        assert not list(folder.iterdir())


def test_without_hard_links(tmp_path, monkeypatch):
    def link(*args):
        raise OSError(95, 'Operation not supported')

    monkeypatch.setattr(os, 'link', link)
    with FolderLock(tmp_path) as lock:
        lock.take()
        with pytest.raises(FolderInUse):
            FolderLock(tmp_path).take()
    write_lock(tmp_path, pid=gone())
    with FolderLock(tmp_path) as lock:
        assert 'taken over' in lock.take()


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
