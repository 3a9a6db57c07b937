"""Training a method beside its baseline: both results in one table, and a picture of the hits.

Both have the same options, seed, flags and processes; remaining differences are listed above the
table, from the facts that both checkpoints store in their results.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, Callable, Mapping, Optional, Sequence

from mmengine.config import Config

from mmvtr.command_line import cfg_words
from mmvtr.engine.checks.config_checks import check_config
from mmvtr.engine.launch import launching
from mmvtr.engine.launch.runner import RESULTS
from mmvtr.engine.loop.facts import differing
from mmvtr.engine.loop.facts_of_run import name_of_set
from mmvtr.evaluation.results import Results, refuse_other_test, results_from
from mmvtr.evaluation.table import comparison_table
from mmvtr.signals import check_writable
from mmvtr.storage import write_text
from mmvtr.values import part

#: Results that are compared if both trainings report them.
COMPARED = ('R1', 'P1', 'mAP', 'nDCG50', 'rsum', 'SumR')


def train_baseline(
    cfg: Config, args: argparse.Namespace, tool: Path, load: Callable[[dict[str, Any]], Config]
) -> None:
    """Train the baseline in separate processes, one for each process of this training.

    Args:
        cfg: config of the method.
        args: arguments of the command line.
        tool: the file of the training tool.
        load: function that reads the baseline's config with some options.

    Raises:
        SystemExit: a fault of either config, or the baseline's training has failed.
        ValueError: the two are tested on different sets.
    """
    shared, _ = divided(args.cfg_options, load)
    base = load(shared)
    if any(one.get('test_dataloader') is None for one in (cfg, base)):
        raise SystemExit('error: --against compares two tests: both configs need test_dataloader')
    check_config(cfg, args.cfg_options)  # check before the baseline takes its time
    check_config(base, shared)
    check_writable(cfg.work_dir)
    refuse_other_set(cfg, base, names_of(args))
    folder = Path(cfg.work_dir) / 'baseline'
    command = baseline_command(cfg, args, folder, shared)
    done = folder / 'command.json'  # written when the baseline is finished
    same = done.is_file() and json.loads(done.read_text()) == command
    if args.resume and same and any(folder.glob(f'*/{RESULTS}')):
        return
    first = rank_of_launch() == 0
    if first:
        print(f'first the baseline: {args.against}, in {folder}', flush=True)
    call(tool, *command, environment=own_group())
    if first:
        write_text(done, json.dumps(command) + '\n')


def baseline_command(
    cfg: Config, args: argparse.Namespace, folder: Path, options: dict[str, Any]
) -> list[str]:
    """Return the baseline's command line: the method's, except for the folder and some options."""
    seed = cfg.get('randomness', {}).get('seed') or 0
    flags = ['--work-dir', str(folder), '--seed', str(seed), '--launcher', args.launcher]
    names = ('no_validate', 'best_on_test', 'auto_scale_lr', 'deterministic', 'diff_rank_seed')
    for name in (*names, 'no_persistent_workers'):
        flags += [f'--{name.replace("_", "-")}'] * bool(getattr(args, name))
    flags += ['--amp', args.amp] if args.amp else []
    return [args.against, *flags, *cfg_words(options)]


def names_of(args: argparse.Namespace) -> tuple[str, str]:
    """Return the names of the method and of the baseline."""
    return Path(args.config).stem, Path(args.against).stem


def compared(
    cfg: Config,
    args: argparse.Namespace,
    checkpoint: Optional[str],
    tool: Path,
    load: Callable[[dict[str, Any]], Config],
) -> str:
    """Return the table of both trainings, and the path of the picture, or why there is none.

    Args:
        cfg, args, tool, load: see :func:`train_baseline`.
        checkpoint: checkpoint of the method, or None.
    """
    folder, names = Path(cfg.work_dir), names_of(args)
    shared, alone = divided(args.cfg_options, load)
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
    drawn = picture(draw, args.config, checkpoint, folder / 'pictures', *words)
    return f'{table}\n\npicture: {drawn}'


def results_of(folder: Path) -> Results:
    """Return the test results of a finished training.

    Raises:
        SystemExit: the folder has no results of a test.
    """
    files = sorted(folder.glob(f'*/{RESULTS}'))
    if not files:
        raise SystemExit(f'error: {folder}: the training has written no test results')
    newest = files[-1]  # a resumed run has one folder per start
    return results_from(json.loads(newest.read_text()), str(newest))


def divided(
    options: Mapping[str, Any], load: Callable[[dict[str, Any]], Config]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return options for both trainings, and those that do not exist in the baseline's config.

    Args:
        options: options of the command line, by key.
        load: function that reads the baseline's config with some of them.
    """
    plain = load({})
    both = {key: value for key, value in options.items() if _has(plain, key, value, load)}
    return both, {key: value for key, value in options.items() if key not in both}


