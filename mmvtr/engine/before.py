"""Trainings that come before another one, in processes of their own: rows and a baseline.

A config's ``before`` lists the rows, in their order, and its other values name their folders::

    before = dict(
        half0=dict(config='dvtr_c2v_msrvtt.py', options={'train_dataloader...keep': 0}),
        member=dict(config='c2v_msrvtt.py', seed=1000, export=True),
    )
    model = dict(teacher=dict(halves=['{half0}/best.pth', ...]))

Keys of a row: ``config``, a file beside this one, a path, or one of the package's own by name;
``options``, config changes as for ``--cfg-options``, in which earlier rows can be named; ``seed``,
added to the training's; ``export``, store the train set's vectors as logits in ``{NAME}/teacher``
(``tools/export_teacher.py``); ``folder``, by default ``NAME`` in the training's folder.

Each has the flags, the launcher and the number of processes of the training that it comes before,
and those of its options that its config has.  A finished one is not repeated, an interrupted one is
resumed.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any, Callable, Mapping, NamedTuple, Optional

from mmengine.config import Config

from mmvtr.cli import cfg_words
from mmvtr.cli.hints import nearest
from mmvtr.cli.signals import check_writable
from mmvtr.cli.values import part, written
from mmvtr.engine.checks.config_checks import check_config
from mmvtr.engine.loops.checkpoint import latest_checkpoint
from mmvtr.engine.loops.facts import BEST
from mmvtr.storage import write_text

#: Keys of a row.
KEYS = ('config', 'options', 'seed', 'export', 'folder')
#: Beginning of a string that is in a row's folder.
NAME = re.compile(r'\{([A-Za-z_]\w*)\}')
#: File in a row's folder that says what is trained there, and whether that is finished.
RECORD = 'command.json'
#: Reads a config file with options, for a work folder: :func:`mmvtr.utils.load_config`.
Load = Callable[..., Config]
#: Folder of a row's stored vectors.
TEACHER = 'teacher'


class Row(NamedTuple):
    """A training that comes before another one.

    Attributes:
        name: its name.
        config: its config file, or the name of one of the package's own.
        folder: its work folder.
        options: config changes by full key.
        seed: added to the seed of the training that it comes before.
        export: whether its vectors of the train set are stored.
    """

    name: str
    config: str
    folder: Path
    options: dict[str, Any] = {}
    seed: int = 0
    export: bool = False


def rows_of(cfg: Any) -> list[Row]:
    """Return the rows of a config whose folders are named (:func:`name_folders`)."""
    rows = []
    for name, row in (cfg.get('before') or {}).items():
        config = _file_of(row['config'], Path(cfg.filename or '').parent)
        options = dict(row.get('options') or {})
        more = {key: row[key] for key in ('seed', 'export') if key in row}
        rows.append(Row(name, config, Path(row['folder']), options, **more))
    return rows


def _file_of(config: str, folder: Path) -> str:
    """Return the file of a row's config beside another one, else what it names."""
    beside = folder / config
    if beside.is_file() or Path(config).is_file():
        return str(beside if beside.is_file() else config)
    return config if '/' in config else config.removesuffix('.py')


def name_folders(cfg: Any) -> None:
    """Put the rows' folders into a config, in place of ``{NAME}`` at the beginning of a string.

    Raises:
        ValueError: a row with a missing, unknown or wrong key; a name of no row that precedes.
    """
    rows = cfg.get('before')
    if not rows:
        return
    if not isinstance(rows, Mapping):
        raise ValueError(f'before: rows by name expected, got {rows!r:.80}')
    folders: dict[str, str] = {}
    for name, row in rows.items():
        _check(name, row)
        row.update(named(row, folders))
        folders[name] = row.setdefault('folder', str(Path(cfg.work_dir) / name))
    for key in [key for key in cfg if key != 'before']:
        found = named(cfg[key], folders)
        if found != cfg[key]:
            cfg[key] = found


def _check(name: str, row: Any) -> None:
    if not re.fullmatch(r'[A-Za-z_]\w*', name):
        raise ValueError(f'before: a row is named like a variable, not {name[:60]!r}')
    if not isinstance(row, Mapping) or 'config' not in row:
        raise ValueError(f"before.{name}: dict(config='...', ...) expected, got {row!r:.80}")
    unknown = [key for key in row if key not in KEYS]
    if unknown:
        alike = nearest(unknown[0], KEYS, otherwise=KEYS)
        raise ValueError(f'before.{name}: unknown key {unknown[0][:60]!r}{alike}')
    kinds = dict(config=str, options=Mapping, seed=int, export=bool, folder=str)
    for key, value in row.items():
        if not isinstance(value, kinds[key]) or (key == 'seed' and isinstance(value, bool)):
            raise ValueError(
                f'before.{name}.{key}: {kinds[key].__name__} expected, got {value!r:.80}'
            )


def named(value: Any, folders: Mapping[str, str]) -> Any:
    """Return a value, or all inside a dict or list, with folders in place of names.

    Raises:
        ValueError: a string that begins with ``{NAME}`` of no folder.
    """
    if isinstance(value, Mapping):
        return type(value)({key: named(one, folders) for key, one in value.items()})
    if isinstance(value, (list, tuple)):
        return type(value)(named(one, folders) for one in value)
    match = NAME.match(value) if isinstance(value, str) else None
    if match is None:
        return value
    if match[1] not in folders:
        raise ValueError(f'{value[:80]!r} names no row that precedes{nearest(match[1], folders)}')
    return folders[match[1]] + value[match.end() :]


