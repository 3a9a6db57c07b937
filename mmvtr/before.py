"""Trainings that come before another one, as its config names them; imports no torch.

A config's ``before`` lists them, in their order, and its other values name their folders::

    before = dict(
        half0=dict(config='dvtr_c2v_msrvtt.py', options={'train_dataloader...keep': 0}),
        member=dict(config='c2v_msrvtt.py', seed=1000, export=True),
    )
    model = dict(belief=dict(halves=['{half0}/best.pth', ...]))

Keys of a row: ``config``, a file beside this one, a path, or one of the package's own by name;
``options``, config changes as for ``--cfg-options``, in which earlier rows can be named; ``seed``,
added to the training's; ``export``, store the train set's vectors as logits in ``{NAME}/teacher``
(``tools/export_teacher.py``); ``folder``, by default ``NAME`` in the training's folder.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Mapping, NamedTuple

from mmvtr.hints import nearest

#: Keys of a row.
KEYS = ('config', 'options', 'seed', 'export', 'folder')
#: Beginning of a string that is in a row's folder.
NAME = re.compile(r'\{([A-Za-z_]\w*)\}')


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
