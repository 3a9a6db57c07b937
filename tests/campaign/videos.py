"""Video files that are cut, damaged, renamed or no videos, each read as a dataset reads them.

Clips are made in all containers of :mod:`campaign.clips`; those of
``$MMVTR_SHARED/data/videos`` join them where they are.  A whole file must give the frames that PyAV
alone decodes.  Of one that was made worse, verdicts are:

- 'refused': an error in words that names the file;
- 'right': the same number of frames and the same pixels as the whole file, so nothing was lost;
- 'lost': a whole file was refused, or gave other frames than PyAV;
- 'silent': a cut file that says how long it was gave other frames; or what is no video gave any;
  or one that says how long it was lacks its end; or a picture came that its decoder calls damaged;
- 'raw', 'nameless', 'long', 'hang' (also a decoder that ended its process) as ever.

What no reader can know stands in rows of its own and counts as right: 'cut, nothing tells' (the
transport stream cut between two packets, and containers whose ``unit`` is 0: fragments without an
index, live webm, flv without metadata, mpg, nut), 'damaged, other pixels' and 'damaged, other
frames' (bytes were flipped or zeroed, and without an error came as many frames, or fewer or others:
most codecs and containers have no checksums).
"""

from __future__ import annotations

import hashlib
import os
import socket
from collections import Counter
from pathlib import Path
from typing import Any, Callable, NamedTuple, Optional

import av
import numpy as np

from campaign import marked
from campaign.apart import Reader
from campaign.clips import CONTAINERS, ENDLESS, RATE, make_clip, tells
from campaign.trial import Trial
from mmvtr.datasets.videos.frame_sampling import uniform
from mmvtr.datasets.videos.video_io import read_frames

#: Names that are none of a protocol, though they look so, where the file lies in the folder.
ODD_NAMES = (
    *('http:clip.mp4', 'async:other.mp4', 'concat:a.mp4|b.mp4', 'file:clip.mp4', 'C:clip.mp4'),
    *('12:30.mp4', 'data:clip', 'pipe:0', '-clip.mp4', 'crypto:clip.avi', 'a:b:c.mkv'),
)
#: Share and seconds of a film that may be gone at its end without an error.
SHARE_GONE, SECONDS_GONE = 0.1, 0.5
#: Frames of a clip of which too little would be gone.
SHORT = 20

#: Frames that are compared, and bytes that they may take.
FRAMES, MAX_BYTES = 8, 1 << 28

#: Kinds of trials and their shares.
SHARES = {
    'whole': 0.1,
    'cut': 0.35,
    'flipped': 0.12,
    'zeroed': 0.1,
    'unfinished': 0.07,
    'renamed': 0.09,
    'no video': 0.07,
    'no file': 0.06,
    'too large': 0.04,
}


class Clip(NamedTuple):
    """A whole file: its container (None of a shared one), and what PyAV decodes of it."""

    kind: Optional[str]
    path: Path
    expected: Any


def _read(path: str) -> tuple[int, str]:
    counts: list[int] = []

    def select(times: np.ndarray) -> np.ndarray:
        counts.append(len(times))
        return uniform(times, FRAMES)

    frames = read_frames(path, select, max_bytes=MAX_BYTES)
    return counts[-1], _digest(frames)


def _read_here(folder: str, name: str) -> tuple[int, str]:
    """From the folder in which it lies."""
    os.chdir(folder)
    return _read(name)


def _read_by_pyav(path: str) -> tuple[int, str]:
    """Decodes from the first frame to the last, twice, and knows nothing of packets."""
    with av.open(path) as container:
        count = sum(1 for _ in container.decode(container.streams.best('video')))
    wanted = set(uniform(np.arange(count), FRAMES).tolist())
    with av.open(path) as container:
        stream = container.streams.best('video')
        ratio = stream.sample_aspect_ratio or 1
        shown = enumerate(container.decode(stream))
        frames = [_upright(frame, round(frame.width * ratio)) for i, frame in shown if i in wanted]
    return count, _digest(frames)


