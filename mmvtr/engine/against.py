"""Training a method beside its baseline: both results in one table, and a picture of the hits.

Both have the same options, seed, flags and processes; remaining differences are listed above the
table, from the facts that both checkpoints store in their results.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import textwrap
from functools import partial
from pathlib import Path
from typing import Optional, Sequence

from mmengine.config import Config

from mmvtr.cli import cfg_words
from mmvtr.cli.options import check_writable
from mmvtr.engine import launching
from mmvtr.engine.before import Load, divided, train_row
from mmvtr.engine.checks.config_checks import check_training
from mmvtr.engine.loops.facts import differing
from mmvtr.engine.loops.facts_of_run import tested_of
from mmvtr.engine.rows import Row
from mmvtr.engine.runner import RESULTS
from mmvtr.errors import UserError
from mmvtr.evaluation.results import Results, refuse_other_test, refuse_other_tested, results_from
from mmvtr.evaluation.table import comparison_table

#: Results that are compared if both trainings report them.
COMPARED = ('R1', 'P1', 'mAP', 'nDCG50', 'rsum', 'SumR')


def train_baseline(cfg: Config, args: argparse.Namespace, tool: Path, load: Load) -> None:
    """Train the baseline in separate processes, one for each process of this training.

    With ``--resume`` a finished baseline is kept, and an interrupted one is continued.

    Args:
        cfg: config of the method.
        args: arguments of the command line.
        tool: the file of the training tool.
        load: :func:`mmvtr.utils.load_config`.

    Raises:
        UserError: a fault of either config, or the baseline's training has failed.
        ValueError: the two are tested on different sets.
    """
    shared, _ = divided(args.cfg_options, partial(load, args.against))
    base = load(args.against, shared)
    if None in (cfg.get('test_dataloader'), base.get('test_dataloader')):
        raise UserError('--against compares two tests: both configs need test_dataloader')
    check_training(cfg, args.cfg_options)  # check before the baseline takes its time
    check_training(base, shared)
    check_writable(cfg.work_dir)
    refuse_other_set(cfg, base, names_of(args))
    row = Row('baseline', args.against, Path(cfg.work_dir) / 'baseline', shared)
    seed = cfg.get('randomness', {}).get('seed') or 0
    resume = bool(args.resume)
    train_row(row, args, tool, load, seed=seed, title='first the baseline', resume=resume)


def names_of(args: argparse.Namespace) -> tuple[str, str]:
    """Return the names of the method and of the baseline."""
    return Path(args.config).stem, Path(args.against).stem


def compared(
    cfg: Config, args: argparse.Namespace, checkpoint: Optional[str], tool: Path, load: Load
) -> str:
    """Return the table of both trainings, and the path of the picture, or why there is none.

    Args:
        cfg, args, tool, load: see :func:`train_baseline`.
        checkpoint: checkpoint of the method, or None.
    """
    folder, names = Path(cfg.work_dir), names_of(args)
    shared, alone = divided(args.cfg_options, partial(load, args.against))
    parts = [
        f'{" ".join(cfg_words(some)[1:])} for {whom}'
        for some, whom in ((shared, 'both'), (alone, f'{names[0]} alone'))
        if some
    ]
    options = f'options: {"; ".join(parts)}' if parts else ''
    table = results_table(folder, folder / 'baseline', names, options)
    if checkpoint is None:
        return table
    draw = tool.with_name('analysis_tools') / 'draw.py'
    words = cfg_words(args.cfg_options)
    path = picture(draw, args.config, checkpoint, folder / 'pictures', *words)
    return f'{table}\n\npicture: {path}'


def results_of(folder: Path) -> Results:
    """Return the test results of a finished training.

    Raises:
        UserError: the folder has no results of a test.
    """
    files = sorted(folder.glob(f'*/{RESULTS}'))
    if not files:
        raise UserError(f'{folder}: the training has written no test results')
    newest = files[-1]  # a resumed run has one folder per start
    return results_from(json.loads(newest.read_text()), str(newest))


def refuse_other_set(ours: Config, theirs: Config, names: tuple[str, str]) -> None:
    """Raise, before any training, unless two configs are tested on the same texts and videos.

    Raises:
        UserError: a test set cannot be built.
        ValueError: the test sets differ.
    """
    tested = []
    for cfg in (ours, theirs):
        dataset = launching.check_datasets(cfg, ['test_dataloader'])['test_dataloader']
        protocol = dataset.protocol() if hasattr(dataset, 'protocol') else {}
        tested.append(tested_of(protocol, protocol.get('texts'), protocol.get('videos')))
    refuse_other_tested(*tested, names)


def picture(draw: Path, config: str, checkpoint: str, folder: Path, *options: str) -> str:
    """Draw the hits of a checkpoint; return the path of the first film strips.

    If nothing can be drawn it returns the reason as a sentence, since the trainings have succeeded.
    """
    command = [sys.executable, str(draw), config, checkpoint, '--out', str(folder), *options]
    done = subprocess.run(command, capture_output=True, text=True)
    drawn = sorted(folder.glob('*.png'), key=lambda path: path.stem != 'sheet_0')
    if done.returncode or not drawn:
        why = (done.stderr or done.stdout).strip().splitlines()
        return f'none was drawn: {why[-1][:300] if why else "no reason was given"}'
    return str(drawn[0])


def results_table(folder: Path, baseline: Path, names: Sequence[str], options: str = '') -> str:
    """Return the table of two trainings, the baseline first, and their difference.

    The differences of the trainings, as stated in their results, are listed above the table.

    Args:
        folder: folder of the method's training.
        baseline: folder of the baseline's training.
        names: names of the method and of the baseline.
        options: a line about which training got which options.

    Raises:
        UserError: one of them has no results.
        ValueError: they were tested on different sets.
    """
    ours, theirs = results_of(folder), results_of(baseline)
    refuse_other_test(ours, theirs, tuple(names))
    shared = [key for key in ours.numbers if key in theirs.numbers]
    keys = [key for key in shared if key.split('/')[-1].split('_')[-1] in COMPARED]
    table = comparison_table(*({k: x.numbers[k] for k in keys} for x in (theirs, ours)))
    title = f'{names[0]} beside its baseline {names[1]}, one seed'
    lines = [title, *filter(None, [options]), *differing(ours.trainings, theirs.trainings, names)]
    head = '\n'.join(textwrap.fill(line, 100, subsequent_indent='  ') for line in lines)
    return f'{head}\n\n{table}'
