"""How far a tool is: a bar in a terminal or notebook, one line at the end anywhere else."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import Callable, Iterator

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

#: Seconds from one drawing of the bar to the next.
PAUSE = 0.1


@contextmanager
def show_progress(words: str, total: int, *, shown: bool = True) -> Iterator[Callable[..., None]]:
    """Show on stdout how many of ``total`` things are done.

    Where stdout is a file or a pipe it gets ``WORDS: 19 of 19 in 2.1 s`` at the end and no control
    characters; nothing if an error ends the work.  There is no thread: who forks meanwhile may.

    Args:
        words: what is counted, and what is done to it: ``'videos decoded'``.
        total: how many there are.
        shown: False: nothing is shown, of a process that is not the first one, say.

    Yields:
        ``advance(count=1)``, to call when so many more are done.
    """
    start = drawn = time.monotonic()
    console = Console(file=sys.stdout)
    terminal = sys.stdout.isatty() and not console.is_dumb_terminal
    live = shown and (console.is_jupyter or terminal)
    bar = Progress(
        TextColumn(words),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn('left'),
        TimeRemainingColumn(),
        console=console,
        auto_refresh=False,
        redirect_stdout=False,
        redirect_stderr=False,
        disable=not live,
    )
    task = bar.add_task(words, total=total)

    def advance(count: int = 1) -> None:
        nonlocal drawn
        bar.advance(task, count)
        now = time.monotonic()
        if live and now - drawn >= PAUSE:
            drawn = now
            bar.refresh()

    with bar:
        yield advance
    if shown and not live:
        done = int(bar.tasks[0].completed)
        print(f'{words}: {done} of {total} in {time.monotonic() - start:.1f} s', flush=True)
