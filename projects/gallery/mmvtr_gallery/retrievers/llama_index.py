"""A fitted gallery as a LlamaIndex retriever; needs ``mmvtr-gallery[llama-index]``."""

from __future__ import annotations

from typing import Any

from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle

from mmvtr.arrays.debiaser import Debiaser
from mmvtr_gallery.retrievers.hits import Documents, check_documents, hits


class DebiasedRetriever(BaseRetriever):
    """A LlamaIndex retriever that ranks nodes by their debiased scores.

    Args:
        fitted: the result of :func:`mmvtr.fit`.
        embed_model: LlamaIndex' embedding model, for queries that have no vector yet.
        nodes: by id if ``fitted`` has ids, else in the order of its items.
        similarity_top_k: nodes per query.
        **kwargs: arguments of ``BaseRetriever``.

    Raises:
        TypeError, ValueError: ``fitted`` is no Debiaser, or has another number of items.
    """

    def __init__(
        self,
        fitted: Debiaser,
        embed_model: Any,
        nodes: Documents,
        *,
        similarity_top_k: int = 10,
        **kwargs: Any,
    ) -> None:
        check_documents(fitted, nodes)
        self._fitted, self._embed_model, self._nodes = fitted, embed_model, nodes
        self._k = similarity_top_k
        super().__init__(**kwargs)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        vector = query_bundle.embedding
        if vector is None:
            texts = query_bundle.embedding_strs
            vector = self._embed_model.get_agg_embedding_from_queries(texts)
        found = hits(self._fitted, vector, self._nodes, self._k)
        return [NodeWithScore(node=x.document, score=x.debiased) for x in found]
