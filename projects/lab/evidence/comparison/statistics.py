"""Rows of effects.py as numbers: means over seeds, paired differences and their intervals.

The same cells always give the same numbers.
"""

from __future__ import annotations

import statistics
from typing import Iterable, NamedTuple, Optional, Sequence

import numpy as np

from comparison.columns import lower_is_better
from comparison.files import OF_QUERIES, Row
from mmvtr.evaluation.seeds import of_seeds, of_seeds_and_queries

#: A row and a control of which one trained this many times as long are shown with it.
LONGER = 1.5


class Difference(NamedTuple):
    """Of a row to another one, seed by seed.

    Attributes:
        mean: over the seeds.
        low: end of the 95 % interval; -inf for one seed, which gives none.
        high: the other end.
        seeds: that both have.
        of_queries: whether the interval is for other queries, too.
        p: two-sided, of a difference of 0; 1 for one seed.
        gains: of each seed.
    """

    mean: float
    low: float
    high: float
    seeds: tuple[int, ...]
    of_queries: bool
    p: float = 1.0
    gains: tuple[float, ...] = ()

    @property
    def sign(self) -> int:
        """1 or -1 where the interval is all above or all below 0, else 0."""
        return int(self.low > 0) - int(self.high < 0)


def mean_and_deviation(values: Iterable[float]) -> Optional[tuple[float, float]]:
    """Mean and sample standard deviation (0 for one value), None for no values."""
    values = list(values)
    if not values:
        return None
    return statistics.mean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def difference(
    row: Row, base: Row, key: str, text_videos: Optional[np.ndarray] = None
) -> Optional[Difference]:
    """``row - base`` of a metric, paired by seed.

    Its interval is for other seeds and other test queries where the metric has a value for each
    query (:data:`OF_QUERIES`), and for other seeds alone where it has none.  One seed gives none.

    Args:
        row: whose difference it is.
        base: what is subtracted.
        key: of the metric.
        text_videos: int64 [T], video of each text, where texts of a video are resampled together;
            None = one text a video.

    Returns:
        None where no seed has both.

    Raises:
        ValueError: the queries of the two rows, or those and ``text_videos``, are not the same.
    """
    ours, theirs = row.values(key), base.values(key)
    seeds = tuple(sorted(ours.keys() & theirs.keys()))
    if not seeds:
        return None
    gains = [ours[seed] - theirs[seed] for seed in seeds]
    queries = _query_gains(row, base, seeds, OF_QUERIES.get(key, ()))
    if not queries or len(seeds) == 1:
        found = of_seeds(gains)
        return Difference(found.mean, *found.interval, seeds, False, found.p, tuple(gains))
    videos = None
    if text_videos is not None:
        where = row.cells[seeds[0]].condition
        videos = [
            _videos_of(field, known, text_videos, where) for field, (known, _) in queries.items()
        ]
    found = of_seeds_and_queries([values for _, values in queries.values()], videos)
    return Difference(found.mean, *found.interval, seeds, True, found.p, tuple(gains))


def _query_gains(
    row: Row, base: Row, seeds: Sequence[int], fields: Sequence[str]
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """For each field bool [Q], which queries have a true item, and float64 [S, K] of those K, in
    percent; nothing where a seed lacks a field."""
    gains = {}
    for field in fields:
        pairs = [(row.queries(seed, field), base.queries(seed, field)) for seed in seeds]
        if any(values is None for pair in pairs for values in pair):
            return {}
        known = ~np.isnan(pairs[0][1])
        for seed, pair in zip(seeds, pairs):
            if not all(np.array_equal(~np.isnan(values), known) for values in pair):
                raise ValueError(
                    f'{row.cells[seed].condition}: {row.name} and {base.name} of seed {seed} have '
                    f'not the same queries in {field!r}: remove the older cells and run again'
                )
        values = 100 * np.stack([ours[known] - theirs[known] for ours, theirs in pairs])
        gains[field] = known, values
    return gains


def _videos_of(field: str, known: np.ndarray, text_videos: np.ndarray, where: str) -> np.ndarray:
    """Int64 [K], video of each known query."""
    if field.startswith('v2t'):
        fits, videos = len(known) > text_videos.max(), np.arange(len(known))
    else:
        fits, videos = len(known) == len(text_videos), text_videos
    if not fits:
        raise ValueError(
            f"{where}: {field!r} has {len(known)} values, which is not what 'text_videos' of "
            f'conditions.json says ({len(text_videos)} texts of {text_videos.max() + 1} videos)'
        )
    return videos[known]


def is_better(gain: Optional[Difference], key: str) -> bool:
    """Whether a difference in a metric is for the better, by its interval."""
    return gain is not None and gain.sign == (-1 if lower_is_better(key) else 1)


def share(
    row: Row, base: Row, oracle: Row, key: str, text_videos: Optional[np.ndarray] = None
) -> Optional[float]:
    """Percent of the oracle's gain over ``base`` that ``row`` closes, over the seeds of all three.

    Returns:
        None where they share no seed, or the oracle is not better by its interval.
    """
    seeds = row.values(key).keys() & base.values(key).keys() & oracle.values(key).keys()
    ours, plain, best = (
        Row(r.method, r.transform, {seed: r.cells[seed] for seed in sorted(seeds)})
        for r in (row, base, oracle)
    )
    gain = difference(best, plain, key, text_videos)
    if not is_better(gain, key):
        return None
    return 100 * difference(ours, plain, key).mean / gain.mean


def time_ratio(row: Row, base: Row) -> Optional[float]:
    """Median over the common seeds of CPU time to that of ``base``; None where there is none.

    Two machines may have one name, so that times are compared that were taken on one day.
    """
    pairs = [(row.cells[seed], base.cells[seed]) for seed in row.cells.keys() & base.cells.keys()]
    ratios = [
        ours.cpu_seconds / theirs.cpu_seconds
        for ours, theirs in pairs
        if None not in (ours.cpu_seconds, theirs.cpu_seconds)
        and all(ours.made[key] == theirs.made[key] for key in ('machine', 'date'))
    ]
    return statistics.median(ratios) if ratios else None


def time_said(row: Row, control: Row) -> str:
    """' (trains 2.1 times as long)', of the control or of the row, where that is much; else ''."""
    ratio = time_ratio(control, row)
    if ratio is None or 1 / LONGER < ratio < LONGER:
        return ''
    if ratio >= LONGER:
        return f' (which trains {ratio:.1f} times as long)'
    return f' (the row trains {1 / ratio:.1f} times as long)'
