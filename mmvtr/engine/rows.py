"""Rows: trainings and other commands that come before something, as a config names them.

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

A row with ``run`` in place of ``config`` is a command: the name of a tool, or a script, and its
words; ``'{NAME}'`` is its own folder, too.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Optional, Sequence

from mmvtr.cli.hints import nearest

#: Keys of a row.
KEYS = ('config', 'options', 'seed', 'export', 'folder', 'run')
#: Keys of lists of a row.
LISTS = ('run', 'printed')
#: Beginning of a string that is in a row's folder.
NAME = re.compile(r'\{([A-Za-z_]\w*)\}')


class Row(NamedTuple):
    """A training or a command that comes before something, or a row of a study.

    Attributes:
        name: its name.
        config: its config file, or the name of one of the package's own.
        folder: its work folder.
        options: config changes by full key.
        seed: added to the seed of the training that it comes before.
        export: whether its vectors of the train set are stored.
        run: tool or script and its words, in place of a training.
        of: of a study: names of the rows whose checkpoints are tested; empty if it is trained.
        prefix: of a study: prefix of the keys of its results.
        printed: of a study: a paper's numbers, one per metric, None = not printed.
    """

    name: str
    config: str
    folder: Path
    options: dict[str, Any] = {}
    seed: int = 0
    export: bool = False
    run: tuple[str, ...] = ()
    of: tuple[str, ...] = ()
    prefix: str = ''
    printed: tuple[Optional[float], ...] = ()


def rows_of(cfg: Any) -> list[Row]:
    """Return the rows of a config whose folders are named (:func:`name_folders`)."""
    rows = []
    for name, row in (cfg.get('before') or {}).items():
        config = file_of(row.get('config', ''), Path(cfg.filename or '').parent)
        rows.append(row_from(name, row, config, Path(row['folder'])))
    return rows


def row_from(name: str, row: Mapping[str, Any], config: str, folder: Path) -> Row:
    """Return a row from its dict, which :func:`check_row` has accepted."""
    fields = {key: row[key] for key in ('seed', 'export', 'prefix') if key in row}
    of = row.get('of', ())
    lists = dict(of=(of,) if isinstance(of, str) else of, **{k: row.get(k, ()) for k in LISTS})
    fields.update({key: tuple(value) for key, value in lists.items()})
    return Row(name, config, folder, dict(row.get('options') or {}), **fields)


def file_of(config: str, *folders: Path) -> str:
    """Return the file of a row's config in one of some folders, else what it names."""
    for path in (*(folder / config for folder in folders), Path(config)):
        if path.is_file():
            return str(path)
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
        check_row('before.', name, row)
        folder = named(row.get('folder', str(Path(cfg.work_dir) / name)), folders)
        nameable = folders if row.get('run') is None else {**folders, name: folder}
        row.update(named(row, nameable), folder=folder)
        folders[name] = folder
    for key in [key for key in cfg if key != 'before']:
        replaced = named(cfg[key], folders)
        if replaced != cfg[key]:
            cfg[key] = replaced


def check_row(
    where: str,
    name: str,
    row: Any,
    keys: Sequence[str] = KEYS,
    *,
    default: bool = False,
    variable: bool = True,
) -> None:
    """Raise ValueError unless a dict is a row.

    Args:
        where: what the name follows in an error.
        name: its name.
        row: the dict.
        keys: keys that it may have.
        default: whether there is a config for a row that names none.
        variable: whether its name must be one that can stand in braces.

    Raises:
        ValueError: names the row, the key and what was expected.
    """
    if variable and not re.fullmatch(r'[A-Za-z_]\w*', name):
        raise ValueError(f'{where.rstrip(".")}: a row is named like a variable, not {name[:60]!r}')
    where = f'{where}{name[:60]}'
    what = {'config', 'run'} & row.keys() if isinstance(row, Mapping) else ()
    if len(what) != 1 and not (default and isinstance(row, Mapping) and not what):
        raise ValueError(f"{where}: dict(config='...', ...) expected, got {row!r:.80}")
    unknown = [key for key in row if key not in keys]
    if unknown:
        alike = nearest(unknown[0], keys, otherwise=keys)
        raise ValueError(f'{where}: unknown key {unknown[0][:60]!r}{alike}')
    kinds = dict(
        config=str,
        options=Mapping,
        seed=int,
        export=bool,
        folder=str,
        run=(list, tuple),
        of=(str, list, tuple),
        prefix=str,
        printed=(list, tuple),
    )
    for key, value in row.items():
        kind = kinds[key]
        if not isinstance(value, kind) or (key == 'seed' and isinstance(value, bool)):
            expected = ' or '.join(
                k.__name__ for k in (kind if isinstance(kind, tuple) else (kind,))
            )
            raise ValueError(f'{where}.{key}: {expected} expected, got {value!r:.80}')
    for key in ('run', 'of'):
        words = row.get(key, ())
        if key in row and (not words or not all(isinstance(word, str) for word in words)):
            raise ValueError(f'{where}.{key}: words expected, got {words!r:.80}')


def named(value: Any, folders: Mapping[str, str]) -> Any:
    """Return a value, or all inside a dict or list, with folders in place of names.

    Raises:
        ValueError: a string that begins with ``{NAME}`` of no folder.
    """
    if isinstance(value, Mapping):
        return type(value)({key: named(item, folders) for key, item in value.items()})
    if isinstance(value, (list, tuple)):
        return type(value)(named(item, folders) for item in value)
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
        return {name for item in value for name in names_in(item)}
    match = NAME.match(value) if isinstance(value, str) else None
    return set() if match is None else {match[1]}


def reads(value: Any, folder: Path) -> bool:
    """Return whether a string in nested dicts and lists is a path of a folder, or in it."""
    if isinstance(value, Mapping):
        value = [*value.values()]
    if isinstance(value, (list, tuple)):
        return any(reads(item, folder) for item in value)
    return isinstance(value, str) and f'{value}/'.startswith(f'{folder}/')
