"""What gives each item of a gallery its bias, and how that is stored."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Optional, Union

import torch
from torch import Tensor

from mmvtr.functional.similarities.distinct import distinct_rows
from mmvtr.functional.similarities.tiles import inner_products
from mmvtr.functional.transforms.dual_banks import dbsn_rows
from mmvtr.functional.transforms.sinkhorn import column_biases, sinkhorn
from mmvtr.functional.transforms.transform_table import STORED, transform_named
from mmvtr.storage import read_tensors, write_tensors


class Normaliser(NamedTuple):
    """What gives each gallery item its bias, and further ones theirs without redoing the others.

    Attributes:
        queries: float32 [K, D], the bank; of equal ones the first.
        row_biases: float32 [K], fixed, with exp(row_biases / temperature) of sum one.
        temperature: divides scores.
        strictness: multiplies the biases (:func:`mmvtr.functional.sinkhorn`); 1 = Sinkhorn.
        items: of DBSN: float32 [M, D], seen before, so that other queries find new row biases with
            them; None: of another transform, or of a file of before.
    """

    queries: Tensor
    row_biases: Tensor
    temperature: float
    strictness: float = 1.0
    items: Optional[Tensor] = None

    @classmethod
    def fit(
        cls,
        queries: Tensor,
        gallery: Tensor,
        *,
        transform: str,
        temperature: float,
        iterations: Optional[int] = None,
        strictness: float = 0.8,
        items: Optional[Tensor] = None,
    ) -> 'Normaliser':
        """Row biases of a bank by a gallery.

        Args:
            queries: float [K, D], whose device computes; equal ones count once.
            gallery: float [N, D].
            transform: ``'sinkhorn'``, ``'unbalanced_sinkhorn'``, ``'inverted_softmax'``: all rows
                alike, or ``'dbsn'``.
            temperature: positive.
            iterations: of Sinkhorn-Knopp; None = the transform's own default, 4 of Sinkhorn (as in
                the paper), 10 of the unbalanced one and of DBSN.
            strictness: of the unbalanced one.
            items: of DBSN: float [M, D], seen before, such as those that the queries have found;
                equal ones count once.

        Raises:
            ValueError: an unknown transform, DBSN without items or items of another, an empty bank
                or gallery, a bank of another width, an entry that is not finite, a temperature that
                is not positive.
        """
        named = transform_named(transform, STORED)
        if queries.shape[1] != gallery.shape[1]:
            raise ValueError(
                f'the bank queries have {queries.shape[1]} dimensions, the gallery '
                f'{gallery.shape[1]}: the bank is of another model'
            )
        if ('bank_gallery' in named.reads) != (items is not None):
            raise ValueError(
                f'items seen before belong to dbsn: got transform={transform!r} and '
                f'{"no" if items is None else len(items)} items; without them name another, '
                f"such as transform='sinkhorn'"
            )
        options = named.sinkhorn_options(iterations=iterations, strictness=strictness)
        queries = queries[distinct_rows(queries).to(queries.device)]
        items = None if items is None else items[distinct_rows(items).to(items.device)]
        bank = inner_products(queries, gallery)._replace(name='bank')
        # Sum one, also for the inverted softmax, bounds every bias by the largest |score|, whatever
        # the temperature: float32 then ranks the sums as finely as the scores.
        if items is None:
            rows = sinkhorn(bank, temperature=temperature, **options).rows
        else:
            seen, rounds = inner_products(queries, items), options['iterations']
            rows = dbsn_rows(bank, seen, temperature=temperature, iterations=rounds)
        return cls(queries, rows, temperature, options['strictness'], items)

    def biases(self, gallery: Tensor) -> Tensor:
        """float [N, D] -> float32 [N]; that of an item depends on no other item."""
        scores = inner_products(self.queries, gallery)
        full = column_biases(scores, self.row_biases, temperature=self.temperature)
        return self.strictness * full

    def write(self, path: Union[str, Path]) -> None:
        """Write it as tensors; the file appears when it is complete."""
        numbers = dict(temperature=self.temperature, strictness=self.strictness)
        numbers = {name: torch.tensor(x, dtype=torch.float64) for name, x in numbers.items()}
        seen = {} if self.items is None else dict(items=self.items)
        write_tensors(
            dict(queries=self.queries, row_biases=self.row_biases, **numbers, **seen), path
        )

    @classmethod
    def read(cls, path: Union[str, Path]) -> 'Normaliser':
        """What :meth:`write` wrote.

        Raises:
            FileNotFoundError: there is no such file.
            RuntimeError: it is damaged, or holds something else.
        """
        tensors = read_tensors(path, kind='normaliser')
        seen = tensors.pop('items', None)
        if sorted(tensors) != ['queries', 'row_biases', 'strictness', 'temperature']:
            raise RuntimeError(f'{path} is no normaliser: it holds {str(sorted(tensors))[:80]}')
        queries, rows, *numbers = (
            tensors[name] for name in ('queries', 'row_biases', 'temperature', 'strictness')
        )
        fits = queries.ndim == 2 and rows.shape == queries.shape[:1]
        if seen is not None:
            fits = fits and seen.ndim == 2 and seen.shape[1:] == queries.shape[1:] and len(seen) > 0
            seen = seen.float()
        if not fits or any(x.numel() != 1 for x in numbers):
            raise RuntimeError(f'{path} is no normaliser: its tensors do not fit each other')
        return cls(queries.float(), rows.float(), *(x.item() for x in numbers), seen)

    def check(self, dim: int, path: Union[str, Path]) -> None:
        """Raise RuntimeError unless its queries have the width of a store's vectors."""
        if self.queries.shape[1] != dim:
            raise RuntimeError(
                f'{path} has queries of {self.queries.shape[1]} dimensions, the store vectors of '
                f'{dim}: it is damaged, or of another store'
            )
