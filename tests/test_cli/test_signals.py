"""Ctrl-C, SIGTERM, full disks and folders that cannot be written: one line, and how to go on."""

import errno
import os
import resource
import shlex
import signal
import subprocess
import sys
import time

import pytest

import toy
from children import ROOT, in_child, log_of, run_tool, start_tool
from mmvtr.cli import Parser, cfg_words
from mmvtr.cli.options import check_writable
from mmvtr.cli.signals import Ending, next_steps
from mmvtr.engine.hooks.checkpoint_hook import AtomicBackend
from mmvtr.errors import UserError
from mmvtr.storage.weights import read_checkpoint

WORKERS = """
for loader in (train_dataloader, val_dataloader):
    loader.update(num_workers=2, persistent_workers=True)
del loader
"""
#: Waits in the given epoch for a signal.
SLOW = "custom_hooks = [dict(type='SlowHook', epoch={})]\n"


def children(pid):
    found = subprocess.run(['ps', '-o', 'pid=', '--ppid', str(pid)], capture_output=True, text=True)
    return [int(line) for line in found.stdout.split()]


def alive(pid):
    try:
        with open(f'/proc/{pid}/stat') as file:
            return file.read().rpartition(')')[2].split()[0] not in 'ZX'
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    ('number', 'said', 'workers', 'group'),
    [
        (signal.SIGINT, 'Ctrl-C', WORKERS, True),  # a terminal's goes to all processes
        (signal.SIGTERM, 'SIGTERM', WORKERS, False),
    ],
)
def test_a_signal_ends_in_one_line_and_the_training_goes_on(tmp_path, number, said, workers, group):
    toy.write_config(tmp_path, workers + SLOW.format(2))
    running = start_tool(tmp_path, 'train.py', 'toy_config.py', alone=True)
    pointer = tmp_path / 'work_dirs/toy_config/waiting'
    until = time.monotonic() + 100
    while not pointer.exists() and running.is_alive() and time.monotonic() < until:
        time.sleep(0.05)
    workers = children(running.pid)
    (os.killpg if group else os.kill)(running.pid, number)
    running.join(60)
    printed = log_of(tmp_path, running).read_text()
    assert running.exitcode == 128 + number, printed
    assert len(workers) >= 2
    last = [line for line in printed.splitlines() if line][-1]
    where = tmp_path / 'work_dirs/toy_config/epoch_2.pth'
    assert last.startswith(
        f'stopped by {said}. The last checkpoint is {where}; go on with: python '
    )
    assert 'Traceback' not in printed and 'Error' not in printed, printed
    until = time.monotonic() + 10
    while any(map(alive, workers)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(map(alive, workers))
    command = last.rpartition('go on with: python ')[2].split()
    assert command[1:] == ['toy_config.py', '--work-dir', 'work_dirs/toy_config', '--resume']
    toy.write_config(tmp_path)
    code, printed = run_tool(tmp_path, 'train.py', *command[1:])
    assert code == 0, printed
    assert read_checkpoint(tmp_path / 'work_dirs/toy_config/epoch_4.pth')['meta']['epoch'] == 4


def test_the_death_of_the_workers_is_no_error(tmp_path):
    # The loader's SIGCHLD handler raises for a worker that was killed: here it has the time to.
    code = """
import os, signal, sys, time
from torch.utils.data import DataLoader
from mmvtr.cli.signals import Ending

with Ending('w', sys.argv) as ending:
    ending.release = lambda: time.sleep(1)
    batches = iter(DataLoader(list(range(8)), num_workers=2, persistent_workers=True))
    next(batches)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(100)
"""
    status, printed = in_child(tmp_path / 'log', exec, code, {}), (tmp_path / 'log').read_text()
    assert status == 143, printed
    assert printed == '\nstopped by SIGTERM. There is no checkpoint in w yet: start again.\n'


def test_before_the_first_checkpoint(tmp_path):
    toy.write_config(tmp_path, SLOW.format(0))
    given = ('toy_config.py', '--work-dir', 'w', '--seed', '3')
    running = start_tool(tmp_path, 'train.py', *given, alone=True)
    while not (tmp_path / 'w/waiting').exists() and running.is_alive():
        time.sleep(0.05)
    os.kill(running.pid, signal.SIGINT)
    running.join(60)
    assert running.exitcode == 130
    printed = log_of(tmp_path, running).read_text()
    assert printed.endswith('stopped by Ctrl-C. There is no checkpoint in w yet: start again.\n')


@pytest.mark.parametrize(
    ('given', 'expected'),
    [
        (['c.py'], 'python tools/train.py c.py --work-dir w --resume'),
        (['c.py', '--work-dir', 'a b'], "python tools/train.py c.py --work-dir 'a b' --resume"),
        (['c.py', '--work-dir=x', '--resume'], 'python tools/train.py c.py --work-dir=x --resume'),
        (['c.py', '--resume', 'old.pth', '--work-dir', 'w', '--amp'],
         'python tools/train.py c.py --resume old.pth --work-dir w --amp --resume'),
    ],
)  # fmt: skip
def test_the_command_that_goes_on(given, expected):
    assert Ending('w', ['tools/train.py', *given]).command() == expected


def test_the_handlers_are_put_back(tmp_path):
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with Ending(str(tmp_path), ['train.py']):
        assert signal.getsignal(signal.SIGTERM) != before[1]
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


# -- what cannot be written ----------------------------------------------------------------------


def one_line(printed):
    (line,) = [line for line in printed.splitlines() if line.startswith('error: ')]
    assert len(line) < 500 and 'Traceback' not in printed, printed
    return line


def test_a_work_dir_that_is_a_file(tmp_path):
    toy.write_config(tmp_path)
    (tmp_path / 'w').write_text('')
    for given, named in (('w', 'w'), ('w/below', 'w')):
        code, printed = run_tool(tmp_path, 'train.py', 'toy_config.py', '--work-dir', given)
        assert code == 1
        assert one_line(printed).startswith(f'error: work dir {named}')
        assert 'cannot be written' in printed


@pytest.mark.parametrize('number', [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_a_work_dir_that_cannot_be_written(tmp_path, monkeypatch, number):
    def fails(*args, **kwargs):
        raise OSError(number, os.strerror(number), str(tmp_path / 'x'))

    monkeypatch.setattr('tempfile.TemporaryFile', fails)
    with pytest.raises(UserError, match=f'{tmp_path} cannot be written: {os.strerror(number)}'):
        check_writable(str(tmp_path))


@pytest.mark.parametrize('number', [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EFBIG])
def test_a_checkpoint_that_cannot_be_written_keeps_the_last(tmp_path, monkeypatch, number):
    backend, path = AtomicBackend(), tmp_path / 'epoch_1.pth'
    backend.put(b'old', path)
    (tmp_path / 'last_checkpoint').write_text(str(path))

    def fails(*args):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, 'fsync', fails)
    with pytest.raises(UserError) as ended, Ending(str(tmp_path), ['train.py', 'c.py']):
        backend.put(b'new', path)
    assert str(ended.value) == (
        f'{path} cannot be written: {os.strerror(number)}. The last checkpoint is {path}; '
        f'go on with: python train.py c.py --work-dir {tmp_path} --resume'
    )
    assert path.read_bytes() == b'old'


def test_other_errors_pass(tmp_path):
    for error in (ValueError('x'), PermissionError(errno.EACCES, 'no', '/data/features.h5')):
        with pytest.raises(type(error)), Ending(str(tmp_path), ['train.py']):
            raise error


def limited(limit, folder):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    os.chdir(folder)


@pytest.mark.parametrize(
    ('limit', 'named'),
    [
        (5_000, '.pth cannot be written'),
        pytest.param(4_500, 'cannot be written', marks=pytest.mark.nightly),
    ],
)
def test_a_full_disk_in_a_training(tmp_path, limit, named):
    """A limit on the size of files: the log or the first checkpoint meets it."""
    toy.write_config(tmp_path)
    running = subprocess.run(
        [sys.executable, str(ROOT / 'tools/train.py'), 'toy_config.py'],
        capture_output=True, text=True, preexec_fn=lambda: limited(limit, tmp_path), timeout=100,
    )  # fmt: skip
    assert running.returncode == 1
    line = one_line(running.stdout + running.stderr)
    assert 'File too large' in line and 'cannot be written' in line
    assert str(tmp_path / 'work_dirs/toy_config') in line
    assert line.endswith('There is no checkpoint in work_dirs/toy_config yet: start again.')


OPTIONS = ['--cfg-options', 'a=1', 'b=x y']
MANY = ['--cfg-options', *(f'key_{i}.of_a_long_name={i}' for i in range(9))]


@pytest.mark.parametrize(
    'options, same',
    [
        ([], []),
        (OPTIONS, OPTIONS),
        (['--cfg-options', "a=['b']", '--seed', '3'], ['--cfg-options', "a=['b']"]),
        ([*MANY, '--amp'], MANY),
    ],
)
def test_last_words(options, same, tmp_path, monkeypatch):
    """Commands that a shell reads as they are meant, in rows that fit."""
    monkeypatch.chdir(tmp_path)
    parser = Parser(None)
    parser.add_cfg_options()
    assert cfg_words(parser.parse_known_args(options)[0].cfg_options) == same
    said = next_steps('c.py', str(tmp_path / 'my work' / 'best.pth'), same)
    assert max(map(len, said.splitlines())) <= 100
    first, *lines = said.replace('\\\n', ' ').splitlines()
    assert first == 'trained: my work/best.pth. Next:'
    model = ['c.py', 'my work/best.pth']
    assert [shlex.split(line)[3:] for line in lines] == [
        ['test', *model, *same],
        ['draw', *model, '--out', 'my work/pictures', *same],
        ['export_index', *model, '--out', 'my work/gallery', *same],
        ['serve', 'my work/gallery'],
    ]
    without = next_steps('c.py', 'best.pth', same, searched=False)
    assert 'serve' not in without and 'gallery' not in without
    monkeypatch.setattr('mmvtr.cli.signals.entry_points', lambda **wanted: [])  # of no gallery
    assert next_steps('c.py', 'best.pth', same) == without
