"""Files of scores, of stored frames and of vectors, spoiled: refused in words, or read as sound.

Annotation files are in :mod:`campaign.mutations`; here are formats that are no annotations.  What
is read must be of the shapes that it was written with, and finite; where a format has checksums
(npz) it must be equal.
"""

from __future__ import annotations

import shutil
import tarfile
from itertools import cycle, islice
from pathlib import Path
from random import Random
from typing import Any, Callable, NamedTuple

import cv2
import numpy as np
import torch

from campaign.mutations import LONGEST, SECONDS, Hang, in_time
from campaign.spoiled import spoil
from campaign.trial import Trial
from mmvtr.datasets import BrokenVideoError
from mmvtr.datasets.videos.feature_stores import NpyFolder
from mmvtr.datasets.videos.frame_store import SETTINGS, FrameStore, Settings, _write_json
from mmvtr.engine.hooks.stored_queries import read_bank
from mmvtr.errors import UnknownKey, UserError
from mmvtr.models.towers.features import read_vectors
from mmvtr.storage import write_plain
from score_files.reading import read_score_file

SCORES = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
TEXTS, VIDEOS = ['t1', 't2', 'täxt'], ['a', 'b', 'c', 'd']
#: Errors in words.
OF_OURS = (UserError, UnknownKey, BrokenVideoError)
IN_WORDS = (ValueError, FileNotFoundError, KeyError, RuntimeError, *OF_OURS)


class Format(NamedTuple):
    """A file, and what is read from it.

    Attributes:
        file: its name in a folder.
        write: writes it, and what stands beside it.
        read: what is in the folder, as arrays by name.
        equal: whether what is accepted must be equal to what was written: it has a checksum.
    """

    file: str
    write: Callable[[Path], Any]
    read: Callable[[Path], dict[str, Any]]
    equal: bool = False


def _archive(save: Callable[..., None], path: Path) -> None:
    save(path / 'x.npz', scores=SCORES, text_ids=TEXTS, video_ids=VIDEOS)


def _scores(name: str, folder: Path) -> dict[str, Any]:
    found = read_score_file(folder / name)
    return dict(scores=found.scores.t2v.numpy(), ids=list(map(len, found.ids)))


def _frames(folder: Path) -> None:
    picture = cv2.imencode('.jpg', np.full((16, 16, 3), 90, np.uint8))[1].tobytes()
    clips = []
    with tarfile.open(folder / '000000.tar', 'w') as tar:
        for name in 'ab':
            begin = tar.offset + tarfile.BLOCKSIZE
            info = tarfile.TarInfo(f'{name}.000000.jpg')
            info.size = len(picture)
            with open(folder / 'picture.jpg', 'w+b') as file:
                file.write(picture)
                file.seek(0)
                tar.addfile(info, file)
            times, places = [0.5], [[begin, len(picture)]]
            about = dict(id=name, start=None, end=None, height=16, width=16)
            clips.append(dict(about, times=times, places=places))
    size = (folder / '000000.tar').stat().st_size
    _write_json(folder / '000000.json', dict(bytes=size, clips=clips))
    _write_json(folder / SETTINGS, Settings(None, 90, None)._asdict())


def _read_frames(folder: Path) -> dict[str, Any]:
    store = FrameStore(folder)
    videos = [dict(video_id=name) for name in 'ab']
    store.check(videos)
    read = {v['video_id']: store.read(v, lambda times: np.arange(len(times)))[0] for v in videos}
    return dict(read, settings=[len(store.settings)])


def _bank(folder: Path) -> None:
    level = dict(mean=torch.ones(3, 2), tokens=None, mask=None, log_std=None)
    side = dict(levels={'global': level}, index=torch.arange(3), video=torch.arange(3))
    write_plain(dict(text=side, video=side), folder / 'bank.pth')


FORMATS = {
    'scores .npy': Format(
        'x.npy', lambda f: np.save(f / 'x.npy', SCORES), lambda f: _scores('x.npy', f)
    ),
    'scores .npz': Format(
        'x.npz', lambda f: _archive(np.savez, f), lambda f: _scores('x.npz', f), True
    ),
    'scores .npz, packed': Format(
        'x.npz', lambda f: _archive(np.savez_compressed, f), lambda f: _scores('x.npz', f), True
    ),
    'features .npy': Format(
        'a.npy',
        lambda f: np.save(f / 'a.npy', SCORES),
        lambda f: dict(features=NpyFolder(f).read('a')),
    ),
    'index of stored frames': Format('000000.json', _frames, _read_frames),
    'settings of stored frames': Format(SETTINGS, _frames, _read_frames),
    'word vectors .npy': Format(
        'v.npy',
        lambda f: np.save(f / 'v.npy', SCORES),
        lambda f: dict(vectors=read_vectors(f / 'v.npy', 3, 4).numpy()),
    ),
    'bank': Format(
        'bank.pth',
        _bank,
        lambda f: dict(mean=read_bank(str(f / 'bank.pth'))['text'].levels['global'].mean.numpy()),
        True,
    ),
}


def run(count: int, seed: int, folder: Path) -> list[Trial]:
    """Spoil and read, the formats in turn; mutation n of a seed is the same for any ``count``."""
    return [
        trial(row, FORMATS[row], f'{seed}-{n}', folder)
        for n, row in enumerate(islice(cycle(FORMATS), count))
    ]


def trial(row: str, form: Format, name: str, folder: Path) -> Trial:
    """One mutation and its verdict."""
    here = folder / name
    here.mkdir(parents=True)
    try:
        form.write(here)
        expected = form.read(here)
        way = spoil(Random(name), here / form.file)
        verdict, detail = judge(form, here, expected)
    finally:
        shutil.rmtree(here)
    return Trial(row, verdict, f'{name} {form.file} {way}: {detail}'[:2000])


def judge(form: Format, folder: Path, expected: dict[str, Any]) -> tuple[str, str]:
    """Read a folder in which one file is spoiled: a verdict, and what came."""
    try:
        with in_time(SECONDS):
            found = form.read(folder)
    except Hang:
        return 'hang', f'no end in {SECONDS} s'
    except IN_WORDS as error:
        message = str(error.args[0] if isinstance(error, KeyError) and error.args else error)
        detail = f'{type(error).__name__}: {message}'
        if type(error) not in IN_WORDS:
            return 'raw', detail
        if len(message) > LONGEST:
            return 'long', detail
        # Where a name was changed, the store lacks the video: the folder is what is named.
        names = (form.file, Path(form.file).with_suffix('.tar').name, f'{folder}: no frames of')
        return ('refused' if any(name in message for name in names) else 'nameless'), detail
    except Exception as error:
        return 'raw', f'{type(error).__name__}: {error}'
    unsound = _unsound(found, expected, form.equal)
    return ('silent', unsound) if unsound else ('right', '')


def _unsound(found: Any, expected: dict[str, Any], equal: bool) -> str:
    """What is wrong with what was accepted; '' if nothing is."""
    if not isinstance(found, dict) or not expected.keys() <= found.keys():
        return f'found {found!r:.300}'
    for key, value in expected.items():
        try:
            other = np.asarray(found[key], float)
        except (TypeError, ValueError):
            return f'{key} is {found[key]!r:.300}'
        sound = other.shape == np.shape(value) and np.isfinite(other).all()
        if not sound or equal and not (other == value).all():
            return f'{key} is {other!r:.300}'
    return ''
