"""Limits on connections: their number, the time to send a request and the time to read an answer.

uvicorn limits only the processing of a request whose headers have arrived; this module covers what
comes before and after.  A front server (projects/gallery/docs/serve.md) does the same and more.
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

#: Maximal number of concurrent connections, if the limit on open files allows it.
MOST = 512
#: Connections accepted by the kernel before the service counts them.
BACKLOG = 64
#: Timeouts in seconds: headers of a request; between two parts of its body; a stalled answer.
HEADERS, BODY, ANSWER = 10.0, 30.0, 300.0
#: File descriptors reserved for everything else.
SPARE = 64

_FULL = (
    b'HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\n'
    b'Content-Length: 52\r\n\r\n{"error": "too many are connected: try again later"}'
)


def most_connections() -> int:
    """Return the number of connections this process can hold, with a file for each."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return MOST
    return max(8, min(MOST, (limit - SPARE - BACKLOG) // 2))


class Connections:
    """The open connections of one service, and their limits.

    Args:
        most: maximal number at a time; default :func:`most_connections`.
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
        """Return a new connection, for ``uvicorn.Config(http=...)``."""
        return Limited(self, *args, **kwargs)

    def make_room(self) -> bool:
        """Close the connection that has been idle longest, or else a stalled one.

        Returns:
            False if all are being answered.
        """
        one = next((x for x in self.open if x.idle), None)
        one = one or next((x for x in self.open if x.stalled), None)
        if one is None:
            return False
        del self.open[one]
        one.transport.abort()
        return True


class Limited(H11Protocol):
    """uvicorn's HTTP protocol with time limits and a limit on the number of connections."""

    def __init__(self, limits: Connections, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limits = limits
        self._timer: Optional[asyncio.TimerHandle] = None
        self._stalled: Optional[asyncio.TimerHandle] = None

    @property
    def idle(self) -> bool:
        """Return whether none of its requests is being answered."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def stalled(self) -> bool:
        """Return whether its client has stopped reading."""
        return self._stalled is not None

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Register the connection, or refuse it if too many are open."""
        super().connection_made(transport)
        limits = self._limits
        if len(limits.open) >= limits.most and not limits.make_room():
            transport.write(_FULL)
            transport.close()
            return
        limits.open[self] = None
        self._wait(limits.headers)

    def connection_lost(self, exc: Optional[Exception]) -> None:
        """Forget the connection and cancel its timers."""
        self._limits.open.pop(self, None)
        for timer in (self._timer, self._stalled):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Receive a part of a request, and set the timeout for the next part."""
        if self.transport.is_closing():
            return
        before = self.cycle
        super().data_received(data)
        if self.conn.their_state is h11.SEND_BODY:
            self._wait(self._limits.body)
        elif self.cycle is not before or not self.idle:
            self._wait(None)

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        if self in self._limits.open and self.idle:
            self._limits.open[self] = self._limits.open.pop(self)
            self._wait(self._limits.headers)

    def pause_writing(self) -> None:
        """Start the timeout of a client that does not read."""
        super().pause_writing()
        self._stalled = self.loop.call_later(self._limits.answer, self.transport.abort)

    def resume_writing(self) -> None:
        """Cancel that timeout, as the client reads again."""
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _wait(self, seconds: Optional[float]) -> None:
        """Close the connection after so many seconds unless called again before; None: never."""
        if self._timer is not None:
            self._timer.cancel()
        abort = self.transport.abort
        self._timer = None if seconds is None else self.loop.call_later(seconds, abort)


def config_of(app: Any, connections: Connections) -> uvicorn.Config:
    """Return uvicorn's config of a service: the connection limits, and a rate-limited log."""
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
    """A log filter that limits how often similar records are written, and counts the dropped ones.

    Args:
        most: records of one message per ``seconds``.
    """

    def __init__(self, *, most: int = 5, seconds: float = 60.0) -> None:
        super().__init__()
        self._most, self._seconds = most, seconds
        self._since: dict[str, float] = {}
        self._seen: Counter[str] = Counter()

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is written."""
        kind, now = str(record.msg).partition('\n')[0][:80], time.monotonic()
        if now - self._since.get(kind, -self._seconds) >= self._seconds:
            left = self._seen[kind] - self._most
            if left > 0:
                record.msg = f'{record.msg} ({left} more like it in between)'
            self._since[kind], self._seen[kind] = now, 0
        self._seen[kind] += 1
        return self._seen[kind] <= self._most
