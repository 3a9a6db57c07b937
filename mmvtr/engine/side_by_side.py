"""Steps that depend on each other: each begins after those that it needs, several at once."""

from __future__ import annotations

import subprocess
import threading
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any, Callable, Mapping, NamedTuple, Optional, Sequence

from mmvtr.cli.signals import exit_on_sigterm

#: Running child processes, and whether no further one may start.
_CHILDREN: set[subprocess.Popen] = set()
_LOCK, _STOPPED = threading.Lock(), threading.Event()


class Step(NamedTuple):
    """A step.

    Attributes:
        name: its name.
        after: names of the steps that come before it.
        do: does it, given a place: what one step at a time may use, such as a device.
    """

    name: str
    after: frozenset[str]
    do: Callable[[Any], None]


def do_all(
    steps: Sequence[Step], places: Sequence[Any] = (None,), *, keep_going: bool = True
) -> dict[str, BaseException]:
    """Do all steps, as many at once as there are places; those that need a failed one are left out.

    Of those that can begin the first one does.

    An exception in this thread, such as that of a signal, ends the running processes first.

    Args:
        steps: each after those that it needs.
        places: one for each step that runs at the same time.
        keep_going: False: after a failure no further step is begun.

    Returns:
        Errors by the names of the steps that failed, in the order of their ends.
    """
    after = {step.name: step.after for step in steps}
    do = {step.name: step.do for step in steps}
    order, free = TopologicalSorter(after), list(places)
    order.prepare()
    ready: list[str] = []
    failed: dict[str, BaseException] = {}
    running: dict[Future, tuple[str, Any]] = {}
    _STOPPED.clear()
    with exit_on_sigterm(), ThreadPoolExecutor(len(places)) as pool:
        try:
            while order.is_active():
                ready.extend(order.get_ready())
                while ready and free:
                    name = min(ready, key=[*do].index)
                    ready.remove(name)
                    lacking = failed if not keep_going else failed.keys() & after[name]
                    if lacking:
                        failed[name] = Skipped(*sorted(lacking))
                        order.done(name)
                        ready.extend(order.get_ready())
                    else:
                        place = free.pop(0)
                        running[pool.submit(do[name], place)] = name, place
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    name, place = running.pop(future)
                    free.append(place)
                    if future.exception() is not None:
                        failed[name] = future.exception()
                    order.done(name)
        except BaseException:
            _stop()
            raise
    return failed


class Skipped(Exception):
    """A step that was not begun; its arguments are the names of failed steps."""

    def __str__(self) -> str:
        return f'not begun, as it needs {", ".join(self.args)}'


def _stop() -> None:
    """End all child processes, and begin no further one."""
    with _LOCK:
        _STOPPED.set()
        for child in _CHILDREN:
            child.terminate()


def run_child(
    command: Sequence[str],
    *,
    environment: Optional[Mapping[str, str]] = None,
    log: Optional[Path] = None,
) -> int:
    """Run a command and wait for its end.

    Args:
        command: its words.
        environment: default: this process' own.
        log: file to which its output is appended; None: it has this process' console.

    Returns:
        Its status; -15 if no further one may begin.
    """
    streams: dict[str, Any] = {}
    if log is not None:
        streams = dict(stdout=open(log, 'ab'), stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    try:
        with _LOCK:
            if _STOPPED.is_set():
                return -15
            child = subprocess.Popen(list(command), env=environment, **streams)
            _CHILDREN.add(child)
        try:
            return child.wait()
        finally:
            with _LOCK:
                _CHILDREN.discard(child)
    finally:
        if log is not None:
            streams['stdout'].close()
