"""The folder whose videos may be added, by their names in it."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Optional, Union


class Outside(PermissionError):
    """A name that is not of a file in the library."""


class Library:
    """Files of one folder, in any depth.

    Args:
        folder: None: nothing can be added by its file.

    Raises:
        NotADirectoryError: it is none.
    """

    def __init__(self, folder: Optional[Union[str, Path]]) -> None:
        self.folder = None if folder is None else Path(folder).resolve()
        if self.folder is not None and not self.folder.is_dir():
            raise NotADirectoryError(f'the library {folder} is no folder')

    def file(self, name: str) -> Path:
        """The file of a name such as ``'more/dog.mp4'``, links followed.

        Raises:
            Outside: there is no library, or the name, or where a link leads, is not in it.
            FileNotFoundError: it has no such file.
        """
        if self.folder is None:
            raise Outside('this service was started without a library: no file can be added')
        parts = PurePosixPath(name).parts
        plain = parts and not name.startswith('/') and '..' not in parts
        if not plain or '\\' in name or not name.isprintable():
            raise Outside(f'{name[:80]!r} is not the name of a file in the library')
        path = self.folder.joinpath(*parts).resolve()
        if not path.is_relative_to(self.folder):
            raise Outside(f'{name[:80]!r} is not the name of a file in the library')
        if not path.is_file():
            raise FileNotFoundError(f'the library has no file {name[:80]!r}')
        return path
