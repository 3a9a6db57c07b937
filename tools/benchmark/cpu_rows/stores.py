"""Features from npy files and a hdf5 file, and frames, beside their libraries alone."""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path

import cv2
import numpy as np

from cpu_rows.media import write_clip
from cpu_rows.timing import Row, beside
from mmvtr.datasets.videos.feature_stores import open_store
from mmvtr.datasets.videos.frame_store import FrameStore, Settings, write_settings, write_shard


def stores(quick: bool, repeats: int) -> list[Row]:
    """A pass over all items by a store that is open: what an epoch reads."""
    count = 20 if quick else 5_000
    features = np.random.default_rng(0).standard_normal((count, 12, 512), dtype='float32')
    names = [f'video{i}' for i in range(count)]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        npy = Path(folder) / 'npy'
        npy.mkdir()
        for name, x in zip(names, features):
            np.save(npy / f'{name}.npy', x)
        store = open_store(npy)
        rows += beside(
            f'{count:,} items of a npy folder',
            lambda: sum(float(store.read(name)[0, 0]) for name in names),
            {'np.load': lambda: sum(float(np.load(npy / f'{n}.npy')[0, 0]) for n in names)},
            repeats,
            lambda a, b: 'sums equal' if a == b else 'sums differ',
        )
        if importlib.util.find_spec('h5py'):
            rows += _hdf5(Path(folder) / 'x.hdf5', names, features, repeats)
        rows += _frames(Path(folder) / 'frames', 2 if quick else 20, repeats)
    return rows


def _frames(folder: Path, clips: int, repeats: int) -> list[Row]:
    """A store of clips, and the same pictures as files."""
    folder.mkdir()
    clip = str(folder / 'clip.mp4')
    write_clip(clip, (320, 240, 12), 12)
    settings = Settings(size=224, quality=95, fps=None)
    write_settings(folder, settings)
    videos = [dict(video_id=f'video{i}', path=clip) for i in range(clips)]
    write_shard(folder, '000000', videos, settings)
    store, files = FrameStore(folder), []
    for video in videos:
        for i, picture in enumerate(store.read(video, lambda times: np.arange(len(times)))):
            files.append(str(folder / f'{video["video_id"]}.{i}.jpg'))
            cv2.imwrite(files[-1], picture[..., ::-1], [cv2.IMWRITE_JPEG_QUALITY, 95])
    return beside(
        f'{len(files)} pictures of a frame store',
        lambda: sum(
            int(x[0, 0, 0]) >= 0
            for video in videos
            for x in store.read(video, lambda times: np.arange(len(times)))
        ),
        {'cv2.imread': lambda: sum(
            int(cv2.cvtColor(cv2.imread(x), cv2.COLOR_BGR2RGB)[0, 0, 0]) >= 0 for x in files
        )},
        repeats,
        lambda a, b: 'as many' if a == b else f'{a} and {b}',
    )  # fmt: skip


def _hdf5(path: Path, names: list[str], features: np.ndarray, repeats: int) -> list[Row]:
    import h5py

    with h5py.File(path, 'w') as file:
        for name, x in zip(names, features):
            file[name] = x
    store = open_store(path)
    with h5py.File(path) as file:
        return beside(
            f'{len(names):,} items of a hdf5 file',
            lambda: sum(float(store.read(name)[0, 0]) for name in names),
            {'h5py': lambda: sum(float(file[name][()][0, 0]) for name in names)},
            repeats,
            lambda a, b: 'sums equal' if a == b else 'sums differ',
        )
