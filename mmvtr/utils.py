"""Set-up for tools, notebooks and scripts.  Importing it does not import torch."""

from __future__ import annotations

import difflib
import os
import zlib
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import Any, Iterable, NamedTuple, Optional

from mmengine.config import Config

import mmvtr.hub  # noqa: F401 - mmengine's readers of configs know `mmvtr::`
from mmvtr.registry import (  # noqa: F401 - users know them by this module
    forget_pretrained,
    register_all_modules,
)
from mmvtr.values import Written, alternatives, is_known, like, part, read, takes_text


class OnceFormatted(Config):
    """A config that is formatted once, not anew whenever mmengine asks for its text.

    mmengine puts that text into every checkpoint, and to format it takes longer than to write a
    small checkpoint.
    """

    @classmethod
    def of(cls, cfg: Config) -> OnceFormatted:
        """The same config, whatever mmengine keeps of it (of lazy ones: what they imported)."""
        same = cls.__new__(cls)
        same.__dict__.update(cfg.__dict__)
        return same

    @property
    def pretty_text(self) -> str:
        """Python code, by yapf."""
        content = repr(self.to_dict())
        known = self.__dict__.get('_formatted')
        if known is None or known[0] != content:
            known = self.__dict__['_formatted'] = content, super().pretty_text
        return known[1]


class OptionError(ValueError):
    """An option that cannot be set; the message begins with its key."""


def config_folder() -> Path:
    """Where the package's own configs are: ``.mim/configs`` of a wheel, or those of a checkout.

    Raises:
        FileNotFoundError: neither is there.
    """
    return _folder_of('configs', '_base_/default_runtime.py')


def tool_folder() -> Path:
    """Where the package's command-line tools are: as :func:`config_folder`.

    Raises:
        FileNotFoundError: they are not there.
    """
    return _folder_of('tools', 'dataset_converters/check_dataset.py')


def _folder_of(name: str, holds: str) -> Path:
    """The folder of that name that holds a certain file: `configs` may be anybody's."""
    package = Path(__file__).parent
    folders = [package / '.mim' / name, package.parent / name]
    for folder in folders:
        if (folder / holds).is_file():
            return folder
    raise FileNotFoundError(f'no {name} of mmvtr: looked in {" and ".join(map(str, folders))}')


def config_names() -> list[str]:
    """Names of the package's own configs, as :func:`named_config` takes them, sorted."""
    return sorted(path.stem for path in config_folder().glob('*.py'))


def named_config(name: str) -> Path:
    """The file of one of the package's own configs.

    Args:
        name: of the file, without folder and suffix: ``'dvtr_c2v_msrvtt'``.

    Raises:
        ValueError: there is no such config (names those that come near).
        FileNotFoundError: the package has no configs.
    """
    names = config_names()
    if name not in names:
        near = difflib.get_close_matches(name, names, n=3)
        hint = f'; near it: {", ".join(near)}' if near else f', only {len(names)} others'
        raise ValueError(f'mmvtr has no config {name[:80]!r}{hint}')
    return config_folder() / f'{name}.py'


def load_config(
    path: str, options: Optional[dict[str, Any]] = None, work_dir: Optional[str] = None
) -> Config:
    """A config file with the command line's changes, ready for a Runner.

    Args:
        path: the file, or the name of one of the package's own (:func:`named_config`).
        options: changes, ``{'model.width': 8}``.  A name that the config's ``shortcuts`` knows
            stands for all keys that are listed there, and ``NAME.more`` for ``more`` of each of
            them.  ``NAME=VALUE`` of its ``presets`` stands for all keys with values that are
            listed there; keys that are given beside it win.  A :class:`~mmvtr.values.Written` is
            read by the type of its key (:func:`typed`).
        work_dir: default: the config's own, else ``work_dirs/<stem of path>``.

    Raises:
        SystemExit: the file does not exist, or it or the options cannot be read; an option whose
            value is not of its key's type.
    """
    # OpenMP threads that spin for long while they wait take the cores from the data workers: where
    # cores are scarce, the default makes a step several times slower.  Read when torch is loaded.
    os.environ.setdefault('GOMP_SPINCOUNT', '2000')
    file = _file_or_name(path)
    try:
        cfg = OnceFormatted.of(Config.fromfile(file))
        _merge(cfg, options or {})
    except OptionError as error:
        raise SystemExit(f'error: config {path}: --cfg-options {error}') from error
    except Exception as error:  # configs are code: anything can be wrong in one
        raise SystemExit(f'error: config {path}: {type(error).__name__}: {error}') from error
    cfg.work_dir = work_dir or cfg.get('work_dir') or str(Path('work_dirs', Path(path).stem))
    for name in ('train_dataloader', 'val_dataloader', 'test_dataloader'):
        loader = cfg.get(name)
        if loader and not loader.get('num_workers', 0):
            # Settings of workers, which DataLoader refuses where there are none.
            loader.pop('persistent_workers', None)
            loader.pop('prefetch_factor', None)
    return cfg


