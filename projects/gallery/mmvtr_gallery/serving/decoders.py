"""Threads that read videos, so that a long one keeps neither the model nor a search waiting."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Callable, TypeVar

from mmvtr_gallery.serving.batching import Busy

Made = TypeVar('Made')


class Decoders:
    """Runs work in a few threads of its own.

    Args:
        threads: videos that are read at a time.
        limit: that may wait or be read.
    """

    def __init__(self, *, threads: int = 2, limit: int = 256) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix='decoder')
        self._places = threading.Semaphore(limit)
        self._limit = limit

    def __call__(self, work: Callable[[], Made]) -> 'Future[Made]':
        """What ``work`` returns, as soon as a thread has done it.

        Raises:
            Busy: too many wait.
        """
        if not self._places.acquire(blocking=False):
            raise Busy(f'{self._limit} videos are waiting already: try again later')
        try:
            future = self._pool.submit(work)
        except RuntimeError:  # closed
            self._places.release()
            raise Busy('the service is ending') from None
        future.add_done_callback(lambda _: self._places.release())
        return future

    def close(self) -> None:
        """End the threads; what still waits is cancelled."""
        self._pool.shutdown(cancel_futures=True)
