"""From where a store is to what keeps it: a folder, or a Qdrant server."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Mapping, Optional, Union

from mmengine.logging import print_log

from mmvtr.arrays.inputs import Geometry
from mmvtr_gallery.store.folder import FolderStore
from mmvtr_gallery.store.protocol import GalleryStore


def create_store(
    location: Union[str, Path],
    dim: int,
    *,
    model: Optional[str] = None,
    about: Optional[Mapping[str, Any]] = None,
    online: Optional[Mapping[str, Any]] = None,
    geometry: Geometry = 'cosine',
    **of_folder: Any,
) -> GalleryStore:
    """A new, empty store, open for writing.

    Args:
        location: a folder, or the URL of a Qdrant server with the name of a new collection behind
            its last slash.
        dim: D of the vectors.
        model: fingerprint of what makes the vectors (:func:`mmvtr.apis.fingerprint`).
        about: where they come from, in types that json knows.
        online: keep a sample of the served queries: see
            :meth:`~mmvtr_gallery.store.folder.FolderStore.create`.
        geometry: ``'cosine'``, of vectors of any length, which are kept at length 1;
            ``'inner_product'``, of vectors as they are.
        of_folder: further options of that.

    Raises:
        FileExistsError: there is a store.
        ImportError: says what to install.
        ValueError: a dim below 1, an unknown geometry or option.
        FolderInUse, OSError: another process writes there; it cannot be written.
    """
    options = dict(model=model, about=about, online=online, geometry=geometry, **of_folder)
    if is_url(location):
        from mmvtr_gallery.store.qdrant import QdrantStore

        return QdrantStore.create(str(location), dim, **options)
    return FolderStore.create(location, dim, **options)


def open_store(location: Union[str, Path], *, write: bool = False) -> GalleryStore:
    """A store that is there.

    A warning tells of a change of items and windows that a kill has cut short: who reads has all of
    it, who opens the store for writing puts its files in order.  Another tells of a store of before
    that ranks vectors of several lengths by inner products.

    Args:
        location: as :func:`create_store`.
        write: whether it may be changed from here: one process at a time.

    Raises:
        FileNotFoundError: there is none.
        ConnectionError: the URL does not answer.
        FolderInUse: another process writes there.
        ImportError: says what to install.
        RuntimeError: a file is damaged, or is a link.
    """
    store = opened(location, write=write)
    for said in (store.unfinished, store.lengths_matter):
        if said is not None:
            print_log(f'{store}: {said}', 'current', logging.WARNING)
    return store


def opened(location: Union[str, Path], *, write: bool = False) -> GalleryStore:
    """As :func:`open_store`, without the warning: of windows, whose items have given it."""
    if is_url(location):
        from mmvtr_gallery.store.qdrant import QdrantStore

        return QdrantStore.open(str(location), write=write)
    return FolderStore.open(location, write=write)


def is_url(location: Union[str, Path]) -> bool:
    """Whether a location is a server's."""
    return str(location).startswith(('http://', 'https://'))
