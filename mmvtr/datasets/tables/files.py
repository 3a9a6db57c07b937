"""Files that a table refers to: videos of a folder by name, or features of a store by id."""

from __future__ import annotations

import os
import posixpath
import unicodedata
from pathlib import Path, PurePosixPath
from typing import Iterable, Literal, Mapping, NamedTuple, Optional, Protocol

from mmvtr.datasets.annotation_values import Place, name_of, problem, shown, wrong
from mmvtr.datasets.folders import Listing, identity, one_spelling, visible
from mmvtr.datasets.folders import listed as _listed
from mmvtr.datasets.problems import Problems
from mmvtr.datasets.tables.rows import refuse, some
from mmvtr.datasets.videos.feature_stores import open_store

#: Suffixes of video files, in lower case.
VIDEOS = frozenset(
    '.3gp .asf .avi .divx .dv .f4v .flv .gif .m2ts .m2v .m4v .mkv .mov .mp4 .mpeg .mpg .mts .mxf '
    '.ogg .ogv .rm .ts .vob .webm .wmv .y4m'.split()
)
FEATURES = '.npy'
#: Kind under which unfit names are collected in Problems.
UNFIT = 'name that fits no video of the folder'


class Wanted(NamedTuple):
    """A video as a table names it.

    Attributes:
        name: name of the file.
        span: '' for the whole file, else the id suffix of its part.
    """

    name: str
    span: str = ''


class Source(NamedTuple):
    """The file or features of one video of a table.

    Attributes:
        video_id: its path in the folder without suffix, separated by '/', and the span.
        file: relative path of its file; the name of its features.
        path: full path of its file; None for features.
    """

    video_id: str
    file: str
    path: Optional[str]


class Sources(Protocol):
    """Location of the videos or features; subclasses find them.

    Attributes:
        kind: kind of the files.
    """

    kind: Literal['clips', 'features']

    def find(
        self, wanted: Mapping[Wanted, Place], problems: Problems
    ) -> dict[Wanted, Optional[Source]]:
        """Return the source of each video; None for missing ones.

        Args:
            wanted: each with the place of a row, for errors.
            problems: collects names that lead out of the folder, match several files, or name files
                of another kind; these are left out of the result.
        """

    def hint(self, wanted: Wanted) -> str:
        """Return a similar existing name for a missing video, if any."""

    def others(self, found: Iterable[Source]) -> list[str]:
        """Return existing names that are not among these, if they can be listed."""


def open_sources(path: Path) -> Sources:
    """Return the location of the videos or features at a path.

    Args:
        path: a folder of videos, or of npy files, but not both, at any depth; or an hdf5 file or a
            BigFile folder of features.

    Raises:
        FileNotFoundError: the path does not exist.
        ValueError: a file that is not an hdf5 file, or a folder without videos and features, or
            with both.
    """
    if not path.exists():
        raise FileNotFoundError(f'no such folder of videos, or store of features: {name_of(path)}')
    if path.is_file() and path.suffix.lower() not in ('.h5', '.hdf5'):
        raise wrong(Place(path), 'a folder of videos or features, or a .h5 file', path.name)
    if path.is_file() or (path / 'shape.txt').is_file():
        return StoredFeatures(path)
    names = _listed(path)
    clips = [name for name in names if _suffix(name) in VIDEOS]
    features = [name for name in names if _suffix(name) == FEATURES]
    if clips and features:
        raise problem(
            Place(path),
            f'holds {len(clips)} videos ({some(clips, 1)}) and {len(features)} features '
            f'({some(features, 1)}): expected one kind; put them into folders of their own',
        )
    if not clips and not features:
        raise problem(
            Place(path),
            'holds no video and no features; expected files such as a.mp4, or a.npy, found '
            f'{some(names) or "nothing"}',
        )
    return Folder(path, names, clips or features, 'clips' if clips else 'features')


