"""Cells of effects.py as numbers: rows over seeds, paired differences, intervals, verdicts.

The same cells always give the same numbers.
"""

from __future__ import annotations

import math
import statistics
from functools import lru_cache
from pathlib import Path
from typing import Iterable, Mapping, NamedTuple, Optional, Sequence

import numpy as np
from effects_columns import lower_is_better
from effects_files import OF_QUERIES, Cell, Row, check_numbers, load_cells, load_json, make_rows
from effects_plan import TRANSFORMS, Condition, Method

DRAWS = 2000
LEVEL = 0.95


class Difference(NamedTuple):
    """Of a row to another one, seed by seed.

    Attributes:
        mean: over the seeds.
        low: end of the 95 % interval; -inf where one seed gives none.
        high: the other end.
        seeds: that both have.
        of_queries: whether the interval resamples queries, too.
    """

    mean: float
    low: float
    high: float
    seeds: tuple[int, ...]
    of_queries: bool

    @property
    def sign(self) -> int:
        """1 or -1 where the interval is all above or all below 0, else 0."""
        return int(self.low > 0) - int(self.high < 0)


class View(NamedTuple):
    """What is known about one condition.

    Attributes:
        name: of the condition.
        condition: its plan.
        rows: by name, in the order of the plan.
        labels: of the rows.
        groups: of the rows, see ``Method``; 'oracle' also where the transform is one.
        bounds: 'chance' and 'ceiling' of each metric.
    """

    name: str
    condition: Condition
    rows: Mapping[str, Row]
    labels: Mapping[str, str]
    groups: Mapping[str, str]
    bounds: Mapping[str, Mapping[str, float]]

    @property
    def base(self) -> Optional[Row]:
        """The row that all are compared with."""
        return self.rows.get(self.condition.baseline)

    @property
    def cost(self) -> str:
        """Key of paired recall: rsum, or SumR where only texts ask."""
        rsum, sum_of_texts = 'retrieval/rsum', 'retrieval/t2v_SumR'
        return rsum if any(row.values(rsum) for row in self.rows.values()) else sum_of_texts

    @property
    def oracles(self) -> set[str]:
        """Names of the rows that know what no method may know."""
        return {name for name, group in self.groups.items() if group == 'oracle'}

    def label(self, name: str) -> str:
        """Of a row, in Markdown: oracles in italics."""
        return f'*{self.labels[name]}*' if name in self.oracles else self.labels[name]

    def gain(self, row: Row, key: str) -> Optional[Difference]:
        """Difference to the baseline; None for the baseline itself and where there is none."""
        if self.base is None or row.name == self.base.name:
            return None
        return difference(row, self.base, key)

    def share(self, row: Row) -> Optional[float]:
        """Percent of the oracle's gain in the aim."""
        oracle = self.rows.get(self.condition.oracle or '')
        if self.base is None or oracle is None or row.name == self.base.name:
            return None
        return share(row, self.base, oracle, self.condition.aim)

    def verdict(self, row: Row) -> str:
        """See :func:`verdict`."""
        aim, cost = self.condition.aim, self.cost
        paired = None if aim == cost else self.gain(row, cost)
        return verdict(self.gain(row, aim), paired, lower=lower_is_better(aim))

    def missing(self) -> list[str]:
        """'label: seed 1', for each seed that others have and a method lacks."""
        raw = [row for row in self.rows.values() if not row.transform]
        seeds = {seed for row in raw for seed in row.cells}
        lacks = {row.name: sorted(seeds - row.cells.keys()) for row in raw}
        return [
            f'{self.labels[name]}: seed {", ".join(map(str, those))}'
            for name, those in lacks.items()
            if those
        ]


