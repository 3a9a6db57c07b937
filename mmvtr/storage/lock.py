"""Lock of a folder for one training at a time, held by a living process.

The lock is a file that is created atomically and names its holder, which touches it as long as it
lives.  File-system locks are not required, as not every cluster has them; where they exist, the
folder itself is locked as well, so that deleting the lock file lets no second process of this
machine in.
"""

from __future__ import annotations

import errno
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any, Optional, Union

try:
    import fcntl
except ImportError:  # not POSIX
    fcntl = None

from mmvtr.errors import UserError
from mmvtr.storage.atomic import ABANDONED, Process, lives, naming, part_name, this_process

#: Name of the lock file.
NAME = '.lock'
#: Seconds between two touches.
BEAT = 30.0

#: Errors of file systems without hard links.
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


class FolderInUse(UserError):
    """Raised if another process that may be alive holds the lock of a folder."""


class FolderLock:
    """Exclusive write lock of a folder.

    A holder that is known to have ended (its process of this machine is gone, or has another start
    time than in the lock) loses the lock at once; one that is not visible (another machine or
    container) loses it after :data:`ABANDONED` seconds without a touch. Until then others are
    rejected. A holder that has lost its lock to another process, e.g. after being suspended, exits
    at once: its files are complete, and it must not write any more.

    Args:
        folder: created if missing.
        beat: seconds between two touches.
    """

    def __init__(self, folder: Union[str, Path], *, beat: float = BEAT) -> None:
        self.path = Path(folder, NAME)
        self._beat = beat
        self._text = ''
        self._owner: Optional[int] = None
        self._folder: Optional[int] = None  # descriptor of the open, locked folder
        self._ended = threading.Event()
        self._thread: Optional[threading.Thread] = None

    def take(self) -> Optional[str]:
        """Acquire the lock.

        Returns:
            A message about an ended holder whose lock was taken over, else None.

        Raises:
            FolderInUse: another process holds it; names it.
            OSError: the folder cannot be created or written to.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        since = time.strftime('%Y-%m-%d %H:%M:%S')
        nonce = os.urandom(4).hex()  # distinguishes two locks of one process
        self._text = json.dumps(dict(this_process()._asdict(), since=since, nonce=nonce))
        note = None
        while not self._place():
            note = self._clear() or note
        self._folder = _lock_folder(self.path.parent)
        # Children of an ended holder may keep the folder locked a little longer.
        if self._folder is None and note is None:
            self.path.unlink(missing_ok=True)
            raise FolderInUse(
                f'{self.path.parent} is in use: its lock {self.path} was deleted, but the process '
                'that has it still lives and writes there'
            )
        self._owner = os.getpid()
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()
        return note

    def release(self) -> None:
        """Release the lock if this process, not a forked child, still holds it."""
        if self._owner != os.getpid():
            return
        self._owner = None
        self._ended.set()
        self._thread.join(5)  # takes longer only if the file server is unavailable
        if self._folder is not None:
            _unlock_folder(self._folder)
        if _read(self.path) == self._text:
            self.path.unlink(missing_ok=True)

    def _place(self) -> bool:
        """Create the lock file if there is none."""
        mine = self._write()
        try:
            return _link(mine, self.path)
        finally:
            mine.unlink()

    def _write(self) -> Path:
        mine = Path(part_name(self.path))
        with naming(mine):
            mine.write_text(self._text)
        return mine

    def _clear(self) -> Optional[str]:
        """Remove the lock of an ended process; return a sentence about it."""
        text = _read(self.path)
        holder = _holder(text)
        living = None if holder is None else lives(Process(*holder[:4]))
        age = self._age()
        if text is None or age is None:
            return None  # just released
        who = 'an unknown process' if holder is None else _name(*holder)
        if living or (living is None and age < ABANDONED):
            advice = ''
            if living is None:
                advice = (
                    f', touched {age:.0f} s ago. That process cannot be seen from here: if it is '
                    f'gone, delete that file, or wait until nobody has touched it for '
                    f'{ABANDONED:.0f} s'
                )
            folder = self.path.parent
            raise FolderInUse(f'{folder} is in use by {who} (lock {self.path}){advice}')
        away = Path(f'{part_name(self.path)}.old')
        if _read(self.path) != text:
            return None
        try:
            os.rename(self.path, away)
        except FileNotFoundError:  # another process was faster
            return None
        try:
            # Another process may have created its own lock since the check above.
            if _read(away) != text:
                _link(away, self.path)
                return None
        finally:
            away.unlink()
        return f'{self.path} is taken over from {who}, which is gone'

    def _age(self) -> Optional[float]:
        """Return seconds since the last touch, by the file system's clock; None: no lock."""
        mine = self._write()
        try:
            return max(0.0, mine.stat().st_mtime - self.path.stat().st_mtime)
        except FileNotFoundError:
            return None
        finally:
            mine.unlink()

    def _keep(self) -> None:
        """Touch the lock periodically; exit if another process has taken it."""
        while not self._ended.wait(self._beat):
            try:
                if _read(self.path) == self._text:
                    os.utime(self.path)
                    continue
                if self._place():  # the lock file was deleted
                    continue
                text = _read(self.path)
            except OSError:  # the file server is unavailable: the next touch decides
                continue
            if text in (None, self._text) or self._ended.is_set():
                continue
            holder = _holder(text)
            who = 'an unknown process' if holder is None else _name(*holder)
            print(f'error: {self.path.parent} was taken over by {who}', file=sys.stderr, flush=True)
            os._exit(1)

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.release()


def in_use(folder: Union[str, Path]) -> bool:
    """Return whether a process that may be alive holds the lock of a folder.

    It writes nothing, so the age of a touch is by this machine's clock.
    """
    path = Path(folder, NAME)
    holder = _holder(_read(path))
    living = None if holder is None else lives(Process(*holder[:4]))
    if living is not None:
        return living
    try:
        return time.time() - path.stat().st_mtime < ABANDONED
    except FileNotFoundError:
        return False


def _link(source: Path, target: Path) -> bool:
    """Hard-link a file under a second name, unless the name is taken."""
    try:
        os.link(source, target)
    except FileExistsError:
        # If a file server's answer is lost, the client repeats the request.
        return source.stat().st_nlink == 2
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        try:
            with open(target, 'x') as file:
                file.write(source.read_text())
        except FileExistsError:
            return False
    return True


def _lock_folder(folder: Path) -> Optional[int]:
    """Return an open, locked folder; None if another process has locked it."""
    if fcntl is None:
        return -1
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:  # a file system without such locks
        pass
    return descriptor


def _unlock_folder(descriptor: int) -> None:
    """Release the lock of a folder, even if a child process still has it open."""
    if descriptor < 0:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    except OSError:
        pass
    os.close(descriptor)


def _read(path: Path) -> Optional[str]:
    try:
        return path.read_text(errors='replace')
    except FileNotFoundError:
        return None


def _holder(text: Optional[str]) -> Optional[tuple[str, str, int, int, str]]:
    """Return host, place, pid, start and since from a lock file; None if it is malformed."""
    try:
        holder = json.loads(text or '')
        host, place, since = (str(holder[key])[:80] for key in ('host', 'place', 'since'))
        pid, started = int(holder['pid']), int(holder['started'])
    except (ValueError, TypeError, KeyError, OverflowError):
        return None
    return (host, place, pid, started, since) if 0 < pid < 2**31 else None


def _name(host: str, place: str, pid: int, started: int, since: str) -> str:
    return f'process {pid} of {host} (since {since})'
