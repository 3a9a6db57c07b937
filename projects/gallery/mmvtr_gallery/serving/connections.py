"""Connections that cost too much are closed: too many, too slow to ask, too slow to listen.

uvicorn limits what a request may cost once its headers are there; this is about what comes before
and after.  A front server (projects/gallery/docs/serve.md) does the same and more.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import time
from collections import Counter
from typing import Any, Optional

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

#: Connections at a time, where the limit on open files lets as many be.
MOST = 512
#: Connections that are accepted in one turn, before any is counted.
BACKLOG = 64
#: Seconds for the headers of a request; between two parts of its body; for an answer to go on.
HEADERS, BODY, ANSWER = 10.0, 30.0, 300.0
#: Open files that are kept for all else.
SPARE = 64

_FULL = (
    b'HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\n'
    b'Content-Length: 52\r\n\r\n{"error": "too many are connected: try again later"}'
)


def most_connections() -> int:
    """How many this process can have: each may need a file beside its socket."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return MOST
    return max(8, min(MOST, (limit - SPARE - BACKLOG) // 2))


class Connections:
    """Those of one service.

    Args:
        most: at a time; default :func:`most_connections`.
        headers, body, answer: seconds, see :data:`HEADERS`.
    """

    def __init__(
        self,
        most: Optional[int] = None,
        *,
        headers: float = HEADERS,
        body: float = BODY,
        answer: float = ANSWER,
    ) -> None:
        self.most = most_connections() if most is None else most
        self.headers, self.body, self.answer = headers, body, answer
        self.open: dict[Limited, None] = {}  # in the order in which they began to wait

    def protocol(self, *args: Any, **kwargs: Any) -> 'Limited':
        """For ``uvicorn.Config(http=...)``."""
        return Limited(self, *args, **kwargs)

    def make_room(self) -> bool:
        """Close who has waited longest without asking, or else who does not read its answer.

        Returns:
            False where all are being answered.
        """
        one = next((x for x in self.open if x.idle), None)
        one = one or next((x for x in self.open if x.stalled), None)
        if one is None:
            return False
        del self.open[one]
        one.transport.abort()
        return True


class Limited(H11Protocol):
    """uvicorn's protocol, with limits of time and number."""

    def __init__(self, limits: Connections, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limits = limits
        self._timer: Optional[asyncio.TimerHandle] = None
        self._stalled: Optional[asyncio.TimerHandle] = None

    @property
    def idle(self) -> bool:
        """Whether no request of it is being answered."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def stalled(self) -> bool:
        """Whether its client has stopped to read."""
        return self._stalled is not None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Begin, or refuse where too many are open."""
        super().connection_made(transport)
        limits = self._limits
        if len(limits.open) >= limits.most and not limits.make_room():
            transport.write(_FULL)
            transport.close()
            return
        limits.open[self] = None
        self._wait(limits.headers)

    def connection_lost(self, exc: Optional[Exception]) -> None:
        """End."""
        self._limits.open.pop(self, None)
        for timer in (self._timer, self._stalled):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """A part of a request."""
        if self.transport.is_closing():
            return
        before = self.cycle
        super().data_received(data)
        if self.conn.their_state is h11.SEND_BODY:
            self._wait(self._limits.body)
        elif self.cycle is not before or not self.idle:
            self._wait(None)

    def on_response_complete(self) -> None:
        """The next request may come."""
        super().on_response_complete()
        if self in self._limits.open and self.idle:
            self._limits.open[self] = self._limits.open.pop(self)
            self._wait(self._limits.headers)

    def pause_writing(self) -> None:
        """The client does not read; not for long."""
        super().pause_writing()
        self._stalled = self.loop.call_later(self._limits.answer, self.transport.abort)

    def resume_writing(self) -> None:
        """It reads again."""
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _wait(self, seconds: Optional[float]) -> None:
        """Close the connection in so many seconds unless something comes before; None: never."""
        if self._timer is not None:
            self._timer.cancel()
        abort = self.transport.abort
        self._timer = None if seconds is None else self.loop.call_later(seconds, abort)


def config_of(app: Any, connections: Connections) -> uvicorn.Config:
    """How a service is run: within these limits, and with a log that strangers cannot flood."""
    config = uvicorn.Config(
        app,
        http=connections.protocol,
        ws='none',
        backlog=BACKLOG,
        log_level='warning',
        access_log=False,
        timeout_graceful_shutdown=5,
    )
    for name in ('asyncio', 'uvicorn.error', 'mmvtr_gallery.serving'):
        logger = logging.getLogger(name)
        if not any(isinstance(one, Sparse) for one in logger.filters):
            logger.addFilter(Sparse())
    return config


class Sparse(logging.Filter):
    """Lets few records of one kind through in a time, and then says how many there were.

    Args:
        most: of one message in ``seconds``.
    """

    def __init__(self, *, most: int = 5, seconds: float = 60.0) -> None:
        super().__init__()
        self._most, self._seconds = most, seconds
        self._since: dict[str, float] = {}
        self._seen: Counter[str] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is written."""
        kind, now = str(record.msg).partition('\n')[0][:80], time.monotonic()
        if now - self._since.get(kind, -self._seconds) >= self._seconds:
            left = self._seen[kind] - self._most
            if left > 0:
                record.msg = f'{record.msg} ({left} more like it in between)'
            self._since[kind], self._seen[kind] = now, 0
        self._seen[kind] += 1
        return self._seen[kind] <= self._most
