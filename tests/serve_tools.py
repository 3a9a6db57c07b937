"""Runs ``python -m mmvtr`` in children forked from a process that has imported all of it.

``installation.py`` starts it with the installed package on its path and no checkout.  Each line
that it reads is ``[folder, arguments, log]`` in json; its answer is the child's exit code.
"""

import json
import multiprocessing
import os
import runpy
import sys
from importlib import import_module
from pathlib import Path

#: Imported before the fork: open_clip brings transformers, timm and torchvision (2 s), and the
#: first step of any optimizer torch._dynamo (1 s).
PRELOADED = (
    'matplotlib.pyplot',
    'open_clip',
    'torch._dynamo',
    'mmvtr.cli.options',
    'mmvtr.datasets',
    'mmvtr.engine',
    'mmvtr.evaluation',
    'mmvtr.models',
)


def settle(log: Path) -> None:
    """In a child: print to ``log``, with one thread, and without what only costs time."""
    import torch
    from mmengine.config import Config
    from mmengine.runner import Runner

    with open(log, 'a') as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    torch.set_num_threads(1)
    Runner._log_env = lambda *args: None  # half a second of shell commands
    Config.pretty_text = property(repr)  # a tenth of a second for each checkpoint


def run(folder: str, arguments: list[str], log: str) -> None:
    settle(Path(log))
    os.chdir(folder)
    sys.argv = ['mmvtr', *arguments]
    runpy.run_module('mmvtr', run_name='__main__', alter_sys=True)


def serve() -> None:
    for name in (*PRELOADED, 'frozen'):
        import_module(name)
    print(import_module('mmvtr').__file__, flush=True)
    forked = multiprocessing.get_context('fork')
    for line in sys.stdin:
        child = forked.Process(target=run, args=json.loads(line))
        child.start()
        child.join()
        print(child.exitcode, flush=True)


if __name__ == '__main__':
    serve()
