"""Config loading and set-up for tools, notebooks and scripts; imports no torch."""

from __future__ import annotations

import difflib
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import Any, Callable, Optional

from mmengine import registry
from mmengine.config import Config

from mmvtr.cli.values import Written, forms, full_keys, inside, is_known, like, part, read
from mmvtr.errors import UserError
from mmvtr.registry import (  # noqa: F401 - users know them by this module
    forget_pretrained,
    register_all_modules,
)

#: Where components that mmengine's Runner builds are registered, beside our own registries.
BUILT_BY_RUNNER = (
    registry.LOOPS,
    registry.OPTIMIZERS,
    registry.OPTIM_WRAPPERS,
    registry.OPTIM_WRAPPER_CONSTRUCTORS,
    registry.PARAM_SCHEDULERS,
    registry.VISUALIZERS,
    registry.VISBACKENDS,
    registry.LOG_PROCESSORS,
)


class OnceFormatted(Config):
    """A config that is formatted once, not each time mmengine asks for its text.

    mmengine puts that text into every checkpoint, and formatting takes longer than writing a small
    checkpoint.
    """

    @classmethod
    def of(cls, cfg: Config) -> OnceFormatted:
        """Return the same config with all that mmengine keeps of it."""
        same = cls.__new__(cls)
        same.__dict__.update(cfg.__dict__)
        return same

    @property
    def pretty_text(self) -> str:
        """The config as Python code, formatted by yapf."""
        content = repr(self.to_dict())
        cached = self.__dict__.get('_formatted')
        if cached is None or cached[0] != content:
            cached = self.__dict__['_formatted'] = content, super().pretty_text
        return cached[1]


class OptionError(ValueError):
    """Raised for an option that cannot be set; the message begins with its key."""


def config_folder() -> Path:
    """Return the folder of the package's configs: ``.mim/configs`` in a wheel, or the checkout's.

    Raises:
        FileNotFoundError: neither exists.
    """
    return _folder_of('configs', '_base_/default_runtime.py')


def tool_folder() -> Path:
    """Return the folder of the package's command-line tools, as :func:`config_folder` does.

    Raises:
        FileNotFoundError: there is no such folder.
    """
    return _folder_of('tools', 'dataset_converters/check_dataset.py')


def _folder_of(name: str, holds: str) -> Path:
    """Return the folder ``name`` that holds the file ``holds``."""
    package = Path(__file__).parent
    folders = [package / '.mim' / name, package.parent / name]
    for folder in folders:
        if (folder / holds).is_file():
            return folder
    raise FileNotFoundError(f'no {name} of mmvtr found in {" and ".join(map(str, folders))}')


def config_names() -> list[str]:
    """Return the names of the package's own configs, as :func:`named_config` takes them, sorted."""
    return sorted(_config_files())


def _config_files() -> dict[str, Path]:
    """Return the package's own configs by name: those at the top, and the variants in folders."""
    folder = config_folder()
    files = [*folder.glob('*.py'), *folder.glob('*/*.py')]
    return {file.stem: file for file in files if file.parent.name not in ('_base_', 'studies')}


def named_config(name: str) -> Path:
    """Return the file of one of the package's own configs.

    Args:
        name: the file's name, without folder and suffix: ``'dvtr_c2v_msrvtt'`` and, of the folder
            ``dvtr``, ``'dvtr_c2v_msrvtt_triplet'``.

    Raises:
        ValueError: there is no such config (close names are listed).
        FileNotFoundError: the package has no configs.
    """
    files = _config_files()
    if name not in files:
        near = difflib.get_close_matches(name, files, n=3)
        hint = f'; near it: {", ".join(near)}' if near else f', only {len(files)} others'
        raise ValueError(f'mmvtr has no config {name[:80]!r}{hint}')
    return files[name]


def load_config(
    path: str, options: Optional[dict[str, Any]] = None, work_dir: Optional[str] = None
) -> Config:
    """Return a config file with the command line's changes, ready for a Runner.

    Args:
        path: the file, or the name of one of the package's own (:func:`named_config`).
        options: changes, ``{'model.width': 8}``.  A name in the config's ``shortcuts`` stands for
            all keys that are listed there, and ``NAME.more`` for ``more`` of each of them.  A
            :class:`~mmvtr.cli.values.Written` is converted to its key's type (:func:`typed`).
        work_dir: default: the config's own, else ``work_dirs/<stem of path>``.  The folders of the
            trainings that come before are in it (:mod:`mmvtr.engine.rows`).

    Raises:
        UserError: the file does not exist, or it or the options cannot be read; an option whose
            value does not have its key's type.
    """
    file = _file_or_name(path)
    try:
        cfg = OnceFormatted.of(Config.fromfile(file))
        _merge(cfg, options or {})
        cfg.work_dir = work_dir or cfg.get('work_dir') or str(Path('work_dirs', Path(path).stem))
        if cfg.get('before'):
            from mmvtr.engine.rows import name_folders

            name_folders(cfg)
    except OptionError as error:
        raise UserError(f'config {path}: --cfg-options {error}') from error
    except Exception as error:  # configs are code and can raise anything
        reason = f'{type(error).__name__}: {error}'
        if isinstance(error, ImportError) and isinstance(error.__cause__, ImportError):
            reason = f'custom_imports: {error.__cause__.__context__ or error.__cause__}'
        if isinstance(error, SyntaxError) and 'U+FEFF' in reason:
            reason = (
                'it, or a base of it, begins with a byte-order mark; save it as UTF-8 without one'
            )
        raise UserError(f'config {path}: {reason}') from error
    for name in ('train_dataloader', 'val_dataloader', 'test_dataloader'):
        loader = cfg.get(name)
        if loader and not loader.get('num_workers', 0):
            # DataLoader refuses these worker settings without workers.
            loader.pop('persistent_workers', None)
            loader.pop('prefetch_factor', None)
    return cfg


