"""The folder whose videos may be added, and safe opening of the listed files.

Somebody who can write into a folder can replace a listed video by a link to a private file. So
every file is opened without following links, each time it is served.
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
    """The file is not in the library, or is a link out of the folders that may be served."""


class Library:
    """The files of one folder, at any depth.

    Args:
        folder: None: no file can be added.

    Raises:
        NotADirectoryError: it is no folder.
    """

    def __init__(self, folder: Optional[Folder]) -> None:
        self.folder = None if folder is None else Path(folder).resolve()
        if self.folder is not None and not self.folder.is_dir():
            raise NotADirectoryError(f'the library {folder} is not a folder')
        given = () if folder is None else (Path(os.path.abspath(folder)), self.folder)
        #: The folder as it was given, and with links resolved.
        self.names: tuple[Path, ...] = given

    def file(self, name: str) -> Path:
        """Return the file of a name such as ``'more/dog.mp4'``, links resolved.

        Raises:
            Outside: there is no library, or the name or its link's target is outside of it.
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
        except (OSError, RuntimeError):  # a name that is too long, or a loop of links
            path, there = self.folder, False
        if not path.is_relative_to(self.folder):
            raise Outside(f'{name[:80]!r} is not the name of a file in the library')
        if not there:
            raise FileNotFoundError(f'the library has no file {name[:80]!r}')
        return path

    def name_of(self, path: str) -> Optional[str]:
        """Return a path's name in the library, with ``/``; None: it is outside."""
        given = Path(os.path.abspath(path))
        for folder in self.names:
            if given.is_relative_to(folder):
                return given.relative_to(folder).as_posix()
        return None


def file_names(paths: Sequence[Optional[str]], library: Library) -> list[Optional[str]]:
    """Return the names of files in an answer, without their location on this machine.

    A file of the library gets its name there.  Another one gets its base name, with as many parent
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
    """Opens the files of items without following links out of the allowed folders.

    A file of the library is opened without following any link below the library's folder; any
    other file must not be a link itself.  A link is followed only into ``links``.

    Args:
        library: folder whose files may be added.
        links: folders that links may lead into.

    Raises:
        NotADirectoryError: one of ``links`` is no folder.
    """

    def __init__(self, library: Library, links: Sequence[Folder] = ()) -> None:
        self._library = library
        self._links = [Path(folder).resolve() for folder in links]
        for given, folder in zip(links, self._links):
            if not folder.is_dir():
                raise NotADirectoryError(f'{given} is not a folder that links could lead into')

    def open(self, item: Item) -> BinaryIO:
        """Return the open file of an item; the caller closes it.

        Raises:
            Outside: it is a link, or is reached through one.
            FileNotFoundError: the item has no file, or the file is gone.
        """
        return self._opened(item)[0]

    def path(self, item: Item) -> Path:
        """Return the path of the file after checking that :meth:`open` opens it; for decoders.

        Raises:
            Outside, FileNotFoundError: see :meth:`open`.
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
    """Open the regular file ``path``, in which no component after ``root`` is a link.

    Raises:
        OSError: ELOOP or ENOTDIR if one is; ENOENT if it is no regular file.
    """
    *folders, name = path.relative_to(root).parts
    here = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for folder in folders:
            inner = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=here)
            os.close(here)
            here = inner
        # O_NONBLOCK, as opening a named pipe would wait for a writer.
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=here)
    finally:
        os.close(here)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise FileNotFoundError(errno.ENOENT, 'no ordinary file')
    return os.fdopen(file, 'rb')
