"""A list of videos that cannot be read: a line each, its id, a tab and the reason.

``tools/dataset_converters/check_dataset.py --decode`` writes it, and a dataset's
``on_broken=dict(skip=FILE)`` reads it; a list written by hand may do without reasons.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Union

from mmvtr.datasets.annotation_files import read_text
from mmvtr.storage import write_atomically

#: What a dataset may do about a broken video.
OnBroken = Union[Literal['raise', 'skip'], dict[str, str]]


def read_on_broken(on_broken: OnBroken) -> dict[str, str]:
    """List of broken videos, given to a dataset.

    Args:
        on_broken: 'raise', 'skip', or ``dict(skip=FILE)``.

    Returns:
        Reason by video id; none for the first two.

    Raises:
        FileNotFoundError: no such file.
        ValueError: another ``on_broken``, or a malformed file (names the line).
    """
    if on_broken in ('raise', 'skip'):
        return {}
    if not _names_file(on_broken):
        raise ValueError(
            f"on_broken: 'raise', 'skip' or dict(skip='FILE'), not {str(on_broken)[:80]!r}"
        )
    return read_broken(Path(on_broken['skip']))


def read_broken(path: Path) -> dict[str, str]:
    """Return the reason by video id; blank lines are skipped.

    Raises:
        FileNotFoundError: no such file.
        ValueError: no text, a line without an id, or an id for the second time.
    """
    try:
        lines = read_text(path).split('\n')
    except FileNotFoundError:
        raise FileNotFoundError(
            f'no list of broken videos {path}: check_dataset.py --decode --report {path} writes it'
        ) from None
    except (OSError, ValueError) as error:
        reason = str(error).removeprefix(f'{path}: ')
        raise ValueError(f'list of broken videos {path}: {reason}'[:400]) from error
    broken: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        name, _, reason = line.rstrip('\r').partition('\t')
        if not name.strip() or name in broken:
            what = 'the id again' if name.strip() else 'no id'
            raise ValueError(
                f'{path}, line {number}: "ID<tab>REASON" expected, each id once, got {what}: '
                f'{line[:80]!r}'
            )
        broken[name] = reason or f'listed in {path}'
    return broken


def write_broken(path: Path, broken: dict[str, str]) -> None:
    """Write such a list, empty if nothing is broken; reasons come to one line each."""
    lines = [f'{name}\t{" ".join(reason.split())}\n' for name, reason in broken.items()]
    write_atomically(path, lambda file: file.write(''.join(lines).encode()))


def _names_file(on_broken: Any) -> bool:
    return (
        isinstance(on_broken, dict)
        and [*on_broken] == ['skip']
        and isinstance(on_broken['skip'], str)
    )
