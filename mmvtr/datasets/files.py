"""Files that belong to ids: where they are, and which of many are missing."""

from __future__ import annotations

from pathlib import Path
from typing import Iterable, Union

#: A file system refuses longer names.
LONGEST_NAME = 255


def is_file_name(name: str) -> bool:
    """Return whether an id can name a file below a folder or a subfolder (``'kitchen/P01'``).

    Not where the path would lead out of the folder (``..`` or a slash in front, also those of other
    systems) or be the folder itself, where the name has characters that cannot be seen (control,
    zero-width), or where it is longer than any file's.
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
        ValueError: an id that would lead out of the folder, see :func:`is_file_name`.
    """
    if not is_file_name(name):
        raise ValueError(f'{str(folder)[-200:]}: an id that is no file name: {name[:80]!r}')
    return Path(folder) / f'{name}{suffix}'


def visible(text: str) -> str:
    """Return a text that can be written; invalid UTF-8 bytes of a file's name become ``\xE9``."""
    try:
        return text.encode('utf-8', 'surrogateescape').decode('utf-8', 'backslashreplace')
    except UnicodeEncodeError:  # halves of surrogate pairs that no file's name has
        return text.encode('utf-8', 'backslashreplace').decode('utf-8')


def missing_files(paths: Iterable[Path]) -> list[Path]:
    """Return the paths that do not exist, with one listing per folder."""
    paths = list(paths)
    present = {folder: _names(folder) for folder in {path.parent for path in paths}}
    return [path for path in paths if path.name not in present[path.parent]]


def _names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()
