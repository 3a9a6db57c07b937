"""CPU seconds of processes from nothing, beside one that imports torch alone."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

from cpu_rows.timing import Row

ROOT = Path(__file__).resolve().parents[3]
CODE = {
    'import mmvtr': 'import mmvtr',
    'mmvtr --version': "import runpy, sys; sys.argv = ['mmvtr', '--version']; "
    "runpy.run_module('mmvtr', run_name='__main__')",
    'mmvtr.retrieve': 'import numpy as np, mmvtr; '
    "mmvtr.retrieve(np.eye(3, dtype='f'), np.eye(3, dtype='f'), k=1)",
    'what a search imports': 'import mmvtr.apis.inferencer',
    'what a training imports': 'import mmvtr.datasets, mmvtr.engine, mmvtr.models',
}


def starts(quick: bool, repeats: int) -> list[Row]:
    """Each command in a process of its own; the anchor's took turns with it."""
    works = dict(list(CODE.items())[:1]) if quick else CODE
    rows = []
    for name, code in works.items():
        taken: list[tuple[float, float]] = []
        for _ in range(repeats):
            taken.append((_seconds(code), _seconds('import torch')))
        rows.append(Row(name, 'import torch', *map(list, zip(*taken))))
    return rows


def _seconds(code: str) -> float:
    """CPU seconds of a fresh interpreter that runs the code."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    paths = os.pathsep.join([str(ROOT), os.environ.get('PYTHONPATH', '')])
    done = subprocess.run(
        [sys.executable, '-c', code], env={**os.environ, 'PYTHONPATH': paths}, capture_output=True,
        text=True,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f'{code}: {done.stderr[-1000:]}')
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