def _upright(frame: av.VideoFrame, width: int) -> np.ndarray:
    """Of square pixels, and turned by the display matrix, if there is one."""
    image = frame.to_ndarray(format='rgb24', width=width)
    matrix = frame.side_data.get('DISPLAYMATRIX')
    if matrix is None:
        return image
    a, b, _, c, d = np.sign(np.frombuffer(matrix, np.int32)[:5]).tolist()
    return marked.turn(image, (a, b, c, d))


def _damage(path: str) -> tuple[int, int]:
    """How many frames there are, and how many of those that are read the decoder calls damaged."""
    with av.open(path) as container:
        stream = container.streams.best('video')
        damaged = [frame.is_corrupt for frame in container.decode(stream)]
    wanted = uniform(np.arange(len(damaged)), FRAMES).tolist()
    return len(damaged), sum(damaged[i] for i in wanted)


def _digest(frames: list[np.ndarray]) -> str:
    found = hashlib.sha256()
    for frame in frames:
        found.update(f'{frame.shape}'.encode() + np.ascontiguousarray(frame).tobytes())
    return found.hexdigest()


def run(
    count: int, seed: int, folder: Path, prepare: Optional[Callable[[], None]] = None
) -> list[Trial]:
    """Make files, spoil and read them.

    Args:
        count: how many.
        seed: of all that is drawn.
        folder: for the files; those of good trials are removed.
        prepare: called first in the process that reads (:class:`campaign.apart.Reader`).

    Returns:
        The trials, in order; equal for equal arguments (and the same versions of the codecs).

    Raises:
        RuntimeError: PyAV alone did not read a whole clip, so there is nothing to compare with.
    """
    functions = dict(ours=_read, here=_read_here, theirs=_read_by_pyav, damage=_damage)
    with Reader(functions, prepare) as read:
        clips = _clips(folder, np.random.default_rng([seed, 0]), read)
        trials = []
        for number in range(count):
            random = np.random.default_rng([seed, 1, number])
            place = folder / f'{number:04d}'
            place.mkdir()
            trial = _try(clips, random, place, read)
            if trial.detail:
                detail = f'run({number + 1}, {seed}), the last trial, {trial.detail}'
                trial = trial._replace(detail=detail[:500])
            else:
                _remove(place)
            trials.append(trial)
    return trials


def _clips(folder: Path, random: np.random.Generator, read: Reader) -> list[Clip]:
    """One of each container, and the shared ones."""
    paths = []
    for kind, container in CONTAINERS.items():
        path = folder / f'{kind.replace(", ", "_").replace(" ", "_")}{container.suffix}'
        make_clip(path, kind, random)
        paths.append((kind, path))
    shared = Path(os.environ.get('MMVTR_SHARED', Path(__file__).parents[3] / 'shared'))
    paths += [(None, path) for path in sorted(shared.glob('data/videos/*'))]
    clips = []
    for kind, path in paths:
        expected = read('theirs', str(path))
        if expected[0] == 'hang' or (kind and expected[0] == 'error'):  # shared ones may be broken
            raise RuntimeError(f'no reference of {path.name}: {expected}')
        clips.append(Clip(kind, path, expected))
    return clips


def _try(clips: list[Clip], random: np.random.Generator, place: Path, read: Reader) -> Trial:
    act = str(random.choice([*SHARES], p=[*SHARES.values()]))
    if act == 'no file':
        return _no_file(random, place, read)
    if act in ('no video', 'too large'):
        if act == 'no video':
            name, content = _no_video(random, clips, place)
        else:
            name, content = _too_large(random, clips)
        path = place / name
        path.write_bytes(content)
        return _must_refuse(act, path, read)
    if act == 'unfinished':
        clips = [c for c in clips if c.kind is not None and c.expected[1] > SHORT] or clips
    clip = clips[random.integers(len(clips))]
    path = place / clip.path.name
    if act == 'renamed':
        name = f'clip{random.choice([".mp4", ".avi", ".mkv", ".bin", ".mp3", ""])}'
        path = place / (str(random.choice(ODD_NAMES)) if random.random() < 0.5 else name)
    data = bytearray(clip.path.read_bytes())
    what = f'{clip.path.name}, {act} {_spoil(act, data, clip, random) or path.name}'
    path.write_bytes(data)
    here = path.name in ODD_NAMES
    outcome = read('here', str(place), path.name) if here else read('ours', str(path))
    trial = _of_error(act, Path(path.name) if here else path, what, outcome)
    if act in ('whole', 'renamed'):
        if outcome == clip.expected or (outcome[0] == clip.expected[0] == 'error'):
            return trial or Trial(act, 'right')
        return Trial(act, 'lost', f'{what}: {outcome}, PyAV {clip.expected}')
    if act == 'cut':
        told = clip.kind is None or tells(clip.kind, len(data))
        return _of_cut(what, clip, outcome, trial, told)
    if trial is not None or outcome == clip.expected:
        return trial or Trial(act, 'right')
    damage = read('damage', str(path))
    if damage[0] == 'hang':
        raise RuntimeError(f'no reference of {what}: {damage}')
    return _of_damage(act, what, clip, outcome, damage)