def typed(cfg: Config, key: str, value: Any) -> Any:
    """Convert an option that was typed on a command line to its key's type.

    If the config holds a number or a bool, the value is read as one if possible.  Otherwise the
    parameter's annotation decides, or without one the type of the config's value: a string stays as
    typed.  If neither is known the text alone decides, see :func:`mmvtr.cli.values.read`.

    Args:
        cfg: the config.
        key: the full key.
        value: the value; one that is not :class:`~mmvtr.cli.values.Written` is returned unchanged.

    Raises:
        OptionError: the value cannot be converted.
    """
    if not isinstance(value, Written):
        return value
    there = reduce(part, key.split('.'), cfg)
    kind = like(there)
    if isinstance(there, (bool, int, float)):
        with suppress(ValueError):
            return read(value, kind)
    if isinstance(there, str) and read(value) == value:
        return str(value)
    declared = kind_at(cfg, key)
    kind = declared if is_known(declared) else kind
    if value == 'None' and str not in forms(kind):
        return None  # removes a part of the config
    try:
        return read(value, kind)
    except ValueError as error:
        raise OptionError(f'{key}: {error}') from None


def kind_at(cfg: Config, key: str) -> Any:
    """Return the annotation of what a key sets: a component's parameter, or something inside it.

    Args:
        cfg: the config.
        key: the full key, ``'train_dataloader.dataset.columns.video'``; it may be absent.

    Returns:
        As :func:`mmvtr.cli.values.read` takes it; ``Any`` if it is unknown.
    """
    from mmengine.runner import Runner  # imports torch, which most options do not need
    from torch.utils.data import DataLoader

    from mmvtr.engine.checks.arguments import annotation_of

    value: Any = cfg
    owner: Optional[Callable] = Runner
    kind: Any = Any
    for name in key.split('.'):
        kind = inside(kind, name) if owner is None else annotation_of(owner, name)
        value = part(value, name)
        owner = DataLoader if name.endswith('_dataloader') else _component(cfg, value)
    return kind


def _component(cfg: Config, value: Any) -> Optional[Callable]:
    """Return the class or function that builds a part of a config; None if it is no component."""
    if not isinstance(value, dict) or 'type' not in value:
        return None
    from mmvtr.engine.checks.config_checks import ANYWHERE, lookup

    scope = value.get('_scope_') or cfg.get('default_scope') or 'mmengine'
    return next(lookup(value['type'], (*ANYWHERE, *BUILT_BY_RUNNER), scope), None)


def _merge(cfg: Config, options: dict[str, Any]) -> None:
    """Merge options into a config, component types first: they decide other options.

    Raises:
        OptionError: an option inside a part that another option sets to None.
    """
    unfolded = _unfold(options, cfg.get('shortcuts', {}))
    for gone in (key for key, value in unfolded.items() if value is None or value == 'None'):
        for key in unfolded:
            if key.startswith(f'{gone}.'):
                raise OptionError(f'{key} cannot be set, as {gone}=None removes it')
    place = dict(_delete_=0, type=1)
    for key in sorted(unfolded, key=lambda key: place.get(key.rpartition('.')[2], 2)):
        cfg.merge_from_dict({key: typed(cfg, key, unfolded[key])})


def _file_or_name(path: str) -> Path:
    """Return the file of a config that the command line names.

    Raises:
        UserError: there is no such file, and no config of the package of that name.
    """
    file, hint = Path(path), ''
    if file.is_file():
        return file
    try:
        if file.name == path and not file.suffix:  # a bare name such as own_clip4clip
            return named_config(path)
        if file.stem in config_names():
            hint = f'; mmvtr has one of its own by the name {file.stem}'
    except (ValueError, FileNotFoundError) as error:
        hint = f'; {error}'
    raise UserError(f'config {path} does not exist{hint}')


def _unfold(options: dict[str, Any], shortcuts: dict[str, list[str]]) -> dict[str, Any]:
    """Return the options with each name in ``shortcuts`` replaced by its keys."""
    unfolded: dict[str, Any] = {}
    for name, value in options.items():
        for key in full_keys(name, shortcuts):
            if key in unfolded:
                raise OptionError(f'{key} is set twice, by {name} and by itself or another name')
            unfolded[key] = value
    return unfolded