def make_views(
    folder: Path, methods: Mapping[str, Method], conditions: Mapping[str, Condition]
) -> tuple[list[View], list[Cell], list[Cell]]:
    """Read a folder of cells.

    Args:
        folder: with the cells, and ``conditions.json`` where there is one.
        methods: all that may have cells.
        conditions: the same; of each, the methods that it lists are shown.

    Returns:
        Conditions with cells, in the order of the plan; their cells; and cells of no plan.

    Raises:
        ValueError: see :func:`load_cells`; or ``conditions.json`` holds what is no number.
    """
    cells = load_cells(folder)
    shown = {
        name: [method for method in plan.methods if method in methods]
        for name, plan in conditions.items()
    }
    planned = {(name, method) for name, those in shown.items() for method in those}
    known = [cell for cell in cells if (cell.condition, cell.method) in planned]
    path = folder / 'conditions.json'
    bounds = load_json(path) if path.exists() else {}
    views = []
    for name, plan in conditions.items():
        rows = make_rows(
            [cell for cell in known if cell.condition == name],
            {method: methods[method].transforms for method in shown[name]},
        )
        if not rows:
            continue
        given = {bound: bounds.get(name, {}).get(bound, {}) for bound in ('chance', 'ceiling')}
        for bound, numbers in given.items():
            check_numbers(numbers, f'{path}: {bound!r} of {name}')
        labels = {key: label_of(row, methods) for key, row in rows.items()}
        groups = {
            key: 'oracle' if 'oracle' in row.transform else methods[row.method].group
            for key, row in rows.items()
        }
        views.append(View(name, plan, rows, labels, groups, given))
    rest = [cell for cell in cells if (cell.condition, cell.method) not in planned]
    return views, known, rest


def label_of(row: Row, methods: Mapping[str, Method]) -> str:
    """Of a row, with its transform."""
    label = methods[row.method].label
    return f'{label}, {TRANSFORMS[row.transform]}' if row.transform else label


def mean_and_deviation(values: Iterable[float]) -> Optional[tuple[float, float]]:
    """Mean and sample standard deviation (0 for one value), None for no values."""
    values = list(values)
    if not values:
        return None
    return statistics.mean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def difference(row: Row, base: Row, key: str) -> Optional[Difference]:
    """``row - base`` of a metric, paired by seed.

    Its interval resamples seeds and test queries where the metric has a value for each query
    (:data:`OF_QUERIES`), and is Student's over seeds where it has none.

    Returns:
        None where no seed has both.

    Raises:
        ValueError: the queries of the two rows are not the same.
    """
    ours, theirs = row.values(key), base.values(key)
    seeds = tuple(sorted(ours.keys() & theirs.keys()))
    if not seeds:
        return None
    gains = [ours[seed] - theirs[seed] for seed in seeds]
    queries = _query_gains(row, base, seeds, OF_QUERIES.get(key, ()))
    low, high = bootstrap(queries) if queries else student(gains)
    return Difference(statistics.mean(gains), low, high, seeds, bool(queries))


def _query_gains(
    row: Row, base: Row, seeds: Sequence[int], fields: Sequence[str]
) -> list[np.ndarray]:
    """For each field float64 [S, Q], in percent; nothing where a seed lacks one."""
    gains = []
    for field in fields:
        pairs = [(row.queries(seed, field), base.queries(seed, field)) for seed in seeds]
        if any(values is None for pair in pairs for values in pair):
            return []
        known = ~np.isnan(pairs[0][1])
        for seed, pair in zip(seeds, pairs):
            if not all(np.array_equal(~np.isnan(values), known) for values in pair):
                raise ValueError(
                    f'{row.cells[seed].condition}: {row.name} and {base.name} of seed {seed} have '
                    f'not the same queries in {field!r}: remove the older cells and run again'
                )
        gains.append(100 * np.stack([ours[known] - theirs[known] for ours, theirs in pairs]))
    return gains


