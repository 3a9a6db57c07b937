"""FAISS' approximate indexes for galleries with biases, made exact for L2 by an extra dimension.

Inverted lists by inner product on ``[v, b]`` would depend on the norms of their centroids as well
as on their directions.  One more dimension gives all items the same norm, so that the search by
inner product becomes one by L2, whose lists are Voronoi cells.
"""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

#: 'l2': inverted lists of ``[v, b, rest]``; 'l2_pq': the same with product quantisation; 'rerank':
#: lists of ``[v, rest]``, without bias; 'hnsw': a graph on these; 'scan': a scan of all 4-bit codes
#: of ``[v, b]`` by inner product, without lists.
FORMS = ('l2', 'l2_pq', 'rerank', 'hnsw', 'scan')
WITHOUT_BIAS = ('rerank', 'hnsw')
#: Links per item of the graph, and candidates for them during construction.
LINKS, EFFORT = 16, 60
#: Vectors are padded to a multiple of this, as product quantisation splits them into parts of 8.
MULTIPLE = 16
#: Dimensions per code of a scan. Codes shrink inner products but not biases: with parts of 8 the
#: best item of 2 % of the texts was lost behind 1,000 candidates, with parts of 4 none.
PART = 4
#: Factor of room for later items with a larger norm, before the index must be rebuilt.
ROOM = 1.05
#: Training vectors of the quantiser per list.
TRAINED = 64


