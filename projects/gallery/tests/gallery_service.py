"""Serves a gallery with the right to change it; test modules that import this need the extras."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

for module, extra in dict(uvicorn='serve', fastapi='serve', faiss='index').items():
    pytest.importorskip(module, reason=f'an extra: pip install projects/gallery[{extra}]')

from mmvtr_gallery.serving.gallery import Gallery, try_to_take  # noqa: E402
from services import served  # noqa: E402


@contextmanager
def taken(place, **options):
    """A client of the gallery's service, the only process that may change the store."""
    gallery = Gallery.open(place, **options)
    assert try_to_take(gallery) is None
    with served(gallery) as client:
        yield client
