"""A fitted gallery as a LangChain retriever; needs ``mmvtr-gallery[langchain]``."""

from __future__ import annotations

from typing import Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict

from mmvtr_gallery.retrievers.hits import check_documents, hits


class DebiasedRetriever(BaseRetriever):
    """A LangChain retriever that ranks documents by their debiased scores.

    The documents' metadata gain ``score``, ``debiased`` and, if calibrated, ``probability``.

    Args:
        fitted: the result of :func:`mmvtr.fit`.
        embeddings: LangChain's Embeddings; ``embed_query`` encodes the queries.
        documents: by id if ``fitted`` has ids, else in the order of its items.
        k: documents per query.

    Raises:
        TypeError, ValueError: ``fitted`` is no Debiaser, or has another number of items.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)
    fitted: Any
    embeddings: Any
    documents: Any
    k: int = 10

    def model_post_init(self, context: Any) -> None:
        check_documents(self.fitted, self.documents)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun
    ) -> list[Document]:
        vector = self.embeddings.embed_query(query)
        return [
            x.document.model_copy(update=dict(metadata={**x.document.metadata, **x.facts}))
            for x in hits(self.fitted, vector, self.documents, self.k)
        ]