def bootstrap(fields: Sequence[np.ndarray], *, draws: int = DRAWS) -> tuple[float, float]:
    """95 % percentile interval of the mean over seeds of a sum of means over queries.

    Each draw takes S of S seeds and Q of Q queries with replacement. All seeds meet the same test
    queries, so a draw takes the same ones for all; and the same ones for fields of equally many
    queries, since text i and video i are a pair where a video has one text.

    Args:
        fields: each float64 [S, Q], the differences of S seeds on Q queries.
        draws: number of them.

    Returns:
        Both ends.

    Source: Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, Ch. 13.
    """
    sums = sum(_counts(field.shape[1], draws) @ field.T / field.shape[1] for field in fields)
    seeds = sums.shape[1]
    means = (sums * _counts(seeds, draws, stream=1)).sum(1) / seeds
    low, high = np.quantile(means, ((1 - LEVEL) / 2, (1 + LEVEL) / 2))
    return float(low), float(high)


@lru_cache(maxsize=64)
def _counts(number: int, draws: int, stream: int = 0) -> np.ndarray:
    """Float64 [draws, number], how often each is drawn; always the same for the same arguments."""
    draw = np.random.default_rng([stream, number])
    return draw.multinomial(number, np.full(number, 1 / number), draws).astype(np.float64)


def student(values: Sequence[float]) -> tuple[float, float]:
    """95 % interval of the mean of a few normal values; infinite for one value."""
    mean, freedom = statistics.mean(values), len(values) - 1
    if not freedom:
        return -math.inf, math.inf
    half = student_quantile(freedom) * statistics.stdev(values) / math.sqrt(len(values))
    return mean - half, mean + half


@lru_cache(maxsize=64)
def student_quantile(freedom: int) -> float:
    """Student's t that ``LEVEL`` of all |t| do not exceed.

    With t = sqrt(freedom) tan(angle), the density of the angle is cos(angle)^(freedom - 1).
    """
    angles = np.linspace(0, np.pi / 2, 200_001)
    heights = np.cos(angles) ** (freedom - 1)
    areas = np.cumsum((heights[1:] + heights[:-1]) / 2)
    return float(np.sqrt(freedom) * np.tan(np.interp(LEVEL, areas / areas[-1], angles[1:])))


def share(row: Row, base: Row, oracle: Row, key: str) -> Optional[float]:
    """Percent of the oracle's gain over ``base`` that ``row`` closes, over the seeds of all three.

    Returns:
        None where they share no seed, or the interval of the oracle's gain includes 0.
    """
    seeds = row.values(key).keys() & base.values(key).keys() & oracle.values(key).keys()
    ours, plain, best = (
        Row(r.method, r.transform, {seed: r.cells[seed] for seed in sorted(seeds)})
        for r in (row, base, oracle)
    )
    gain = difference(best, plain, key)
    if gain is None or not gain.sign:
        return None
    return 100 * difference(ours, plain, key).mean / gain.mean


def time_ratio(row: Row, base: Row) -> Optional[float]:
    """Median over the common seeds of CPU time to that of ``base``."""
    pairs = [
        (row.cells[seed].cpu_seconds, base.cells[seed].cpu_seconds)
        for seed in row.cells.keys() & base.cells.keys()
    ]
    ratios = [ours / theirs for ours, theirs in pairs if ours is not None and theirs is not None]
    return statistics.median(ratios) if ratios else None


def verdict(aim: Optional[Difference], cost: Optional[Difference], *, lower: bool) -> str:
    """What a row does, by the signs of two intervals.

    Args:
        aim: difference to the baseline in the measure that the condition spoils.
        cost: in paired recall; None where that is the aim.
        lower: whether a lower aim is better.

    Returns:
        'helps' or 'harms' if the interval of the aim excludes 0; else 'costs' if that of the cost
        is below 0, 'nothing' if not; 'unknown' where nothing was measured, or by one seed without
        queries.
    """
    if aim is None or math.isinf(aim.high):
        return 'unknown'
    if aim.sign:
        return 'helps' if (aim.sign > 0) != lower else 'harms'
    return 'costs' if cost is not None and cost.sign < 0 else 'nothing'
