"""Seconds and peak memory of calls that take turns, on a GPU or on the CPU."""

from __future__ import annotations

import statistics
import time
from typing import Any, Callable, Mapping, NamedTuple, Optional

import torch
from torch.profiler import ProfilerActivity, profile


class Figure(NamedTuple):
    """What a call costs.

    Attributes:
        seconds: median, None where it did not fit.
        peak: bytes at most, above those held before; None where it did not fit.
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
    """Each call once to warm up (its peak is of that), then all of them in turn ``repeats`` times.

    A call that finds no memory is left out of the turns and says so.
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
    """Give back what is cached."""
    if device.type == 'cuda':
        torch.cuda.empty_cache()


def peak_memory(call: Callable[[], Any], device: torch.device) -> int:
    """Bytes that torch holds at most during ``call()``, above those held before."""
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
    """As a cell of a table."""
    return figure.note or f'{1e3 * figure.seconds:,.1f}'


def mebibytes(figure: Figure) -> str:
    """As a cell of a table."""
    return figure.note or f'{figure.peak / 2**20:,.1f}'


def ratio(figure: Figure, to: Figure) -> str:
    """Of two times, as a cell of a table."""
    if figure.seconds is None or to.seconds is None:
        return '-'
    return f'{figure.seconds / to.seconds:.2f}'
