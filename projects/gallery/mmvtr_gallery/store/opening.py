"""From where a store is to the engine that keeps it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, Mapping, Optional, Union

from mmengine.logging import print_log

from mmvtr.arrays.inputs import Geometry
from mmvtr_gallery.store.flat import FlatStore
from mmvtr_gallery.store.joint import valid
from mmvtr_gallery.store.lance import LanceStore
from mmvtr_gallery.store.protocol import GalleryStore

#: Engines by name; those of a folder, and Qdrant by URL.
ENGINES = ('lance', 'faiss', 'qdrant')

_FOLDERS = dict(lance=LanceStore, faiss=FlatStore)


def create_store(
    location: Union[str, Path],
    dim: int,
    *,
    engine: Optional[str] = None,
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
        engine: one of :data:`ENGINES`; default LanceDB for a folder.
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
        ValueError: an unknown engine, or one that does not go with the location.
        FolderInUse, OSError: another process writes there; it cannot be written.
    """
    engine = engine or ('qdrant' if is_url(location) else 'lance')
    if engine not in ENGINES or (engine == 'qdrant') != is_url(location):
        raise ValueError(
            f'engine {str(engine)[:40]!r} and {str(location)[:80]} do not go together: lance and '
            'faiss keep a folder, qdrant a URL'
        )
    options = dict(model=model, about=about, online=online, geometry=geometry, **of_folder)
    if engine == 'qdrant':
        from mmvtr_gallery.store.qdrant import QdrantStore

        return QdrantStore.create(str(location), dim, **options)
    return _FOLDERS[engine].create(location, dim, **options)


def open_store(
    location: Union[str, Path], *, write: bool = False, verify: bool = True
) -> GalleryStore:
    """A store that is there, whatever its engine.

    A warning tells of a change of items and windows that a kill has cut short: who reads has all of
    it, who opens the store for writing puts its files in order.  Another tells of a store of before
    that ranks vectors of several lengths by inner products.

    Args:
        location: as :func:`create_store`.
        write: whether it may be changed from here: one process at a time.
        verify: see that LanceDB's files have the SHA-256 that they were written with, which reads
            all vectors once: about 1 s for a GB.  Other files are always seen to have theirs.

    Raises:
        FileNotFoundError: there is none.
        ConnectionError: the URL does not answer.
        FolderInUse: another process writes there.
        ImportError: says what to install.
        RuntimeError: a file is damaged, or is a link.
    """
    store = opened(location, write=write, verify=verify)
    for said in (store.unfinished, store.lengths_matter):
        if said is not None:
            print_log(f'{store}: {said}', 'current', logging.WARNING)
    return store


def opened(location: Union[str, Path], *, write: bool = False, verify: bool = True) -> GalleryStore:
    """As :func:`open_store`, without the warning: of windows, whose items have given it."""
    if is_url(location):
        from mmvtr_gallery.store.qdrant import QdrantStore

        return QdrantStore.open(str(location), write=write)
    folder = Path(location)
    return _FOLDERS[valid(folder).engine].open(folder, write=write, verify=verify)


def is_url(location: Union[str, Path]) -> bool:
    """Whether a location is a server's."""
    return str(location).startswith(('http://', 'https://'))
