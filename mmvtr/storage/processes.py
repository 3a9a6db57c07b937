"""Which process this is, and whether another one still lives."""

from __future__ import annotations

import hashlib
import os
import platform
from pathlib import Path
from typing import NamedTuple, Optional


class Process(NamedTuple):
    """Identity of a process that survives reuse of its pid.

    Attributes:
        host: name of its machine.
        place: 8 hexadecimal digits, of the machine's boot and its table of process numbers: two
            containers of one host name have two tables.
        pid: its number in that table.
        started: clock ticks from the boot to its start, 0 where there is no /proc.
    """

    host: str
    place: str
    pid: int
    started: int

    @property
    def tag(self) -> str:
        """The process' name as part of file names."""
        return f'{self.host}-{self.place}-{self.pid}'


def this_process() -> Process:
    """Return the identity of the current process."""
    pid = os.getpid()
    _, started = _look(pid) or ('', 0)
    return Process(platform.node(), _place(), pid, started)


def lives(process: Process) -> Optional[bool]:
    """Return whether a process is alive; None if it is in another place and cannot be checked."""
    if (process.host, process.place) != (platform.node(), _place()):
        return None
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's
    seen = _look(process.pid)
    if seen is None:
        return True
    state, started = seen
    same = process.started in (0, started)  # a process number is given anew some day
    return same and state not in 'ZX'  # killed, and its parent has not asked for its end yet


def _look(pid: int) -> Optional[tuple[str, int]]:
    """Return state and start time of a process from /proc."""
    try:
        text = Path(f'/proc/{pid}/stat').read_text()
    except OSError:
        return None
    fields = text.rpartition(')')[2].split()  # the name before it may hold spaces and brackets
    return fields[0], int(fields[19])


def _place() -> str:
    try:
        boot = Path('/proc/sys/kernel/random/boot_id').read_text()
        table = os.readlink('/proc/self/ns/pid')
    except OSError:  # no Linux: the host name alone must do
        boot = table = ''
    return hashlib.sha256(f'{boot}{table}'.encode()).hexdigest()[:8]
