"""Galleries in a folder or on a Qdrant server: items, vectors and biases."""

from mmvtr_gallery.store.items import Hit, Item
from mmvtr_gallery.store.opening import create_store, open_store
from mmvtr_gallery.store.protocol import GalleryStore

__all__ = [
    'GalleryStore',
    'Hit',
    'Item',
    'create_store',
    'open_store',
]
