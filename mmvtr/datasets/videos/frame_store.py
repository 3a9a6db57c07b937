"""Decoded frames of many clips in a few files: tar shards of JPEGs, each with an index.

``000000.tar`` holds pictures ``CLIP.000000.jpg``, ``CLIP.000001.jpg`` ... one clip after another
(each a WebDataset sample); any tar reader reads it.  ``000000.json`` has for each clip its
presentation times, its size in pixels, and the position of each picture in the tar.  A shard
without its json is incomplete and is rewritten.
"""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any, BinaryIO, Iterator, NamedTuple, Optional, Sequence
from urllib.parse import quote

import cv2
import numpy as np

from mmvtr.datasets.annotation_files import read_json
from mmvtr.datasets.annotation_values import (
    Place,
    field,
    identifier,
    listing,
    mapping,
    number,
    problem,
    seconds,
    string,
    unique,
    wrong,
)
from mmvtr.datasets.videos.frame_sampling import at_rate
from mmvtr.datasets.videos.resizing import resize_short_side
from mmvtr.datasets.videos.video_io import BrokenVideoError, Select, read_frames
from mmvtr.errors import UnknownKey
from mmvtr.storage import write_atomically

#: Frames decoded at a time: a long clip in full size would not fit into memory (frames of more than
#: 11 million pixels do not either, and are stored as broken: MAX_BYTES).
AT_ONCE = 128

SETTINGS = 'frames.json'


class Settings(NamedTuple):
    """How the frames of a store were made.

    ``size``: pixels of the short side of larger frames, None = as in the video; ``quality``: JPEG
    quality, 1 to 100; ``fps``: see :func:`~mmvtr.datasets.videos.frame_sampling.at_rate`.
    """

    size: Optional[int]
    quality: int
    fps: Optional[int]


class StoredClip(NamedTuple):
    """A clip's entry in a shard's json.

    ``times`` float64 [N], seconds in the file; ``offsets`` and ``bytes`` int64 [N], of the pictures
    in ``shard``; ``reason``: why a video cannot be read, or None.
    """

    shard: Path
    start: Optional[float]
    end: Optional[float]
    height: int
    width: int
    times: np.ndarray
    offsets: np.ndarray
    bytes: np.ndarray
    reason: Optional[str]


