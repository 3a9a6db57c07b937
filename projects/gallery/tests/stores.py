"""Stores of both engines, without a server."""

from __future__ import annotations

import pytest

from mmvtr_gallery.store import create_store, open_store
from mmvtr_gallery.store.qdrant import QdrantStore

#: Engine -> the module that it needs.
NEEDS = dict(faiss='faiss', qdrant='qdrant_client')


def empty_store(engine, folder, dim, **options):
    """A new store; Qdrant's is embedded, in memory.  Skips a test that lacks the engine."""
    pytest.importorskip(NEEDS[engine], reason='the engine is an extra')
    if engine != 'qdrant':
        return create_store(folder, dim, **options)
    from qdrant_client import QdrantClient

    return QdrantStore.create('x', dim, client=QdrantClient(':memory:'), **options)


def of_other_process(store):
    """The store as it is on disk, or on the server."""
    if store.engine == 'qdrant':
        return QdrantStore.open(store.name, client=store.client)
    return open_store(store.folder)