class Folder:
    """Files of a folder, found by relative path with or without suffix.

    A name that differs from a file's only in the spelling of its accents (Unicode NFC, NFD) refers
    to that file.

    Args:
        root: the folder.
        there: all files.
        files: those of this kind.
        kind: 'clips' or 'features'.
    """

    def __init__(
        self,
        root: Path,
        there: Listing,
        files: list[str],
        kind: Literal['clips', 'features'],
    ) -> None:
        self.root = root
        self.kind = kind
        self._there = there
        self._strange = set(there) - set(files)
        self._files: dict[str, list[str]] = {}
        self._spelt: dict[str, set[str]] = {}  # from NFC to the names that are not ASCII
        for name in files:
            stem = _stem(name)
            self._files.setdefault(stem, []).append(name)
            if not name.isascii():
                for form in (name, stem):
                    self._spelt.setdefault(one_spelling(form), set()).add(form)

    def find(
        self, wanted: Mapping[Wanted, Place], problems: Problems
    ) -> dict[Wanted, Optional[Source]]:
        found: dict[Wanted, Optional[Source]] = {}
        for key, place in wanted.items():
            with problems.of(UNFIT):
                inside = _inside(key.name, self.root, place)
                found[key] = self._find(inside, key, place) or self._linked(inside, key, place)
        return found

    def _find(self, inside: str, wanted: Wanted, place: Place) -> Optional[Source]:
        if inside in self._strange:
            expected = 'a video file' if self.kind == 'clips' else 'an npy file'
            refuse(place, f'{shown(inside)} is of another kind', expected, _suffix(inside))
        if self.kind == 'features':
            names = _names_of_features(inside, wanted.span)
            exact = (name for name in names if name in self._files)
            name = next(exact, None) or self._alike(names, place)
            return Source(name, name.removesuffix(wanted.span), None) if name else None
        if inside not in self._files and inside not in self._files.get(_stem(inside), ()):
            inside = self._alike([inside], place) or inside
        if inside in self._files.get(_stem(inside), ()):
            return self._clip(inside, wanted)
        files = self._files.get(inside, [])
        if len(files) > 1:
            refuse(
                place, f'{shown(wanted.name)} fits {len(files)} files', 'a name with suffix', files
            )
        return self._clip(files[0], wanted) if files else None

    def _alike(self, names: Iterable[str], place: Place) -> Optional[str]:
        """Return the only listed name that differs just in its Unicode spelling, or None."""
        alike = {spelling for name in names for spelling in self._spelt.get(one_spelling(name), ())}
        if len(alike) > 1:
            refuse(
                place,
                f'{len(alike)} names of {name_of(self.root)} differ only in how their accents are '
                'written (Unicode NFC, NFD)',
                'one of these',
                [ascii(name) for name in sorted(alike)],
            )
        return alike.pop() if alike else None

    def _linked(self, inside: str, wanted: Wanted, place: Place) -> Optional[Source]:
        """Return the source of a name whose folder is a link to a listed folder."""
        folder, name = posixpath.split(inside)
        listed_as = self._there.folders.get(identity(self.root / folder)) if folder else None
        if listed_as is None or listed_as == folder:
            return None
        source = self._find(posixpath.join(listed_as, name), wanted, place)
        if source is None:
            return None
        video_id, file = (f'{folder}/{posixpath.basename(path)}' for path in source[:2])
        return Source(video_id, file, source.path and str(self.root / file))

    def _clip(self, file: str, wanted: Wanted) -> Source:
        stem = _stem(file)
        name = stem if len(self._files[stem]) == 1 else file  # a.mp4 beside a.webm keeps its suffix
        return Source(visible(name) + wanted.span, file, str(self.root / file))

    def hint(self, wanted: Wanted) -> str:
        files = [file for files in self._files.values() for file in files]
        there = self._files.get(_stem(wanted.name), [])
        there = there or [file for file in files if _base(file) == _base(wanted.name)]
        return f' (there is {some(there, 1)})' if there else ''

    def others(self, found: Iterable[Source]) -> list[str]:
        names = [
            (file, file if self.kind == 'clips' else key)
            for key, files in self._files.items()
            for file in files
        ]
        found = list(found)
        used = {source.file for source in found} | {source.video_id for source in found}
        left = [file for file, name in names if name not in used and file not in self._there.again]
        paths = {source.path for source in found if source.path}
        links = paths - {str(self.root / file) for file in self._there}
        if not links and not self._there.again:  # each file has one name
            return left
        reached = {identity(path) for path in paths}
        return [file for file in left if identity(self.root / file) not in reached]


class StoredFeatures:
    """Features in an hdf5 file or BigFile folder, by id; ids may have a video's suffix.

    Args:
        path: path of the store.
    """

    kind: Literal['clips', 'features'] = 'features'

    def __init__(self, path: Path) -> None:
        self.path = path
        self._store = open_store(path)

    def find(
        self, wanted: Mapping[Wanted, Place], problems: Problems
    ) -> dict[Wanted, Optional[Source]]:
        names: dict[Wanted, list[str]] = {}
        for key, place in wanted.items():
            with problems.of(UNFIT):
                inside = _inside(key.name, self.path, place)
                names[key] = _spellings(_names_of_features(inside, key.span))
        # One query, as a store opens its file for each query.
        queried = list(dict.fromkeys(name for forms in names.values() for name in forms))
        there = set(queried).difference(self._store.missing(queried))
        found: dict[Wanted, Optional[Source]] = {}
        for key, forms in names.items():
            name = next((name for name in forms if name in there), None)
            found[key] = name and Source(name, name.removesuffix(key.span), None)
        return found

    def hint(self, wanted: Wanted) -> str:
        return ''

    def others(self, found: Iterable[Source]) -> list[str]:
        return []


def _names_of_features(inside: str, span: str) -> list[str]:
    """Return possible names of a video's features, so that a table also works for features."""
    return list(dict.fromkeys([bare(inside) + span, inside + span]))


def _spellings(names: list[str]) -> list[str]:
    """Yield names as given, then in Unicode NFC and NFD."""
    forms = [unicodedata.normalize(form, name) for name in names for form in ('NFC', 'NFD')]
    return list(dict.fromkeys([*names, *forms]))


def file_key(name: str, root: Path, place: Place) -> str:
    """Return a table's file name as a relative path without the suffix of a video or features.

    It does not depend on the Unicode spelling of accents.

    Args:
        name: the name in the table.
        root: the folder.
        place: place of its row.

    Raises:
        ValueError: it leads out of the folder.
    """
    return bare(one_spelling(_inside(name, root, place)))


def _inside(name: str, root: Path, place: Place) -> str:
    """Return a table's name as a relative path; reject one that leaves the folder."""
    if posixpath.isabs(name):
        name = os.path.relpath(name, root.absolute())
    inside = posixpath.normpath(name)
    if inside == '..' or inside.startswith('../') or '\0' in inside:
        refuse(place, f'this video is not in {name_of(root)}', 'a path in that folder', name)
    return inside


def _suffix(name: str) -> str:
    return PurePosixPath(name).suffix.lower()


def _stem(name: str) -> str:
    return str(PurePosixPath(name).with_suffix('')) if PurePosixPath(name).suffix else name


def bare(name: str) -> str:
    """Return a name without the suffix of a video or of features."""
    return _stem(name) if _suffix(name) in (*VIDEOS, FEATURES) else name


def _base(name: str) -> str:
    return PurePosixPath(_stem(name)).name
