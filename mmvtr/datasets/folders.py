"""File names made from ids, and recursive listings that enter each folder once despite links."""

from __future__ import annotations

import logging
import os
import unicodedata
from collections import deque
from pathlib import Path
from typing import Iterable, Iterator, Optional, Union

from mmengine.logging import print_log

#: Identity of a file or folder whatever its name: its device and inode.
Identity = tuple[int, int]


class Listing(list[str]):
    """Sorted relative paths of the files below a folder, and all names of each file.

    Attributes:
        again: the paths whose file is already listed under another name.
        folders: from a folder's identity to its relative path; '' for the root.
    """

    def __init__(self, names: Iterable[str], again: set[str], folders: dict[Identity, str]) -> None:
        super().__init__(sorted(names))
        self.again = again
        self.folders = folders


def listed(root: Union[str, Path]) -> Listing:
    """Return all files below a folder; names that begin with a dot are ignored.

    A folder is entered once, by its own name rather than through a link.  Dangling links are
    ignored.  An unreadable folder is left out with a warning.
    """
    names: list[tuple[bool, str, Identity]] = []  # links are entered after all plain folders
    entered: dict[Identity, str] = {}
    folders, links = deque(['']), deque()
    while folders or links:
        inside = folders.popleft() if folders else links.popleft()
        place = identity(os.path.join(root, inside))
        if place is None or place in entered:
            continue
        entered[place] = inside
        for entry in _entries(os.path.join(root, inside)):
            name = f'{inside}/{entry.name}' if inside else entry.name
            linked = entry.is_symlink()
            file = identity(entry.path) if linked else (place[0], entry.inode())
            if file is None:  # a dangling or circular link
                continue
            if entry.is_dir():
                (links if linked else folders).append(name)
            else:
                names.append((linked, name, file))
    seen: set[Identity] = set()
    again = set()
    for _, name, file in sorted(names):
        if file in seen:
            again.add(name)
        seen.add(file)
    return Listing((name for _, name, _ in names), again, entered)


def identity(path: Union[str, Path]) -> Optional[Identity]:
    """Return device and inode that a path resolves to; None if it does not exist."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def one_spelling(name: str) -> str:
    """Return a name in Unicode NFC, so that both spellings of a name are equal."""
    return name if name.isascii() else unicodedata.normalize('NFC', name)


def spelt_as_there(path: str) -> str:
    """Return a path in the Unicode spelling that exists on disk.

    Raises:
        ValueError: several files have that name in different spellings.
    """
    if path.isascii() or os.path.exists(path):
        return path
    folder, name = os.path.split(path)
    folder = spelt_as_there(folder)
    if not os.path.isdir(folder or '.'):
        return path
    spelling = one_spelling(name)
    alike = [other for other in os.listdir(folder or '.') if one_spelling(other) == spelling]
    if len(alike) > 1:
        raise ValueError(
            f'{path!r} fits {len(alike)} files whose names differ only in how their accents are '
            f'written (Unicode NFC, NFD): {", ".join(map(ascii, sorted(alike)))}'
        )
    return os.path.join(folder, alike[0]) if alike else path


def _entries(folder: str) -> Iterator[os.DirEntry]:
    try:
        with os.scandir(folder) as entries:
            children = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        what = f'{ascii(folder)} is left out, it cannot be read: {error.strerror}'
        print_log(what, 'current', logging.WARNING)
        return
    yield from (entry for entry in children if not entry.name.startswith('.'))


#: Maximum length of a file name; file systems refuse longer ones.
LONGEST_NAME = 255


def is_file_name(name: str) -> bool:
    """Return whether an id can name a file below a folder or a subfolder (``'kitchen/P01'``).

    False if the path would leave the folder (``..`` or a leading slash, also those of other
    systems) or be the folder itself, if the name has invisible characters (control, zero-width), or
    if it is longer than a file name may be.
    """
    parts = name.replace('\\', '/').split('/')
    return (
        name.isprintable()
        and len(name) <= LONGEST_NAME
        and not any(part.strip() in ('', '.', '..') for part in parts)
    )


def file_of(folder: Union[str, Path], name: str, suffix: str) -> Path:
    """Return the path ``FOLDER/NAME.SUFFIX`` of an id.

    Raises:
        ValueError: an id that :func:`is_file_name` rejects.
    """
    if not is_file_name(name):
        raise ValueError(f'{str(folder)[-200:]}: an id is not a file name: {name[:80]!r}')
    return Path(folder) / f'{name}{suffix}'


def visible(text: str) -> str:
    """Return a text that can be encoded; invalid UTF-8 bytes become escapes like ``\\xe9``."""
    try:
        return text.encode('utf-8', 'surrogateescape').decode('utf-8', 'backslashreplace')
    except UnicodeEncodeError:  # lone surrogates, which no file name has
        return text.encode('utf-8', 'backslashreplace').decode('utf-8')


def missing_files(paths: Iterable[Path]) -> list[Path]:
    """Return the paths that do not exist; each folder is listed once."""
    paths = list(paths)
    present = {folder: _names(folder) for folder in {path.parent for path in paths}}
    return [path for path in paths if path.name not in present[path.parent]]


def _names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
