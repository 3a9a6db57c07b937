"""Closing messages of a training that finishes, is stopped or cannot write: how to continue.

Nothing here imports torch: it is active before a tool begins to load.
"""

from __future__ import annotations

import errno
import multiprocessing
import os
import shlex
import signal
import threading
from contextlib import contextmanager
from importlib.metadata import entry_points
from pathlib import Path
from types import FrameType
from typing import Any, Callable, Iterator, Optional, Sequence

from mmvtr.errors import UserError

#: Errors that a full or read-only disk causes, whichever file they name.
DISK = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EROFS)
#: Errors that may have another cause, unless they name a file in the work dir.
PLACE = (errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.EEXIST)
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Ending:
    """Context that ends a training in one line on Ctrl-C, SIGTERM and files it cannot write.

    The exit code after a signal is 128 + its number; data workers are killed with the training.  In
    a distributed run rank 0 prints.

    Args:
        work_dir: folder of the checkpoints.
        argv: the command, ``sys.argv``.
        launched: whether a launcher started it, which is needed to resume.

    Attributes:
        release: called before the exit on a signal; releases what other processes wait for.

    Raises:
        UserError: on exit, for a full or read-only disk, or a path that cannot be written (names
            it).
    """

    def __init__(self, work_dir: str, argv: Sequence[str], *, launched: bool = False) -> None:
        self.work_dir = work_dir
        self.argv = list(argv)
        self.launched = launched
        self.process = os.getpid()
        self.former: dict[int, Any] = {}
        self.release: Callable[[], None] = lambda: None

    def __enter__(self) -> Ending:
        self.former = {number: signal.signal(number, self._stop) for number in SIGNALS}
        return self

    def __exit__(self, kind: Any, error: Optional[BaseException], trace: Any) -> None:
        for number, handler in self.former.items():
            signal.signal(number, handler)
        if isinstance(error, OSError):
            path = str(error.filename or f'a file in {self.work_dir}')
            inside = os.path.abspath(path).startswith(os.path.abspath(self.work_dir))
            if error.errno in DISK or (error.errno in PLACE and inside):
                raise UserError(
                    f'{path} cannot be written: {error.strerror}. {self.words()}'
                ) from error

    def words(self) -> str:
        """Return where the last checkpoint is, and how to resume."""
        pointer = Path(self.work_dir, 'last_checkpoint')
        last = pointer.read_text(errors='replace').strip()[:200] if pointer.is_file() else None
        if last is None:
            return f'There is no checkpoint in {self.work_dir} yet: start again.'
        return f'The last checkpoint is {last}; go on with: {self.command()}'

    def command(self) -> str:
        """Return the command that resumes: the original command with ``--resume``."""
        words = list(self.argv)
        if not any(word == '--work-dir' or word.startswith('--work-dir=') for word in words):
            words += ['--work-dir', self.work_dir]
        if '--resume' not in words[-1:]:
            words.append('--resume')
        command = shlex.join(words)
        return f'the same launcher and: {command}' if self.launched else f'python {command}'

    def _stop(self, number: int, frame: Optional[FrameType]) -> None:
        """Handle a signal by exiting at once.

        An exception could be swallowed by the code that the signal has interrupted, and checkpoints
        survive a kill at any moment.
        """
        if os.getpid() != self.process:  # a data worker: it ends when the training does
            if number == signal.SIGTERM:
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)
            return
        # The loader's own SIGCHLD handler would raise an error for the workers that are killed
        # below. Not SIG_IGN: Python complains about a signal that arrived before its handler was
        # removed.
        for other in (*SIGNALS, signal.SIGCHLD):
            signal.signal(other, lambda *_: None)
        if os.environ.get('RANK', '0') == '0':
            name = 'Ctrl-C' if number == signal.SIGINT else signal.Signals(number).name
            os.write(2, f'\nstopped by {name}. {self.words()}\n'.encode())
        for worker in multiprocessing.active_children():
            worker.kill()
        self.release()
        os._exit(128 + number)


@contextmanager
def exit_on_sigterm() -> Iterator[None]:
    """Turn SIGTERM into SystemExit in the main thread."""

    def leave(number: int, frame: Optional[FrameType]) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


def next_steps(config: str, checkpoint: str, same: Sequence[str], *, searched: bool = True) -> str:
    """Return the closing message of a finished training: the checkpoint, and commands that use it.

    Args:
        config: the config as named on the command line.
        checkpoint: path of the best or the last one.
        same: options for the commands: ``--cfg-options`` and its words.
        searched: whether the model gives one vector per item, so that a gallery can be built; its
            tools are named if they are installed.
    """
    searched = searched and bool(entry_points(group='mmvtr.commands', name='serve'))
    checkpoint = os.path.relpath(checkpoint)
    pictures, gallery = (str(Path(checkpoint).with_name(n)) for n in ('pictures', 'gallery'))
    model = [config, checkpoint]
    commands = [['test', *model], ['draw', *model, '--out', pictures]]
    if searched:
        commands.append(['export_index', *model, '--out', gallery])
    commands = [[*command, *same] for command in commands]
    if searched:
        commands.append(['serve', gallery])
    lines = [_in_rows(['python', '-m', 'mmvtr', *command]) for command in commands]
    return '\n'.join([f'trained: {checkpoint}. Next:', *lines])


def _in_rows(words: Sequence[str], width: int = 98) -> str:
    """Return a shell command, wrapped into lines that end in a backslash."""
    rows = ['  ']
    for word in map(shlex.quote, words):
        if rows[-1].strip() and len(rows[-1]) + len(word) > width:
            rows.append('      ')
        rows[-1] += f'{word} '
    return '\\\n'.join(rows).rstrip()
