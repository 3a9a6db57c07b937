"""Monitoring of a service: a log of requests as JSON lines, and metrics for Prometheus.

Neither contains anything of a query: no text, no vector, no id, no address.
"""

from __future__ import annotations

import json
import threading
import time
from bisect import bisect_left
from collections import Counter
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Optional, Union

#: Upper bounds of the histogram buckets, in seconds.
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
#: Key of the ASGI scope with the seconds of a request's stages.
STAGES = 'mmvtr.stages'
#: Prometheus' content type for :meth:`Observed.figures`.
FORMAT = 'text/plain; version=0.0.4; charset=utf-8'


class Observed:
    """Counts requests and their times, and logs a line for each.

    Args:
        log: file to append to; None: no log.
        told: whether the figures are published at ``/metrics``.

    Raises:
        OSError: the file cannot be written.
    """

    def __init__(self, log: Optional[Union[str, Path]] = None, *, told: bool = True) -> None:
        self.told = told
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._times = {name: _Times(name) for name in ('route', 'stage')}
        # One line is one write, so that a kill leaves whole lines.
        self._file = None if log is None else open(log, 'a', encoding='utf-8', buffering=1)

    def saw(self, method: str, route: str, status: int, seconds: float, stages: Mapping) -> None:
        """Record a finished request.

        Args:
            route: the app's route pattern, without the client's values.
            seconds: from its first byte to the last of the answer.
            stages: seconds by stage.
        """
        with self._lock:
            self._requests[route, status] += 1
            self._times['route'].add(route, seconds)
            for name, each in stages.items():
                self._times['stage'].add(name, each)
            if self._file is not None:
                told = dict(
                    time=round(time.time(), 3),
                    method=method,
                    route=route,
                    status=status,
                    ms=round(1e3 * seconds, 2),
                    stages={name: round(1e3 * each, 2) for name, each in stages.items()},
                )
                with suppress(OSError):  # a full disk must not stop an answer
                    self._file.write(json.dumps(told) + '\n')

    def figures(self, gauges: Mapping[str, tuple[str, Optional[float]]]) -> str:
        """Return all figures in Prometheus' text format.

        Args:
            gauges: name -> description, and current value; None: not known.
        """
        with self._lock:
            lines = [
                '# HELP mmvtr_requests_total Requests by route and status.',
                '# TYPE mmvtr_requests_total counter',
            ]
            for (route, status), count in sorted(self._requests.items()):
                lines.append(f'mmvtr_requests_total{{route="{route}",status="{status}"}} {count}')
            for times in self._times.values():
                lines += times.lines()
        for name, (meaning, value) in gauges.items():
            if value is not None:
                lines += [
                    f'# HELP mmvtr_{name} {meaning}',
                    f'# TYPE mmvtr_{name} gauge',
                    f'mmvtr_{name} {float(value)!r}',
                ]
        return '\n'.join(lines) + '\n'

    def close(self) -> None:
        """Close the log."""
        if self._file is not None:
            self._file.close()
            self._file = None


class _Times:
    """Histograms of seconds, one per value of a label."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._counts: dict[str, list[int]] = {}
        self._sums: Counter[str] = Counter()

    def add(self, name: str, seconds: float) -> None:
        counts = self._counts.setdefault(name, [0] * (len(BUCKETS) + 1))
        counts[bisect_left(BUCKETS, seconds)] += 1
        self._sums[name] += seconds

    def lines(self) -> list[str]:
        whole = f'mmvtr_{"request" if self._label == "route" else "stage"}_seconds'
        lines = [f'# HELP {whole} Seconds by {self._label}.', f'# TYPE {whole} histogram']
        for name, counts in sorted(self._counts.items()):
            label, seen = f'{self._label}="{name}"', 0
            for end, count in zip((*BUCKETS, '+Inf'), counts):
                seen += count
                lines.append(f'{whole}_bucket{{{label},le="{end}"}} {seen}')
            lines.append(f'{whole}_sum{{{label}}} {self._sums[name]!r}')
            lines.append(f'{whole}_count{{{label}}} {seen}')
        return lines


class Observing:
    """ASGI middleware that reports each request to an :class:`Observed`."""

    def __init__(self, app: Callable, *, observed: Observed) -> None:
        self._app, self._observed = app, observed

    async def __call__(self, scope: dict, receive: Callable, send: Callable) -> None:
        if scope['type'] != 'http':
            await self._app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500
        stages = scope[STAGES] = {}

        async def seen(message: dict) -> None:
            nonlocal status
            if message['type'] == 'http.response.start':
                status = message['status']
            await send(message)

        try:
            await self._app(scope, receive, seen)
        finally:
            route = getattr(scope.get('route'), 'path', 'other')
            method = scope['method'] if scope['method'] in ('GET', 'HEAD', 'POST') else 'other'
            self._observed.saw(method, route, status, time.perf_counter() - began, stages)


@contextmanager
def stage(scope: dict[str, Any], name: str) -> Iterator[None]:
    """Time a stage of a request within the block, if requests are observed."""
    began = time.perf_counter()
    try:
        yield
    finally:
        if STAGES in scope:
            scope[STAGES][name] = scope[STAGES].get(name, 0.0) + time.perf_counter() - began
