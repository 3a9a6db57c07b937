"""Files by the ids of items: where one lies, and which of many are missing."""

from __future__ import annotations

from pathlib import Path
from typing import Iterable, Union


def path_of(folder: Union[Path, str], name: str, suffix: str = '') -> Path:
    """The file of an item, ``folder/name`` and the suffix: always one inside the folder.

    Args:
        folder: any.
        name: the item's id; '/' in it means folders within the folder.
        suffix: of the file, such as ``'.npy'``.

    Raises:
        ValueError: the name is empty, absolute, has a part that is empty, '.' or '..', a null byte,
            or what leads elsewhere under Windows: a drive or a backslash.
    """
    outside = not {'', '.', '..'}.isdisjoint(name.split('/'))
    if outside or '\0' in name or '\\' in name or name[1:2] == ':':
        raise ValueError(f'{name[:80]!r} cannot name a file inside {folder}')
    return Path(folder, f'{name}{suffix}')


def missing_files(paths: Iterable[Path]) -> list[Path]:
    """Those of the paths that do not exist, by one listing a folder.

    A stat each is slow over a network.
    """
    paths = list(paths)
    present = {folder: _names(folder) for folder in {path.parent for path in paths}}
    return [path for path in paths if path.name not in present[path.parent]]


def _names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
