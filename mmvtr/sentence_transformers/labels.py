"""Matches of texts and documents from the label column of a batch."""

from __future__ import annotations

import warnings
from typing import Any, Callable, Optional, Sequence

import torch
from torch import Tensor

from mmvtr.errors import UnknownKey
from mmvtr.models.blocks import Pairs
from mmvtr.models.target import Target

#: Label of a hard negative, which matches no text.
NOBODY = -1
#: Minimum rows per label at which a batch is said to have few labels.
FEW = 4


def with_labels(dataset: Any, by: str) -> Any:
    """Return a dataset with a column ``label``: rows with the same id have the same number.

    A trainer of sentence-transformers would treat a column of ids as texts and train on it; as
    ``label`` they state which items match.

    Args:
        dataset: ``datasets.Dataset``.
        by: the column of ids, of any type; it is removed.

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
        raise UnknownKey(f'no column {by!r}: there are {dataset.column_names}')
    ids = dataset[by]
    number: dict[Any, int] = {}
    labels = [number.setdefault(x, len(number)) for x in ids]
    return dataset.remove_columns(by).add_column('label', labels)


def pairs_dataset(
    texts: Sequence[str],
    documents: Sequence[Any],
    ids: Optional[Sequence[Any]] = None,
    *,
    read: Optional[Callable[[Any], Any]] = None,
) -> Any:
    """Return a dataset of texts and their videos or images, read when accessed.

    Args:
        texts: N texts.
        documents: one document per text, in the model's input form (frames uint8 [F, 3, H, W] ...),
            or an input of ``read``, such as a path.
        ids: one id per pair; rows with the same id match. Default: all different.
        read: function from an entry of ``documents`` to the document.

    Returns:
        ``datasets.Dataset`` with the columns ``text``, ``document`` and, with ids, ``label``.

    Raises:
        ValueError: lengths differ.

    Example:
        ::

            >>> frames = lambda path: np.stack(read_frames(path, select)).transpose(0, 3, 1, 2)
            >>> data = pairs_dataset(captions, paths, ids=video_ids, read=frames)
    """
    from datasets import Dataset

    lengths = [len(one) for one in (texts, documents, ids) if one is not None]
    if len({*lengths}) > 1:
        raise ValueError(f'texts, documents and ids must be equally many, not {lengths}')
    columns = dict(text=list(texts), document=[*range(len(documents))])
    data = Dataset.from_dict(columns if ids is None else dict(columns, id=[*map(str, ids)]))
    data = data if ids is None else with_labels(data, 'id')

    def with_documents(rows: dict[str, Any]) -> dict[str, Any]:
        if 'document' not in rows:
            return rows
        accessed = [documents[place] for place in rows['document']]
        return dict(rows, document=accessed if read is None else [read(x) for x in accessed])

    return data.with_transform(with_documents)


class Labels:
    """Matches of texts and documents in a joint batch, by label.

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
        """Return the positives of some (default: all) texts among all documents."""
        return Target(self._texts[rows, None] == self._documents)

    def pairs(self) -> Pairs:
        """Return the matching pairs, by text."""
        return Pairs.of(self.target().positives)


def checked_labels(labels: Optional[Tensor], count: int, device: torch.device) -> Tensor:
    """Return a label per row, int64 [N]; without labels each row is a separate pair.

    Raises:
        ValueError: labels that are not a one-dimensional integer tensor, or negative ones.
    """
    if labels is None:
        return torch.arange(count, device=device)
    if labels.shape != (count,) or labels.is_floating_point() or labels.dtype == torch.bool:
        raise ValueError(
            'the label column must have one whole number per row, which says what belongs '
            f'together, not {labels.dtype} {list(labels.shape)}: with_labels(dataset, ID_COLUMN) '
            'makes one'
        )
    if (labels < 0).any():
        raise ValueError(f'labels must be 0 or more, not {int(labels.min())}')
    return labels.to(device)


def warn_of_few(labels: Tensor) -> bool:
    """Warn if labels make most of a batch's pairs matches; return whether they do.

    Args:
        labels: int64 [N], labels of the joint batch.
    """
    count, rows = len(labels.unique()), len(labels)
    if rows < 2 * FEW or count * FEW > rows:
        return False
    reason = (
        'all rows have one label, so that no document is a negative and nothing is learned'
        if count == 1
        else f'{rows} rows have {count} labels: {rows / count:.0f} documents match each text'
    )
    warnings.warn(
        f'{reason}: the column `label` says which rows belong together (the id of the video, by '
        'with_labels(dataset, COLUMN)), not whether a pair matches nor of which class it is; '
        'without the column each row is a pair of its own',
        stacklevel=2,
    )
    return True
