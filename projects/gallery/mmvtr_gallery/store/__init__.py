"""Galleries on disk: items, vectors and biases, behind one protocol for several engines."""

from mmvtr_gallery.store.items import Hit, Item
from mmvtr_gallery.store.opening import ENGINES, create_store, open_store
from mmvtr_gallery.store.protocol import GalleryStore

__all__ = [
    'ENGINES',
    'GalleryStore',
    'Hit',
    'Item',
    'create_store',
    'open_store',
]