def names_in(value: Any) -> set[str]:
    """Return the names at the beginnings of all strings in nested dicts and lists."""
    if isinstance(value, Mapping):
        value = [*value.values()]
    if isinstance(value, (list, tuple)):
        return {name for one in value for name in names_in(one)}
    match = NAME.match(value) if isinstance(value, str) else None
    return set() if match is None else {match[1]}


def train_rows(cfg: Config, args: argparse.Namespace, tool: Path, load: Load) -> None:
    """Train the rows of a config's ``before`` that are not finished, and store their vectors.

    Args:
        cfg: config of the training that they come before.
        args: arguments of the command line.
        tool: the file of the training tool.
        load: :func:`mmvtr.utils.load_config`.

    Raises:
        SystemExit: a fault of a config, a training that has failed, or a folder that holds another
            training.
    """
    rows = []
    for row in rows_of(cfg):  # with those options of the command line that its config has
        shared, _ = divided(args.cfg_options, partial(load, row.config))
        rows.append(row._replace(options={**shared, **row.options}))
    check_config(cfg, args.cfg_options)  # before anything takes time
    for row in rows:
        check_config(load(row.config, row.options, str(row.folder)), row.options)
    check_writable(cfg.work_dir)
    seed = cfg.get('randomness', {}).get('seed') or 0
    for number, row in enumerate(rows):
        said = f'before {Path(args.config).stem}, {number + 1} of {len(rows)}: {row.name}'
        train_row(row, args, tool, load, seed=seed, said=said)
        if row.export:
            export(row, tool)


def train_row(
    row: Row,
    args: argparse.Namespace,
    tool: Path,
    load: Load,
    *,
    seed: int,
    said: str,
    resume: bool = True,
) -> None:
    """Train a row, unless it is finished.

    Args:
        row: the row with all options that its config gets.
        args, tool, load: see :func:`train_rows`.
        seed: the seed of the training that it comes before.
        said: line to print first.
        resume: whether what is in the folder is continued; False: it is trained anew.

    Raises:
        SystemExit: the training has failed, or the folder holds one by another command.
    """
    command = command_of(row, args, seed)
    content = load(row.config, row.options, str(row.folder)).pretty_text
    made = dict(command=command, config=hashlib.sha1(content.encode()).hexdigest())
    record, first = row.folder / RECORD, rank_of_launch() == 0
    if resume and record.is_file():
        known = json.loads(record.read_text())
        finished = known.pop('finished')
        if known != made and (finished or latest_checkpoint(row.folder) is not None):
            raise SystemExit(
                f'error: {row.folder} holds a training by another command or config ({record}): '
                'remove that folder, or give another --work-dir'
            )
        if finished:
            if first:
                print(f'{said}: finished, in {row.folder}', flush=True)
            return
    if first:
        print(f'{said}: {row.config}, in {row.folder}', flush=True)
        shutil.rmtree(row.folder / TEACHER, ignore_errors=True)
        row.folder.mkdir(parents=True, exist_ok=True)
        write_text(record, json.dumps(dict(made, finished=False)) + '\n')
    call(tool, *command, *(['--resume'] if resume else []), environment=own_group())
    if first:
        write_text(record, json.dumps(dict(made, finished=True)) + '\n')


def command_of(row: Row, args: argparse.Namespace, seed: int) -> list[str]:
    """Return the command line of a row's training: its own folder, seed and options."""
    flags = ['--work-dir', str(row.folder), '--seed', str(seed + row.seed)]
    flags += ['--launcher', args.launcher]
    names = ('no_validate', 'best_on_test', 'auto_scale_lr', 'deterministic', 'diff_rank_seed')
    for name in (*names, 'no_persistent_workers'):
        flags += [f'--{name.replace("_", "-")}'] * bool(getattr(args, name))
    flags += ['--amp', args.amp] if args.amp else []
    return [row.config, *flags, *_words(row)]


def export(row: Row, tool: Path) -> None:
    """Store a row's vectors of the train set, as logits in float16, unless they are there.

    Raises:
        SystemExit: its folder has no checkpoint, or the tool has failed.
    """
    folder = row.folder / TEACHER
    if rank_of_launch():  # one process writes
        while not folder.is_dir():
            time.sleep(1)
        return
    if folder.is_dir():
        return
    part = row.folder / f'{TEACHER}.part'
    shutil.rmtree(part, ignore_errors=True)
    best = row.folder / BEST
    checkpoint = str(best) if best.is_file() else latest_checkpoint(row.folder)
    if checkpoint is None:
        raise SystemExit(f'error: {row.folder} has no checkpoint of {row.name}')
    flags = ['--out', str(part), '--format', 'npz', '--logits', '--half']
    print(f'vectors of {row.name}: {folder}', flush=True)
    call(tool.with_name('export_teacher.py'), row.config, checkpoint, *flags, *_words(row))
    part.rename(folder)


def _words(row: Row) -> list[str]:
    return cfg_words({key: written(value) for key, value in row.options.items()})


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


def call(tool: Path, *arguments: str, environment: Optional[Mapping[str, str]] = None) -> None:
    """Run a tool and wait for its end.

    Raises:
        SystemExit: with its status, if that is not 0.
    """
    command = [sys.executable, str(tool), *arguments]
    code = subprocess.run(command, env=environment).returncode
    if code:
        raise SystemExit(code)
