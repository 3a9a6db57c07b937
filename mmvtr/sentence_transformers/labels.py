"""Who belongs to whom, from the label column of a batch."""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor

from mmvtr.models.strips import Pairs
from mmvtr.models.target import Target
from mmvtr.models.target import Target

#: The label of a hard negative: it belongs to no text.
NOBODY = -1


def with_labels(dataset: Any, by: str) -> Any:
    """A dataset with the column ``label``, in which rows of one id have one number.

    A trainer of sentence-transformers would take a column of ids for texts, and trains on it; as
    ``label`` they say which items belong together.

    Args:
        dataset: ``datasets.Dataset``.
        by: the column of ids, of any kind; it is gone afterwards.

    Returns:
        the dataset, ``label`` being int64 from 0 in the order of first occurrence.

    Raises:
        KeyError: there is no such column.

    Example:
        ::

            >>> with_labels(Dataset.from_dict(dict(id=['b', 'a', 'b'], text=list('xyz'))), 'id')
            Dataset({features: ['text', 'label'], num_rows: 3})
    """
    if by not in dataset.column_names:
        raise KeyError(f'no column {by!r}: there are {dataset.column_names}')
    ids = dataset[by]
    number: dict[Any, int] = {}
    labels = [number.setdefault(one, len(number)) for one in ids]
    return dataset.remove_columns(by).add_column('label', labels)


class Labels:
    """What the labels of a joint batch say of texts and documents.

    Args:
        texts: int64 [T].
        documents: int64 [V], :data:`NOBODY` for a hard negative.

    Attributes:
        shape: (T, V).
    """

    def __init__(self, texts: Tensor, documents: Tensor) -> None:
        self._texts, self._documents = texts, documents
        self.shape = len(texts), len(documents)

    def target(self, rows: slice = slice(None)) -> Target:
        """Positives of some texts (all) among all documents."""
        return Target(self._texts[rows, None] == self._documents)

    def pairs(self) -> Pairs:
        """The pairs that belong together, by text."""
        return Pairs.of(self.target().positives)


def checked_labels(labels: Optional[Tensor], count: int, device: torch.device) -> Tensor:
    """int64 [N], one a row of the batch; without labels each row is a pair of its own.

    Raises:
        ValueError: labels that are no whole numbers of one dimension, or negative ones.
    """
    if labels is None:
        return torch.arange(count, device=device)
    if labels.shape != (count,) or labels.is_floating_point() or labels.dtype == torch.bool:
        raise ValueError(
            f'the label column must have a whole number a row, which says what belongs together, '
            f'not {labels.dtype} {list(labels.shape)}: with_labels(dataset, ID_COLUMN) makes one'
        )
    if (labels < 0).any():
        raise ValueError(f'labels must be 0 or more, not {int(labels.min())}')
    return labels.to(device)
