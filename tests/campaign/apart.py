"""Calls in a process of their own: one that never ends, or ends its process, is only bad."""

from __future__ import annotations

import multiprocessing
from typing import Any, Callable, Mapping, Optional

from children import MP
from mmvtr.datasets.videos.video_io import BrokenVideoError

#: Seconds in which a call must end.
TIME_LIMIT = 60.0


class Reader:
    """Calls functions by name in a process, which is replaced when it hangs or dies.

    It is not forked from this one: PyAV's threads, which a fork lacks, may be here.

    Args:
        functions: by name, of modules; each returns a tuple.
        prepare: a function of a module that the process calls first; a test changes its modules.
    """

    def __init__(
        self,
        functions: Mapping[str, Callable[..., tuple]],
        prepare: Optional[Callable[[], None]] = None,
    ) -> None:
        self._called = functions, prepare
        self._process: Optional[multiprocessing.Process] = None

    def __enter__(self) -> 'Reader':
        return self

    def __exit__(self, *error: Any) -> None:
        self._stop()

    def __call__(self, how: str, *arguments: Any) -> tuple:
        """('frames', *what came), ('error', type, message) or ('hang', what happened).

        The type is 'known' of what the reader of videos raises in words.
        """
        if self._process is None:
            self._pipe, theirs = MP.Pipe()
            self._process = MP.Process(target=_serve, args=(theirs, *self._called), daemon=True)
            self._process.start()
            theirs.close()
        self._pipe.send((how, arguments))
        try:
            if self._pipe.poll(TIME_LIMIT):
                return self._pipe.recv()
            reason = f'no end after {TIME_LIMIT} s'
        except EOFError:
            self._process.join()
            reason = f'the process ended with {self._process.exitcode}'
        self._stop()
        return 'hang', reason

    def _stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None


def _serve(
    pipe: Any,
    functions: Mapping[str, Callable[..., tuple]],
    prepare: Optional[Callable[[], None]],
) -> None:
    if prepare is not None:
        prepare()
    while True:
        try:
            how, arguments = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(('frames', *functions[how](*arguments)))
        except Exception as error:  # whatever it is, it is judged
            known = isinstance(error, (BrokenVideoError, FileNotFoundError))
            pipe.send(('error', 'known' if known else type(error).__name__, str(error)))
