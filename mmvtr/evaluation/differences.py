"""Systems against a control: paired differences in several metrics, corrected together.

The same rows are made of score files of one training each (``compare.py``) and of several seeds
(``study.py --control``).
"""

from __future__ import annotations

import csv
import io
import math
from typing import Any, Iterable, Mapping, NamedTuple, Optional, Sequence

import numpy as np

from mmvtr.evaluation.paired import DRAWS, bootstrap, holm, permutation_p
from mmvtr.evaluation.seeds import of_seeds, of_seeds_and_queries

#: p below which a difference, or an equivalence, is resolved.
P_LEVEL = 0.05
#: Words of :meth:`Difference.verdict` for a resolved difference.
RESOLVED = ('better', 'worse')


class Measured(NamedTuple):
    """A metric of a system, training by training.

    Attributes:
        values: seed -> value.
        queries: seed -> values of single queries, whose means add up to the value: arrays
            float64 [Q], NaN = the query has no value.  Empty: the metric has none.
        groups: for each of these arrays int64 [Q], the group of queries that are drawn together
            (texts of one video).  Empty: queries are independent.
    """

    values: Mapping[int, float]
    queries: Mapping[int, Sequence[np.ndarray]] = {}
    groups: Sequence[np.ndarray] = ()


class Difference(NamedTuple):
    """The difference of a system to the control in one metric.

    Attributes:
        system, metric: their names.
        base, own: means of control and system over the seeds of both.
        mean: ``own - base``.
        low, high: 95 % interval of the mean, not corrected; infinite where there is none.
        p: two-sided p-value of no difference.
        over: what the interval generalises to: 'seeds', 'queries', or 'seeds, queries'.
        seeds: number of paired trainings.
        queries: number of queries, 0 if the metric has none.
        clusters: number of groups of queries that are drawn together.
        gained, lost: numbers of queries with a higher and with a lower value, in the mean of seeds.
        p_within: p-value of a difference beyond the margin; None: no margin, or no interval.
        corrected, corrected_within: Holm's corrections of both, over all rows.
        identical: whether each seed and each query has the same value as in the control.
    """

    system: str
    metric: str
    base: float
    own: float
    mean: float
    low: float
    high: float
    p: float
    over: str
    seeds: int
    queries: int = 0
    clusters: int = 0
    gained: int = 0
    lost: int = 0
    p_within: Optional[float] = None
    corrected: float = 1.0
    corrected_within: Optional[float] = None
    identical: bool = False

    def verdict(self, level: float = P_LEVEL, *, less: bool = False) -> str:
        """Return 'better', 'worse', 'identical', 'equivalent' (to a margin) or 'not resolved'.

        Args:
            level: bar of the corrected p-values.
            less: whether a lower value is better.
        """
        if self.corrected < level and self.mean:
            return RESOLVED[(self.mean > 0) == less]
        if self.identical:
            return 'identical'
        within = self.corrected_within
        return 'equivalent' if within is not None and within < level else 'not resolved'


def difference(
    system: str,
    metric: str,
    ours: Measured,
    theirs: Measured,
    *,
    margin: Optional[float] = None,
    draws: int = DRAWS,
) -> Optional[Difference]:
    """Return the paired difference ``ours - theirs``, not yet corrected.

    - Several seeds and values of queries: for other seeds and queries
      (:func:`.seeds.of_seeds_and_queries`).
    - Several seeds without: for other seeds, by Student's t.
    - One seed with values of queries: for other queries, by bootstrap and sign flips of groups of
      queries (:mod:`.paired`).

    Args:
        system, metric: names.
        ours, theirs: the system and the control; seeds of both are compared.
        margin: difference that does not matter, > 0; None: equivalence is not tested.
        draws: of the bootstrap.

    Returns:
        None if they share no seed.

    Raises:
        ValueError: the two have values for different queries.
    """
    seeds = sorted(ours.values.keys() & theirs.values.keys())
    if not seeds:
        return None
    own, base = (float(np.mean([x.values[s] for s in seeds])) for x in (ours, theirs))
    fields, groups = _gains(f'{system}, {metric}', ours, theirs, seeds)
    totals = _totals(fields, groups)
    about = dict(system=system, metric=metric, base=base, own=own, seeds=len(seeds))
    about.update(_counts(fields), clusters=len(totals))
    equal = all(ours.values[seed] == theirs.values[seed] for seed in seeds)
    about['identical'] = equal and not any(field.any() for field in fields)
    if len(seeds) == 1 and fields:
        low, high = bootstrap(fields, groups or None, draws=draws)
        p = permutation_p(totals)
        return Difference(mean=own - base, low=low, high=high, p=p, over='queries', **about)
    if fields:
        estimate = of_seeds_and_queries(fields, groups or None, draws=draws)
    else:
        estimate = of_seeds([ours.values[seed] - theirs.values[seed] for seed in seeds])
    low, high = estimate.interval
    return Difference(
        mean=estimate.mean,
        low=low,
        high=high,
        p=estimate.p,
        over='' if len(seeds) == 1 else 'seeds, queries' if fields else 'seeds',
        p_within=None if margin is None or len(seeds) == 1 else estimate.p_within(margin),
        **about,
    )


