"""A progress bar in a terminal or notebook, one line at the end elsewhere."""

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

#: Seconds between two redraws of the bar.
PAUSE = 0.1


@contextmanager
def show_progress(words: str, total: int, *, shown: bool = True) -> Iterator[Callable[..., None]]:
    """Show on stdout how many of ``total`` items are done.

    If stdout is a file or a pipe, it gets ``WORDS: 19 of 19 in 2.1 s`` at the end and no control
    characters, or nothing if an error ends the work.  No thread is started, so forking meanwhile is
    safe.

    Args:
        words: what is counted, and what is done with it: ``'videos decoded'``.
        total: the number of items.
        shown: if False nothing is shown, e.g. in a process that is not the first.

    Yields:
        ``advance(count=1)``, to call when ``count`` more items are done.
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
