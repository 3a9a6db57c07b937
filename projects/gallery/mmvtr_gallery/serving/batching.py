"""One thread owns the model: all waiting texts are encoded in one forward pass."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future
from typing import Any, Callable, NamedTuple, Sequence, TypeVar

from mmvtr.errors import UserError

Made = TypeVar('Made')


class Busy(UserError):
    """The queue is too long to be answered in time."""


class _Waiting(NamedTuple):
    text: str
    future: Future


class ModelThread:
    """A thread of its own that runs everything that needs the model.

    All waiting texts (up to ``most``) form one batch.  If a batch fails, it is encoded text by
    text, so that one bad text does not affect the others.  Jobs, such as a video to encode, run one
    at a time, and waiting texts are served between two of them.

    Args:
        encode: N texts -> N results.
        most: maximal number of texts in a batch.
        limit: maximal number of waiting texts, and of waiting jobs.

    Attributes:
        texts: number of encoded texts.
        batches: number of forward passes for them.
        largest: size of the largest batch.
    """

    def __init__(
        self, encode: Callable[[Sequence[str]], Sequence[Any]], *, most: int = 64, limit: int = 1024
    ) -> None:
        self.texts = self.batches = self.largest = 0
        self._encode, self._most, self._limit = encode, most, limit
        self._waiting: deque[_Waiting] = deque()
        self._jobs: deque[tuple[Callable[[], Any], Future]] = deque()
        self._news = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name='model', daemon=True)
        self._thread.start()

    def text(self, text: str) -> Future:
        """Return a future for the encoded text, set when its batch is done.

        Raises:
            Busy: too many wait.
        """
        future: Future = Future()
        self._put(self._waiting, _Waiting(text, future))
        return future

    def job(self, work: Callable[[], Made]) -> 'Future[Made]':
        """Return a future for the result of ``work``, which runs in the model's thread.

        Raises:
            Busy: too many wait.
        """
        future: Future = Future()
        self._put(self._jobs, (work, future))
        return future

    @property
    def waiting(self) -> int:
        """Return the number of waiting texts."""
        return len(self._waiting)

    def close(self) -> None:
        """End the thread; waiting texts and jobs are cancelled."""
        with self._news:
            self._closed = True
            self._news.notify()
        self._thread.join()
        for _, future in (*self._waiting, *self._jobs):
            future.cancel()

    def _put(self, queue: deque, entry: Any) -> None:
        with self._news:
            if self._closed or len(queue) >= self._limit:
                raise Busy(f'{len(queue)} requests are waiting already: try again later')
            queue.append(entry)
            self._news.notify()

    def _run(self) -> None:
        while True:
            with self._news:
                while not (self._waiting or self._jobs or self._closed):
                    self._news.wait()
                if self._closed:
                    return
                count = min(len(self._waiting), self._most)
                batch = [self._waiting.popleft() for _ in range(count)]
                job = self._jobs.popleft() if self._jobs else None
            # Texts of cancelled requests are not encoded.
            batch = [one for one in batch if one.future.set_running_or_notify_cancel()]
            if batch:
                self._answer(batch)
            if job is not None:
                _settle(*job)

    def _answer(self, batch: list[_Waiting]) -> None:
        try:
            results = self._encode([one.text for one in batch])
        except Exception as error:
            if len(batch) == 1:
                batch[0].future.set_exception(error)
                return
            for one in batch:
                self._answer([one])
            return
        self.batches += 1
        self.texts += len(batch)
        self.largest = max(self.largest, len(batch))
        for one, result in zip(batch, results):
            one.future.set_result(result)


def _settle(work: Callable[[], Any], future: Future) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(work())
    except Exception as error:
        future.set_exception(error)
