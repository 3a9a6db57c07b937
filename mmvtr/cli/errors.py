"""Which errors a user can mend, and the sentence that says how."""

from __future__ import annotations

import os
import re
import traceback
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Iterator, NamedTuple

from mmvtr.errors import UserError

#: Classes of errors whose message is meant for a user; any other error is a bug.  A ValueError may
#: be one as well: so the place where it was raised is printed, but not that of a UserError.
USER_ERRORS = (UserError, ValueError, OSError, ImportError)
#: What torch repeats of an error in a data worker: its last line of code, its class, its message.
WORKER_ERROR = re.compile(
    r'Caught .*\n  File "(?P<file>.*)", line (?P<line>\d+), in .*?\n(?=\S)(?P<kind>[\w.]+)'
    r'(?:: (?P<message>.*))?',
    re.DOTALL,
)
#: torch's messages about a data worker, and about another process of a run, that is gone.
DEAD_WORKER = re.compile(
    r'DataLoader worker \(pid(?:\(s\))? (?P<pid>[\d, ]+)\) '
    r'(?:exited unexpectedly|is killed by signal: (?P<how>[^.]*))'
)
#: Where torch reads from a data worker: one that dies in between leaves an error without words.
LOADER = os.path.join('torch', 'utils', 'data', 'dataloader.py')
DEAD_PEER = re.compile(
    r'Connection (closed|reset) by (peer|remote)|remote process exited|Broken pipe|failed to recv',
    re.IGNORECASE,
)
CAUSES = {
    'segmentation fault': 'a decoder crashed; check_dataset.py --decode finds the file',
    'bus error': 'shared memory is full: give /dev/shm more (docker run --shm-size=8g)',
}
MEMORY = 'the machine likely ran out of memory, or /dev/shm is full (the kernel log says so)'


class Message(NamedTuple):
    """What a user gets of an error: a sentence, and the class and the place of the ``raise``."""

    sentence: str
    origin: str


def message_of(error: BaseException) -> Message:
    """Return what to print of an error, of this process or of one of its data workers."""
    of_worker = WORKER_ERROR.match(str(error))
    if of_worker:
        kind = of_worker['kind'].rpartition('.')[2]
        place = f'{of_worker["file"]}:{of_worker["line"]}'
        return Message((of_worker['message'] or kind).strip(), f'{kind} at {place}')
    kind = type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    place = f' at {frames[-1].filename}:{frames[-1].lineno}' if frames else ''
    return Message(_sentence(error) or kind, f'{kind}{place}')


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f'{error.filename}: {error.strerror}'
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition('.')[0]
        if find_spec(package) is None:
            return (
                f'this needs the package {package}, which is not installed: pip install {package}'
            )
    return str(error)


def explain_dead_process(error: BaseException) -> BaseException:
    """Return a UserError with the likely cause if a process has died, else the error itself."""
    lost = isinstance(error, (ConnectionError, EOFError)) and any(
        frame.filename.endswith(LOADER) for frame in traceback.extract_tb(error.__traceback__)
    )
    if not lost and not isinstance(error, RuntimeError):
        return error
    worker = DEAD_WORKER.search(str(error))
    if worker or lost:
        how = (worker['how'] or '').lower() if worker else ''
        about = f' (process {worker["pid"]}{how and f", {how}"})' if worker else ''
        message = (
            f'a data worker died{about}: {CAUSES.get(how, MEMORY)}; num_workers of the '
            'dataloaders and their batch_size can be smaller'
        )
    elif DEAD_PEER.search(str(error)):
        message = (
            'another process of this run is gone: what it printed last says why; where it printed '
            'nothing it was killed, likely for memory (the kernel log of its machine says so)'
        )
    else:
        return error
    return UserError(message).with_traceback(error.__traceback__)


@contextmanager
def without_workers() -> Iterator[None]:
    """Raise an error of a data worker as if there were no workers, without torch's words for it."""
    try:
        yield
    except USER_ERRORS as error:
        if not WORKER_ERROR.match(str(error)):
            raise
        message = message_of(error).sentence
        # Frees torch's loader: as garbage in a cycle it would wait five seconds for each worker.
        traceback.clear_frames(error.__traceback__)
        raise type(error)(message) from None
