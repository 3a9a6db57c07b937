"""What all tools' command lines have in common: how they are read, and how a tool ends.

Nothing here imports torch.
"""

from __future__ import annotations

import argparse
import functools
import os
import re
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Callable, Mapping, Optional, Sequence

from mmvtr.reasons import reason
from mmvtr.values import Written

#: How an option of a tool looks: words in lower case.
OPTION = re.compile(r'--[a-z]+(-[a-z]+)*(=.*)?', re.DOTALL)


class Parser(argparse.ArgumentParser):
    """A parser to which a word that only begins with a hyphen is a value.

    An option is what the tool declares, what shortens it, and what looks like one: two hyphens and
    words in lower case.  So ids (``-4wsuPCjDBc_5_15``), paths and queries can be given as they are;
    a value that looks like an option is given as ``--delete=--name`` or after ``--``.  A declared
    option with one hyphen (``-k``) is a mistake, not a value.

    Args:
        description: of the tool, its module's docstring.
    """

    def __init__(self, description: Optional[str], **kwargs: Any) -> None:
        form = argparse.RawDescriptionHelpFormatter
        super().__init__(description=description, formatter_class=form, **kwargs)

    def add_cfg_options(self, of: str = '') -> None:
        """``--cfg-options KEY=VALUE ...``: a dict of :class:`~mmvtr.values.Written`."""
        self.add_argument(
            '--cfg-options',
            nargs='+',
            action=Settings,
            default={},
            metavar='KEY=VALUE',
            help=f'config changes{of}',
        )

    def add_amp(self, what: str) -> None:
        """``--amp [bf16 | fp16]``: the name of a precision, or None; alone it is bf16."""
        self.add_argument(
            '--amp',
            nargs='?',
            const='bf16',
            choices=('bf16', 'fp16'),
            help=f'{what} in mixed precision: bf16 (default; CPU, and GPUs since A100), or fp16 '
            'with loss scaling (older GPUs)',
        )

    def add_launcher(self) -> None:
        """``--launcher``, and ``--local_rank``, which becomes ``LOCAL_RANK``."""
        self.add_argument(
            '--launcher',
            choices=['none', 'pytorch', 'slurm', 'mpi'],
            default='none',
            help='who has started the processes (default: none, a single one)',
        )
        names = ('--local_rank', '--local-rank')
        self.add_argument(*names, type=int, default=0, help='set by launchers')

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """See argparse; what a tool works on may stand before, between and behind its options."""
        found = self.parse_intermixed_args(args, namespace)
        if hasattr(found, 'local_rank'):
            os.environ.setdefault('LOCAL_RANK', str(found.local_rank))
        return found

    def parse_one_checkpoint(self, *, more: Optional[str] = None) -> argparse.Namespace:
        """The command line of a tool that takes one CHECKPOINT, ``args.checkpoint``.

        Args:
            more: name of a later argument that takes any number of words, where further
                checkpoints would be lost in silence.

        Raises:
            SystemExit: there are several checkpoints (names them), as of ``best_*.pth``, or
                unknown arguments.
        """
        args, rest = self.parse_known_intermixed_args()
        words = [] if more is None else getattr(args, more)
        files = [word for word in words if word.endswith(('.pth', '.pt', '.safetensors'))]
        if any(word.startswith('-') for word in rest) or (rest and more is not None and not files):
            self.error(f'unrecognized arguments: {" ".join(rest)}')
        given = [*filter(None, [args.checkpoint]), *(rest if more is None else files)]
        if len(given) > 1:
            raise SystemExit(
                f'error: {self.prog} takes one CHECKPOINT, not {len(given)} ({", ".join(given)}): '
                'name the one that is meant'
            )
        args.checkpoint = given[0] if given else None
        return args

    def error(self, message: str) -> Any:
        """Leave with status 2 and one sentence."""
        self.exit(2, f'error: {message} ({self.prog} --help)\n')

    def _parse_optional(self, arg_string: str) -> Any:  # argparse asks: an option, or a value?
        if arg_string[:1] != '-' or self._means_option(arg_string):
            return super()._parse_optional(arg_string)
        return None

    def _means_option(self, word: str) -> bool:
        declared = self._option_string_actions
        name = word.partition('=')[0]
        if name in declared or OPTION.fullmatch(word):
            return True
        if not re.fullmatch(r'-[a-z]+(-[a-z]+)*', name):
            return False
        near = [option for option in declared if option.startswith(f'-{name}')]
        if near:
            self.error(f'{name}: {near[0]} has two hyphens')
        return False


