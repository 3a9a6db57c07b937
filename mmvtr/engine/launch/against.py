"""A training beside its baseline: both results in one table, and a picture of what is found."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Sequence

from mmvtr.evaluation.table import comparison_table

#: What of the results is compared, where both trainings report it.
COMPARED = ('R1', 'P1', 'mAP', 'nDCG50', 'rsum', 'SumR')


def results_of(folder: Path) -> dict[str, float]:
    """What the test of a finished training gave, by metric.

    Raises:
        SystemExit: the folder has no results of a test.
    """
    logs = sorted(path for path in folder.glob('*/*.json') if path.stem == path.parent.name)
    for path in reversed(logs):  # a resumed run has one folder for each start
        found = json.loads(path.read_text())
        if found:
            return found
    raise SystemExit(f'error: {folder}: the training has left no results of a test')


def call(tool: Path, *arguments: str) -> None:
    """Run a tool to its end.

    Raises:
        SystemExit: with its status, where that is not 0.
    """
    code = subprocess.run([sys.executable, str(tool), *arguments]).returncode
    if code:
        raise SystemExit(code)


def picture(draw: Path, config: str, checkpoint: str, folder: Path, *options: str) -> str:
    """Draw what a checkpoint finds; returns the path of the first film strips.

    Where nothing can be drawn it returns a sentence that says why: the trainings are done.
    """
    command = [sys.executable, str(draw), config, checkpoint, '--out', str(folder), *options]
    done = subprocess.run(command, capture_output=True, text=True)
    drawn = sorted(folder.glob('*.png'), key=lambda path: path.stem != 'sheet_0')
    if done.returncode or not drawn:
        why = (done.stderr or done.stdout).strip().splitlines()
        return f'none was drawn: {why[-1][:300] if why else "no reason was given"}'
    return str(drawn[0])


def beside(folder: Path, baseline: Path, names: Sequence[str]) -> str:
    """The results of two trainings, the baseline first, and what changes.

    Args:
        folder: of the method's training.
        baseline: of the baseline's.
        names: of the method and of the baseline.

    Raises:
        SystemExit: one of them has no results.
    """
    ours, theirs = results_of(folder), results_of(baseline)
    kept = [key for key in ours if key in theirs and key.split('/')[-1].split('_')[-1] in COMPARED]
    shown = comparison_table({k: theirs[k] for k in kept}, {k: ours[k] for k in kept})
    return f'{names[0]} beside its baseline {names[1]}, one seed\n\n{shown}'
