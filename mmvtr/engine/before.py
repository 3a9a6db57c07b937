"""Trainings that come before another one, in processes of their own: rows and a baseline.

Each has the flags, the launcher and the number of processes of the training that it comes before,
and those of its options that its config has.  A finished one is not repeated, an interrupted one is
resumed.  With ``--devices`` those that do not need each other are made side by side.  A study
(:mod:`mmvtr.studies`) makes its rows by the same functions.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import shutil
import socket
import sys
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, NamedTuple, Optional, Sequence

from mmengine.config import Config

from mmvtr.cli import cfg_words
from mmvtr.cli.options import check_writable
from mmvtr.cli.values import lacking_part, written
from mmvtr.engine.checks.config_checks import check_config, check_training
from mmvtr.engine.loops.checkpoint import latest_checkpoint
from mmvtr.engine.loops.earlier_runs import best_in
from mmvtr.engine.rows import Row, reads, rows_of
from mmvtr.engine.side_by_side import Step, do_all, run_child
from mmvtr.errors import AlreadyReported, UserError
from mmvtr.storage import write_text

#: File in a row's folder that says what is trained there, and whether that is finished.
RECORD = 'command.json'
#: Reads a config file with options, for a work folder: :func:`mmvtr.utils.load_config`.
Load = Callable[..., Config]
#: What a row's commands print, where several run at once.
LOG = 'printed.txt'
#: Folder of a row's stored vectors.
TEACHER = 'teacher'
#: Flags of a training that its rows have, too, by their names in its arguments.
FLAGS = (
    'no_validate', 'best_on_test', 'auto_scale_lr', 'deterministic', 'diff_rank_seed',
    'no_persistent_workers',
)  # fmt: skip


class Start(NamedTuple):
    """How the commands of a row are started.

    Attributes:
        words: words before a tool's file.
        launch: words before the file of a training, which may have several processes.
        environment: their environment; None: this process' own.
        log: file of their output; None: the console.
    """

    words: tuple[str, ...] = (sys.executable,)
    launch: tuple[str, ...] = (sys.executable,)
    environment: Optional[Mapping[str, str]] = None
    log: Optional[Path] = None

    def on(self, device: Optional[str]) -> Start:
        """Return the same on a device: a number or several, as ``CUDA_VISIBLE_DEVICES``."""
        if device is None:
            return self
        base = os.environ if self.environment is None else self.environment
        return self._replace(environment={**base, 'CUDA_VISIBLE_DEVICES': device})

    def call(self, *words: str, training: bool = False) -> None:
        """Run a tool with its words and wait for its end.

        Raises:
            UserError: its status is not 0; with a log, its last words.
        """
        command = [*(self.launch if training else self.words), *words]
        code = run_child(command, environment=self.environment, log=self.log)
        if code and self.log is None:
            raise AlreadyReported(f'{Path(words[0]).name} ended with {code}', code)
        if code:
            printed = self.log.read_text(errors='replace').strip()[-300:]
            raise UserError(
                f'{Path(words[0]).name} ended with {code}: ... {printed}\nall of it: {self.log}'
            )


def train_rows(cfg: Config, args: argparse.Namespace, tool: Path, load: Load) -> None:
    """Make the rows of a config's ``before`` that are not finished.

    Args:
        cfg: config of the training that they come before.
        args: arguments of the command line.
        tool: the file of the training tool.
        load: :func:`mmvtr.utils.load_config`.

    Raises:
        UserError: a fault of a config, a command that has failed, or a folder that holds another
            training.
    """
    rows = [with_options(row, args.cfg_options, load) for row in rows_of(cfg)]
    if not rows:
        return
    if args.devices and args.launcher != 'none':
        raise UserError(
            '--devices makes rows of before side by side, a process each; a launcher gives '
            'all processes to one row after the other'
        )
    check_training(cfg, args.cfg_options)  # before anything takes time
    for row in rows:
        if not row.run:
            check_training(load(row.config, row.options, str(row.folder)), row.options)
    check_writable(cfg.work_dir)
    seed = cfg.get('randomness', {}).get('seed') or 0
    alone = len(args.devices or ()) < 2

    def step(number: int, row: Row) -> Step:
        title = f'before {Path(args.config).stem}, {number + 1} of {len(rows)}: {row.name}'

        def make(device: Optional[str]) -> None:
            start = Start() if alone else Start(log=log_of(row))
            make_row(row, args, tool, load, seed=seed, title=title, start=start.on(device))

        return Step(row.name, after(row, rows), make)

    steps = [step(number, row) for number, row in enumerate(rows)]
    failed = do_all(steps, args.devices or [None], keep_going=False)
    for error in failed.values():  # the first one
        raise error


def log_of(row: Row) -> Path:
    """Return the file of what a row's commands print; its folder is created."""
    row.folder.mkdir(parents=True, exist_ok=True)
    return row.folder / LOG


