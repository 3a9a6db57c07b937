"""What an error says to a user in one sentence, and which errors are none of a user's.

An error that this package or mmengine raises of its own accord, by ``raise``, tells of something
that a user can mend, but for those of :data:`FAULTS`; so do errors of files, disks and networks
(``OSError``) and packages that are not installed.  Any other is a fault of the program, which needs
its traceback.
"""

from __future__ import annotations

import ast
import builtins
import os
import re
import traceback
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Iterator, NamedTuple, Optional

PACKAGE = Path(__file__).resolve().parent
#: Packages whose ``raise`` is meant for a user, beside this one and its tools.
MEANT = ('mmengine', 'mmvtr_gallery')
FRAME = re.compile(r'  File "(.*)", line \d+, in .*\n(?:    (.*)\n)?')
HEAD = 'Traceback (most recent call last):\n'
#: Kinds that tell of a program, whoever raises them.
FAULTS = (AssertionError, AttributeError, IndexError, NotImplementedError)
#: What torch says of a data worker that is gone, and the file in which it notices.
WORKER = re.compile(
    r'DataLoader worker \(pid(?:\(s\))? (?P<pid>[\d, ]+)\) '
    r'(?:exited unexpectedly|is killed by signal: (?P<how>[^.]*))'
)
LOADER = os.path.join('torch', 'utils', 'data', 'dataloader.py')
#: What gloo, NCCL and the store of a run say of a process that is gone.
PEER = re.compile(
    r'Connection (closed|reset) by (peer|remote)|remote process exited|Broken pipe|failed to recv',
    re.IGNORECASE,
)
#: Shows every traceback.
ALL = 'MMVTR_TRACEBACK'


class Told(NamedTuple):
    """An error of another process, read from its traceback.

    Attributes:
        kind: its class, without the module.
        message: what it says.
        meant: whether it is meant for a user.
    """

    kind: str
    message: str
    meant: bool


def reason(error: BaseException) -> Optional[str]:
    """What a user is told of an error; None: it is a fault of the program.

    The environment variable ``MMVTR_TRACEBACK=1`` makes faults of all errors.
    """
    if os.environ.get(ALL) or isinstance(error, FAULTS):
        return None
    told = from_elsewhere(error)
    if told is not None:
        return told.message if told.meant else None
    if (died := death(error)) is not None:
        return died
    if isinstance(error, ModuleNotFoundError) and error.name and _is_missing(error.name):
        package = error.name.partition('.')[0]
        return f'this needs the package {package}, which is not installed: pip install {package}'
    frames = traceback.extract_tb(error.__traceback__)
    meant = bool(frames) and _is_meant(frames[-1].filename, frames[-1].line)
    return _words(error) if meant or isinstance(error, OSError) else None


def death(error: BaseException) -> Optional[str]:
    """Return what died and the likely cause, of torch's error that another process is gone.

    Args:
        error: of a data loader, or of the processes of a distributed run.

    Returns:
        a sentence; None: the error says no such thing.
    """
    worker = WORKER.search(str(error)) if isinstance(error, RuntimeError) else None
    lost = isinstance(error, (ConnectionError, EOFError)) and any(
        frame.filename.endswith(LOADER) for frame in traceback.extract_tb(error.__traceback__)
    )
    if worker or lost:
        number, how = (worker['pid'], worker['how'] or '') if worker else ('', '')
        about = ', '.join(filter(None, [number and f'process {number}', how.lower()]))
        return f'a data worker died{about and f" ({about})"}: {_cause(how.lower())}'
    if isinstance(error, RuntimeError) and PEER.search(str(error)):
        return (
            'another process of this run is gone: what it printed last says why; where it printed '
            'nothing it was killed, likely for memory (the kernel log of its machine says so)'
        )
    return None


def _cause(signal: str) -> str:
    """Of the death of a data worker, by the name of the signal that ended it, and what helps."""
    if 'segmentation' in signal:
        return 'a decoder crashed; check_dataset.py --decode finds the file'
    full = 'shared memory is full: give /dev/shm more (docker run --shm-size=8g)'
    memory = 'the machine likely ran out of memory, or /dev/shm is full (the kernel log says so)'
    cause = full if 'bus error' in signal else memory
    return f'{cause}; num_workers of the dataloaders and their batch_size can be smaller'


@contextmanager
def without_workers() -> Iterator[None]:
    """Within: an error of a data worker that is meant for a user is raised as if there were none.

    It then has its own message, not that of the worker's traceback.
    """
    try:
        yield
    except Exception as error:
        told = from_elsewhere(error)
        if told is None or not told.meant:
            raise
        raise type(error)(told.message) from None


def from_elsewhere(error: BaseException) -> Optional[Told]:
    """What a data worker or a process of a pool has raised; None: it is of this process."""
    text = _words(error)
    if not (text.startswith('Caught ') and HEAD in text):
        if type(error.__cause__).__name__ not in ('_RemoteTraceback', 'RemoteTraceback'):
            return None
        text = str(error.__cause__).strip()[3:-3]  # in three quotes
    block = text.rpartition(HEAD)[2]
    frames = [*FRAME.finditer(block)]
    if not frames:
        return None
    last = frames[-1]
    # Below the last frame: what marks a place in its line, then the error.
    lines = block[last.end() :].splitlines()
    while lines and lines[0].startswith(' '):
        del lines[0]
    kind, _, message = '\n'.join(lines).strip().partition(': ')
    kind = kind.rpartition('.')[2]
    found = getattr(builtins, kind, None)
    of_system = isinstance(found, type) and issubclass(found, OSError)
    if found is KeyError:
        with suppress(ValueError, SyntaxError):
            message = str(ast.literal_eval(message))
    return Told(kind, message or kind, of_system or _is_meant(last[1], last[2]))


def _is_meant(file: str, line: Optional[str]) -> bool:
    """Whether the line of a file is a ``raise`` of ours or of mmengine."""
    if not re.match(r'raise\b', (line or '').strip()):
        return False
    path = Path(file).resolve()
    folders = [PACKAGE, PACKAGE.parent / 'tools', *(x for name in MEANT for x in _folders_of(name))]
    return any(folder in path.parents for folder in folders)


def _folders_of(package: str) -> list[Path]:
    """Return where a package is installed, without importing it; [] where it is not."""
    spec = find_spec(package)
    found = spec.submodule_search_locations if spec else None
    return [Path(folder).resolve() for folder in found or ()]


def _is_missing(module: str) -> bool:
    """Whether the package of a module is not installed, and is no part of this one."""
    package = module.partition('.')[0]
    return package != PACKAGE.name and find_spec(package) is None


def _words(error: BaseException) -> str:
    """The message of an error, without Python's quotes and numbers around it."""
    if isinstance(error, KeyError) and len(error.args) == 1:
        return str(error.args[0])
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f'{error.filename}: {error.strerror}'
    return str(error) or type(error).__name__
