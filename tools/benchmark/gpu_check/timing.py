"""Time and peak memory of alternating calls, on a GPU or on the CPU."""

from __future__ import annotations

import statistics
import time
from typing import Any, Callable, Mapping, NamedTuple, Optional

import torch
from torch.profiler import ProfilerActivity, profile


class Figure(NamedTuple):
    """Time and memory of a call.

    Attributes:
        seconds: median, None if out of memory.
        peak: peak bytes above those held before; None if out of memory.
        note: why there are no seconds.
    """

    seconds: Optional[float] = None
    peak: Optional[int] = None
    note: str = ''


def measure(
    calls: Mapping[str, Callable[[], Any]],
    device: torch.device,
    *,
    repeats: int = 5,
) -> dict[str, Figure]:
    """Call each once to warm up (which gives its peak memory), then all in turn ``repeats`` times.

    A call that runs out of memory is not timed, and its figure says so.
    """
    found: dict[str, Figure] = {}
    for name, call in calls.items():
        try:
            call()
            found[name] = Figure(peak=peak_memory(call, device))
        except torch.OutOfMemoryError:
            found[name] = Figure(note='out of memory')
            free(device)
    seconds: dict[str, list[float]] = {name: [] for name, x in found.items() if not x.note}
    for _ in range(repeats):
        for name, taken in seconds.items():
            taken.append(_seconds(calls[name], device))
    for name, taken in seconds.items():
        found[name] = found[name]._replace(seconds=statistics.median(taken))
    return found


def _seconds(call: Callable[[], Any], device: torch.device) -> float:
    synchronize(device)
    start = time.perf_counter()
    call()
    synchronize(device)
    return time.perf_counter() - start


def synchronize(device: torch.device) -> None:
    """Wait until the device has finished its work."""
    if device.type == 'cuda':
        torch.cuda.synchronize(device)


def free(device: torch.device) -> None:
    """Empty the device's memory cache."""
    if device.type == 'cuda':
        torch.cuda.empty_cache()


def peak_memory(call: Callable[[], Any], device: torch.device) -> int:
    """Return the peak bytes that torch allocates during ``call()``, above those held before."""
    if device.type == 'cuda':
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        call()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        call()
    events = [e for e in record.profiler.kineto_results.events() if e.name() == '[memory]']
    held = torch.tensor([e.nbytes() for e in sorted(events, key=lambda e: e.start_ns())])
    return int(held.cumsum(0).max()) if len(held) else 0


def milliseconds(figure: Figure) -> str:
    """Return the median time as a table cell, in milliseconds."""
    return figure.note or f'{1e3 * figure.seconds:,.1f}'


def mebibytes(figure: Figure) -> str:
    """Return the peak memory as a table cell, in MiB."""
    return figure.note or f'{figure.peak / 2**20:,.1f}'


def ratio(figure: Figure, to: Figure) -> str:
    """Return the ratio of two times as a table cell."""
    if figure.seconds is None or to.seconds is None:
        return '-'
    return f'{figure.seconds / to.seconds:.2f}'
