"""Threads that decode videos, so that a long video blocks neither the model nor searches."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Callable, TypeVar

from mmvtr_gallery.serving.batching import Busy

Made = TypeVar('Made')


class Decoders:
    """A thread pool with a bounded queue.

    Args:
        threads: videos decoded at a time.
        limit: maximal number of videos that wait or are being decoded.
    """

    def __init__(self, *, threads: int = 2, limit: int = 256) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix='decoder')
        self._places = threading.Semaphore(limit)
        self._limit = limit

    def __call__(self, work: Callable[[], Made]) -> 'Future[Made]':
        """Return a future for the result of ``work``, which runs in one of the threads.

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
        """End the threads; waiting work is cancelled."""
        self._pool.shutdown(cancel_futures=True)