def _spoil(act: str, data: bytearray, clip: Clip, random: np.random.Generator) -> str:
    """Change the bytes of a file; returns how, '' where they stay."""
    if act == 'cut':
        cut = _place_of_cut(clip, len(data), random)
        what = f'at byte {cut} of {len(data)}'
        del data[cut:]
        return what
    if act == 'flipped':
        places = random.integers(0, len(data), int(random.choice([1, 10, 100]))).tolist()
        for at in places:
            data[at] ^= int(random.integers(1, 256))
        return f'{len(places)} bytes'
    if act == 'zeroed':
        start = int(random.integers(len(data)))
        length = int(min(len(data) - start, random.choice([10, 1000, len(data) // 4])))
    elif act == 'unfinished':  # as of a download for which the place was taken before
        start = int(len(data) * random.uniform(0.1, 0.8))
        length = len(data) - start
    else:
        return ''
    data[start : start + length] = bytes(length)
    return f'{length} bytes from {start}'


def _of_cut(what: str, clip: Clip, outcome: tuple, error: Optional[Trial], told: bool) -> Trial:
    row = f'cut, {clip.kind or "shared " + clip.path.suffix}'
    if error is not None:
        return error._replace(row=row)
    if outcome == clip.expected:
        return Trial(row, 'right')
    if told:
        return Trial(row, 'silent', f'{what}: {outcome} of {clip.expected}')
    return Trial('cut, nothing tells', 'right')


def _of_damage(act: str, what: str, clip: Clip, outcome: tuple, damage: tuple) -> Trial:
    """Of a file that gave frames which are not those of the whole one.

    Bytes that differ are no fault of a reader, but what the decoder says of a picture is for all to
    see, and so is a film that ends long before the time that its header states.
    """
    if damage[0] == 'frames' and damage[1] == outcome[1] and damage[2]:
        return Trial(act, 'silent', f'{what}: {outcome}, of which {damage[2]} are damaged')
    frames = clip.expected[1]
    gone = frames - outcome[1]
    stated = clip.kind is not None and clip.kind not in ENDLESS
    if act == 'unfinished' and stated and gone > max(SHARE_GONE * frames, SECONDS_GONE * RATE):
        return Trial(act, 'silent', f'{what}: {outcome} of {clip.expected}')
    as_many = outcome[1] == clip.expected[1]
    return Trial('damaged, other pixels' if as_many else 'damaged, other frames', 'right')


def _place_of_cut(clip: Clip, size: int, random: np.random.Generator) -> int:
    """Anywhere, near the end, or at the end of a packet, where ffmpeg is content."""
    where = random.random()
    if where < 0.5 and clip.expected[0] == 'frames':
        with av.open(str(clip.path)) as container:
            ends = [p.pos + p.size for p in container.demux() if p.size and p.pos is not None]
        inside = [end for end in ends if 0 < end < size]
        if inside:
            return int(random.choice(inside))
    if where < 0.75:
        return size - int(random.integers(1, min(size, 300)))
    return int(random.integers(1, size))


def _no_video(random: np.random.Generator, clips: list[Clip], place: Path) -> tuple[str, bytes]:
    other = place / 'other.mp4'
    other.write_bytes(next(clip.path for clip in clips if clip.kind == 'mp4').read_bytes())
    texts = (
        b'',
        b'<html><body>404 not found</body></html>\n' * 20,
        random.bytes(5000),
        bytes(5000),
        b'\0\0\0\x20ftypisom' + random.bytes(4000),
        b'RIFF\xff\xff\0\0AVI LIST' + random.bytes(4000),
        b'\x1a\x45\xdf\xa3' + random.bytes(4000),
        b'FLV\x01\x05\0\0\0\x09\0\0\0\0' + random.bytes(4000),
        (b'G' + random.bytes(187)) * 40,
        # Lists that would make ffmpeg read another file in place of this one.
        b'ffconcat version 1.0\nfile other.mp4\n',
        f'ffconcat version 1.0\nfile {other}\n'.encode(),
        f'#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\n{other}\n#EXT-X-ENDLIST\n'.encode(),
        b'RIFF$\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0@\x1f\0\0\x80>\0\0\2\0\x10\0data\0\0\0\0',
    )
    suffix = random.choice(['.mp4', '.avi', '.webm', '.mkv'])
    return f'clip{suffix}', texts[random.integers(len(texts))]


def _too_large(random: np.random.Generator, clips: list[Clip]) -> tuple[str, bytes]:
    """A few bytes that say they are thousands of pixels wide."""
    if random.random() < 0.5:
        return 'large.y4m', b'YUV4MPEG2 W30000 H30000 F25:1 C420jpeg\nFRAME\n' + bytes(10000)
    path = next(clip.path for clip in clips if clip.kind == 'webm')
    data = bytearray(path.read_bytes())
    found = 0
    while (found := data.find(b'\x9d\x01\x2a', found) + 1) > 0:  # every key frame states its size
        data[found + 2 : found + 6] = (9000 << 16 | 9000).to_bytes(4, 'little')
    return 'large.webm', bytes(data)


def _no_file(random: np.random.Generator, place: Path, read: Reader) -> Trial:
    kind = random.choice(['pipe', 'folder', 'loop', 'socket', 'device', 'gone', 'null', 'below'])
    path = place / 'clip.mp4'
    if kind == 'pipe':
        os.mkfifo(path)
    elif kind == 'folder':
        path.mkdir()
    elif kind == 'loop':
        path.symlink_to(path)
    elif kind == 'socket':
        here = os.open(place, os.O_RDONLY)  # the name of a socket must be short
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(f'/proc/self/fd/{here}/clip.mp4')
        os.close(here)
    elif kind == 'device':
        path.symlink_to('/dev/zero')
    elif kind == 'null':
        path = place / 'clip\0.mp4'
    elif kind == 'below':
        (place / 'clip').write_bytes(b'')
        path = place / 'clip' / 'clip.mp4'
    return _must_refuse('no file', path, read, f'{kind}: ')


def _must_refuse(row: str, path: Path, read: Reader, what: str = '') -> Trial:
    outcome = read('ours', str(path))
    trial = _of_error(row, path, what + path.name, outcome)
    return trial or Trial(row, 'silent', f'{what}{path}: {outcome}')


def _of_error(row: str, path: Path, what: str, outcome: tuple) -> Optional[Trial]:
    """The trial, if the outcome is an error."""
    if outcome[0] == 'frames':
        return None
    detail = f'{what}: {outcome}'
    if outcome[0] == 'hang':
        return Trial(row, 'hang', detail)
    _, kind, message = outcome
    if kind != 'known':
        return Trial(row, 'raw', detail)
    if str(path) not in message:
        return Trial(row, 'nameless', detail)
    return Trial(row, 'long', detail) if len(message) > 500 else Trial(row, 'refused')


def _remove(place: Path) -> None:
    """A folder of one trial, whatever lies in it."""
    for path in sorted(place.rglob('*'), reverse=True):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    place.rmdir()


def in_words(trials: list[Trial]) -> str:
    """Rows, verdicts and what is bad."""
    rows = Counter((trial.row, trial.verdict) for trial in trials)
    lines = [f'{row}: {verdict} {number}' for (row, verdict), number in sorted(rows.items())]
    return '\n'.join(lines + [trial.detail for trial in trials if trial.detail])
