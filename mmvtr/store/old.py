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
    meta = json.loads((folder / META).read_text(encoding='utf-8'))
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


def _read_normaliser(path: Path, temperature: float, strictness: float) -> Normaliser:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            tensors = {name: torch.from_numpy(arrays[name]) for name in arrays.files}
        return Normaliser(**tensors, temperature=temperature, strictness=strictness)
    except FileNotFoundError:
        raise
    except Exception as error:  # a damaged archive can raise anything
        raise RuntimeError(f'{path} is damaged, or no normaliser: {str(error)[:200]}') from error