class Settings(argparse.Action):
    """Collects KEY=VALUE words in a dict; a value stays as it is typed."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: Optional[str] = None,
    ) -> None:
        settings = dict(getattr(namespace, self.dest) or {})
        for word in values:
            try:
                key, value = setting(word)
            except argparse.ArgumentTypeError as error:
                raise argparse.ArgumentError(self, str(error)) from None
            settings[key] = value
        setattr(namespace, self.dest, settings)


def cfg_words(options: Mapping[str, Any]) -> list[str]:
    """``--cfg-options`` and its words again, as they were typed; nothing of none."""
    words = [f'{key}={value}' for key, value in options.items()]
    return ['--cfg-options', *words] if words else []


def setting(word: str) -> tuple[str, Written]:
    """``KEY=VALUE`` as its key and what is behind the first ``=``, for argparse."""
    key, sign, value = word.partition('=')
    if not key or not sign:
        raise argparse.ArgumentTypeError(f'KEY=VALUE expected, got {word[:80]!r}')
    return key, Written(value)


def count(word: str) -> int:
    """An integer of 1 or more, for argparse."""
    try:
        number = int(word)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError(f'an integer of 1 or more expected, got {word[:80]!r}')
    return number


def query(word: str) -> str:
    """A text that says something, for argparse."""
    if not word.strip():
        raise argparse.ArgumentTypeError('a text to search for expected, got an empty one')
    return word


def check_files(paths: Sequence[str]) -> None:
    """See that videos are there, before anything slow.

    Raises:
        FileNotFoundError: names the first ones that are not, and how many these are.
    """
    missing = [path for path in paths if not Path(path).is_file()]
    if missing:
        raise FileNotFoundError(
            f'{len(missing)} of {len(paths)} video files are missing: {", ".join(missing[:5])}'
        )


def output_file(word: str) -> Path:
    """A file that can be written, its folder made if need be, for argparse.

    Raises:
        OSError: it is a folder, or its folder cannot be written to.
    """
    path = Path(word)
    if path.is_dir():
        raise IsADirectoryError(f'{word} is a folder, no file to write')
    output_folder(str(path.parent))
    return path


def output_folder(word: str) -> Path:
    """A folder that can be written to, or made, for argparse.

    Raises:
        OSError: a file is in its way, or nobody may write there.
    """
    path = Path(word)
    there = next(part for part in (path, *path.absolute().parents) if part.exists())
    if not there.is_dir():
        raise NotADirectoryError(f'{there} is a file, no folder to write to')
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(f'{there} cannot be written to')
    return path


def tool(main: Callable[..., Any]) -> Callable[..., Any]:
    """Ends a tool in one sentence where an error is a user's to mend (:mod:`mmvtr.reasons`).

    Ctrl-C ends it in silence, status 130.

    Raises:
        SystemExit: status 1 and the sentence.
    """

    @functools.wraps(main)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return main(*args, **kwargs)
        except KeyboardInterrupt:
            raise SystemExit(130) from None
        except Exception as error:
            # Of a data worker that dies torch tells by an error wherever the program stands.
            with suppress(ValueError):  # outside of the main thread it tells nothing
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            said = reason(error)
            if said is None:
                raise
            raise SystemExit(f'error: {said}' if _first_to_say(said) else 1) from error

    return run


def _first_to_say(message: str) -> bool:
    """Return whether no other process of a distributed run has said the same before.

    Before the processes have met, the first one of each machine says it.
    """
    distributed = sys.modules.get('torch.distributed')
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return os.environ.get('LOCAL_RANK', '0') == '0'
    try:
        store = distributed.distributed_c10d._get_default_store()
        return store.add(f'mmvtr/{message}', 1) == 1
    except RuntimeError:  # the process that keeps the store is gone
        return True
