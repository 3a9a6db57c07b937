"""A gallery that plain inner-product search ranks as normalised scores would (needs faiss).

NCL's ``s(t, v) + b_v`` (Park et al. 2022, Eq. 6) is one inner product, of ``[v, b_v]`` and
``[t, 1]``: so the bias of a video is one more dimension of its vector.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Optional, Sequence, Union

try:
    import faiss
except ImportError:
    raise ImportError('an index needs faiss: pip install -e ".[index]"') from None

import numpy as np
import torch
from torch import Tensor

from mmvtr.functional.sinkhorn import column_biases, sinkhorn
from mmvtr.functional.tiles import inner_products

TRANSFORMS = ('sinkhorn', 'unbalanced_sinkhorn', 'inverted_softmax')

_VECTORS, _NORMALISER, _META = 'index.faiss', 'normaliser.npz', 'index.json'


class Normaliser(NamedTuple):
    """What gives each gallery item its bias, and further ones theirs without redoing the others.

    Attributes:
        queries: float32 [K, D], the bank.
        row_biases: float32 [K], fixed, with exp(row_biases / temperature) of sum one.
        temperature: divides scores.
        strictness: multiplies the biases (:func:`mmvtr.functional.sinkhorn`); 1 = Sinkhorn.
    """

    queries: Tensor
    row_biases: Tensor
    temperature: float
    strictness: float = 1.0

    @classmethod
    def fit(
        cls,
        queries: Tensor,
        gallery: Tensor,
        *,
        transform: str,
        temperature: float,
        iterations: int = 4,
        strictness: float = 0.8,
    ) -> 'Normaliser':
        """Row biases of a bank by a gallery.

        Args:
            queries: float [K, D], whose device computes.
            gallery: float [N, D].
            transform: ``'sinkhorn'``, ``'unbalanced_sinkhorn'``, or ``'inverted_softmax'``: all
                rows alike.
            temperature: positive.
            iterations: of Sinkhorn-Knopp (paper: 4).
            strictness: of the unbalanced one.

        Raises:
            ValueError: an unknown transform, an empty bank or gallery, a bank of another width, an
                entry that is not finite, a temperature that is not positive.
        """
        if transform not in TRANSFORMS:
            raise ValueError(f'transform must be one of {TRANSFORMS}, not {transform!r}')
        if queries.shape[1] != gallery.shape[1]:
            raise ValueError(
                f'the bank queries have {queries.shape[1]} dimensions, the gallery '
                f'{gallery.shape[1]}: the bank is of another model'
            )
        strictness = strictness if transform == 'unbalanced_sinkhorn' else 1.0
        # Sum one, also for the inverted softmax, bounds every bias by the largest |score|, whatever
        # the temperature: float32 then ranks the sums as finely as the scores.
        biases = sinkhorn(
            inner_products(queries, gallery)._replace(name='bank'),
            temperature=temperature,
            iterations=0 if transform == 'inverted_softmax' else iterations,
            strictness=strictness,
        )
        return cls(queries, biases.rows, temperature, strictness)

    def biases(self, gallery: Tensor) -> Tensor:
        """float [N, D] -> float32 [N]; that of an item depends on no other item."""
        scores = inner_products(self.queries, gallery)
        full = column_biases(scores, self.row_biases, temperature=self.temperature)
        return self.strictness * full


class Hits(NamedTuple):
    """The k best items of each of Q queries, best first.

    Attributes:
        ids: Q lists of k ids.
        scores: float32 [Q, k], with the bias where the index has one.
    """

    ids: list[list[str]]
    scores: Tensor


class GalleryIndex:
    """Vectors of a gallery, searched exactly by inner product.

    Args:
        dim: D of the vectors.
        normaliser: gives each item its bias; None: scores as they are.
        about: where the vectors come from, in types that json knows; saved along.

    Attributes:
        ids: of the N items, in the order in which they were added.
        paths: files of the items, by id, as far as they are known.

    Example:
        ::

            >>> index = GalleryIndex.load('DIR')  # made by tools/export_index.py
            >>> model, cfg = load_retriever('DIR/config.json', index.about['checkpoint'])
            >>> texts = encode_texts(model, cfg, ['a cyan cross bounces'])
            >>> index.search(vectors(model, texts.levels), k=3).ids
    """

    def __init__(
        self,
        dim: int,
        *,
        normaliser: Optional[Normaliser] = None,
        about: Optional[Mapping[str, Any]] = None,
    ) -> None:
        self.dim = dim
        self.normaliser = normaliser
        self.about = dict(about or {})
        self.ids: list[str] = []
        self.paths: dict[str, str] = {}
        self._vectors = faiss.IndexFlatIP(dim + (normaliser is not None))

    def __len__(self) -> int:
        return len(self.ids)

    def add(
        self, ids: Sequence[str], vectors: Tensor, *, paths: Optional[Mapping[str, str]] = None
    ) -> None:
        """Add items; the biases of those that are there stay as they are.

        Args:
            ids: N new ones.
            vectors: float [N, D].
            paths: files by id, for whoever shows results.

        Raises:
            ValueError: an id that occurs twice or is there already, not one vector an id, vectors
                of another width or with entries that are not finite.
        """
        ids = list(ids)
        twice = [name for name, count in Counter(self.ids + ids).items() if count > 1]
        if twice:
            raise ValueError(f'{len(twice)} ids occur twice in the index, e.g. {twice[:5]}')
        vectors = self._checked(vectors)
        if len(ids) != len(vectors):
            raise ValueError(f'one vector an id expected: {len(ids)} ids, {len(vectors)} vectors')
        extra = None if self.normaliser is None else self.normaliser.biases(vectors).cpu()
        self._vectors.add(_with(vectors, extra))
        self.ids += ids
        self.paths.update({name: paths[name] for name in ids if name in (paths or {})})

    def search(self, queries: Tensor, *, k: int = 10) -> Hits:
        """The k best items of each query, or all if there are fewer.

        Args:
            queries: float [Q, D].
            k: 1 or more.

        Raises:
            ValueError: an empty index, k < 1, queries of another width or not finite.
        """
        if k < 1:
            raise ValueError(f'k must be 1 or more, not {k}')
        if not self.ids:
            raise ValueError('the index is empty')
        queries = self._checked(queries)
        ones = None if self.normaliser is None else torch.ones(len(queries))
        scores, rows = self._vectors.search(_with(queries, ones), min(k, len(self.ids)))
        ids = [[self.ids[row] for row in hits] for hits in rows.tolist()]
        return Hits(ids, torch.from_numpy(scores))

    def _checked(self, vectors: Tensor) -> Tensor:
        """The same in float32 on the CPU."""
        if vectors.dim() != 2 or vectors.shape[1] != self.dim:
            raise ValueError(f'the index holds vectors [N, {self.dim}], not {list(vectors.shape)}')
        wrong = (~vectors.isfinite().all(1)).nonzero().flatten().tolist()
        if wrong:
            raise ValueError(f'vector {wrong[0]} is not finite')
        return vectors.detach().to('cpu', torch.float32)

    def save(self, folder: Union[str, Path]) -> None:
        """Write the index; its files take their places when all of them are complete."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        meta = dict(about=self.about, dim=self.dim, ids=self.ids, paths=self.paths)
        names = [_VECTORS, _META]
        faiss.write_index(self._vectors, str(_part(folder, _VECTORS)))
        if self.normaliser is not None:
            names.insert(0, _NORMALISER)
            queries, row_biases, meta['temperature'], meta['strictness'] = self.normaliser
            with open(_part(folder, _NORMALISER), 'wb') as file:
                np.savez(file, queries=queries.cpu().numpy(), row_biases=row_biases.cpu().numpy())
        _part(folder, _META).write_text(json.dumps(meta, indent=1), encoding='utf-8')
        for name in names:
            os.replace(_part(folder, name), folder / name)

    @classmethod
    def load(cls, folder: Union[str, Path]) -> 'GalleryIndex':
        """Read what :meth:`save` wrote.

        Raises:
            FileNotFoundError: there is no index in that folder.
            RuntimeError: its files do not belong together, or one is damaged.
        """
        folder = Path(folder)
        if not (folder / _META).is_file():
            raise FileNotFoundError(f'{folder} holds no index: {_META} is missing')
        meta = json.loads((folder / _META).read_text(encoding='utf-8'))
        normaliser = None
        if 'temperature' in meta:
            numbers = (meta['temperature'], meta.get('strictness', 1.0))
            normaliser = _read_normaliser(folder / _NORMALISER, *numbers)
        index = cls(meta['dim'], normaliser=normaliser, about=meta['about'])
        found, expected = faiss.read_index(str(folder / _VECTORS)), index._vectors.d
        if (found.ntotal, found.d) != (len(meta['ids']), expected):
            raise RuntimeError(
                f'{folder}: {_VECTORS} holds {found.ntotal} vectors of width {found.d}, {_META} '
                f'says {len(meta["ids"])} of width {expected}: a write was cut off, export again'
            )
        index._vectors, index.ids, index.paths = found, meta['ids'], meta['paths']
        return index


def _read_normaliser(path: Path, temperature: float, strictness: float) -> Normaliser:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            tensors = {name: torch.from_numpy(arrays[name]) for name in arrays.files}
        return Normaliser(**tensors, temperature=temperature, strictness=strictness)
    except FileNotFoundError:
        raise
    except Exception as error:  # a damaged archive can raise anything
        raise RuntimeError(f'{path} is damaged, or no normaliser: {str(error)[:200]}') from error


def _with(vectors: Tensor, extra: Optional[Tensor]) -> np.ndarray:
    """Vectors with one more dimension, as faiss wants them."""
    if extra is not None:
        vectors = torch.cat((vectors, extra[:, None]), dim=1)
    return np.ascontiguousarray(vectors.numpy())


def _part(folder: Path, name: str) -> Path:
    """Where a file is written before it takes its place."""
    return folder / f'{name}.part'
