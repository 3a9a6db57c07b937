"""Runs functions and tools in clean child processes, forked from a server that has imported all.

A child may be killed or change global state without harm to the tests.
"""

import functools
import itertools
import multiprocessing
import os
import runpy
import socket
import sys
from pathlib import Path
from typing import Any, Callable, Mapping

from serve_tools import PRELOADED, settle

from mmvtr.utils import named_config

ROOT = Path(__file__).resolve().parents[1]
#: In the names of configs that train whole within minutes, on the planted corpus or on captions
#: alone: they need no rehearsal, and no paper has a row to put beside theirs.
WITHIN_MINUTES = ('planted', 'captions')

MP = multiprocessing.get_context('forkserver')
MP.set_forkserver_preload(['toy', *PRELOADED, 'frozen'])
_NUMBERS = itertools.count()
_FOLDERS = (
    *('.', 'tests', 'projects/lab', 'projects/gallery', 'projects/gallery/tests'),
    *('tools/analysis_tools', 'tools/model_converters'),
)
_TOOLS = ('tools', 'projects/gallery/mmvtr_gallery/commands', 'projects/lab')
_PATHS = [*(str(ROOT / x) for x in _FOLDERS), *os.environ.get('PYTHONPATH', '').split(os.pathsep)]
os.environ['PYTHONPATH'] = os.pathsep.join(filter(None, _PATHS))  # for all child processes


def tool_file(name: str) -> Path:
    """The file of ``analysis_tools/draw.py``, of a command of the gallery (``serve.py``) or of the
    laboratory (``cost.py``)."""
    files = [ROOT / folder / name for folder in _TOOLS]
    return next((file for file in files if file.is_file()), files[0])


@functools.cache  # asked for each config as tests are collected
def config_file(name: str) -> Path:
    """The file of a config of the package, or of the laboratory's."""
    own = ROOT / f'projects/lab/configs/{name}.py'
    return own if own.is_file() else named_config(name).resolve()


def config_path(name: str) -> str:
    """Its path from the root."""
    return str(config_file(name).relative_to(ROOT))


def in_child(log: Path, function: Callable, *args: Any, **kwargs: Any) -> int:
    """Call ``function``; its output is appended to ``log``. Returns the exit code."""
    child = MP.Process(target=_call, args=(log, function, args, kwargs))
    child.start()
    child.join()
    return child.exitcode


def _call(log: Path, function: Callable, args: tuple, kwargs: dict) -> None:
    settle(log)
    function(*args, **kwargs)


def free_port() -> str:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return str(probe.getsockname()[1])


def run_tool(
    folder: Path, tool: str, *arguments: Any, environ: Mapping[str, str] = {}
) -> tuple[int, str]:
    """Run a tool (:func:`tool_file`) in ``folder``. Returns the exit code and all that it printed.

    The server of processes may be older than a variable: ``environ`` hands it on.
    """
    log = folder / 'printed.txt'
    log.unlink(missing_ok=True)
    code = in_child(log, _run_tool, folder, tool, list(map(str, arguments)), dict(environ))
    return code, log.read_text()


def start_tool(
    folder: Path,
    tool: str,
    *arguments: Any,
    environ: Mapping[str, str] = {},
    alone: bool = False,
) -> multiprocessing.Process:
    """Start ``tools/<tool>`` in ``folder`` and go on; what it prints is in :func:`log_of`.

    ``alone``: with a process group of its own, which may get signals.
    """
    name = f'start_{next(_NUMBERS)}'
    call = (folder, tool, list(map(str, arguments)), dict(environ), alone)
    child = MP.Process(target=_call, args=(folder / f'{name}.txt', _run_tool, call, {}), name=name)
    child.start()
    return child


def log_of(folder: Path, child: multiprocessing.Process) -> Path:
    """The file of all that a process of :func:`start_tool` has printed."""
    return folder / f'{child.name}.txt'


def _run_tool(
    folder: Path,
    tool: str,
    arguments: list[str],
    environ: Mapping[str, str] = {},
    alone: bool = False,
) -> None:
    if alone:
        os.setsid()
    os.chdir(folder)
    os.environ.update(environ)
    sys.argv = [tool, *arguments]
    runpy.run_path(str(tool_file(tool)), run_name='__main__')