class LiftedIndex:
    """An approximate index of N items, whose candidates are rescored exactly.

    Args:
        vectors: float32 [N, D].
        biases: float32 [N].
        options: ``form``, ``partitions``, ``probes`` and ``candidates``; a graph
            ignores ``partitions``, and ``probes`` is its search width if that is larger; a scan
            ignores both.

    Attributes:
        most_left_out: maximal number of items that a filter may exclude; a scan, which cannot
            select rows, allows no more than it has candidates.
    """

    def __init__(self, vectors: np.ndarray, biases: np.ndarray, options: dict[str, Any]) -> None:
        self._options = options
        scan = options['form'] == 'scan'
        self.most_left_out = options['candidates'] if scan else len(vectors)
        squares = (vectors**2).sum(1) + self._square(biases)
        self._most = float(squares.max()) * ROOM
        dim = vectors.shape[1]
        self._width = -(-(dim + 2) // MULTIPLE) * MULTIPLE
        self._index = self._empty(options['form'], options['partitions'])
        if not self._index.is_trained:
            lists = options['partitions']
            some = np.random.default_rng(0).permutation(len(vectors))[: TRAINED * max(lists, 256)]
            self._index.train(self._lift(vectors[some], biases[some]))
        for start in range(0, len(vectors), 65536):
            part = slice(start, start + 65536)
            self._index.add(self._lift(vectors[part], biases[part]))

    def _empty(self, form: str, lists: int) -> Any:
        faiss = load_faiss()
        if form == 'hnsw':
            graph = faiss.IndexHNSWFlat(self._width, LINKS)
            graph.hnsw.efConstruction = EFFORT
            return graph
        if form == 'scan':
            parts = self._width // PART
            return faiss.IndexPQFastScan(self._width, parts, 4, faiss.METRIC_INNER_PRODUCT)
        self._quantiser = faiss.IndexFlatL2(self._width)  # faiss keeps no reference
        if form == 'l2_pq':
            return faiss.IndexIVFPQ(self._quantiser, self._width, lists, self._width // 8, 8)
        return faiss.IndexIVFFlat(self._quantiser, self._width, lists, faiss.METRIC_L2)

    @property
    def count(self) -> int:
        """Return the number of items."""
        return self._index.ntotal

    def add(self, vectors: np.ndarray, biases: np.ndarray) -> bool:
        """Add items; return False if their norms are too large and the index must be rebuilt."""
        if ((vectors**2).sum(1) + self._square(biases)).max() > self._most:
            return False
        self._index.add(self._lift(vectors, biases))
        return True

    def search(
        self,
        queries: np.ndarray,
        k: int,
        vectors: np.ndarray,
        biases: np.ndarray,
        *,
        allowed: Optional[np.ndarray],
        transform: bool,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return scores float32 [Q, k] and rows int64 [Q, k], best first; -1 if fewer were found.

        Args:
            queries: float32 [Q, D].
            vectors, biases: those of all items.
            allowed: which items may be found, bool [N]; None: all.
            transform: rank with biases.
        """
        lifted = np.zeros((len(queries), self._width), np.float32)
        lifted[:, : queries.shape[1]] = queries
        if transform and self._options['form'] not in WITHOUT_BIAS:
            lifted[:, queries.shape[1]] = 1
        candidates = self._options['candidates']
        left_out, chosen = 0, {}
        if allowed is not None:
            left_out = len(allowed) - int(np.count_nonzero(allowed))
        if left_out > candidates:  # else it is faster to retrieve more and drop some
            left_out, chosen = 0, dict(sel=among(allowed))
        parameters = self._parameters(**chosen)
        _, near = self._index.search(lifted, max(k, candidates) + left_out, params=parameters)
        scores = np.full((len(queries), k), -np.inf, np.float32)
        found = np.full((len(queries), k), -1, np.int64)
        for i, (query, keys) in enumerate(zip(queries, near)):
            keys = np.sort(keys[keys >= 0])  # of equal scores the lowest row first
            keys = keys if allowed is None else keys[allowed[keys]]
            exact = vectors[keys] @ query
            if transform:
                exact = exact + biases[keys]
            best = np.argsort(-exact, kind='stable')[:k]
            scores[i, : len(best)], found[i, : len(best)] = exact[best], keys[best]
        return scores, found

    def _parameters(self, **chosen: Any) -> Any:
        if self._options['form'] == 'scan':
            return None
        faiss, probes = load_faiss(), self._options['probes']
        if self._options['form'] == 'hnsw':
            effort = max(probes, self._options['candidates'])
            return faiss.SearchParametersHNSW(efSearch=effort, **chosen)
        return faiss.SearchParametersIVF(nprobe=probes, **chosen)

    def _square(self, biases: np.ndarray) -> np.ndarray:
        return biases**2 * (self._options['form'] not in WITHOUT_BIAS)

    def _lift(self, vectors: np.ndarray, biases: np.ndarray) -> np.ndarray:
        """Return ``[v, b, rest, 0 ...]``, all of the same norm; for a scan without the rest."""
        dim = vectors.shape[1]
        lifted = np.zeros((len(vectors), self._width), np.float32)
        lifted[:, :dim] = vectors
        lifted[:, dim] = biases * (self._options['form'] not in WITHOUT_BIAS)
        if self._options['form'] != 'scan':
            rest = self._most - (vectors**2).sum(1) - self._square(biases)
            lifted[:, dim + 1] = np.sqrt(rest.clip(0))
        return lifted


def index_options(
    count: int, form: str, partitions: Optional[int], probes: int, candidates: int
) -> dict[str, Any]:
    """Return the options of an index of ``count`` items; ``partitions`` defaults to about its root.

    Raises:
        ValueError: an unknown form, fewer than 256 items, numbers below 1.
    """
    if form not in FORMS:
        raise ValueError(f'index: form must be one of {FORMS}, not {str(form)[:80]!r}')
    if min(partitions or 1, probes, candidates) < 1:
        raise ValueError('index: partitions, probes and candidates must be 1 or more')
    if count < 256:
        raise ValueError(f'index: {count} items are searched one by one; an index needs 256')
    partitions = partitions or max(1, round(count**0.5))
    return dict(form=form, partitions=partitions, probes=probes, candidates=candidates)


def among(allowed: np.ndarray) -> Any:
    """Return a faiss selector of the rows in ``allowed``, bool [N], as a bitmap.

    A selector that lists nearly all rows takes ten times as long as the search.
    """
    return load_faiss().IDSelectorBitmap(np.packbits(allowed, bitorder='little'))


def load_faiss() -> Any:
    """Return the module faiss.

    Raises:
        ImportError: faiss is missing (says what to install).
    """
    try:
        import faiss
    except ImportError:
        raise ImportError(
            "a store in a folder needs FAISS: pip install -e 'projects/gallery[index]'"
        ) from None
    return faiss