def typed(cfg: Config, key: str, value: Any) -> Any:
    """The value of an option that was typed on a command line.

    A number, True or False is read where the config holds such.  Else the parameter's annotation
    decides, and of one without the type of what the config holds: a string stays as it is typed.
    Where neither is known the text alone decides, see :func:`mmvtr.values.read`.

    Args:
        cfg: the config.
        key: in full.
        value: one that is not :class:`~mmvtr.values.Written` has its type already.

    Raises:
        OptionError: it cannot be read so.
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
    from mmvtr.engine.checks.option_values import kind_at  # imports torch

    told = kind_at(cfg, key)
    kind = told if is_known(told) else kind
    if value == 'None' and not takes_text(alternatives(kind)):
        return None  # takes a part of the config away
    try:
        return read(value, kind)
    except ValueError as error:
        raise OptionError(f'{key}: {error}') from None


def _merge(cfg: Config, options: dict[str, Any]) -> None:
    """Put options into a config, the types of components first: they say what others are to be."""
    presets = cfg.get('presets') or {}
    others = {name: options[name] for name in options if name.partition('.')[0] not in presets}
    unfolded = {**_preset(presets, options), **_unfold(others, cfg.get('shortcuts', {}))}
    _refuse_below_none(unfolded)
    place = dict(_delete_=0, type=1)
    for key in sorted(unfolded, key=lambda key: place.get(key.rpartition('.')[2], 2)):
        cfg.merge_from_dict({key: typed(cfg, key, unfolded[key])})


def _refuse_below_none(options: dict[str, Any]) -> None:
    """OptionError for a part of what another option takes away."""
    for gone in (key for key, value in options.items() if value is None or value == 'None'):
        for key in options:
            if key.startswith(f'{gone}.'):
                raise OptionError(f'{key}: there is none, with {gone}=None beside it')


def _preset(
    presets: dict[str, dict[str, dict[str, Any]]], options: dict[str, Any]
) -> dict[str, Any]:
    """Keys and values that the options among ``presets`` stand for.

    Raises:
        OptionError: a value that its preset does not have, or a key below one.
    """
    found: dict[str, Any] = {}
    for key, value in options.items():
        name, below, _ = key.partition('.')
        if name not in presets:
            continue
        if below or value not in presets[name]:
            known = ' or '.join(f'{name}={one}' for one in presets[name])
            raise OptionError(f'{key}: {known} expected, got {f"{key}={value}"[:80]!r}')
        found.update(presets[name][value])
    return found


def _file_or_name(path: str) -> Path:
    """The file of a config that the command line names.

    Raises:
        SystemExit: there is no such file, and no config of the package of that name.
    """
    file, hint = Path(path), ''
    if file.is_file():
        return file
    try:
        if file.name == path and not file.suffix:  # a bare name, as own_clip4clip
            return named_config(path)
        if file.stem in config_names():
            hint = f'; mmvtr has one of its own by the name {file.stem}'
    except (ValueError, FileNotFoundError) as error:
        hint = f'; {error}'
    raise SystemExit(f'error: config {path} does not exist{hint}')


def _unfold(options: dict[str, Any], shortcuts: dict[str, list[str]]) -> dict[str, Any]:
    """Options in which each name of ``shortcuts`` has become the keys that it stands for."""
    unfolded: dict[str, Any] = {}
    for name, value in options.items():
        first, dot, rest = name.partition('.')
        for key in [f'{key}{dot}{rest}' for key in shortcuts.get(first, [first])]:
            if key in unfolded:
                raise OptionError(f'{key} is set twice, by {name} and by itself or another name')
            unfolded[key] = value
    return unfolded


class Share(NamedTuple):
    """Which of a job's processes this one is, where they need not talk to each other.

    Attributes:
        rank: of this process.
        world: processes in all.
        local: of those on this machine.
    """

    rank: int
    world: int
    local: int

    @classmethod
    def of_environment(cls) -> Share:
        """As torchrun says; 0 of 1 without a launcher."""
        names = ('RANK', '0'), ('WORLD_SIZE', '1'), ('LOCAL_RANK', '0')
        return cls(*(int(os.environ.get(name, default)) for name, default in names))

    @property
    def device(self) -> str:
        """A GPU each, where there are any."""
        import torch

        return f'cuda:{self.local}' if torch.cuda.is_available() else 'cpu'

    def places(self, ids: Iterable[str]) -> list[int]:
        """Of the ids that it sees to: by their own text, so the same in every run."""
        numbers = (zlib.crc32(name.encode()) for name in ids)
        return [i for i, number in enumerate(numbers) if number % self.world == self.rank]
