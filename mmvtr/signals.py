"""Last words of a training that is done, is stopped or cannot write: where it is, how to go on.

Nothing here imports torch: it is in place before a tool begins to load.
"""

from __future__ import annotations

import errno
import multiprocessing
import os
import shlex
import signal
import tempfile
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Callable, Optional, Sequence, Type

#: Of these a full or read-only disk is the cause, wherever they come from.
DISK = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EROFS)
#: These may have another cause, unless they are of a file in the work dir.
PLACE = (errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR, errno.EEXIST)
SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Ending:
    """Ends a training in one line, within ``with``: on Ctrl-C, SIGTERM and files it cannot write.

    The exit code after a signal is 128 + its number; data workers go with the training.  In a
    distributed run rank 0 speaks.

    Args:
        work_dir: where the checkpoints are.
        argv: the command, ``sys.argv``.
        launched: whether a launcher started it, which must be asked to go on.

    Attributes:
        release: is called before the end that a signal brings; gives back what other processes
            wait for.

    Raises:
        SystemExit: (on leaving) a full or read-only disk, or a path that cannot be written: names
            it.
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

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        for number, handler in self.former.items():
            signal.signal(number, handler)
        if isinstance(error, OSError):
            path = str(error.filename or f'a file in {self.work_dir}')
            inside = os.path.abspath(path).startswith(os.path.abspath(self.work_dir))
            if error.errno in DISK or (error.errno in PLACE and inside):
                raise SystemExit(
                    f'error: {path} cannot be written: {error.strerror}. {self.words()}'
                ) from error

    def words(self) -> str:
        """Where the last checkpoint is, and how to go on."""
        pointer = Path(self.work_dir, 'last_checkpoint')
        last = pointer.read_text(errors='replace').strip()[:200] if pointer.is_file() else None
        if last is None:
            return f'There is no checkpoint in {self.work_dir} yet: start again.'
        return f'The last checkpoint is {last}; go on with: {self.command()}'

    def command(self) -> str:
        """The command that goes on: that of the start, with ``--resume``."""
        given = list(self.argv)
        if not any(word == '--work-dir' or word.startswith('--work-dir=') for word in given):
            given += ['--work-dir', self.work_dir]
        if '--resume' not in given[-1:]:
            given.append('--resume')
        command = shlex.join(given)
        return f'the same launcher and: {command}' if self.launched else f'python {command}'

    def _stop(self, number: int, frame: Optional[FrameType]) -> None:
        """The signal handler.

        It leaves at once: an exception could be lost in whatever the signal has interrupted, and
        what a checkpoint needs is safe against a kill at any moment.
        """
        if os.getpid() != self.process:  # a data worker: it goes when the training does
            if number == signal.SIGTERM:
                signal.signal(number, signal.SIG_DFL)
                os.kill(os.getpid(), number)
            return
        # Of the workers killed below the loader's own SIGCHLD handler would make an error.  Not
        # SIG_IGN: Python complains of a signal that came before its handler was taken away.
        for other in (*SIGNALS, signal.SIGCHLD):
            signal.signal(other, _unheard)
        if os.environ.get('RANK', '0') == '0':
            name = 'Ctrl-C' if number == signal.SIGINT else signal.Signals(number).name
            os.write(2, f'\nstopped by {name}. {self.words()}\n'.encode())
        for worker in multiprocessing.active_children():
            worker.kill()
        self.release()
        os._exit(128 + number)


def _unheard(number: int, frame: Optional[FrameType]) -> None:
    """A signal that changes nothing any more."""


def next_steps(config: str, checkpoint: str, same: Sequence[str], *, searched: bool = True) -> str:
    """Last words of a training that is done: the checkpoint, and commands that go on from it.

    Args:
        config: as the command line named it.
        checkpoint: path of the best one, or of the last.
        same: options that go with the commands: ``--cfg-options`` and its words.
        searched: whether the model gives one vector an item, so that a gallery can be made.
    """
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
    """A command for a shell, in rows that end in a backslash where it goes on."""
    rows = ['  ']
    for word in map(shlex.quote, words):
        if rows[-1].strip() and len(rows[-1]) + len(word) > width:
            rows.append('      ')
        rows[-1] += f'{word} '
    return '\\\n'.join(rows).rstrip()


def check_writable(work_dir: str) -> None:
    """See that files can be written in a folder, which is made if need be.

    Raises:
        SystemExit: names the path that cannot be written, and why.
    """
    try:
        os.makedirs(work_dir, exist_ok=True)
        with tempfile.TemporaryFile(dir=work_dir) as file:
            file.write(b'0' * 4096)
    except OSError as error:
        path = error.filename if isinstance(error.filename, str) else work_dir
        path = work_dir if not os.path.isfile(path) else path
        raise SystemExit(f'error: work dir {path} cannot be written: {error.strerror}') from error
