"""Options that tools share, and types of arguments."""

from __future__ import annotations

import argparse
import os
import re
import tempfile
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence, Union

from mmvtr.cli.values import Written
from mmvtr.errors import UserError


class Parser(argparse.ArgumentParser):
    """An argument parser with the options that tools share, and errors of one sentence.

    A value with a leading hyphen, such as the id ``-4wsuPCjDBc_5_15``, is given as everywhere:
    ``--delete=-4wsuPCjDBc_5_15``, or after ``--``.

    Args:
        description: the tool's description, its module docstring.
    """

    def __init__(self, description: Optional[str], **kwargs: Any) -> None:
        form = argparse.RawDescriptionHelpFormatter
        super().__init__(description=description, formatter_class=form, **kwargs)

    def add_cfg_options(self, of: str = '') -> None:
        """Add ``--cfg-options KEY=VALUE ...``, a dict of :class:`~mmvtr.cli.values.Written`."""
        self.add_argument(
            '--cfg-options',
            nargs='+',
            action=Settings,
            default={},
            metavar='KEY=VALUE',
            help=f'config changes{of}',
        )

    def add_amp(self, what: str) -> None:
        """Add ``--amp [bf16 | fp16]``: a precision, bf16 if not named, None if absent."""
        self.add_argument(
            '--amp',
            nargs='?',
            const='bf16',
            choices=('bf16', 'fp16'),
            help=f'{what} in mixed precision: bf16 (default; CPU, and GPUs since A100), or fp16 '
            'with loss scaling (older GPUs)',
        )

    def add_launcher(self) -> None:
        """Add ``--launcher``, and ``--local_rank``, which is exported as ``LOCAL_RANK``."""
        self.add_argument(
            '--launcher',
            choices=['none', 'pytorch', 'slurm', 'mpi'],
            default='none',
            help='what has started the processes (default: none, a single one)',
        )
        names = ('--local_rank', '--local-rank')
        self.add_argument(*names, type=int, default=0, help='set by launchers')

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """See argparse; positional arguments may come before, between and after the options."""
        arguments = self.parse_intermixed_args(args, namespace)
        if hasattr(arguments, 'local_rank'):
            os.environ.setdefault('LOCAL_RANK', str(arguments.local_rank))
        return arguments

    def parse_one_checkpoint(self, *, more: Optional[str] = None) -> argparse.Namespace:
        """Parse the command line of a tool that takes one CHECKPOINT, ``args.checkpoint``.

        Args:
            more: name of a later argument that takes any number of words, which would silently
                swallow further checkpoints.

        Raises:
            SystemExit: several checkpoints, as from ``best_*.pth`` (names them), or unknown
                arguments.
        """
        args, rest = self.parse_known_intermixed_args()
        words = [] if more is None else getattr(args, more)
        files = [word for word in words if word.endswith(('.pth', '.pt', '.safetensors'))]
        if any(word.startswith('-') for word in rest) or (rest and more is not None and not files):
            self.error(f'unrecognized arguments: {" ".join(rest)}')
        checkpoints = [*filter(None, [args.checkpoint]), *(rest if more is None else files)]
        if len(checkpoints) > 1:
            raise SystemExit(
                f'error: {self.prog} takes one CHECKPOINT, not {len(checkpoints)} '
                f'({", ".join(checkpoints)}): name the one that is meant'
            )
        args.checkpoint = checkpoints[0] if checkpoints else None
        return args

    def error(self, message: str) -> Any:
        """Exit with status 2 and a one-sentence message."""
        if re.search(r'expected (at least )?one argument$|^unrecognized arguments: -[^-]', message):
            message += "; a value with a leading '-' is given as --OPTION=-VALUE, or after --"
        self.exit(2, f'error: {message} ({self.prog} --help)\n')


class Settings(argparse.Action):
    """Collects KEY=VALUE words in a dict; values are kept as typed."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        settings = dict(getattr(namespace, self.dest) or {})
        for word in values:
            try:
                key, value = setting(word)
            except argparse.ArgumentTypeError as error:
                raise argparse.ArgumentError(self, str(error)) from None
            settings[key] = value
        setattr(namespace, self.dest, settings)


def cfg_words(options: Mapping[str, Any]) -> list[str]:
    """Return ``--cfg-options`` and its words as they were typed; [] if there are no options."""
    words = [f'{key}={value}' for key, value in options.items()]
    return ['--cfg-options', *words] if words else []


def setting(word: str) -> tuple[str, Written]:
    """Split ``KEY=VALUE`` at the first ``=`` (an argparse type)."""
    key, sign, value = word.partition('=')
    if not key or not sign:
        raise argparse.ArgumentTypeError(f'KEY=VALUE expected, got {word[:80]!r}')
    return key, Written(value)


def count(word: str) -> int:
    """Return an integer of at least 1 (an argparse type)."""
    try:
        number = int(word)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f'an integer of 1 or more expected, got {word[:80]!r}')
    return number


def query(word: str) -> str:
    """Return a non-empty search text (an argparse type)."""
    if not word.strip():
        raise argparse.ArgumentTypeError('a text to search for expected, got an empty one')
    return word


def check_files(paths: Sequence[str]) -> None:
    """Raise FileNotFoundError unless all videos exist, before any slow work starts.

    Raises:
        FileNotFoundError: names the first missing ones, and how many are missing.
    """
    missing = [path for path in paths if not Path(path).is_file()]
    if missing:
        raise FileNotFoundError(
            f'{len(missing)} of {len(paths)} video files are missing: {", ".join(missing[:5])}'
        )


def output_file(word: str) -> Path:
    """Return the path of a writable file, creating its folder if needed (an argparse type).

    Raises:
        OSError: the path is a folder, or its folder is not writable.
    """
    path = Path(word)
    if path.is_dir():
        raise IsADirectoryError(f'{word} is a folder, not a file to write')
    output_folder(str(path.parent))
    return path


def output_folder(word: str) -> Path:
    """Return the path of a folder that is writable or can be created (an argparse type).

    Raises:
        OSError: the path, or a part of it, is a file, or there is no write permission.
    """
    path = Path(word)
    there = next(part for part in (path, *path.absolute().parents) if part.exists())
    if not there.is_dir():
        raise NotADirectoryError(f'{there} is a file, not a folder to write to')
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(f'{there} cannot be written to')
    return path


def check_writable(work_dir: Union[str, Path]) -> None:
    """Raise UserError unless files can be written in a folder, which is created if needed.

    Raises:
        UserError: names the path that cannot be written, and why.
    """
    try:
        os.makedirs(work_dir, exist_ok=True)
        with tempfile.TemporaryFile(dir=work_dir) as file:
            file.write(b'0' * 4096)
    except OSError as error:
        path = error.filename if isinstance(error.filename, str) else work_dir
        path = work_dir if not os.path.isfile(path) else path
        raise UserError(f'work dir {path} cannot be written: {error.strerror}') from error


def read_fusion(words: Optional[Sequence[str]]) -> Union[str, list[float]]:
    """Return the fusion given on a command line: ``'sum'`` or weights; None is ``'sum'``.

    Raises:
        ValueError: neither (``'prior'`` needs the counts of a common training).
    """
    if words in (None, ['sum']):
        return 'sum'
    try:
        return [float(word) for word in words]
    except ValueError:
        raise ValueError(f"fusion must be 'sum' or weights, not {' '.join(words)!r}") from None