def _gains(
    where: str, ours: Measured, theirs: Measured, seeds: Sequence[int]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the differences of queries that have a value, float64 [S, Q] each, and their groups;
    nothing where a seed has none."""
    if not all(x.queries.get(seed) for x in (ours, theirs) for seed in seeds):
        return [], []
    fields, groups = [], []
    for place, first in enumerate(theirs.queries[seeds[0]]):
        answered = ~np.isnan(first)
        pairs = [(ours.queries[seed][place], theirs.queries[seed][place]) for seed in seeds]
        for pair in pairs:
            if not all(np.array_equal(~np.isnan(values), answered) for values in pair):
                raise ValueError(f'{where}: the two do not have values for the same queries')
        if answered.any():
            fields.append(np.stack([mine[answered] - base[answered] for mine, base in pairs]))
            groups += [theirs.groups[place][answered]] if len(theirs.groups) else []
    return fields, groups


def _totals(fields: Sequence[np.ndarray], groups: Sequence[np.ndarray]) -> np.ndarray:
    """Return what each group of queries adds to the difference of the first seed, float64 [G]."""
    if not fields:
        return np.zeros(0)
    groups = groups or [np.arange(field.shape[1]) for field in fields]
    _, places = np.unique(np.concatenate(groups), return_inverse=True)
    shares = np.concatenate([field[0] / field.shape[1] for field in fields])
    return np.bincount(places, weights=shares)


def _counts(fields: Sequence[np.ndarray]) -> dict[str, int]:
    means = np.concatenate([field.mean(0) for field in fields]) if fields else np.zeros(0)
    return dict(queries=len(means), gained=int((means > 0).sum()), lost=int((means < 0).sum()))


def corrected(rows: Iterable[Optional[Difference]]) -> list[Difference]:
    """Return the rows without None, their p-values corrected over all of them (Holm)."""
    differences = [row for row in rows if row is not None]
    tested = [row.p_within for row in differences if row.p_within is not None]
    within = iter(holm(tested))
    return [
        row._replace(corrected=p, corrected_within=None if row.p_within is None else next(within))
        for row, p in zip(differences, holm([row.p for row in differences]))
    ]


#: Columns of a table of differences.
HEADS = (
    'system',
    'metric',
    'control',
    'own',
    'difference',
    '95 % interval',
    'seeds',
    'queries',
    'p',
    'verdict',
)


def differences_table(
    rows: Sequence[Difference], *, level: float = P_LEVEL, less: Sequence[str] = ()
) -> str:
    """Return differences as a Markdown table; p is the corrected one.

    Args:
        rows: corrected.
        level: bar of the verdicts.
        less: names of metrics whose lower values are better.
    """
    lines = ['| ' + ' | '.join(HEADS) + ' |', '|---' * len(HEADS) + '|']
    for row in rows:
        ends = f'{row.low:+.2f} to {row.high:+.2f}' if math.isfinite(row.low) else 'none'
        verdict = row.verdict(level, less=row.metric in less)
        cells = [
            row.system,
            row.metric,
            f'{row.base:.2f}',
            f'{row.own:.2f}',
            f'{row.mean:+.2f}',
            ends,
            f'{row.seeds}',
            f'{row.queries or ""}',
            f'{row.corrected:.4f}',
            f'**{verdict}**' if verdict in RESOLVED else verdict,
        ]
        lines.append('| ' + ' | '.join(cells) + ' |')
    return '\n'.join(lines)


def differences_csv(
    rows: Sequence[Difference], *, level: float = P_LEVEL, less: Sequence[str] = ()
) -> str:
    """Return all fields of differences, and their verdicts, as csv with a header."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator='\n')
    writer.writerow([*Difference._fields, 'verdict'])
    for row in rows:
        writer.writerow([*row, row.verdict(level, less=row.metric in less)])
    return file.getvalue()


def in_words(rows: Sequence[Difference], margin: Optional[float] = None) -> str:
    """Return below which assumptions the intervals and p-values of a table hold."""
    kinds = {row.over for row in rows if row.over}
    over = ' or '.join(sorted(kinds, reverse=True)).replace(', ', ' and ') or 'nothing: one seed'
    systems = {row.system for row in rows}
    changed = {row.system for row in rows if not row.identical}
    same = ''.join(
        f'; {name} is identical to the control in every value: does its option reach the training?'
        for name in sorted(systems - changed)
    )
    within = '' if margin is None else f'; equivalent: within {margin:g} by two one-sided tests'
    return (
        f'paired differences; 95 % intervals, not corrected, for other {over}; p: two-sided, with '
        f"Holm's correction over {len(rows)} comparisons{within}{same}"
    )


def as_dict(row: Difference, *, level: float = P_LEVEL) -> dict[str, Any]:
    """Return a row as it is written to json."""
    return {**row._asdict(), 'verdict': row.verdict(level)}
