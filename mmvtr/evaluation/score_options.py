"""What tools that measure score files share: options of who matches, and errors in one line."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, Callable, NoReturn, Sequence


def add_truth(parser: argparse.ArgumentParser, positives: str) -> None:
    """Add --positives, whose help is ``positives``, --judgments and --at-least."""
    parser.add_argument('--positives', type=Path, metavar='P', help=positives)
    parser.add_argument(
        '--judgments', type=Path, metavar='QRELS', help='judged pairs, query 0 item grade'
    )
    parser.add_argument(
        '--at-least',
        type=float,
        default=1.0,
        metavar='X',
        help='the lowest grade of --judgments that is right (default: 1)',
    )


def fail(message: object) -> NoReturn:
    """End with one line."""
    raise SystemExit(f'error: {message}')


def told(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns, its errors as one line."""
    try:
        return function(*arguments)
    except FileNotFoundError:
        fail(f'{arguments[0]} does not exist')
    except (OSError, ValueError) as error:
        fail(error)


def check_folders(paths: Sequence[Path | None]) -> None:
    """Refuse a file that cannot be written, before anything is read or computed."""
    for path in paths:
        if path is not None and not path.parent.is_dir():
            fail(f'{path}: the folder {path.parent} does not exist')
        if path is not None and path.is_dir():
            fail(f'{path} is a folder, expected the name of a file')
