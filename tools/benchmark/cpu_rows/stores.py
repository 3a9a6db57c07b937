"""Features by name from npy files and from a hdf5 file, beside their libraries alone."""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path

import numpy as np

from cpu_rows.timing import Row, beside
from mmvtr.datasets.videos.feature_stores import open_store


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
    return rows


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
