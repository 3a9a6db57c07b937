"""CPU seconds of processes from nothing, beside what their imports of others take alone."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Optional

from cpu_rows.timing import Row

ROOT = Path(__file__).resolve().parents[3]
CODE = {
    'import mmvtr': 'import mmvtr',
    'mmvtr --version': "import runpy, sys; sys.argv = ['mmvtr', '--version']; "
    "runpy.run_module('mmvtr', run_name='__main__')",
    'mmvtr.retrieve': 'import numpy as np, mmvtr; '
    "mmvtr.retrieve(np.eye(3, dtype='f'), np.eye(3, dtype='f'), k=1)",
}
#: What a loop of one's own over mmengine's runner and open_clip's model would import.
NEEDED = 'import torch, mmengine.runner, open_clip'
#: A training that ends where its first step would begin.
FIRST_STEP = """
import os, runpy, sys
from mmengine.model import BaseModel
BaseModel.train_step = lambda *args, **kwargs: os._exit(0)
sys.argv = {argv}
runpy.run_path(sys.argv[0], run_name='__main__')
sys.exit('there was no step')
"""
CONFIG, TEXT, CLIPS = 'configs/dvtr_c2v_planted.py', 'a red star spins', 32
READY = re.compile(r'http://\S+?:\d+')


def starts(quick: bool, repeats: int) -> list[Row]:
    """Each command in a process of its own; the anchor's took turns with it."""
    works = dict(list(CODE.items())[:1]) if quick else CODE
    rows = [_row(name, ['-c', code], 'import torch', repeats) for name, code in works.items()]
    if quick:
        return rows
    code = 'import mmvtr.datasets, mmvtr.engine, mmvtr.models'
    rows.append(_row('all components', ['-c', code], 'import torch, mmengine.runner', repeats))
    with tempfile.TemporaryDirectory() as folder:
        for name, argv in _commands(Path(folder)).items():
            rows.append(_row(name, argv, NEEDED, repeats, folder))
    return rows


def _row(
    name: str, argv: list[str], anchor: str, repeats: int, folder: Optional[Path] = None
) -> Row:
    taken = [(_seconds(argv, folder), _seconds(['-c', anchor])) for _ in range(repeats)]
    return Row(name, anchor, *map(list, zip(*taken)))


def _commands(folder: Path) -> dict[str, list[str]]:
    """A few planted clips, a model that was trained on them for an epoch, and its gallery."""
    knobs = dict(num_train=64, num_val=CLIPS, num_test=CLIPS)
    options = [
        f'{part}_dataloader.dataset.{name}={value}'
        for part in ('train', 'val', 'test')
        for name, value in knobs.items()
    ] + ['train_cfg.max_epochs=1']
    changes = ['--cfg-options', *options]
    train = [str(ROOT / 'tools/train.py'), str(ROOT / CONFIG), '--work-dir']
    _seconds([*train, str(folder / 'run'), *changes], folder)
    trained = [str(ROOT / CONFIG), str(folder / 'run/epoch_1.pth')]
    # Nobody waits for a worker that outlives its training, so its seconds would not count.
    alone = [f'train_dataloader.{name}' for name in ('num_workers=0', 'persistent_workers=False')]
    again = FIRST_STEP.format(argv=[*train, str(folder / 'again'), *changes, *alone])
    commands = {
        'mmvtr train, to its first step': ['-c', again],
        'mmvtr test, to its table': [str(ROOT / 'tools/test.py'), *trained, *changes],
    }
    if importlib.util.find_spec('mmvtr_gallery'):
        gallery = str(folder / 'gallery')
        _seconds(['-m', 'mmvtr', 'export_index', *trained, '--out', gallery, *changes], folder)
        commands['mmvtr search, to its answer'] = ['-m', 'mmvtr', 'search', gallery, TEXT]
        commands['mmvtr serve, to its answer'] = ['-m', 'mmvtr', 'serve', gallery, '--port', '0']
    return commands


def _seconds(argv: list[str], folder: Optional[Path] = None) -> float:
    """CPU seconds of a fresh interpreter in a folder; one that serves is asked once and ended."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    paths = os.pathsep.join([str(ROOT), os.environ.get('PYTHONPATH', '')])
    with subprocess.Popen(
        [sys.executable, *argv], env={**os.environ, 'PYTHONPATH': paths}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=folder,
    ) as child:  # fmt: skip
        try:
            printed = _asked(child) if 'serve' in argv else child.communicate()[0]
        finally:
            child.terminate()
    if child.returncode and 'serve' not in argv:
        raise RuntimeError(f'{argv}: {printed[-1000:]}')
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def _asked(child: subprocess.Popen) -> str:
    """What a server said until it had answered a search."""
    printed = ''
    for line in child.stdout:
        printed += line
        address = READY.search(line)
        if address:
            request = urllib.request.Request(
                f'{address[0]}/search', json.dumps(dict(text=TEXT, k=3)).encode(),
                {'Content-Type': 'application/json'},
            )  # fmt: skip
            with urllib.request.urlopen(request) as answer:
                answer.read()
            return printed
    raise RuntimeError(f'serve did not begin: {printed[-1000:]}')
