"""A store's Debiaser in one file, and its form in older versions."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping, Optional, Union

import numpy as np
import torch
from torch import Tensor

from mmvtr.arrays import Debiaser
from mmvtr.arrays.inputs import Bank, Geometry
from mmvtr.arrays.saved import content_of, facts_of, restored, text_of
from mmvtr.arrays.state import State
from mmvtr.errors import UserError
from mmvtr.functional.transforms.item_biases import ItemBiases
from mmvtr.functional.transforms.transform import renamed
from mmvtr.functional.transforms.transform_table import checked_options
from mmvtr.storage import read_tensors, write_tensors

#: Tensors in a file of an older version.
_EARLIER = ['queries', 'row_biases', 'strictness', 'temperature']


def write_fit(debiaser: Debiaser, path: Union[str, Path]) -> None:
    """Write a Debiaser; the file appears when it is complete.

    Args:
        debiaser: without its gallery (:meth:`mmvtr.arrays.Debiaser.without_gallery`).
        path: the file.
    """
    held = content_of(debiaser)
    text = np.frombuffer(text_of(debiaser, held).encode(), np.uint8)
    write_tensors(dict(held, facts=torch.from_numpy(text.copy())), path)


def read_fit(
    path: Union[str, Path], *, dim: int, geometry: Geometry, refit: Optional[Mapping[str, Any]]
) -> Debiaser:
    """Read what :func:`write_fit` wrote, or a file of an older version.

    Args:
        path: the file.
        dim: width of the store's vectors.
        geometry: the store's geometry.
        refit: options of the refit that wrote it, which name the transform of a file of an older
            version.

    Raises:
        FileNotFoundError: there is no such file.
        RuntimeError: it is damaged, holds something else, or is of another store.
    """
    path = Path(path)
    held = read_tensors(path, kind='normaliser')
    text = held.pop('facts', None)
    try:
        if text is None:
            found = of_rows(held, geometry, refit)
        else:
            found = restored(Debiaser, facts_of(bytes(text.numpy()), path), held, path)
            checked_options(found.transform_, found.options_)
        width = found.bank_.texts.shape[1]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UserError(f'{path} is not a normaliser: {str(error)[:120]}') from error
    if width != dim:
        raise UserError(
            f'{path} has queries of {width} dimensions, but the store has vectors of {dim}: it is '
            'damaged, or of another store'
        )
    if found.geometry != geometry:
        raise UserError(f'{path} has geometry {found.geometry}, but the store has {geometry}')
    return found


def of_rows(
    held: Mapping[str, Tensor], geometry: Geometry, refit: Optional[Mapping[str, Any]]
) -> Debiaser:
    """Return the Debiaser for an older version's row biases, whose mean is arbitrary.

    Args:
        held: ``queries`` float [K, D], ``row_biases`` [K], ``temperature``, ``strictness``, and
            for DBSN ``items`` [M, D].
        geometry: the store's geometry.
        refit: options of the refit.

    Raises:
        ValueError: the tensors' shapes do not match.
    """
    rest = {name: x for name, x in held.items() if name != 'items'}
    seen = held.get('items')
    if sorted(rest) != _EARLIER:
        raise ValueError(f'it holds {str(sorted(held))[:80]}')
    queries, rows = rest['queries'].float(), rest['row_biases'].float()
    fits = queries.ndim == 2 and rows.shape == queries.shape[:1]
    if seen is not None:
        fits = fits and seen.ndim == 2 and seen.shape[1:] == queries.shape[1:] and len(seen) > 0
    if not fits or any(rest[name].numel() != 1 for name in _EARLIER[2:]):
        raise ValueError('its tensors do not fit each other')
    numbers = {name: rest[name].item() for name in _EARLIER[2:]}
    transform = (refit or {}).get('transform')
    if transform is None:
        transform = 'unbalanced_sinkhorn' if seen is None else 'dbsn'
    known = checked_options(transform, {}).keys()
    given = {name: x for name, x in renamed(numbers).items() if name in known}
    made = Debiaser(transform, geometry=geometry, **given)
    fitted = ItemBiases(transform, checked_options(transform, given), torch.zeros(0), rows=rows)
    bank = Bank(queries, len(queries), None if seen is None else seen.float())
    made._state = State(bank=bank, fitted=fitted, why=f'{transform}: from an older store')
    return made
