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

from mmvtr.store.manifest import NAME
from mmvtr.store.normaliser import Normaliser
from mmvtr.store.old import META, NORMALISER, VECTORS, read_old

__all__ = ['GalleryIndex', 'Hits', 'Normaliser']


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

            >>> index = GalleryIndex(512)
            >>> index.add(videos.ids, vectors(model, videos.levels))
            >>> index.search(vectors(model, texts.levels), k=3).ids

    What tools/export_index.py makes is a store: :func:`mmvtr.store.open_store`.
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
        names = [VECTORS, META]
        faiss.write_index(self._vectors, str(_part(folder, VECTORS)))
        if self.normaliser is not None:
            names.insert(0, NORMALISER)
            queries, row_biases, meta['temperature'], meta['strictness'] = self.normaliser
            with open(_part(folder, NORMALISER), 'wb') as file:
                np.savez(file, queries=queries.cpu().numpy(), row_biases=row_biases.cpu().numpy())
        _part(folder, META).write_text(json.dumps(meta, indent=1), encoding='utf-8')
        for name in names:
            os.replace(_part(folder, name), folder / name)

    @classmethod
    def load(cls, folder: Union[str, Path]) -> 'GalleryIndex':
        """Read what :meth:`save` wrote.

        Raises:
            FileNotFoundError: there is no index in that folder, or a store.
            RuntimeError: its files do not belong together, or one is damaged.
        """
        if (Path(folder) / NAME).is_file():
            raise FileNotFoundError(f'{folder} is a store: mmvtr.store.open_store reads it')
        found, meta, normaliser = read_old(folder)
        index = cls(meta['dim'], normaliser=normaliser, about=meta['about'])
        index._vectors, index.ids, index.paths = found, meta['ids'], meta['paths']
        return index


def _with(vectors: Tensor, extra: Optional[Tensor]) -> np.ndarray:
    """Vectors with one more dimension, as faiss wants them."""
    if extra is not None:
        vectors = torch.cat((vectors, extra[:, None]), dim=1)
    return np.ascontiguousarray(vectors.numpy())


def _part(folder: Path, name: str) -> Path:
    """Where a file is written before it takes its place."""
    return folder / f'{name}.part'
