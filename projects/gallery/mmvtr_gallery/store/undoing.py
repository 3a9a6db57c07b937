"""Records that undo the last change of a store: the added ids, and the removed items."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Optional, Sequence, Union

import numpy as np
import torch

from mmvtr.errors import UserError
from mmvtr.storage import read_tensors, write_tensors
from mmvtr_gallery.store.items import (
    COLUMNS,
    Item,
    Rows,
    checked_columns,
    checked_ids,
    checked_vectors,
)
from mmvtr_gallery.store.moved import Moved

#: Maximal number of items of a change that can be undone; for a larger one nothing is kept.
MOST = 10_000
#: Kinds of changes.
KINDS = ('add', 'delete', 'replace', 'refit', 'quarantine', 'release')
#: Kind -> kind of the change that undoes it.
OPPOSITE = dict(add='delete', delete='add', quarantine='release', release='quarantine')
_OTHERS = [name for name in COLUMNS if name != 'id']


class Change(NamedTuple):
    """The last change of a store.

    Attributes:
        kind: one of :data:`KINDS`; a replacement adds and removes items.
        items: number of items that were added, removed, quarantined or released; None: all got new
            biases.
        undone: whether the change is itself an undo, so that undoing it redoes the one before.
    """

    kind: str
    items: Optional[int] = None
    undone: bool = False

    def __str__(self) -> str:
        kind = OPPOSITE.get(self.kind, self.kind) if self.undone else self.kind
        if self.items is None:
            return kind
        return f'{kind} of {self.items} {"item" if self.items == 1 else "items"}'


class Undone(NamedTuple):
    """The result of an undo.

    Attributes:
        change: the change that was undone.
        moved: how much the ranking has changed, for a refit; else None.
    """

    change: Change
    moved: Optional[Moved] = None

    def __str__(self) -> str:
        said = f'the last {self.change} is {"redone" if self.change.undone else "undone"}'
        return said if self.moved is None else f'{said}: {self.moved}'


class Reversal(NamedTuple):
    """The record that undoes a change of items.

    Attributes:
        added: ids that the change added.
        removed: items that the change removed; None: none.
        undone: see :class:`Change`; it is not part of the file.
    """

    added: list[str]
    removed: Optional[Rows] = None
    undone: bool = False

    @property
    def change(self) -> Change:
        """Return kind and size of the change that this record undoes."""
        gone = 0 if self.removed is None else len(self.removed.ids)
        kind = 'add' if not gone else 'replace' if self.added else 'delete'
        return Change(kind, gone + len(self.added), self.undone)

    def write(self, path: Path) -> None:
        """Write the record; the file appears when it is complete."""
        rows, said = self.removed, dict(added=self.added, removed=None)
        tensors = {}
        if rows is not None:
            said['removed'] = dict(ids=rows.ids, columns=rows.columns, types=rows.types)
            tensors['vectors'] = torch.from_numpy(rows.vectors)
        text = np.frombuffer(json.dumps(said).encode(), np.uint8)
        write_tensors(dict(tensors, text=torch.from_numpy(text.copy())), path)

    @classmethod
    def read(cls, path: Path, dim: int) -> 'Reversal':
        """Read the record of :meth:`write`, for vectors of width ``dim``.

        Raises:
            FileNotFoundError, RuntimeError: the file is missing or damaged.
        """
        tensors = read_tensors(path, kind='a change of a store')
        try:
            said = json.loads(bytes(tensors['text'].numpy()))
            added, rows = said['added'], said['removed']
            added = checked_ids(added) if added else []
            if rows is None:
                return cls(added)
            vectors = checked_vectors(tensors['vectors'], dim, what=path.name)
            return cls(added, rows_of(rows['ids'], vectors, rows['columns'], rows['types']))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UserError(f'{path} is damaged, or is not a change of a store') from error


def change_of(kept: Mapping[str, Any]) -> Change:
    """Return the change of a stored entry, of which older versions have no ``undone``."""
    return Change(kept['kind'], kept['items'], kept.get('undone', False))


def write_reversal(
    folder: Path, commit: int, reversal: Union[Reversal, Change, None]
) -> Optional[dict[str, Any]]:
    """Write the data that undoes a change to a store's folder; return its manifest entry.

    Args:
        folder: the store's folder.
        commit: number of the state before the change.
        reversal: the record that undoes the change, or the change if it is too large to undo.
    """
    if not isinstance(reversal, Reversal):
        return reversal and dict(reversal._asdict(), file=None)
    name, change = f'undo-{commit + 1}.safetensors', reversal.change
    reversal.write(folder / name)
    return dict(change._asdict(), file=name)


def rows_of(
    ids: Sequence[str], vectors: np.ndarray, columns: dict[str, list], types: dict[str, str]
) -> Rows:
    """Return rows from a file, validated like a user's input.

    Raises:
        ValueError: see :func:`~mmvtr_gallery.store.items.checked_columns`.
    """
    ids = checked_ids(ids)
    if len(ids) != len(vectors):
        raise ValueError(f'{len(ids)} ids and {len(vectors)} vectors, expected equally many')
    own = {name: columns[name] for name in _OTHERS}
    metadata = {name: columns[name] for name in types}
    found, kinds = checked_columns(len(ids), own, metadata, types)
    return Rows(ids, vectors, found, kinds)


def rows_of_items(items: Sequence[Item], types: dict[str, str]) -> Rows:
    """Return items with their vectors as rows that can be added again.

    Args:
        items: one or more.
        types: types of the store's metadata columns.
    """
    columns: dict[str, list[Any]] = {
        name: [getattr(item, name) for item in items] for name in _OTHERS
    }
    columns.update({name: [item.metadata.get(name) for item in items] for name in types})
    vectors = np.stack([item.vector for item in items])
    return Rows([item.id for item in items], vectors, columns, dict(types))
