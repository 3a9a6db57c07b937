r"""Convert the TBN features of EPIC-KITCHENS-100 to one hdf5 file with an array per clip.

    python tools/dataset_converters/epic_tbn.py data/epic/features/tbn.h5 \
        --part features_train.pkl data/epic/retrieval_annotations/EPIC_100_retrieval_train.csv \
        --part features_test.pkl data/epic/retrieval_annotations/EPIC_100_retrieval_test.csv

The pickles are those of the C5 challenge: ``RGB``, ``Flow`` and ``Audio``, each [n, 25, 1024], in
the order of the csv's rows.  The file holds float32 [25, 3072], the three concatenated, by
narration_id.  As pickles can run code, they are read by an unpickler that builds only arrays. Each
pickle is loaded into memory as a whole (the training one is 21 GB), one at a time.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Sequence

from mmvtr.cli.start import tool

import h5py
import numpy as np

from mmvtr.cli import Parser
from mmvtr.datasets.annotation_files import read_column
from mmvtr.datasets.annotation_values import Place
from mmvtr.datasets.pickles import read_pickle, text_of
from mmvtr.storage.arrays import new_hdf5

MODALITIES = ('RGB', 'Flow', 'Audio')


def parse_args() -> argparse.Namespace:
    parser = Parser(__doc__)
    parser.add_argument('out', type=Path, help='hdf5 file to write')
    parser.add_argument(
        '--part',
        nargs=2,
        type=Path,
        action='append',
        required=True,
        metavar=('PKL', 'CSV'),
        help='features of a split, and its annotation table; once for each split',
    )
    return parser.parse_args()


def read_features(path: Path) -> list[np.ndarray]:
    """Return the three arrays of a pickle, float [n, F, D] with the same n and F.

    Raises:
        FileNotFoundError: no such file.
        ValueError: the pickle has another content.
    """
    content = read_pickle(path, 'arrays', arrays=True)
    if isinstance(content, dict):  # python 2 pickles have bytes as keys
        content = {text_of(key, Place(path)): value for key, value in content.items()}
    found = sorted(content) if isinstance(content, dict) else type(content).__name__
    if not isinstance(content, dict) or any(name not in content for name in MODALITIES):
        raise ValueError(f'{path}: expected a dict of {list(MODALITIES)}, found {found}')
    arrays = [content[name] for name in MODALITIES]
    for name, array in zip(MODALITIES, arrays):
        if not isinstance(array, np.ndarray) or array.dtype.kind != 'f' or array.ndim != 3:
            raise ValueError(f'{path}: {name} is not a float array [clips, rows, width]')
    if len({array.shape[:2] for array in arrays}) > 1:
        shapes = {name: array.shape for name, array in zip(MODALITIES, arrays)}
        raise ValueError(f'{path}: expected as many clips and rows in each, found {shapes}')
    return arrays


def convert(out: Path, parts: Sequence[tuple[Path, Path]]) -> int:
    """Write the features of all parts; return the number of clips.

    The file appears when it is complete.

    Raises:
        FileExistsError: ``out`` exists.
        FileNotFoundError: no such pickle or csv.
        ValueError: a malformed pickle, different numbers of clips in pickle and csv, a repeated
            clip.
    """
    if out.exists():
        raise FileExistsError(f'{out} is there already')
    with new_hdf5(out) as file:
        for features, table in parts:
            _add(file, features, table)
        return len(file)


def _add(file: h5py.File, features: Path, table: Path) -> None:
    names = read_column(table, 'narration_id')
    arrays = read_features(features)
    if len(names) != len(arrays[0]):
        raise ValueError(f'{features} has {len(arrays[0])} clips, {table} {len(names)} rows')
    for i, name in enumerate(names):
        if name in file:
            raise ValueError(f'{table}: a second clip {name!r}, the first is in another part')
        file[name] = np.concatenate([array[i] for array in arrays], axis=-1).astype(np.float32)


@tool
def main() -> None:
    args = parse_args()
    count = convert(args.out, args.part)
    print(f'{args.out}: {count} clips')


if __name__ == '__main__':
    main()
