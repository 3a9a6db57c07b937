"""CPU seconds and peak memory of calls that take turns, as ratios to an anchor."""

from __future__ import annotations

import ctypes
import math
import resource
import statistics
import time
from pathlib import Path
from typing import Any, Callable, Mapping, NamedTuple, Sequence

Call = Callable[[], Any]
HEAD = ('work', 'anchor', 'CPU s', 'of anchor', 'ratio (min-max)', 'MiB', 'of anchor', 'same')


class Row(NamedTuple):
    """One work beside one anchor.

    Attributes:
        work, anchor: in words.
        seconds, anchor_seconds: CPU seconds of each repeat.
        peak, anchor_peak: MiB of resident memory that a call adds at most; NaN where the system
            does not tell.
        same: what was compared of both results; '' if nothing.
    """

    work: str
    anchor: str
    seconds: Sequence[float]
    anchor_seconds: Sequence[float]
    peak: float = math.nan
    anchor_peak: float = math.nan
    same: str = ''

    @property
    def ratios(self) -> list[float]:
        """Return work over anchor, repeat by repeat: both took turns."""
        return [a / b for a, b in zip(self.seconds, self.anchor_seconds)]

    @property
    def cells(self) -> tuple[str, ...]:
        """Return the row of a table, see ``HEAD``."""
        ratios = self.ratios
        return (
            self.work,
            self.anchor,
            f'{statistics.median(self.seconds):.3g}',
            f'{statistics.median(self.anchor_seconds):.3g}',
            f'**{statistics.median(ratios):.2f}** ({min(ratios):.2f}-{max(ratios):.2f})',
            *('-' if math.isnan(x) else f'{x:,.0f}' for x in (self.peak, self.anchor_peak)),
            self.same,
        )


def beside(
    work: str,
    call: Call,
    anchors: Mapping[str, Call],
    repeats: int,
    same: Callable[[Any, Any], str] = lambda ours, theirs: '',
) -> list[Row]:
    """Run work and anchors in turn, after one call each to warm up, whose memory is measured.

    Args:
        work: what is done.
        call: as mmvtr does it.
        anchors: as others do it, by name.
        repeats: turns.
        same: says what two results have in common.
    """
    calls = {'': call, **anchors}
    results, peaks = {}, {}
    for name, function in calls.items():
        results[name], peaks[name] = _with_peak(function)
    notes = {name: same(results[''], results[name]) for name in anchors}
    del results
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, function in calls.items():
            started = cpu_seconds()
            function()
            taken[name].append(max(cpu_seconds() - started, 1e-6))
    return [
        Row(work, name, taken[''], taken[name], peaks[''], peaks[name], notes[name])
        for name in anchors
    ]


def cpu_seconds() -> float:
    """CPU seconds of this process and of its children that have ended, such as workers."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _with_peak(call: Call) -> tuple[Any, float]:
    reset = Path('/proc/self/clear_refs')
    if not reset.exists():
        return call(), math.nan
    # What the heap keeps of earlier calls would hide what this one takes.
    getattr(ctypes.CDLL(None), 'malloc_trim', int)(0)
    reset.write_text('5')  # the highest resident size begins anew
    before = _status('VmRSS')
    result = call()
    return result, _status('VmHWM') - before


def _status(key: str) -> float:
    """MiB."""
    for line in Path('/proc/self/status').read_text().splitlines():
        if line.startswith(f'{key}:'):
            return int(line.split()[1]) / 1024
    return math.nan
