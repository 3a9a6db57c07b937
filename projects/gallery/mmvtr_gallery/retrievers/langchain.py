"""A fitted gallery as LangChain's retriever or vector store; needs ``mmvtr-gallery[langchain]``."""

from __future__ import annotations

import uuid
from typing import Any, Optional, Sequence

import numpy as np
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import VectorStore
from pydantic import ConfigDict

import mmvtr
from mmvtr.arrays.debiaser import Debiaser
from mmvtr_gallery.retrievers.hits import Hit, check_documents, hits


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
        return [_told(x) for x in hits(self.fitted, vector, self.documents, self.k)]


class DebiasedStore(VectorStore):
    """A LangChain vector store that ranks documents by their debiased scores.

    Documents that are added get biases from the same bank; those of the others do not change
    (:meth:`.Debiaser.add`, :meth:`~.Debiaser.update`, :meth:`~.Debiaser.remove`).  Metadata of hits
    are those of :class:`DebiasedRetriever`.

    Args:
        fitted: the result of :func:`mmvtr.fit` with ids, which are texts.
        embeddings: LangChain's Embeddings, for documents and queries.
        documents: by id.

    Raises:
        TypeError, ValueError: ``fitted`` is no Debiaser, has no ids, or another number of items.
    """

    def __init__(
        self, fitted: Debiaser, embeddings: Embeddings, documents: dict[str, Document]
    ) -> None:
        check_documents(fitted, documents)
        if fitted.ids_ is None:
            raise ValueError('a store names its items: give their ids to mmvtr.fit(ids=)')
        self.fitted, self._embeddings = fitted, embeddings
        self._documents = dict(documents)

    @property
    def embeddings(self) -> Embeddings:
        return self._embeddings

    def add_documents(
        self, documents: list[Document], ids: Optional[list[str]] = None, **kwargs: Any
    ) -> list[str]:
        """Add documents, or replace those of known ids; of one id twice the last one stays.

        Args:
            documents: a document without an id gets a new one.
            ids: in place of those of the documents.
            **kwargs: not read.

        Raises:
            ValueError: not one id a document.
        """
        ids = [x.id for x in documents] if ids is None else list(ids)
        if len(ids) != len(documents):
            raise ValueError(f'{len(ids)} ids for {len(documents)} documents')
        ids = [x or str(uuid.uuid4()) for x in ids]
        given = {x: one.model_copy(update=dict(id=x)) for x, one in zip(ids, documents)}
        if not given:
            return ids
        contents = [x.page_content for x in given.values()]
        rows = dict(zip(given, np.asarray(self._embeddings.embed_documents(contents), np.float32)))
        known = {*self.fitted.ids_.tolist()} & {*given}
        self._documents.update(given)
        for change, some in ((self.fitted.update, known), (self.fitted.add, {*given} - known)):
            named = [x for x in given if x in some]
            if named:
                change(np.stack([rows[x] for x in named]), ids=named)
        return ids

    def delete(self, ids: Optional[list[str]] = None, **kwargs: Any) -> bool:
        """Delete documents; ids that are not there are passed over.

        Raises:
            ValueError: no document would be left (None means all).
        """
        there = {*self.fitted.ids_.tolist()}
        gone = [*there] if ids is None else [x for x in dict.fromkeys(ids) if x in there]
        if gone:
            self.fitted.remove(gone)
        for x in gone:
            del self._documents[x]
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents that are there."""
        return [self._documents[x] for x in ids if x in self._documents]

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """Return the k best documents of a text."""
        return self.similarity_search_by_vector(self._embeddings.embed_query(query), k)

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, **kwargs: Any
    ) -> list[Document]:
        """Return the k best documents of a vector, float [D]."""
        return [_told(x) for x in hits(self.fitted, embedding, self._documents, k)]

    def similarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """Return the k best documents of a text, and their debiased scores."""
        found = hits(self.fitted, self._embeddings.embed_query(query), self._documents, k)
        return [(_told(x), x.debiased) for x in found]

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: Optional[list[dict]] = None,
        *,
        ids: Optional[list[str]] = None,
        bank: Optional[Sequence[str]] = None,
        **options: Any,
    ) -> DebiasedStore:
        """Return a store of texts.

        Args:
            texts: the contents of the documents.
            embedding: LangChain's Embeddings.
            metadatas: of the documents.
            ids: one a text; default: new ones.
            bank: queries seen before; None: raw.
            **options: ``transform`` and its options, see :func:`mmvtr.fit`.

        Raises:
            ValueError: not one metadata or id a text; see :func:`mmvtr.fit`.
        """
        ids = [str(uuid.uuid4()) for _ in texts] if ids is None else list(ids)
        metadatas = [{} for _ in texts] if metadatas is None else metadatas
        rows = np.asarray(embedding.embed_documents(list(texts)), np.float32)
        seen = None
        if bank is not None:
            seen = np.asarray([embedding.embed_query(x) for x in bank], np.float32)
        fitted = mmvtr.fit(rows, seen, ids=ids, **options)
        made = zip(ids, texts, metadatas, strict=True)
        return cls(
            fitted, embedding, {x: Document(id=x, page_content=y, metadata=z) for x, y, z in made}
        )


def _told(hit: Hit) -> Document:
    """Return a hit's document, with what is known of it in its metadata."""
    return hit.document.model_copy(update=dict(metadata={**hit.document.metadata, **hit.facts}))
