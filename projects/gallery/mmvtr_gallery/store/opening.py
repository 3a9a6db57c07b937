"""Create or open a store by its location: a folder, or a Qdrant server's URL."""

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
    """Create an empty store, open for writing.

    Args:
        location: a folder, or the URL of a Qdrant server followed by the name of a new collection.
        dim: D of the vectors.
        model: fingerprint of the vectors' model (:func:`mmvtr.apis.fingerprint`).
        about: source of the vectors, JSON-serialisable.
        online: options of a sample of served queries, see
            :meth:`~mmvtr_gallery.store.folder.FolderStore.create`.
        geometry: ``'cosine'``: vectors are stored scaled to length 1; ``'inner_product'``: they are
            stored as they are.
        of_folder: further options of that method.

    Raises:
        FileExistsError: there is a store already.
        ImportError: a package is missing (says what to install).
        ValueError: a dim below 1, an unknown geometry or option.
        FolderInUse, OSError: another process writes there; it cannot be written.
    """
    options = dict(model=model, about=about, online=online, geometry=geometry, **of_folder)
    if is_url(location):
        from mmvtr_gallery.store.qdrant import QdrantStore

        return QdrantStore.create(str(location), dim, **options)
    return FolderStore.create(location, dim, **options)


def open_store(location: Union[str, Path], *, write: bool = False) -> GalleryStore:
    """Open an existing store.

    It warns about a change of items and windows that a kill has interrupted: readers see all of
    it, and opening for writing completes the files.  It also warns about a store of an older
    version that ranks vectors of different norms by inner products.

    Args:
        location: see :func:`create_store`.
        write: whether to open it for writing, which one process may at a time.

    Raises:
        FileNotFoundError: there is no store.
        ConnectionError: the URL does not answer.
        FolderInUse: another process writes there.
        ImportError: a package is missing (says what to install).
        RuntimeError: a file is damaged, or is a link.
    """
    store = opened(location, write=write)
    for said in (store.unfinished, store.lengths_matter):
        if said is not None:
            print_log(f'{store}: {said}', 'current', logging.WARNING)
    return store


def opened(location: Union[str, Path], *, write: bool = False) -> GalleryStore:
    """Open a store without the warnings of :func:`open_store`, which its items have given."""
    if is_url(location):
        from mmvtr_gallery.store.qdrant import QdrantStore

        return QdrantStore.open(str(location), write=write)
    return FolderStore.open(location, write=write)


def is_url(location: Union[str, Path]) -> bool:
    """Return whether a location is a server's URL."""
    return str(location).startswith(('http://', 'https://'))