def after(row: Row, rows: Sequence[Row]) -> frozenset[str]:
    """Return the names of those rows whose folders a row reads."""
    values = [row.options, row.run]
    others = [other for other in rows if other.folder != row.folder]
    return frozenset(other.name for other in others if reads(values, other.folder))


def make_row(
    row: Row,
    args: argparse.Namespace,
    tool: Path,
    load: Load,
    *,
    seed: int,
    title: str,
    start: Start = Start(),
) -> None:
    """Train a row and store its vectors, or run its command, unless that is done.

    Args:
        row, args, tool, load, seed, title, start: see :func:`train_row`.

    Raises:
        UserError: a command has failed, or the folder holds another training.
    """
    if not row.run:
        train_row(row, args, tool, load, seed=seed, title=title, start=start)
        if row.export:
            export(row, tool, start)
        return
    with unfinished(row.folder, dict(command=row.run), title, row.run[0]) as todo:
        if todo and rank_of_launch() == 0:
            start.call(*command_words(row))
    while not is_finished(row.folder):  # the first process of a launcher runs it
        time.sleep(1)


def command_words(row: Row) -> list[str]:
    """Return the words of a row's command: a script, or a tool of the package by its name."""
    first, *rest = row.run
    return [first, *rest] if Path(first).is_file() else ['-m', 'mmvtr', first, *rest]


def train_row(
    row: Row,
    args: argparse.Namespace,
    tool: Path,
    load: Load,
    *,
    seed: int,
    title: str,
    resume: bool = True,
    start: Start = Start(),
) -> None:
    """Train a row, unless it is finished.

    Args:
        row: the row with all options that its config gets.
        args, tool, load: see :func:`train_rows`.
        seed: the seed of the training that it comes before.
        title: line to print first.
        resume: whether what is in the folder is continued; False: it is trained anew.
        start: how its process is started.

    Raises:
        UserError: the training has failed, or the folder holds one by another command.
    """
    command = command_of(row, args, seed)
    content = load(row.config, row.options, str(row.folder)).pretty_text
    recipe = dict(command=command, config=hashlib.sha1(content.encode()).hexdigest())
    with unfinished(row.folder, recipe, title, row.config, resume=resume) as todo:
        if todo:
            if rank_of_launch() == 0:
                shutil.rmtree(row.folder / TEACHER, ignore_errors=True)
            group = start.environment or own_group()
            flags = ['--resume'] if resume else []
            start._replace(environment=group).call(str(tool), *command, *flags, training=True)


@contextmanager
def unfinished(
    folder: Path, recipe: Mapping[str, Any], title: str, what: str, *, resume: bool = True
) -> Iterator[bool]:
    """Say and tell whether what is to be made in a folder is not finished; at the end it is.

    Args:
        folder: created if there is something to do.
        recipe: what determines the content, for json: ``command``, its words, and more.
        title: beginning of the line to print first.
        what: what is made, in that line.
        resume: False: it is not finished in any case.

    Raises:
        UserError: the folder holds something else; says what differs.
    """
    record, first = folder / RECORD, rank_of_launch() == 0
    recipe = json.loads(json.dumps(recipe))
    if resume and record.is_file():
        stored = json.loads(record.read_text())
        finished = stored.pop('finished')
        if stored != recipe and (finished or latest_checkpoint(folder) is not None):
            words = _other_words(stored.get('command', []), recipe['command'])
            raise UserError(
                f'{folder} holds a training by another command or config ({record}){words}: remove '
                'that folder, or give another one'
            )
        if finished:
            if first:
                print(f'{title}: finished, in {folder}', flush=True)
            yield False
            return
    if first:
        print(f'{title}: {what}, in {folder}', flush=True)
        folder.mkdir(parents=True, exist_ok=True)
        write_text(record, json.dumps(dict(recipe, finished=False)) + '\n')
    yield True
    if first:
        write_text(record, json.dumps(dict(recipe, finished=True)) + '\n')


