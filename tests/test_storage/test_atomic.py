"""Files appear when they are complete; what killed processes leave is known as theirs."""

import os
import subprocess
import time

import numpy as np
import pytest
import torch

from mmvtr.storage import leftovers, write_atomically, write_plain, write_tensors
from mmvtr.storage.atomic import this_process


def test_complete_or_not_at_all(tmp_path):
    path = tmp_path / 'deep' / 'x.pth'
    write_atomically(path, lambda file: file.write(b'one'))
    assert path.read_bytes() == b'one'

    def breaks(file):
        file.write(b'two')
        assert len(os.listdir(path.parent)) == 2
        raise OSError(28, 'No space left on device')

    with pytest.raises(OSError, match=f"No space left on device: '{path}'"):
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


WRITERS = {
    'npz': lambda p: write_atomically(p, lambda file: np.savez(file, a=np.ones(9000))),
    'tensors': lambda p: write_tensors({'a': torch.ones(9000)}, p),
    'torch': lambda p: write_plain({'a': torch.ones(9000)}, p),
    'text': lambda p: write_atomically(p, lambda file: file.write(bytes(9000))),
}


@pytest.mark.parametrize('kind', WRITERS)
def test_a_full_disk_is_told_with_the_file(tmp_path, full_disk, kind):
    with full_disk(2000), pytest.raises(OSError) as error:
        WRITERS[kind](tmp_path / 'x')
    assert error.value.filename == str(tmp_path / 'x') and not os.listdir(tmp_path)
