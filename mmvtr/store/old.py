"""Folders of three files that galleries were kept in before there were stores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union

import numpy as np
import torch

from mmvtr.store.lifted import load_faiss
from mmvtr.store.normaliser import Normaliser

VECTORS, NORMALISER, META = 'index.faiss', 'normaliser.npz', 'index.json'


class OldIndex(NamedTuple):
    """What such a folder holds.

    Attributes:
        index: faiss.IndexFlatIP over [v, b], or over [v] where there is no normaliser.
        meta: about, dim, ids and paths.
        normaliser: or None.
    """

    index: Any
    meta: dict[str, Any]
    normaliser: Optional[Normaliser]


def read_old(folder: Union[str, Path]) -> OldIndex:
    """Read what :meth:`mmvtr.index.GalleryIndex.save` wrote.

    Raises:
        FileNotFoundError: there is no index in that folder.
        RuntimeError: its files do not belong together, or one is damaged.
    """
    folder = Path(folder)
    if not (folder / META).is_file():
        raise FileNotFoundError(f'{folder} holds no index: {META} is missing')
    meta = _read_meta(folder / META)
    _refuse_other_kinds(folder / VECTORS)
    normaliser = None
    if 'temperature' in meta:
        normaliser = _read_normaliser(
            folder / NORMALISER, meta['temperature'], meta.get('strictness', 1.0)
        )
    found = load_faiss().read_index(str(folder / VECTORS))
    expected = meta['dim'] + (normaliser is not None)
    if (found.ntotal, found.d) != (len(meta['ids']), expected):
        raise RuntimeError(
            f'{folder}: {VECTORS} holds {found.ntotal} vectors of width {found.d}, {META} says '
            f'{len(meta["ids"])} of width {expected}: a write was cut off, export again'
        )
    return OldIndex(found, meta, normaliser)


def remove_old(folder: Union[str, Path]) -> None:
    """Remove the files of an index that a store has taken the place of."""
    for name in (META, VECTORS, NORMALISER):
        Path(folder, name).unlink(missing_ok=True)


def _read_meta(path: Path) -> dict[str, Any]:
    """What is known of the items, of the kinds that it is to be."""
    try:
        meta = json.loads(path.read_text(encoding='utf-8'))
        good = (
            isinstance(meta['about'], dict)
            and type(meta['dim']) is int
            and all(isinstance(name, str) for name in meta['ids'])
            and all(isinstance(name, str) for name in meta['paths'].values())
            and all(type(meta.get(key, 1.0)) is float for key in ('temperature', 'strictness'))
        )
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise RuntimeError(f'{path} is damaged, or describes no index: export again') from error
    if not good:
        raise RuntimeError(f'{path} is damaged, or describes no index: export again')
    return meta


def _refuse_other_kinds(path: Path) -> None:
    """Of FAISS' kinds of index, some name further files, which are then opened for writing."""
    with open(path, 'rb') as file:
        kind = file.read(4)
    if kind != b'IxFI':
        raise RuntimeError(
            f'{path} is damaged, or no flat index of inner products: it begins with {kind!r}'
        )


def _read_normaliser(path: Path, temperature: float, strictness: float) -> Normaliser:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            tensors = {name: torch.from_numpy(arrays[name]) for name in arrays.files}
        return Normaliser(**tensors, temperature=temperature, strictness=strictness)
    except FileNotFoundError:
        raise
    except Exception as error:  # a damaged archive can raise anything
        raise RuntimeError(f'{path} is damaged, or no normaliser: {str(error)[:200]}') from error
