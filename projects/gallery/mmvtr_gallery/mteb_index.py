"""A search index for any MTEB encoder, debiased with a query bank (extra ``[mteb]``)."""

from __future__ import annotations

import logging
from typing import Any, Callable, Mapping, Optional, Sequence

import torch
from mmengine.logging import print_log
from torch import Tensor

from mmvtr.arrays.debiaser import Debiaser
from mmvtr.arrays.inputs import in_order
from mmvtr.functional.similarities.tiles import top_of_rows


class DebiasedIndex:
    """An ``index_backend`` for MTEB's ``SearchEncoderWrapper``, debiased with a query bank.

    A score is the cosine of query and document plus the document's bias.  Without a bank it is the
    cosine alone, the raw baseline of the debiased scores.

    Args:
        bank: K queries of another set, embedded by the encoder: float [K, D], or these with their
            own documents, ``(queries, documents)``; None: raw.
        **options: options of :class:`mmvtr.arrays.Debiaser`, including its transform.

    Raises:
        ValueError: an unknown transform, an empty bank; when searching: a bank of another width,
            vectors that are not finite.

    Example:
        ::

            >>> index = DebiasedIndex(model.encode(captions_of_the_training_set))
            >>> mteb.evaluate(SearchEncoderWrapper(model, index_backend=index), tasks)
    """

    def __init__(self, bank: Optional[Any] = None, **options: Any) -> None:
        Debiaser(**options)  # refuses unknown options
        parts = bank if isinstance(bank, tuple) else (bank,)
        if bank is not None and not all(len(part) for part in parts):
            raise ValueError('the bank is empty: give queries of another set')
        self.bank = None if bank is None else tuple(_float32(part) for part in parts)
        self.options = options
        self.clear()

    def add_documents(self, embeddings: Any, idxs: Sequence[str]) -> None:
        """Add documents, float [N, D], and their ids.

        Raises:
            ValueError: their numbers differ.
        """
        vectors, idxs = _float32(embeddings), in_order(idxs, 'idxs')
        if len(vectors) != len(idxs):
            raise ValueError(
                f'{len(vectors)} documents and {len(idxs)} ids, expected one id per document'
            )
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
        """Return the top documents of each query.

        Args:
            embeddings: float [Q, D].
            top_k: number of documents per query.
            similarity_fn: ignored: scores are cosines plus biases.
            top_ranked: for a reranking task: query id -> ids of its candidate documents.
            query_idx_to_id: needed with ``top_ranked``: position of a query -> its id.

        Returns:
            Scores and positions for each query, best first; positions are among all
            documents, in a reranking task in the query's own candidate list.

        Raises:
            ValueError: there are no documents, or queries of another width.
        """
        if not self._parts:
            raise ValueError('there are no documents: call add_documents() first')
        fitted, queries = self._fitted(), _float32(embeddings)
        if said := fitted.asked_before(queries):
            print_log(f'DebiasedIndex: {said}', 'current', logging.WARNING)
        if top_ranked is not None:
            places = {name: i for i, name in enumerate(self._ids)}
            found = []
            for number, query in enumerate(queries):
                own = [places[one] for one in top_ranked.get(query_idx_to_id[number], ())]
                found.append(_best(fitted.scores(query[None])[:, own], top_k))
            return [one[0][0] for one in found], [one[1][0] for one in found]
        hits = fitted.search(queries, top_k)
        return hits.debiased.tolist(), hits.ids.tolist()

    def clear(self) -> None:
        """Forget all documents; the bank stays."""
        self._parts: list[Tensor] = []
        self._ids: list[str] = []
        self._ready: Optional[Debiaser] = None

    def _fitted(self) -> Debiaser:
        """Return a Debiaser fitted on all documents."""
        if self._ready is None:
            raw = self.bank is None
            fitted = Debiaser(None) if raw else Debiaser(**self.options)
            bank = None if raw else self.bank if len(self.bank) == 2 else self.bank[0]
            self._ready = fitted.fit(torch.cat(self._parts), bank)
            if not raw:
                print_log(f'DebiasedIndex: {self._ready.why_}', 'current')
        return self._ready


def _float32(vectors: Any) -> Tensor:
    """Convert vectors to float32 [N, D] on the CPU."""
    return torch.as_tensor(vectors).detach().float().cpu()


def _best(scores: Tensor, k: int) -> tuple[list[list[float]], list[list[int]]]:
    values, places = top_of_rows(scores, k)
    return values.tolist(), places.tolist()
