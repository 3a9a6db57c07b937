"""Files of a folder change: seen from outside, or from inside before it happens."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Callable, Iterator

Seen = tuple[str, int, int, int]


def changes(folder: Path, counts: Callable[[str], bool]) -> Iterator[int]:
    """How often the files in a folder have changed since the first look, for ever.

    Args:
        folder: may not exist yet.
        counts: whether a file of that name does.
    """
    last, count = look(folder, counts), 0
    while True:
        now = look(folder, counts)
        count += now != last
        last = now
        yield count


def look(folder: Path, counts: Callable[[str], bool]) -> set[Seen]:
    """Name, number, size and time of all files."""
    found = set()
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if counts(entry.name) and entry.is_file(follow_symlinks=False):
                    about = entry.stat(follow_symlinks=False)
                    found.add((entry.name, about.st_ino, about.st_size, about.st_mtime_ns))
    except FileNotFoundError:  # gone while we looked
        pass
    return found


#: What python tells an audit hook of before it changes files.
EVENTS = ('os.remove', 'os.rename', 'os.rmdir', 'os.mkdir', 'os.link', 'os.symlink', 'os.truncate')


def die_before(step: int, folder: Path) -> None:
    """Let this process be killed before its change number ``step`` of files below a folder, from 0.

    What is opened for writing is a change, too.  Libraries in other languages are not seen.
    """
    left = [step]

    def hook(event: str, arguments: tuple) -> None:
        writes = event == 'open' and isinstance(arguments[2], int) and arguments[2] & WRITING
        if not (writes or event in EVENTS):
            return
        paths = [os.fspath(one) for one in arguments[:2] if isinstance(one, (str, os.PathLike))]
        if any(path.startswith(str(folder)) for path in paths):
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


WRITING = os.O_WRONLY | os.O_RDWR
