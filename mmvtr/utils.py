"""Set-up for tools, notebooks and scripts.  Importing it does not import torch."""

from __future__ import annotations

import argparse
import difflib
import os
import zlib
from importlib import import_module
from pathlib import Path
from typing import Any, Iterable, NamedTuple, Optional

from mmengine import registry
from mmengine.config import Config

import mmvtr.hub  # noqa: F401 - mmengine's readers of configs know `mmvtr::`
from mmvtr.registry import forget_pretrained  # noqa: F401 - users know it by this module


def register_all_modules(init_default_scope: bool = True) -> None:
    """Import everything that registers itself in mmvtr's registries.

    A Runner needs no such call (the registries find their modules when they are first asked), nor
    does ``MODELS.build(dict(type='mmvtr.X'))``.

    Args:
        init_default_scope: also make ``mmvtr`` the scope of names without one.
    """
    for room in ('datasets', 'engine', 'evaluation', 'models'):
        import_module(f'mmvtr.{room}')
    if init_default_scope:
        registry.init_default_scope('mmvtr')


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
        options: as ``--cfg-options`` gives them, ``{'model.width': 8}``.  A name that the config's
            ``shortcuts`` knows stands for all keys that are listed there, and ``NAME.more`` for
            ``more`` of each of them.
        work_dir: default: the config's own, else ``work_dirs/<stem of path>``.

    Raises:
        SystemExit: the file does not exist, or it or the options cannot be read.
    """
    # OpenMP threads that spin for long while they wait take the cores from the data workers: where
    # cores are scarce, the default makes a step several times slower.  Read when torch is loaded.
    os.environ.setdefault('GOMP_SPINCOUNT', '2000')
    file = _file_or_name(path)
    try:
        cfg = OnceFormatted.of(Config.fromfile(file))
        cfg.merge_from_dict(_unfold(options or {}, cfg.get('shortcuts', {})))
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


def parse_one_checkpoint(
    parser: argparse.ArgumentParser, *, more: Optional[str] = None
) -> argparse.Namespace:
    """The command line of a tool that takes one CHECKPOINT, ``args.checkpoint``.

    Args:
        parser: has the argument ``checkpoint``.
        more: name of a later argument that takes any number of words, where further checkpoints
            would be lost in silence.

    Raises:
        SystemExit: there are several checkpoints (names them), as of ``best_*.pth``, or unknown
            arguments.
    """
    args, rest = parser.parse_known_args()
    words = [] if more is None else getattr(args, more)
    files = [word for word in words if word.endswith(('.pth', '.pt', '.safetensors'))]
    if any(word.startswith('-') for word in rest) or (rest and more is not None and not files):
        parser.error(f'unrecognized arguments: {" ".join(rest)}')
    given = [*filter(None, [args.checkpoint]), *(rest if more is None else files)]
    if len(given) > 1:
        raise SystemExit(
            f'error: {parser.prog} takes one CHECKPOINT, not {len(given)} ({", ".join(given)}): '
            'name the one that is meant'
        )
    args.checkpoint = given[0] if given else None
    return args


def _unfold(options: dict[str, Any], shortcuts: dict[str, list[str]]) -> dict[str, Any]:
    """Options in which each name of ``shortcuts`` has become the keys that it stands for."""
    unfolded: dict[str, Any] = {}
    for name, value in options.items():
        first, dot, rest = name.partition('.')
        for key in [f'{key}{dot}{rest}' for key in shortcuts.get(first, [first])]:
            if key in unfolded:
                raise ValueError(f'{key} is set twice, by {name} and by itself or another name')
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
