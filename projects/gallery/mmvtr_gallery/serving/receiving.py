"""Videos in the body of a request."""

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
    """Write the body of a request into a file."""
    began = time.perf_counter()
    async for part in request.stream():
        if time.perf_counter() - began > RECEIVING:
            raise HTTPException(408, f'a video must arrive within {RECEIVING} seconds')
        await run_in_threadpool(file.write, part)
    await run_in_threadpool(file.flush)


def sent(gallery: Gallery, uploads: Uploads, path: str) -> dict[str, Any]:
    """The frames of a video that was sent, within the limits."""
    with _of_the_body(path):
        uploads.check(path)
        with uploads.decoding():
            return gallery.read(path)


def check_all(uploads: Uploads, path: str) -> None:
    """Refuse a video that was sent to be kept and is none, or that is too large."""
    with _of_the_body(path):
        uploads.check_all(path)


@contextmanager
def _of_the_body(path: str) -> Iterator[None]:
    """Name the body in errors: the file's name says nothing to who has sent it."""
    try:
        yield
    except BrokenVideoError as error:
        reason = reason_of(error, path)
        raise BrokenVideoError(f'the body cannot be read as a video: {reason}') from error
