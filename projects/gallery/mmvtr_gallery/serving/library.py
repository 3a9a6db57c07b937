"""The folder whose videos may be added, and the listed files, looked at again when they are served.

Somebody who can write into a folder can replace a listed video by a link to a private file. So a
file is opened without following links each time, however it came into the gallery.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import Counter
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Optional, Sequence, Union

from mmvtr_gallery.store import Item

Folder = Union[str, Path]


class Outside(PermissionError):
    """A file that is not in the library, or a link that leads out of what may be served."""


class Library:
    """Files of one folder, in any depth.

    Args:
        folder: None: nothing can be added by its file.

    Raises:
        NotADirectoryError: it is none.
    """

    def __init__(self, folder: Optional[Folder]) -> None:
        self.folder = None if folder is None else Path(folder).resolve()
        if self.folder is not None and not self.folder.is_dir():
            raise NotADirectoryError(f'the library {folder} is no folder')
        given = () if folder is None else (Path(os.path.abspath(folder)), self.folder)
        #: The folder as it was named, and without links.
        self.names: tuple[Path, ...] = given

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
        try:
            path = self.folder.joinpath(*parts).resolve()
            there = path.is_file()
        except (OSError, RuntimeError):  # a name that is too long, links in a circle
            path, there = self.folder, False
        if not path.is_relative_to(self.folder):
            raise Outside(f'{name[:80]!r} is not the name of a file in the library')
        if not there:
            raise FileNotFoundError(f'the library has no file {name[:80]!r}')
        return path

    def name_of(self, path: str) -> Optional[str]:
        """A path as a name in the library, with ``/``; None: it is not there."""
        given = Path(os.path.abspath(path))
        for folder in self.names:
            if given.is_relative_to(folder):
                return given.relative_to(folder).as_posix()
        return None


def file_names(paths: Sequence[Optional[str]], library: Library) -> list[Optional[str]]:
    """How files are called in an answer, without where they are on this machine.

    A file of the library has its name there.  Another one has its own name, with as many of its
    folders as are needed to tell it from the others of the answer.
    """
    known = {path: library.name_of(path) for path in paths if path is not None}
    others = {path: path.strip('/').split('/') for path, name in known.items() if name is None}
    depth = 1
    while others:
        short = {path: '/'.join(parts[-depth:]) for path, parts in others.items()}
        counts = Counter(short.values())
        for path, name in short.items():
            if counts[name] == 1 or depth >= len(others[path]):
                known[path] = name
                del others[path]
        depth += 1
    return [None if path is None else known[path] for path in paths]


class ListedFiles:
    """Opens the files of items.

    A file of the library is opened without following any link below the library's folder, another
    file without following a link in its place.  A link is followed only into ``links``.

    Args:
        library: whose files may be added.
        links: folders that links may lead into.

    Raises:
        NotADirectoryError: one of them is none.
    """

    def __init__(self, library: Library, links: Sequence[Folder] = ()) -> None:
        self._library = library
        self._links = [Path(folder).resolve() for folder in links]
        for given, folder in zip(links, self._links):
            if not folder.is_dir():
                raise NotADirectoryError(f'{given} is no folder that links could lead into')

    def open(self, item: Item) -> BinaryIO:
        """The file of an item, to be closed by who asks.

        Raises:
            Outside: it is a link, or lies behind one.
            FileNotFoundError: the store knows none, or it is gone.
        """
        return self._opened(item)[0]

    def path(self, item: Item) -> Path:
        """Where the file is, just now seen to be one that :meth:`open` opens; for decoders.

        Raises:
            Outside, FileNotFoundError: as :meth:`open`.
        """
        file, path = self._opened(item)
        file.close()
        return path

    def _opened(self, item: Item) -> tuple[BinaryIO, Path]:
        name = repr(item.id[:80])
        if item.path is None:
            raise FileNotFoundError(f'the gallery knows no file of {name}')
        path = Path(os.path.abspath(item.path))
        root = next((x for x in self._library.names if path.is_relative_to(x)), path.parent)
        try:
            return _open_below(root, path), path
        except (OSError, ValueError) as error:  # ValueError: a null byte in the path
            if getattr(error, 'errno', None) not in (errno.ELOOP, errno.ENOTDIR, errno.EMLINK):
                raise FileNotFoundError(f'the file of {name} is gone') from None
        try:
            real = Path(os.path.realpath(path, strict=True))
            root = next((x for x in self._links if real.is_relative_to(x)), None)
            if root is not None:
                return _open_below(root, real), real
        except OSError:
            raise FileNotFoundError(f'the file of {name} is gone') from None
        raise Outside(
            f'the file of {name} is a link, or lies behind one, and is not served '
            '(mmvtr serve --links FOLDER)'
        )


def _open_below(root: Path, path: Path) -> BinaryIO:
    """An ordinary file at ``path``, of whose parts after ``root`` none is a link.

    Raises:
        OSError: ELOOP or ENOTDIR where one is; ENOENT for what is no ordinary file.
    """
    *folders, name = path.relative_to(root).parts
    here = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for folder in folders:
            inner = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = inner
        # O_NONBLOCK: a named pipe would wait for a writer.
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=here)
    finally:
        os.close(here)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise FileNotFoundError(errno.ENOENT, 'no ordinary file')
    return os.fdopen(file, 'rb')
