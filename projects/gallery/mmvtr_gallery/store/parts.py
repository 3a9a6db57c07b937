"""The items of a store on disk: immutable part files, and the file of the biases.

An add writes a new part and merges into it the last parts that are no larger, so that N items are
in about log N parts.  A delete rewrites the parts from the first deleted item on.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mmvtr.errors import UserError
from mmvtr.storage import read_tensors, write_atomically, write_tensors
from mmvtr_gallery.store.items import COLUMNS
from mmvtr_gallery.store.manifest import Manifest
from mmvtr_gallery.store.memory import Held


def write_items(folder: Path, old: Manifest, held: Held, unchanged: int) -> list[list[Any]]:
    """Write the items after the first ``unchanged`` ones; return the names and sizes of all parts.

    Args:
        folder: the store's folder.
        old: the valid manifest.
        held: all items.
        unchanged: number of leading items that are in the parts of ``old``.
    """
    parts, start, count = [], 0, len(held.both)
    for name, size in old.parts:
        if start + size > unchanged:
            break
        parts.append([name, size])
        start += size
    if start == count:
        return parts
    while parts and parts[-1][1] <= count - start:
        start -= parts.pop()[1]
    name = f'items-{old.commit + 1}.safetensors'
    columns = {column: values[start:] for column, values in held.columns.items()}
    text = np.frombuffer(json.dumps(columns).encode(), np.uint8)
    vectors = torch.from_numpy(held.vectors[start:])
    write_tensors(dict(vectors=vectors, text=torch.from_numpy(text.copy())), folder / name)
    return [*parts, [name, count - start]]


def write_biases(folder: Path, old: Manifest, held: Held) -> dict[str, Any]:
    """Write all biases; return the manifest's entries for them."""
    name, raw = f'biases-{old.commit + 1}.f32', np.ascontiguousarray(held.biases, '<f4').tobytes()
    write_atomically(folder / name, lambda file: file.write(raw))
    return dict(biases=name, digests={**old.digests, name: hashlib.sha256(raw).hexdigest()})


def read_items(folder: Path, manifest: Manifest) -> Held:
    """Read the items and biases of a state.

    Raises:
        FileNotFoundError, RuntimeError: a file is missing or damaged.
    """
    for name, count in manifest.parts:  # before allocating what a manifest claims
        if (folder / name).stat().st_size < count * manifest.dim:
            raise UserError(f'{folder / name} is not of its manifest: it is damaged')
    both = np.empty((manifest.count, manifest.dim + 1), np.float32)
    columns: dict[str, list] = {name: [] for name in [*COLUMNS, *manifest.types]}
    start = 0
    for name, count in manifest.parts:
        path = folder / name
        tensors = read_tensors(path, kind='items of a store')
        try:
            said = json.loads(bytes(tensors['text'].numpy()))
            vectors = tensors['vectors'].float().numpy()
            for column, values in columns.items():
                later = column in manifest.types and column not in said
                values += [None] * count if later else said[column]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UserError(f'{path} is damaged, or holds no items of a store') from error
        lengths = {len(values) for values in columns.values()}
        if vectors.shape != (count, manifest.dim) or lengths != {start + count}:
            raise UserError(f'{path} is not of its manifest: it is damaged')
        both[start : start + count, :-1] = vectors
        start += count
    both[:, -1] = _read_biases(folder, manifest)
    return Held.of(both, columns, manifest.index)


def _read_biases(folder: Path, manifest: Manifest) -> np.ndarray:
    """Return the biases, float32 [N]."""
    path, count = folder / manifest.biases, manifest.count
    raw = path.read_bytes()[: 4 * count]
    if len(raw) < 4 * count:
        raise UserError(f'{path} holds {len(raw) // 4} biases, {count} expected: it is damaged')
    # None: a store of an older version, which has no digest.
    if manifest.digests.get(manifest.biases) not in (None, hashlib.sha256(raw).hexdigest()):
        raise UserError(
            f'{path} is damaged: the biases do not have the SHA-256 that they were written with; '
            'find them anew by a refit of an undamaged copy, or export the gallery again'
        )
    return np.frombuffer(raw, '<f4')
