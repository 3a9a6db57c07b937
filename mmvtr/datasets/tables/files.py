"""Which file a table means: videos of a folder by name, or features of a store by id."""

from __future__ import annotations

import os
import posixpath
from pathlib import Path, PurePosixPath
from typing import Iterable, Literal, Mapping, NamedTuple, Optional, Protocol

from mmvtr.datasets.annotation_values import Place, name_of, problem, shown, wrong
from mmvtr.datasets.tables.rows import refuse, some
from mmvtr.datasets.videos.feature_stores import open_store

#: Suffixes of video files, in small letters.
VIDEOS = frozenset(
    '.3gp .asf .avi .divx .dv .f4v .flv .gif .m2ts .m2v .m4v .mkv .mov .mp4 .mpeg .mpg .mts .mxf '
    '.ogg .ogv .rm .ts .vob .webm .wmv .y4m'.split()
)
FEATURES = '.npy'


class Wanted(NamedTuple):
    """A video as a table names it.

    Attributes:
        name: of the file.
        span: '' of the whole file, else what its part has behind the file's name.
    """

    name: str
    span: str = ''


class Source(NamedTuple):
    """A video that is there.

    Attributes:
        video_id: its path in the folder without suffix, '/' between, and the span.
        file: the same of its file.
        path: of its file; None of features.
    """

    video_id: str
    file: str
    path: Optional[str]


class Sources(Protocol):
    """Where the videos lie.

    Attributes:
        kind: what they are.
    """

    kind: Literal['clips', 'features']

    def find(self, wanted: Mapping[Wanted, Place]) -> dict[Wanted, Source]:
        """Those that are there.

        Args:
            wanted: with the place of a row each, for errors.

        Raises:
            ValueError: a name that leads out of the folder, fits several files, or is that of a
                file of another kind.
        """

    def hint(self, wanted: Wanted) -> str:
        """What there is instead of a missing video, if anything comes near."""

    def others(self, found: Iterable[Source]) -> list[str]:
        """Names of the videos that are not among these, where they can be listed."""


def open_sources(path: Path) -> Sources:
    """The videos, or the features, at a place.

    Args:
        path: a folder of videos, or of npy files; one of both in any depth.  A hdf5 file or a
            BigFile folder of features.

    Raises:
        FileNotFoundError: there is nothing.
        ValueError: a file that is no hdf5 file, or a folder without videos and features, or with
            both.
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
    """Files in a folder, by their path in it, with or without suffix.

    Args:
        root: the folder.
        names: all files.
        wanted: those of the kind.
        kind: 'clips' or 'features'.
    """

    def __init__(
        self,
        root: Path,
        names: list[str],
        wanted: list[str],
        kind: Literal['clips', 'features'],
    ) -> None:
        self.root = root
        self.kind = kind
        self._strange = set(names) - set(wanted)
        self._files: dict[str, list[str]] = {}
        for name in wanted:
            self._files.setdefault(_stem(name), []).append(name)

    def find(self, wanted: Mapping[Wanted, Place]) -> dict[Wanted, Source]:
        found = {one: self._find(one, place) for one, place in wanted.items()}
        return {one: source for one, source in found.items() if source is not None}

    def _find(self, wanted: Wanted, place: Place) -> Optional[Source]:
        inside = _inside(wanted.name, self.root, place)
        if inside in self._strange:
            expected = 'a video file' if self.kind == 'clips' else 'an npy file'
            refuse(place, f'{shown(inside)} is of another kind', expected, _suffix(inside))
        if self.kind == 'features':
            name = next(
                (n for n in _names_of_features(inside, wanted.span) if n in self._files), ''
            )
            return Source(name, name.removesuffix(wanted.span), None) if name else None
        if inside in self._files.get(_stem(inside), ()):
            return self._clip(inside, wanted)
        files = self._files.get(inside, [])
        if len(files) > 1:
            refuse(
                place, f'{shown(wanted.name)} fits {len(files)} files', 'a name with suffix', files
            )
        return self._clip(files[0], wanted) if files else None

    def _clip(self, file: str, wanted: Wanted) -> Source:
        stem = _stem(file)
        name = stem if len(self._files[stem]) == 1 else file  # a.mp4 beside a.webm
        return Source(name + wanted.span, file, str(self.root / file))

    def hint(self, wanted: Wanted) -> str:
        files = [file for files in self._files.values() for file in files]
        there = self._files.get(_stem(wanted.name), [])
        there = there or [file for file in files if _base(file) == _base(wanted.name)]
        return f'; there is {some(there, 1)}' if there else ''

    def others(self, found: Iterable[Source]) -> list[str]:
        known = {source.file for source in found} | {source.video_id for source in found}
        names = [
            (file, file if self.kind == 'clips' else key)
            for key, files in self._files.items()
            for file in files
        ]
        return [file for file, name in names if name not in known]


class StoredFeatures:
    """Features in one hdf5 file or BigFile folder, by id; an id may have the suffix of a video.

    Args:
        path: of the store.
    """

    kind: Literal['clips', 'features'] = 'features'

    def __init__(self, path: Path) -> None:
        self.path = path
        self._store = open_store(path)

    def find(self, wanted: Mapping[Wanted, Place]) -> dict[Wanted, Source]:
        names = {
            one: _names_of_features(_inside(one.name, self.path, place), one.span)
            for one, place in wanted.items()
        }
        # One question, as a store opens its file for each.
        asked = list(dict.fromkeys(name for own in names.values() for name in own))
        there = set(asked).difference(self._store.missing(asked))
        found = {}
        for one, own in names.items():
            for name in [name for name in own if name in there][:1]:
                found[one] = Source(name, name.removesuffix(one.span), None)
        return found

    def hint(self, wanted: Wanted) -> str:
        return ''

    def others(self, found: Iterable[Source]) -> list[str]:
        return []


def _names_of_features(inside: str, span: str) -> list[str]:
    """What the features of a video may be called: a table of videos is one of features, too."""
    return list(dict.fromkeys([_bare(inside) + span, inside + span]))


def file_key(name: str, root: Path, place: Place) -> str:
    """A table's name of a file as a path in the folder, without the suffix of a video or features.

    Args:
        name: as the table has it.
        root: the folder.
        place: of its row.

    Raises:
        ValueError: it leads out of the folder.
    """
    return _bare(_inside(name, root, place))


def _listed(root: Path) -> list[str]:
    """Paths of all files below a folder, '/' between, sorted; hidden ones do not count."""
    found = []
    for folder, folders, files in os.walk(root, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith('.'))
        inside = Path(folder).relative_to(root)
        found += [(inside / name).as_posix() for name in files if not name.startswith('.')]
    return sorted(found)


def _inside(name: str, root: Path, place: Place) -> str:
    """A table's name as a path in the folder."""
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


def _bare(name: str) -> str:
    """Without a suffix that is known."""
    return _stem(name) if _suffix(name) in (*VIDEOS, FEATURES) else name


def _base(name: str) -> str:
    return PurePosixPath(_stem(name)).name
