"""Files appear when they are complete; what killed processes leave is known as theirs."""

import os
import subprocess
import time

import pytest

from mmvtr.storage import leftovers, write_atomically
from mmvtr.storage.processes import this_process


def test_complete_or_not_at_all(tmp_path):
    path = tmp_path / 'deep' / 'x.pth'
    write_atomically(path, lambda file: file.write(b'one'))
    assert path.read_bytes() == b'one'

    def breaks(file):
        file.write(b'two')
        assert len(os.listdir(path.parent)) == 2
        raise OSError(28, 'No space left on device')

    with pytest.raises(OSError):
        write_atomically(path, breaks)
    assert path.read_bytes() == b'one' and os.listdir(path.parent) == ['x.pth']


def test_leftovers(tmp_path):
    dead = subprocess.Popen(['true'])
    dead.wait()
    here, now = this_process(), time.time()
    names = {
        f'a.pth.{here._replace(pid=dead.pid).tag}.part': True,
        f'a.pth.{here.tag}.part': False,  # this process lives
        f'a.pth.{here._replace(pid=os.getppid()).tag}.part': False,
        f'new.pth.{here._replace(host="elsewhere").tag}.part': False,
        f'old.pth.{here._replace(host="elsewhere").tag}.part': True,
        'new.pth.part': False,  # of an older version
        'old.pth.part': True,
        'old.pth': False,
    }
    for name in names:
        (tmp_path / name).touch()
        if name.startswith('old'):
            os.utime(tmp_path / name, (now - 400, now - 400))
    assert leftovers(tmp_path) == sorted(name for name, left in names.items() if left)
