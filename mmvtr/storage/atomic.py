"""Files that are written beside their place and moved there when they are complete."""

from __future__ import annotations

import os
import re
import time
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Callable, Iterator, Union

from mmvtr.storage.processes import lives, this_process

#: Seconds after which a file that nobody has touched is nobody's, where its owner cannot be seen.
ABANDONED = 300.0


def write_atomically(path: Union[str, Path], write: Callable[[BinaryIO], None]) -> None:
    """Write a file through ``write`` and rename it to ``path`` once it is complete on disk.

    Until then it is ``PATH.HOST-PLACE-PID.part``, so that two processes never share one.

    Args:
        path: of the file; its folder is made.
        write: is given a binary file that is open for writing and reading.

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
    """Add ``path`` to an OSError that names no file, such as one of a full disk."""
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

    Of a writer that cannot be seen from here (another machine, an older version) a file is one if
    it has not been written to for :data:`ABANDONED` seconds.
    """
    return sorted(path.name for path in Path(folder).glob('*.part') if _is_left(path))


def _is_left(path: Path) -> bool:
    here = this_process()
    ours = re.search(rf'\.{re.escape(here.host)}-{here.place}-(\d+)\.part$', path.name)
    if ours:
        return not lives(here._replace(pid=int(ours[1]), started=0))
    try:
        return time.time() - path.stat().st_mtime > ABANDONED
    except FileNotFoundError:  # it has just taken its place
        return False
