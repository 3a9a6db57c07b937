"""The one-sentence message that a user gets for an error, and which errors are bugs instead.

An error from a ``raise`` statement in this package or mmengine reports something that a user can
fix, except for :data:`FAULTS`; so do errors of files, disks and networks (``OSError``) and missing
packages.  Any other error is a bug, which needs its traceback.
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

PACKAGE = Path(__file__).resolve().parents[1]
#: Packages, besides this one and its tools, whose ``raise`` is meant for a user.
MEANT = ('mmengine', 'mmvtr_gallery')
FRAME = re.compile(r'  File "(.*)", line \d+, in .*\n(?:    (.*)\n)?')
HEAD = 'Traceback (most recent call last):\n'
#: Error types that indicate a bug, whatever raises them.
FAULTS = (AssertionError, AttributeError, IndexError, NotImplementedError)
#: torch's message about a dead data worker, and the file in which torch notices it.
WORKER = re.compile(
    r'DataLoader worker \(pid(?:\(s\))? (?P<pid>[\d, ]+)\) '
    r'(?:exited unexpectedly|is killed by signal: (?P<how>[^.]*))'
)
LOADER = os.path.join('torch', 'utils', 'data', 'dataloader.py')
#: Messages of gloo, NCCL and the store about a process that has exited.
PEER = re.compile(
    r'Connection (closed|reset) by (peer|remote)|remote process exited|Broken pipe|failed to recv',
    re.IGNORECASE,
)
#: Environment variable that shows every traceback.
ALL = 'MMVTR_TRACEBACK'


class RemoteError(NamedTuple):
    """An error of another process, read from its traceback.

    Attributes:
        kind: its class name, without the module.
        message: its text.
        meant: whether it is meant for a user.
    """

    kind: str
    message: str
    meant: bool


def reason(error: BaseException) -> Optional[str]:
    """Return the message that a user gets for an error; None if the error is a bug.

    The environment variable ``MMVTR_TRACEBACK=1`` makes it None for all errors.
    """
    if os.environ.get(ALL) or isinstance(error, FAULTS):
        return None
    remote = from_elsewhere(error)
    if remote is not None:
        return remote.message if remote.meant else None
    if (died := death(error)) is not None:
        return died
    if isinstance(error, ModuleNotFoundError) and error.name and _is_missing(error.name):
        package = error.name.partition('.')[0]
        return f'this needs the package {package}, which is not installed: pip install {package}'
    frames = traceback.extract_tb(error.__traceback__)
    meant = bool(frames) and _is_meant(frames[-1].filename, frames[-1].line)
    return _words(error) if meant or isinstance(error, OSError) else None


def death(error: BaseException) -> Optional[str]:
    """Return what died and the likely cause, from torch's error about another process.

    Args:
        error: an error of a data loader, or of a distributed run.

    Returns:
        A sentence; None if the error is not about a dead process.
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
    """Return the likely cause of a data worker's death, from its signal's name, and a remedy."""
    if 'segmentation' in signal:
        return 'a decoder crashed; check_dataset.py --decode finds the file'
    full = 'shared memory is full: give /dev/shm more (docker run --shm-size=8g)'
    memory = 'the machine likely ran out of memory, or /dev/shm is full (the kernel log says so)'
    cause = full if 'bus error' in signal else memory
    return f'{cause}; num_workers of the dataloaders and their batch_size can be smaller'


@contextmanager
def without_workers() -> Iterator[None]:
    """Raise a worker's error that is meant for a user as if there were no workers.

    It then has its own message, without the worker's traceback.
    """
    try:
        yield
    except Exception as error:
        remote = from_elsewhere(error)
        if remote is None or not remote.meant:
            raise
        raise type(error)(remote.message) from None


def from_elsewhere(error: BaseException) -> Optional[RemoteError]:
    """Return the error of a data worker or a pool process; None if it is of this process."""
    text = _words(error)
    if not (text.startswith('Caught ') and HEAD in text):
        if type(error.__cause__).__name__ not in ('_RemoteTraceback', 'RemoteTraceback'):
            return None
        text = str(error.__cause__).strip()[3:-3]  # strip the triple quotes
    block = text.rpartition(HEAD)[2]
    frames = [*FRAME.finditer(block)]
    if not frames:
        return None
    last = frames[-1]
    # Below the last frame: the markers under its line, then the error.
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
    return RemoteError(kind, message or kind, of_system or _is_meant(last[1], last[2]))


def _is_meant(file: str, line: Optional[str]) -> bool:
    """Return whether the line of a file is a ``raise`` in this package or mmengine."""
    if not re.match(r'raise\b', (line or '').strip()):
        return False
    path = Path(file).resolve()
    beside = (PACKAGE.parent / name for name in ('tools', 'projects/lab'))
    folders = [PACKAGE, *beside, *(x for name in MEANT for x in _folders_of(name))]
    return any(folder in path.parents for folder in folders)


def _folders_of(package: str) -> list[Path]:
    """Return the folders where a package is installed, without importing it; [] if it is not."""
    spec = find_spec(package)
    found = spec.submodule_search_locations if spec else None
    return [Path(folder).resolve() for folder in found or ()]


def _is_missing(module: str) -> bool:
    """Return whether the package of a module is not installed and is not this package."""
    package = module.partition('.')[0]
    return package != PACKAGE.name and find_spec(package) is None


def _words(error: BaseException) -> str:
    """Return the message of an error, without Python's quotes and error numbers around it."""
    if isinstance(error, KeyError) and len(error.args) == 1:
        return str(error.args[0])
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f'{error.filename}: {error.strerror}'
    return str(error) or type(error).__name__


@contextmanager
def refusing_code(name: str) -> Iterator[None]:
    """Replace a library's refusal to run a model's own code with a one-sentence error.

    Args:
        name: the model's name, for the message.

    Raises:
        ValueError: the model that is loaded inside needs ``trust_remote_code``.
    """
    try:
        yield
    except ValueError as error:
        if 'trust_remote_code' not in str(error):
            raise
        raise ValueError(
            f'{name[-200:]} cannot be loaded without code that comes with it, which is not run: '
            'look at that code, and give the model in code or in a config of your own'
        ) from error
