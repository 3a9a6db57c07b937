"""A fitted gallery as a Haystack component; needs ``mmvtr-gallery[haystack]``."""

from __future__ import annotations

import dataclasses
from typing import Any, Optional

from haystack import Document, component

from mmvtr.arrays.debiaser import Debiaser
from mmvtr_gallery.retrievers.hits import Documents, check_documents, hits


@component
class DebiasedRetriever:
    """A Haystack retriever that ranks documents by their debiased scores.

    Args:
        fitted: the result of :func:`mmvtr.fit`.
        documents: by id if ``fitted`` has ids, else in the order of its items.
        top_k: documents per query.

    Raises:
        TypeError, ValueError: ``fitted`` is no Debiaser, or has another number of items.
    """

    def __init__(self, fitted: Debiaser, documents: Documents, top_k: int = 10) -> None:
        check_documents(fitted, documents)
        self.fitted, self.documents, self.top_k = fitted, documents, top_k

    @component.output_types(documents=list[Document])
    def run(self, query_embedding: list[float], top_k: Optional[int] = None) -> dict[str, Any]:
        """Return ``documents``, best first, for the vector that a text embedder made."""
        found = hits(self.fitted, query_embedding, self.documents, top_k or self.top_k)
        return dict(documents=[dataclasses.replace(x.document, score=x.debiased) for x in found])
