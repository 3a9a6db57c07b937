"""Configs as files, with the presets that a name asks for; imports no torch."""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Callable, Sequence, Union

import mmengine.config.utils
import mmengine.utils.package_utils
from mmengine.config import Config
from mmengine.utils import import_modules_from_strings

#: What the variables of a config file begin with that hold its presets.
PRESET = 'preset_'


def read_config(path: Union[str, Path]) -> Config:
    """Return a config file's content, with the presets that its name asks for.

    ``DIR/NAME+PRESET.py`` is ``DIR/NAME.py`` with all keys and values of its ``preset_PRESET``;
    several presets apply in their order::

        preset_triplet = {'model.losses': dict(_delete_=True, ...), 'train_cfg.max_epochs': 3}

    A value that is a dict is merged, as mmengine merges a config into its base.  The config that is
    returned holds no presets, and its ``filename`` is the name that was asked for.  A base of a
    config may have such a name, too: ``_base_ = ['dvtr_c2v_msrvtt+triplet.py']``.

    Args:
        path: the file, or such a name of one.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file has no such preset; those that it has are listed.
    """
    file, names = _file_and_presets(Path(path))
    cfg = _with_presets(Config.fromfile(file), file, names)
    for key in list(cfg):
        if key.startswith(PRESET):
            cfg.pop(key)
    if names:
        cfg.__dict__['_filename'] = str(path)
    return cfg


def _with_presets(cfg: Config, file: Path, names: Sequence[str]) -> Config:
    """Merge presets of a config, which holds them under their keys, into it."""
    for name in names:
        if f'{PRESET}{name}' not in cfg:
            presets = [key.removeprefix(PRESET) for key in cfg if key.startswith(PRESET)]
            known = f'it has {", ".join(presets)}' if presets else 'it has none'
            raise ValueError(f'{file.name} has no preset {name[:80]!r}, {known}')
        preset = cfg[f'{PRESET}{name}']
        cfg.merge_from_dict(preset)
        if 'custom_imports' in preset:
            import_modules_from_strings(**cfg.custom_imports)
    return cfg


def is_config_file(path: Union[str, Path]) -> bool:
    """Return whether :func:`read_config` finds the file of a config."""
    return os.path.isfile(_file_and_presets(Path(path))[0])


def _file_and_presets(path: Path) -> tuple[Path, list[str]]:
    """Return the file that ``DIR/NAME+PRESET.py`` is about, and the presets' names."""
    name, *presets = path.stem.split('+')
    if os.path.isfile(path) or not name:
        return path, []
    return path.with_name(name + path.suffix), presets


PACKAGE = 'mmvtr'


def _package_and_path(theirs: Callable, cfg_path: str) -> tuple[str, str]:
    package, mark, path = cfg_path.partition('::')
    return (package, path) if mark and package == PACKAGE else theirs(cfg_path)


def _is_installed(theirs: Callable, package: str) -> bool:
    return package == PACKAGE or theirs(package)


def _installed_path(theirs: Callable, package: str) -> str:
    return str(Path(__file__).parent) if package == PACKAGE else theirs(package)


def _file2dict(theirs: Callable, filename: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
    file, names = _file_and_presets(Path(filename))
    content, *rest = theirs(str(file), *args, **kwargs)
    if names:
        content = _with_presets(Config(content), file, names)._cfg_dict
    return (content, *rest)


def _is_lazy_import(theirs: Callable, filename: str) -> bool:
    return theirs(str(_file_and_presets(Path(filename))[0]))


def _answer(home: ModuleType, name: str, answer: Callable[..., Any]) -> None:
    """Replace a function of mmengine with ``answer(theirs, ...)`` wherever it was imported."""
    theirs = getattr(home, name)
    ours = functools.wraps(theirs)(functools.partial(answer, theirs))
    for key, module in list(sys.modules.items()):
        if key.partition('.')[0] == 'mmengine' and vars(module).get(name) is theirs:
            setattr(module, name, ours)


_answer(mmengine.config.utils, '_get_package_and_cfg_path', _package_and_path)
_answer(mmengine.utils.package_utils, 'is_installed', _is_installed)
_answer(mmengine.utils.package_utils, 'get_installed_path', _installed_path)
for reader in (_file2dict, _is_lazy_import):  # mmengine's readers of a base
    own = functools.partial(reader, getattr(Config, reader.__name__))
    setattr(Config, reader.__name__, staticmethod(own))
