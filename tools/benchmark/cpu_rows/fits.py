"""How the cost of a fit grows with the gallery: each size beside a tenth of it, ten times."""

from __future__ import annotations

import math
import statistics

import mmvtr
from cpu_rows.arrays import Sets
from cpu_rows.timing import Row, beside

DIM, BANK = 64, 2_000


def fits(quick: bool, repeats: int) -> list[Row]:
    """``mmvtr.fit`` of 10^3 to 10^5 items; a ratio of 1 is a log-log slope of 1."""
    rows = []
    for name in ('nnn', 'csls', 'sinkhorn'):
        for size in (1_000,) if quick else (10_000, 100_000):
            rows += _of(name, size, repeats)
    return rows


def _of(name: str, size: int, repeats: int) -> list[Row]:
    sets = Sets(size, BANK, 1, DIM)
    options = dict(temperature=0.05) if name == 'sinkhorn' else {}
    part = sets.gallery[: size // 10]

    def tenth() -> None:
        for _ in range(10):
            mmvtr.fit(part, sets.bank, name, **options)

    (row,) = beside(
        f'fit {name}, {size:,} items of {DIM}',
        lambda: mmvtr.fit(sets.gallery, sets.bank, name, **options),
        {f'{size // 10:,} items, ten times': tenth},
        repeats,
    )
    slope = 1 + math.log10(statistics.median(row.ratios))
    return [row._replace(same=f'slope {slope:.2f}')]
