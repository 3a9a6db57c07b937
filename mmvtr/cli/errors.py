"""How a tool ends: with one sentence for an error that a user can mend, else with a traceback."""

from __future__ import annotations

import functools
import os
import re
import signal
import sys
import traceback
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Any, Callable, Iterator, NamedTuple

from mmvtr.errors import AlreadyReported, UserError

#: Classes of errors whose message is meant for a user; any other error is a bug.  A ValueError may
#: be one as well: so the place where it was raised is printed, but not that of a UserError.
USER_ERRORS = (UserError, ValueError, OSError, ImportError)
#: Environment variable that shows the traceback of these, too.
ALL = 'MMVTR_TRACEBACK'
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


def tool(main: Callable[..., Any]) -> Callable[..., Any]:
    """Turn an error of :data:`USER_ERRORS` into one sentence.

    Before it there is a line with the class and place of the error, or of a UserError's cause;
    ``MMVTR_TRACEBACK=1`` prints the traceback instead.  Ctrl-C exits silently with
    status 130.  In a distributed run one process prints what several meet.  A script prints what
    its console cannot write, such as a name on one that is not UTF-8, as escapes (``\\u732b``).

    It also sets GOMP_SPINCOUNT, if that is not set: threads that wait soon sleep.

    Raises:
        SystemExit: status 1 and the sentence.
    """

    @functools.wraps(main)
    def run(*args: Any, **kwargs: Any) -> Any:
        if main.__module__ == '__main__' and getattr(sys.stdout, 'errors', '') == 'strict':
            sys.stdout.reconfigure(errors='backslashreplace')  # as stderr is
        # OpenMP threads that spin while they wait take cores from data workers and other programs:
        # on busy cores a step takes several times as long.  torch reads this when it is loaded.
        os.environ.setdefault('GOMP_SPINCOUNT', '2000')
        try:
            return main(*args, **kwargs)
        except KeyboardInterrupt:
            raise SystemExit(130) from None
        except AlreadyReported as error:
            raise SystemExit(error.status) from error
        except SystemExit as error:
            if not isinstance(error.code, str):
                raise
            sentence, cause = error.code, error.__cause__
        except Exception as error:
            # When a data worker dies, torch raises an error at whatever line the program has
            # reached.
            with suppress(ValueError):  # signal handlers can be set in the main thread only
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            cause = explain_dead_process(error)
            if not isinstance(cause, USER_ERRORS):
                if _in_group() and not _is_first_report(repr(error)):
                    raise SystemExit(1) from error
                raise
            sentence = f'error: {message_of(cause).sentence}'
        if not _is_first_report(sentence):
            raise SystemExit(1) from cause
        if cause is not None and os.environ.get(ALL):
            traceback.print_exception(cause)
        else:
            shown = cause.__cause__ if isinstance(cause, UserError) else cause
            if shown is not None:
                print(f'{message_of(shown).origin}; {ALL}=1 shows the traceback', file=sys.stderr)
        raise SystemExit(sentence) from cause

    run.is_tool = True
    return run


def _is_first_report(message: str) -> bool:
    """Return whether no other process of a distributed run has reported the same message before.

    Before the process group exists, the first process of each machine reports it.
    """
    if not _in_group():
        return os.environ.get('LOCAL_RANK', '0') == '0'
    try:
        store = sys.modules['torch.distributed'].distributed_c10d._get_default_store()
        return store.add(f'mmvtr/{message}', 1) == 1
    except RuntimeError:  # the process that holds the store has exited
        return True


def _in_group() -> bool:
    """Return whether this process has met the others of a distributed run."""
    distributed = sys.modules.get('torch.distributed')
    return bool(distributed and distributed.is_available() and distributed.is_initialized())
