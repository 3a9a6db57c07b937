"""Videos in request bodies."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import Any, Iterator

from fastapi import HTTPException, Request
from starlette.concurrency import run_in_threadpool

from mmvtr.datasets.videos.video_files import BrokenVideoError
from mmvtr_gallery.serving.changes import reason_of
from mmvtr_gallery.serving.gallery import Gallery
from mmvtr_gallery.serving.uploads import RECEIVING, Uploads


async def receive(request: Request, file: Any) -> None:
    """Write a request's body to a file."""
    began = time.perf_counter()
    async for part in request.stream():
        if time.perf_counter() - began > RECEIVING:
            raise HTTPException(408, f'a video must arrive within {RECEIVING} seconds')
        await run_in_threadpool(file.write, part)
    await run_in_threadpool(file.flush)


def sent(gallery: Gallery, uploads: Uploads, path: str) -> dict[str, Any]:
    """Read the frames of an uploaded video, within the limits."""
    with _of_the_body(path):
        uploads.check(path)
        with uploads.decoding():
            return gallery.encoder.read(path)


def check_all(uploads: Uploads, path: str) -> None:
    """Raise an error if an uploaded file to be stored is no video, or is too large."""
    with _of_the_body(path):
        uploads.check_all(path)


@contextmanager
def _of_the_body(path: str) -> Iterator[None]:
    """Leave the name of the temporary file out of errors."""
    try:
        yield
    except BrokenVideoError as error:
        reason = reason_of(error, path)
        raise BrokenVideoError(f'the file cannot be read as a video: {reason}') from error
