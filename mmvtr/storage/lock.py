"""One training at a time in a folder: a file that names its holder, locked by the operating system.

The system gives the lock back when its holder ends, however that ends, also on another machine that
has the folder over NFS or in another container.
"""

from __future__ import annotations

import json
import os
import platform
import time
from pathlib import Path
from typing import Any, Optional, Union

try:
    import fcntl
except ImportError:  # no POSIX
    fcntl = None

from mmvtr.storage.atomic import naming

#: The name of the file.
NAME = '.lock'
#: Open, locked files of this process.
_HELD: set[int] = set()


class FolderInUse(RuntimeError):
    """Raised if another process holds the lock of a folder."""


class FolderLock:
    """Exclusive write lock of a folder.

    Children of a process do not have it: what a killed training leaves behind keeps no folder.

    Args:
        folder: is made where it is missing.
    """

    def __init__(self, folder: Union[str, Path]) -> None:
        self.path = Path(folder, NAME)
        self._file: Optional[int] = None
        self._owner: Optional[int] = None

    def take(self) -> Optional[str]:
        """Acquire the lock.

        Returns:
            What to say of a holder that has left its lock behind, or of a file system without
            locks; else None.

        Raises:
            FolderInUse: another process holds it; says which one.
            OSError: the folder cannot be made or written in.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file, note = self._open()
        try:
            left = _holder(file)
            about = dict(pid=os.getpid(), host=platform.node())
            about['since'] = time.strftime('%Y-%m-%d %H:%M:%S')
            with naming(self.path), open(file, 'r+b', closefd=False) as held:
                held.truncate()
                held.write(json.dumps(about).encode())
        except BaseException:
            self.path.unlink(missing_ok=True)
            os.close(file)
            raise
        self._file, self._owner = file, os.getpid()
        _HELD.add(file)
        return note or (left and f'{self.path} is taken over from {left}, which is gone')

    def release(self) -> None:
        """Release the lock if this process, not a forked child, still holds it."""
        if self._owner != os.getpid():
            return
        self._owner = None
        if _is(self._file, self.path):
            self.path.unlink()
        _HELD.discard(self._file)
        os.close(self._file)

    def _open(self) -> tuple[int, Optional[str]]:
        """Return the file, open and locked, and what to say where it cannot be locked."""
        while True:
            file, note = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666), None
            try:
                lock(file)
            except BlockingIOError:
                with open(file, 'rb'):
                    raise FolderInUse(
                        f'{self.path.parent} is in use by {_holder(file) or "an unknown process"} '
                        f'(lock {self.path})'
                    ) from None
            except OSError as error:
                reason = error.strerror or type(error).__name__
                note = f'{self.path} keeps no second process out: no locks here ({reason})'
            if _is(file, self.path):
                return file, note
            os.close(file)  # its holder has just released and removed it

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.release()


def in_use(folder: Union[str, Path]) -> bool:
    """Return whether a process holds the lock of a folder."""
    try:
        with open(Path(folder, NAME), 'rb+') as file:
            lock(file.fileno())
    except BlockingIOError:
        return True
    except OSError:  # no such file, or a file system without locks
        pass
    return False


def lock(file: int) -> None:
    """Lock an open file for this process alone.

    Raises:
        BlockingIOError: another one has.
        OSError: the file system, or the system, has no such locks.
    """
    if fcntl is None:
        raise OSError('not on this system')
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is(file: int, path: Path) -> bool:
    """Return whether an open file is the one at a path."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False


def _holder(file: int) -> Optional[str]:
    """Return 'process 7 of host (since ...)', as the file says; None: it says nothing."""
    text = os.pread(file, 1000, 0)
    if not text:
        return None
    try:
        about = json.loads(text)
        pid, host, since = (str(about[key])[:80] for key in ('pid', 'host', 'since'))
    except (ValueError, TypeError, KeyError):
        return 'an unknown process'
    return f'process {pid} of {host} (since {since})'


def _leave() -> None:
    """Close the parent's locks in a child: a lock is held as long as anybody has its file open."""
    for file in _HELD:
        os.close(file)
    _HELD.clear()


if hasattr(os, 'register_at_fork'):
    os.register_at_fork(after_in_child=_leave)