def is_finished(folder: Path) -> bool:
    """Return whether what a folder's record names was made to its end."""
    record = folder / RECORD
    return record.is_file() and json.loads(record.read_text())['finished']


def _other_words(before: Sequence[str], now: Sequence[str]) -> str:
    """Return in which words two commands differ, as part of a sentence."""
    gone = [word for word in before if word not in now]
    new = [word for word in now if word not in before]
    if not gone and not new:
        return ''
    return f', {" ".join(gone)[:200] or "nothing"} in place of {" ".join(new)[:200] or "nothing"}'


def command_of(row: Row, args: argparse.Namespace, seed: int) -> list[str]:
    """Return the command line of a row's training: its own folder, seed and options."""
    flags = ['--work-dir', str(row.folder), '--seed', str(seed + row.seed)]
    flags += ['--launcher', args.launcher]
    for name in FLAGS:
        flags += [f'--{name.replace("_", "-")}'] * bool(getattr(args, name))
    flags += ['--amp', args.amp] if args.amp else []
    return [row.config, *flags, *words_of(row)]


def export(row: Row, tool: Path, start: Start = Start()) -> None:
    """Store a row's vectors of the train set, as logits in float16, unless they are there.

    Raises:
        UserError: its folder has no checkpoint, or the tool has failed.
    """
    folder = row.folder / TEACHER
    if rank_of_launch():  # one process writes
        while not folder.is_dir():
            time.sleep(1)
        return
    if folder.is_dir():
        return
    partial_folder = row.folder / f'{TEACHER}.part'
    shutil.rmtree(partial_folder, ignore_errors=True)
    flags = ['--out', str(partial_folder), '--format', 'npz', '--logits', '--half']
    print(f'vectors of {row.name}: {folder}', flush=True)
    exporter = str(tool.with_name('export_teacher.py'))
    start.call(exporter, row.config, checkpoint_of(row.folder), *flags, *words_of(row))
    partial_folder.rename(folder)


def checkpoint_of(folder: Path) -> str:
    """Return the chosen checkpoint of a finished training: the best on val, else the last.

    Raises:
        UserError: the folder has none.
    """
    for best in best_in(folder):
        return str(best)
    last = latest_checkpoint(folder)
    if last is None:
        raise UserError(f'{folder} has no checkpoint: its training comes first')
    return last


def words_of(row: Row) -> list[str]:
    """Return a row's options as words of a command line."""
    return cfg_words({key: written(value) for key, value in row.options.items()})


def with_options(row: Row, options: Mapping[str, Any], load: Load) -> Row:
    """Return a row with those options of the training that it comes before that its config has."""
    if row.run:
        return row
    shared, _ = divided(options, partial(load, row.config))
    return row._replace(options={**shared, **row.options})


def divided(
    options: Mapping[str, Any], load: Callable[[dict[str, Any]], Config]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return options for both trainings, and those that do not exist in the config of the first.

    Args:
        options: options of the command line, by key.
        load: function that reads that config with some of them.
    """
    plain = load({})
    both = {key: value for key, value in options.items() if _has(plain, key, value, load)}
    return both, {key: value for key, value in options.items() if key not in both}


def _has(plain: Config, option: str, value: Any, load: Callable[..., Config]) -> bool:
    """Return whether an option's part exists in the config and something in it reads the option."""
    if lacking_part(plain, option) is not None:
        return False
    try:
        check_config(load({option: value}), [option], training=False)
    except UserError:
        return False
    return True


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
    key = f'mmvtr/before/{environment.get("TORCHELASTIC_RESTART_COUNT", "0")}/{next(_GROUPS)}'
    if rank_of_launch() == 0:
        with socket.socket() as probe:
            probe.bind(('', 0))
            store.set(key, str(probe.getsockname()[1]))
    port = store.get(key).decode()
    return {**environment, 'MASTER_PORT': port, 'TORCHELASTIC_USE_AGENT_STORE': 'False'}


#: Numbers of the groups that this process has joined: each has a port of its own.
_GROUPS = itertools.count()
