"""Tools as processes of their own, forked from one that has loaded all modules already."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import sys
import threading
from pathlib import Path
from typing import Sequence

import torch

ROOT = Path(__file__).resolve().parents[4]

#: What every child needs; loaded once, in the process that they are forked from.  (A module that a
#: version of python lacks is passed over.)
PRELOAD = [
    '__main__',
    'distutils',
    'matplotlib.backends.backend_agg',
    'mmengine.runner',
    'mmvtr.engine.launching',
    'mmvtr.models',
    'mmvtr.evaluation',
]


def run_tool(*command: object, log: Path, home: Path = ROOT) -> None:
    """Run a tool as a command line would, in a process that has loaded all modules already.

    Args:
        command: file and arguments.
        log: folder of its ``output.log``, and of ``cpu_seconds``.
        home: folder in which it runs.

    Raises:
        SystemExit: it failed; with the end of its log.
    """
    log.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context('forkserver')
    context.set_forkserver_preload(PRELOAD)
    child = context.Process(target=_run_tool, args=(list(map(str, command)), log, home))
    child.start()
    try:
        child.join()
    finally:  # after Ctrl-C
        child.terminate()
    if child.exitcode:
        raise SystemExit(f'{command[0]}: {log / "output.log"}:\n{last_words(log)}')


def last_words(log: Path) -> str:
    """The end of an ``output.log``."""
    return (log / 'output.log').read_text()[-3000:]


def _run_tool(command: Sequence[str], log: Path, home: Path) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.chdir(home)
    with open(log / 'output.log', 'a') as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    # Of its data workers: a child of a fork server would start a fork server of its own for them.
    multiprocessing.set_start_method('fork', force=True)
    torch.set_num_threads(1)
    sys.argv = list(command)
    try:
        runpy.run_path(sys.argv[0], run_name='__main__')
    finally:
        with open(log / 'cpu_seconds', 'a') as file:
            print(sum(os.times()[:2]), file=file)


def _end_with_parent() -> None:
    """A killed benchmark must not leave a training that a restart would run beside."""
    multiprocessing.parent_process().join()
    os._exit(1)