def _has(plain: Config, option: str, value: Any, load: Callable[..., Config]) -> bool:
    """Return whether an option's part exists in the config and something in it reads the option."""
    shortcuts = plain.get('shortcuts') or {}
    first = option.partition('.')[0]
    for key in [option.replace(first, full, 1) for full in shortcuts.get(first, [first])]:
        found: Any = plain
        for step in key.split('.')[:-1]:
            found = None if found is None else part(found, step)
        if found is None:
            return False
    try:
        check_config(load({option: value}), [option])
    except SystemExit:
        return False
    return True


def refuse_other_set(ours: Config, theirs: Config, names: tuple[str, str]) -> None:
    """Raise, before any training, unless two configs are tested on the same texts and videos.

    Raises:
        SystemExit: a test set cannot be built.
        ValueError: the test sets differ.
    """
    results = []
    for cfg in (ours, theirs):
        dataset = launching.check_datasets(cfg, ['test_dataloader'])['test_dataloader']
        protocol = dataset.protocol() if hasattr(dataset, 'protocol') else {}
        counts = dict(texts=protocol.get('texts'), videos=protocol.get('videos'))
        tested = dict(set=name_of_set(protocol), ids=protocol.get('ids_sha'), **counts)
        results.append(Results({}, dict(tested=tested)))
    refuse_other_test(*results, names)


def rank_of_launch() -> int:
    """Return this process' rank set by a launcher, before the process group exists."""
    names = ('RANK', 'SLURM_PROCID', 'OMPI_COMM_WORLD_RANK')
    return int(next((os.environ[name] for name in names if name in os.environ), 0))


def own_group() -> dict[str, str]:
    """Return the environment in which one child per process of ours joins a separate group.

    torchrun uses the port of its own group: rank 0 chooses another one, and passes it on through
    torchrun's store.
    """
    environment = dict(os.environ)
    if environment.get('TORCHELASTIC_USE_AGENT_STORE') != 'True':
        return environment
    from torch.distributed import TCPStore

    store = TCPStore(environment['MASTER_ADDR'], int(environment['MASTER_PORT']), is_master=False)
    key = f'mmvtr/baseline/{environment.get("TORCHELASTIC_RESTART_COUNT", "0")}'
    if rank_of_launch() == 0:
        with socket.socket() as probe:
            probe.bind(('', 0))
            store.set(key, str(probe.getsockname()[1]))
    port = store.get(key).decode()
    return {**environment, 'MASTER_PORT': port, 'TORCHELASTIC_USE_AGENT_STORE': 'False'}


def call(tool: Path, *arguments: str, environment: Optional[Mapping[str, str]] = None) -> None:
    """Run a tool and wait for its end.

    Raises:
        SystemExit: with its status, if that is not 0.
    """
    command = [sys.executable, str(tool), *arguments]
    code = subprocess.run(command, env=environment).returncode
    if code:
        raise SystemExit(code)


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
        SystemExit: one of them has no results.
        ValueError: they were tested on different sets.
    """
    ours, theirs = results_of(folder), results_of(baseline)
    refuse_other_test(ours, theirs, tuple(names))
    shared = [key for key in ours.numbers if key in theirs.numbers]
    kept = [key for key in shared if key.split('/')[-1].split('_')[-1] in COMPARED]
    shown = comparison_table(*({k: one.numbers[k] for k in kept} for one in (theirs, ours)))
    title = f'{names[0]} beside its baseline {names[1]}, one seed'
    lines = [title, *filter(None, [options]), *differing(ours.trainings, theirs.trainings, names)]
    head = '\n'.join(textwrap.fill(line, 100, subsequent_indent='  ') for line in lines)
    return f'{head}\n\n{shown}'
