"""One training at a time in a folder: a lock that a living process holds.

The lock is a file that appears complete or not at all and names its holder, who touches it as long
as it lives.  Nothing depends on locks of the file system, which not every cluster has; where it has
them, the folder itself is locked as well, so that a lock file that somebody deletes lets no second
process of this machine in.
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
except ImportError:  # no POSIX
    fcntl = None

from mmvtr.storage.atomic import ABANDONED, Process, lives, naming, part_name, this_process

#: The name of the file.
NAME = '.lock'
#: Seconds between two touches.
BEAT = 30.0

#: What file systems without hard links answer.
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


class FolderInUse(RuntimeError):
    """Raised if another process that may be alive holds the lock of a folder."""


class FolderLock:
    """Exclusive write lock of a folder.

    A holder that is seen to be gone (its process of this machine has ended, or has another start
    than the lock says) loses the lock at once; one that cannot be seen (another machine or
    container) when it has not touched the lock for ``abandoned`` seconds.  Until then it is
    refused.  A holder that has lost its lock to another process, say because it was suspended,
    ends at once: what it has written is complete, and there is nothing that it may still write.

    Args:
        folder: is made where it is missing.
        beat: seconds between two touches.
        abandoned: seconds without one.
    """

    def __init__(
        self, folder: Union[str, Path], *, beat: float = BEAT, abandoned: float = ABANDONED
    ) -> None:
        self.path = Path(folder, NAME)
        self._beat, self._abandoned = beat, abandoned
        self._text = ''
        self._owner: Optional[int] = None
        self._folder: Optional[int] = None  # opened and locked
        self._ended = threading.Event()
        self._thread: Optional[threading.Thread] = None

    def take(self) -> Optional[str]:
        """Acquire the lock.

        Returns:
            What to say of a holder that is gone and whose lock was taken over, else None.

        Raises:
            FolderInUse: another process holds it; says which one.
            OSError: the folder cannot be made or written in.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        since = time.strftime('%Y-%m-%d %H:%M:%S')
        nonce = os.urandom(4).hex()  # tells two locks of one process apart
        self._text = json.dumps(dict(this_process()._asdict(), since=since, nonce=nonce))
        note = None
        while not self._place():
            note = self._clear() or note
        self._folder = _lock_folder(self.path.parent)
        # Who is gone may have left children, which hold the folder a little longer.
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
        self._thread.join(5)  # more only if the file server is away
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
        """Remove the lock of an ended process and return the sentence that says so."""
        found = _read(self.path)
        holder = _holder(found)
        living = None if holder is None else lives(Process(*holder[:4]))
        age = self._age()
        if found is None or age is None:
            return None  # just released
        who = 'an unknown process' if holder is None else _name(*holder)
        if living or (living is None and age < self._abandoned):
            advice = ''
            if living is None:
                advice = (
                    f', touched {age:.0f} s ago. That process cannot be seen from here: if it is '
                    f'gone, delete that file, or wait until nobody has touched it for '
                    f'{self._abandoned:.0f} s'
                )
            folder = self.path.parent
            raise FolderInUse(f'{folder} is in use by {who} (lock {self.path}){advice}')
        away = Path(f'{part_name(self.path)}.old')
        if _read(self.path) != found:
            return None
        try:
            os.rename(self.path, away)
        except FileNotFoundError:  # another start was quicker
            return None
        try:
            # Between the last look and this, another start may have put its own lock there.
            if _read(away) != found:
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
        """Touch the lock periodically; end the process if another one holds it."""
        while not self._ended.wait(self._beat):
            try:
                if _read(self.path) == self._text:
                    os.utime(self.path)
                    continue
                if self._place():  # somebody has deleted it
                    continue
                found = _read(self.path)
            except OSError:  # the file server is away: the next touch tells
                continue
            if found in (None, self._text) or self._ended.is_set():
                continue
            holder = _holder(found)
            who = 'an unknown process' if holder is None else _name(*holder)
            print(f'error: {self.path.parent} was taken over by {who}', file=sys.stderr, flush=True)
            os._exit(1)

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.release()


def in_use(folder: Union[str, Path]) -> bool:
    """Return whether a process that may be alive holds the lock of a folder."""
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
        # An answer that was lost on its way from a file server makes the client ask again.
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
    found = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(found, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(found)
        return None
    except OSError:  # a file system without such locks
        pass
    return found


def _unlock_folder(found: int) -> None:
    """Release the lock of a folder, also if a child process still has it open."""
    if found < 0:
        return
    try:
        fcntl.flock(found, fcntl.LOCK_UN)
    except OSError:
        pass
    os.close(found)


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
