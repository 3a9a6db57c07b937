"""How a tool starts and ends: with one sentence for an error that a user can mend.

Tools import this module first, before torch; nothing else does, as it sets the environment.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
import traceback
from contextlib import suppress
from typing import Any, Callable

from mmvtr.cli.errors import USER_ERRORS, explain_dead_process, message_of
from mmvtr.errors import AlreadyReported, UserError

#: Environment variable that shows the traceback of an error that a user can mend, too.
ALL = 'MMVTR_TRACEBACK'

# OpenMP threads that spin while they wait take cores from data workers and other programs: on busy
# cores a step takes several times as long.  torch reads this when it is loaded.
os.environ.setdefault('GOMP_SPINCOUNT', '2000')


def tool(main: Callable[..., Any]) -> Callable[..., Any]:
    """Turn an error of :data:`~mmvtr.cli.errors.USER_ERRORS` into one sentence.

    Before it there is a line with the class and place of the error, or of a UserError's cause;
    ``MMVTR_TRACEBACK=1`` prints the traceback instead.  Ctrl-C exits silently with
    status 130.  In a distributed run one process prints what several meet.  A script prints what
    its console cannot write, such as a name on one that is not UTF-8, as escapes (``\\u732b``).

    Raises:
        SystemExit: status 1 and the sentence.
    """

    @functools.wraps(main)
    def run(*args: Any, **kwargs: Any) -> Any:
        if main.__module__ == '__main__' and getattr(sys.stdout, 'errors', '') == 'strict':
            sys.stdout.reconfigure(errors='backslashreplace')  # as stderr is
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
