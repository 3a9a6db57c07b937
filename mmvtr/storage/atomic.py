"""Atomic writing: files are written under a temporary name and renamed when complete."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import time
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Callable, Iterator, NamedTuple, Optional, Union

#: Seconds without a write after which an unfinished file of an unknown owner is abandoned.
ABANDONED = 300.0


def write_atomically(path: Union[str, Path], write: Callable[[BinaryIO], None]) -> None:
    """Write a file through ``write`` and rename it to ``path`` once it is complete on disk.

    Until then it is ``PATH.HOST-PLACE-PID.part``, so that two processes never share one.

    Args:
        path: path of the file; its folder is created.
        write: function that gets a binary file open for writing and reading.

    Raises:
        OSError: it cannot be written; names the file.
    """
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    part = part_name(path)
    try:
        with naming(path), open(part, 'w+b') as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException:
        Path(part).unlink(missing_ok=True)
        raise


def write_text(path: Union[str, Path], text: str, *, errors: str = 'strict') -> None:
    """Write a text in UTF-8 with :func:`write_atomically`; ``errors`` as in :meth:`str.encode`."""
    content = text.encode(errors=errors)
    write_atomically(path, lambda file: file.write(content))


@contextmanager
def naming(path: Union[str, Path]) -> Iterator[None]:
    """Add ``path`` to an OSError that names no file, e.g. of a full disk."""
    try:
        yield
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def part_name(path: Union[str, Path]) -> str:
    """Return the temporary name under which this process writes ``path``."""
    return f'{path}.{this_process().tag}.part'


def leftovers(folder: Union[str, Path]) -> list[str]:
    """Return the unfinished files in ``folder`` whose writing processes have ended.

    If the writer is not visible from here (another machine, an older version), a file counts if it
    has not been written to for :data:`ABANDONED` seconds.
    """
    return sorted(path.name for path in Path(folder).glob('*.part') if _is_left(path))


def _is_left(path: Path) -> bool:
    here = this_process()
    ours = re.search(rf'\.{re.escape(here.host)}-{here.place}-(\d+)\.part$', path.name)
    if ours:
        return not lives(here._replace(pid=int(ours[1]), started=0))
    try:
        return time.time() - path.stat().st_mtime > ABANDONED
    except FileNotFoundError:  # it has just been renamed to its final name
        return False


class Process(NamedTuple):
    """Identity of a process that survives reuse of its pid.

    Attributes:
        host: name of its machine.
        place: 8 hexadecimal digits that identify the machine's boot and PID namespace: two
            containers with one host name have different namespaces.
        pid: its number in that namespace.
        started: clock ticks from the boot to its start, 0 without /proc.
    """

    host: str
    place: str
    pid: int
    started: int

    @property
    def tag(self) -> str:
        """The process' identity as part of file names."""
        return f'{self.host}-{self.place}-{self.pid}'


def this_process() -> Process:
    """Return the identity of the current process."""
    pid = os.getpid()
    _, started = _look(pid) or ('', 0)
    return Process(platform.node(), _place(), pid, started)


def lives(process: Process) -> Optional[bool]:
    """Return whether a process is alive; None if it is elsewhere and cannot be checked."""
    if (process.host, process.place) != (platform.node(), _place()):
        return None
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # the process of another user
    seen = _look(process.pid)
    if seen is None:
        return True
    state, started = seen
    same = process.started in (0, started)  # pids are reused
    return same and state not in 'ZX'  # a zombie: killed, but not yet reaped by its parent


def _look(pid: int) -> Optional[tuple[str, int]]:
    """Return state and start time of a process from /proc."""
    try:
        text = Path(f'/proc/{pid}/stat').read_text()
    except OSError:
        return None
    fields = text.rpartition(')')[2].split()  # the name before it may contain spaces and brackets
    return fields[0], int(fields[19])


def _place() -> str:
    try:
        boot = Path('/proc/sys/kernel/random/boot_id').read_text()
        table = os.readlink('/proc/self/ns/pid')
    except OSError:  # not Linux: only the host name identifies the place
        boot = table = ''
    return hashlib.sha256(f'{boot}{table}'.encode()).hexdigest()[:8]
