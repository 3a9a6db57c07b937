"""Search results of a fitted gallery, with the documents of its items."""

from __future__ import annotations

from typing import Any, Mapping, NamedTuple, Sequence, Union

import numpy as np

from mmvtr.arrays.debiaser import Debiaser

Documents = Union[Sequence[Any], Mapping[Any, Any]]


class Hit(NamedTuple):
    """One entry of a result list.

    Attributes:
        document: the item's document.
        debiased: the score that the list is ordered by.
        facts: ``score`` (raw), ``debiased`` and, for a calibrated Debiaser, ``probability``.
    """

    document: Any
    debiased: float
    facts: dict[str, float]


def check_documents(fitted: Debiaser, documents: Documents) -> None:
    """Raise unless there is one document for each item.

    Raises:
        TypeError: ``fitted`` is no Debiaser.
        ValueError: the numbers of documents and items differ.
    """
    if not isinstance(fitted, Debiaser):
        raise TypeError(f'fitted must be what mmvtr.fit returns, not {type(fitted).__name__}')
    if len(documents) != len(fitted):
        raise ValueError(
            f'{len(documents)} documents for {len(fitted)} fitted items, expected one per item'
        )


def hits(fitted: Debiaser, vector: Any, documents: Documents, k: int) -> list[Hit]:
    """Return the k best items for one text.

    Args:
        fitted: the result of :func:`mmvtr.fit`.
        vector: float [D], the text's vector.
        documents: by id if the Debiaser has ids, else in the order of its items.
        k: length of the list.

    Raises:
        KeyError: an id without a document.
    """
    found = fitted.search(np.asarray(vector, dtype=np.float32)[None], k)
    columns = dict(score=found.scores[0], debiased=found.debiased[0])
    if found.probabilities is not None:
        columns['probability'] = found.probabilities[0]
    return [
        Hit(documents[key], float(debiased), {name: float(x[n]) for name, x in columns.items()})
        for n, (key, debiased) in enumerate(zip(found.ids[0], found.debiased[0]))
    ]
