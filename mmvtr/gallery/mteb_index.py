"""A search index for any encoder of MTEB, debiased by a bank (extra ``[mteb]``)."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Optional, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from mmvtr.functional.transforms.transform_table import OF_QUERIES, transform_named
from mmvtr.normaliser import Normaliser


class DebiasedIndex:
    """What ``SearchEncoderWrapper(model, index_backend=...)`` asks, with biases of a bank.

    Cosines of queries and documents, to which each document's bias is added.  Without a bank it
    ranks as the encoder itself does by cosine: the raw row beside the debiased one.

    Args:
        bank: K queries of another set, as the encoder embeds them: float [K, D]; None: raw.
        transform: ``'sinkhorn'``, ``'unbalanced_sinkhorn'`` or ``'inverted_softmax'``.
        temperature, iterations, strictness: of that, as of :meth:`.Normaliser.fit`.

    Raises:
        ValueError: an unknown transform, an empty bank; searching: a bank of another width, vectors
            that are not finite.

    Example:
        ::

            >>> index = DebiasedIndex(model.encode(captions_of_the_training_set))
            >>> mteb.evaluate(SearchEncoderWrapper(model, index_backend=index), tasks)
    """

    def __init__(
        self,
        bank: Optional[Any] = None,
        *,
        transform: str = 'sinkhorn',
        temperature: float = 0.05,
        iterations: Optional[int] = None,
        strictness: float = 0.8,
    ) -> None:
        transform_named(transform, OF_QUERIES)
        if bank is not None and not len(bank):
            raise ValueError('the bank is empty: queries of another set make one')
        self.bank = None if bank is None else _unit(bank)
        self.how = dict(
            transform=transform,
            temperature=temperature,
            iterations=iterations,
            strictness=strictness,
        )
        self.clear()

    def add_documents(self, embeddings: Any, idxs: Sequence[str]) -> None:
        """Add documents, float [N, D], and their ids.

        Raises:
            ValueError: there are more of the ones than of the others.
        """
        vectors = _unit(embeddings)
        if len(vectors) != len(idxs):
            raise ValueError(f'{len(vectors)} documents and {len(idxs)} ids')
        self._parts.append(vectors)
        self._ids.extend(idxs)
        self._ready = None

    def search(
        self,
        embeddings: Any,
        top_k: int,
        similarity_fn: Optional[Callable[[Any, Any], Any]] = None,
        top_ranked: Optional[Mapping[str, Sequence[str]]] = None,
        query_idx_to_id: Optional[Mapping[int, str]] = None,
    ) -> tuple[list[list[float]], list[list[int]]]:
        """The best documents of each query.

        Args:
            embeddings: float [Q, D].
            top_k: how many of each.
            similarity_fn: is not read: scores are cosines and biases.
            top_ranked: of a reranking task: query id -> ids of the only documents that count.
            query_idx_to_id: needed for that: position of a query -> its id.

        Returns:
            Scores and positions for each query, best first; positions are those among all
            documents, in a reranking task those in the query's own list.

        Raises:
            ValueError: there are no documents, or queries of another width.
        """
        if not self._parts:
            raise ValueError('there are no documents: call add_documents() first')
        documents, biases = self._fitted()
        queries = _unit(embeddings)
        if queries.shape[1] != documents.shape[1]:
            raise ValueError(
                f'queries of {queries.shape[1]} dimensions, documents of {documents.shape[1]}'
            )
        if top_ranked is not None:
            places = {name: i for i, name in enumerate(self._ids)}
            found = []
            for number, query in enumerate(queries):
                own = [places[one] for one in top_ranked.get(query_idx_to_id[number], ())]
                found.append(_best((documents[own] @ query + biases[own])[None], top_k))
            return [one[0][0] for one in found], [one[1][0] for one in found]
        parts = [_best(part @ documents.T + biases, top_k) for part in queries.split(1024)]
        return sum((p[0] for p in parts), []), sum((p[1] for p in parts), [])

    def clear(self) -> None:
        """Forget all documents; the bank stays."""
        self._parts: list[Tensor] = []
        self._ids: list[str] = []
        self._ready: Optional[tuple[Tensor, Tensor]] = None

    def _fitted(self) -> tuple[Tensor, Tensor]:
        """All documents, and their biases: float [N, D] and [N]."""
        if self._ready is None:
            documents = torch.cat(self._parts)
            biases = documents.new_zeros(len(documents))
            if self.bank is not None:
                biases = Normaliser.fit(self.bank, documents, **self.how).biases(documents)
            self._ready = documents, biases
        return self._ready


def _unit(vectors: Any) -> Tensor:
    """float32 [N, D] of unit length, on the CPU."""
    return F.normalize(torch.as_tensor(vectors).detach().float().cpu(), dim=1)


def _best(scores: Tensor, k: int) -> tuple[list[list[float]], list[list[int]]]:
    values, places = scores.topk(min(k, scores.shape[1]), dim=1)
    return values.tolist(), places.tolist()