class FrameStore:
    """Reader of a folder of shards; files are open only while a clip is read.

    Args:
        path: the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._clips: Optional[dict[str, StoredClip]] = None
        self._settings: Optional[Settings] = None

    @property
    def settings(self) -> Settings:
        """Settings with which the frames were made.

        Raises:
            FileNotFoundError, ValueError: see :func:`read_settings`.
        """
        if self._settings is None:
            self._settings = read_settings(self.path)
        return self._settings

    @property
    def clips(self) -> dict[str, StoredClip]:
        """Return all clips by video id.

        Raises:
            ValueError: a shard is truncated or missing; its json is damaged, or has a clip that
                another shard has.
        """
        if self._clips is None:
            stored = [row for index in complete(self.path) for row in _read_index(index)]
            names = unique(((name, place) for name, place, _ in stored), 'video')
            self._clips = dict(zip(names, (clip for *_, clip in stored)))
        return self._clips

    def check(self, videos: Sequence[dict[str, Any]]) -> None:
        """Raise unless the store holds every clip of these videos completely.

        Raises:
            FileNotFoundError: no such store.
            KeyError: clips are missing.
            ValueError: a shard is truncated; a clip was stored with another start or end.
        """
        missing = self.missing(videos)
        if missing:
            raise UnknownKey(
                f'{self.path}: no frames of {len(missing)} of {len(videos)} videos, '
                f'e.g. {missing[:5]}'
            )
        for video in videos:
            self._find(video)

    def missing(self, videos: Sequence[dict[str, Any]]) -> list[str]:
        """Return ids of the videos that are not stored.

        Raises:
            FileNotFoundError: no such store.
            ValueError: a shard is truncated.
        """
        self.settings  # noqa: B018 - raises if there is no store
        return [v['video_id'] for v in videos if v['video_id'] not in self.clips]

    def read(self, video: dict[str, Any], select: Select) -> list[np.ndarray]:
        """Return pictures of a clip.

        Args:
            video: its record: ``video_id``, optionally ``start`` and ``end`` (seconds).
            select: function from the stored times to increasing positions among them.

        Returns:
            n arrays, uint8 RGB [H, W, 3].

        Raises:
            BrokenVideoError: the video could not be read when it was stored; or a picture is
                truncated, damaged or of another size (names the shard, the video and the picture).
            KeyError, ValueError: see :meth:`check`.
        """
        clip = self._find(video)
        if clip.reason is not None:
            raise BrokenVideoError(clip.reason)
        with open(clip.shard, 'rb') as file:
            return [self._picture(file, clip, i, video) for i in select(clip.times).tolist()]

    def _find(self, video: dict[str, Any]) -> StoredClip:
        name = video['video_id']
        if name not in self.clips:
            raise UnknownKey(f'{self.path}: no frames of video {name!r}')
        clip = self.clips[name]
        stored, span = (clip.start, clip.end), (video.get('start'), video.get('end'))
        if stored != span:
            raise ValueError(
                f'{clip.shard}: video {name!r} was stored from {stored[0]} to {stored[1]} s, '
                f'{span[0]} to {span[1]} s are asked for'
            )
        return clip

    @staticmethod
    def _picture(file: Any, clip: StoredClip, i: int, video: dict[str, Any]) -> np.ndarray:
        def broken(what: str) -> BrokenVideoError:
            return BrokenVideoError(f'{clip.shard}: picture {i} of {video["video_id"]!r} {what}')

        file.seek(clip.offsets[i])
        raw = np.frombuffer(file.read(clip.bytes[i]), np.uint8)
        if len(raw) < clip.bytes[i]:
            raise broken(f'is cut short: {len(raw)} of {clip.bytes[i]} bytes')
        image = cv2.imdecode(raw, cv2.IMREAD_COLOR)
        if image is None:
            raise broken('is no JPEG')
        if image.shape[:2] != (clip.height, clip.width):
            raise broken(f'is {image.shape[:2]} pixels, expected {(clip.height, clip.width)}')
        return cv2.cvtColor(image, cv2.COLOR_BGR2RGB)


def complete(folder: Path) -> list[Path]:
    """Return the json files of the complete shards in ``folder``, in order."""
    return sorted(path for path in folder.glob('*.json') if path.stem.isdigit())


def write_shard(
    folder: Path, name: str, videos: Sequence[dict[str, Any]], settings: Settings
) -> int:
    """Write clips, decoded, to ``NAME.tar`` and ``NAME.json``: complete, or (if killed) not at all.

    Args:
        folder: folder of the store.
        name: digits.
        videos: records with ``video_id``, ``path``, optionally ``start`` and ``end``.
        settings: settings of the store.

    Returns:
        The number of videos in the shard; those that cannot be read are included with the reason.
    """
    clips, length = [], 0

    def write(file: BinaryIO) -> None:
        nonlocal length
        with tarfile.open(fileobj=file, mode='w') as tar:
            for video in videos:
                clips.append(_write_clip(tar, video, settings))
        length = file.tell()

    write_atomically(folder / f'{name}.tar', write)
    _write_json(folder / f'{name}.json', dict(bytes=length, clips=clips))
    return len(clips)


def write_settings(folder: Path, settings: Settings) -> None:
    """Write the settings with which a new store's frames are made."""
    _write_json(folder / SETTINGS, settings._asdict())


def read_settings(folder: Path) -> Settings:
    """Return the settings with which a store's frames were made.

    Raises:
        FileNotFoundError: there is no such store.
        ValueError: the file is damaged.
    """
    path = folder / SETTINGS
    if not path.is_file():
        raise FileNotFoundError(
            f'{folder} holds no stored frames ({SETTINGS} is missing): tools/extract_frames.py '
            'makes them'
        )
    settings = read_json(path, Settings._fields)
    for key, value in settings.items():
        none = key != 'quality' and value is None
        if key not in Settings._fields or not none and number(value, Place(path, f'{key!r}')) == 0:
            raise wrong(Place(path).key(key), f'the numbers {Settings._fields}, above 0', value)
    return Settings(**settings)


def _write_json(path: Path, content: dict[str, Any]) -> None:
    text = json.dumps(content)
    write_atomically(path, lambda file: file.write(text.encode()))


