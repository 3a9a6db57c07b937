"""Galleries that are kept: items, vectors and biases, behind one protocol for several engines."""

from mmvtr.store.items import Hit, Item
from mmvtr.store.normaliser import Normaliser
from mmvtr.store.opening import ENGINES, create_store, open_store
from mmvtr.store.protocol import GalleryStore

__all__ = [
    'ENGINES',
    'GalleryStore',
    'Hit',
    'Item',
    'Normaliser',
    'create_store',
    'open_store',
]