def _write_clip(tar: tarfile.TarFile, video: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """Append a clip's pictures and return its json entry."""
    name = video['video_id']
    about = dict(id=name, start=video.get('start'), end=video.get('end'))
    times, places, shape = [], [], (0, 0)
    try:
        for seconds, images in _decode(video, settings.fps):
            times += seconds.tolist()
            if settings.size is not None and min(images[0].shape[:2]) > settings.size:
                images = resize_short_side(images, settings.size)
            for image in images:
                shape = image.shape[:2]
                places.append(_append(tar, name, len(places), _jpeg(image, settings.quality)))
    except BrokenVideoError as error:
        # No index refers to what is already in the tar.
        return dict(about, reason=str(error))
    return dict(about, height=shape[0], width=shape[1], times=times, places=places)


def _decode(
    video: dict[str, Any], fps: Optional[int]
) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
    """Yield times and pictures to keep, in chunks."""
    done, kept = 0, None

    def select(times: np.ndarray) -> np.ndarray:
        nonlocal kept
        positions = at_rate(times, fps)
        kept = times[positions]
        return positions[done : done + AT_ONCE]

    while kept is None or done < len(kept):
        frames = read_frames(video['path'], select, start=video.get('start'), end=video.get('end'))
        yield kept[done : done + len(frames)], frames
        done += len(frames)


def _jpeg(image: np.ndarray, quality: int) -> bytes:
    bgr = cv2.cvtColor(image, cv2.COLOR_RGB2BGR)
    return cv2.imencode('.jpg', bgr, [cv2.IMWRITE_JPEG_QUALITY, quality])[1].tobytes()


def _append(tar: tarfile.TarFile, name: str, number: int, content: bytes) -> tuple[int, int]:
    """Add a picture to the tar; return the offset and number of its bytes."""
    # WebDataset's sample key ends at the first dot; a tar may contain folders.
    stem = quote(name, safe='@ ').replace('.', '%2E')
    info = tarfile.TarInfo(f'{stem}.{number:06d}.jpg')
    info.size = len(content)
    tar.addfile(info, io.BytesIO(content))
    blocks = -(-len(content) // tarfile.BLOCKSIZE)
    return tar.offset - blocks * tarfile.BLOCKSIZE, len(content)


def _read_index(path: Path) -> list[tuple[str, Place, StoredClip]]:
    """Yield id, place and clip of each entry of a shard's json."""
    index, shard = read_json(path, ('bytes', 'clips')), path.with_suffix('.tar')
    size = shard.stat().st_size if shard.is_file() else 0
    expected = field(index, 'bytes', number, Place(path))
    if size != expected:
        raise ValueError(
            f'{shard} has {size} bytes, expected {expected}: it is cut short or gone; '
            f'remove it and {path.name}, and tools/extract_frames.py writes its videos again'
        )
    stored = []
    for position, entry in enumerate(field(index, 'clips', listing, Place(path))):
        place = Place(path, f'clip {position}')
        clip = mapping(entry, place)
        stored.append((field(clip, 'id', identifier, place), place, _stored(clip, shard, place)))
    return stored


def _stored(clip: dict[str, Any], shard: Path, place: Place) -> StoredClip:
    start, end = (field(clip, key, _time, place) for key in ('start', 'end'))
    reason = clip.get('reason')
    if reason is not None:
        nothing = np.zeros(0, np.int64)
        why = string(reason, place.at("'reason'"))
        return StoredClip(shard, start, end, 0, 0, nothing.astype(float), nothing, nothing, why)
    height, width = (field(clip, key, number, place) for key in ('height', 'width'))
    times = _array(field(clip, 'times', listing, place), 'if', (-1,), place.at("'times'"))
    places = _array(field(clip, 'places', listing, place), 'i', (-1, 2), place.at("'places'"))
    offsets, lengths = places.T
    if len(times) != len(places) or not len(times) or not (np.diff(times) >= 0).all():
        raise problem(place, f'expected times that increase, one for each of {len(places)} places')
    if places.min() < 0 or (lengths > shard.stat().st_size - offsets).any():
        raise problem(place.at("'places'"), f'a picture lies outside of {shard.name}')
    return StoredClip(shard, start, end, height, width, times.astype(float), offsets, lengths, None)


def _time(value: Any, place: Place) -> Optional[float]:
    return None if value is None else seconds(value, place)


def _array(value: list[Any], kinds: str, shape: tuple[int, ...], place: Place) -> np.ndarray:
    """Return finite numbers from a list of the expected ``shape`` (-1: any)."""
    try:
        array = np.array(value)
    except (ValueError, OverflowError):  # lists of unequal lengths
        array = np.array(None)
    fits = array.ndim == len(shape) and array.shape[1:] == shape[1:]
    if not fits or array.dtype.kind not in kinds or not np.isfinite(array).all():
        raise wrong(place, 'finite numbers' + (', two each' if shape[1:] else ''), value)
    return array
