"""Tables of a study: levels over seeds, and paired differences to a control."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any, Mapping, NamedTuple, Optional, Sequence

import numpy as np

from mmvtr.engine.against import results_of
from mmvtr.engine.before import is_finished
from mmvtr.engine.loops.earlier_runs import best_in
from mmvtr.engine.loops.facts import differing
from mmvtr.engine.rows import Row
from mmvtr.engine.runner import QUERIES
from mmvtr.evaluation.differences import (
    Difference,
    Measured,
    corrected,
    difference,
    differences_csv,
    differences_table,
    in_words,
)
from mmvtr.evaluation.queries import QueryValues, read_queries
from mmvtr.evaluation.results import Results, refuse_other_test
from mmvtr.storage import write_text
from mmvtr.studies.reading import Study, rows_of_seed, source_of
from mmvtr.studies.running import LAST


class FinishedTest(NamedTuple):
    """A finished test of a row.

    Attributes:
        results: its numbers.
        queries: values of single queries; None: not known.
        last: test of the last epoch; None: not made, or there is no other one.
        only: whether there is no other epoch that could be tested.
    """

    results: Results
    queries: Optional[QueryValues] = None
    last: Optional[FinishedTest] = None
    only: bool = True

    def at(self, epoch: str) -> Optional[FinishedTest]:
        """Return the test of the 'best' or the 'last' epoch; None: not made."""
        return self if epoch == 'best' or self.only else self.last


def tests_of(study: Study, seeds: Sequence[int], work: Path) -> dict[str, dict[int, FinishedTest]]:
    """Return the finished tests of all rows by name and seed."""
    tests: dict[str, dict[int, FinishedTest]] = {row.name: {} for row in study.rows}
    for seed in seeds:
        of_seed = rows_of_seed(study, seed, work)
        for row in study.rows:
            folder = of_seed[source_of(study, row).name].folder
            test = read_test(folder)
            if test is not None:
                last, only = read_test(folder / LAST), not best_in(folder)
                tests[row.name][seed] = test._replace(last=last, only=only)
    return tests


def read_test(folder: Path) -> Optional[FinishedTest]:
    """Return the newest test in a folder; None before its end."""
    if not is_finished(folder):
        return None
    queries = sorted(folder.glob(f'*/{QUERIES}'))
    return FinishedTest(results_of(folder), read_queries(queries[-1]) if queries else None)


def row_of(row: Row, results: Mapping[str, float], metrics: Mapping[str, str]) -> dict[str, float]:
    """Return a row's own metrics out of all results; missing ones are left out."""
    keys = {key: f'{row.prefix}{key}' for key in metrics}
    return {key: float(results[full]) for key, full in keys.items() if full in results}


def heading(results: Mapping[str, Results]) -> list[str]:
    """Return how the rows of a table differ from the first, according to their results' metadata.

    Args:
        results: row name -> results of one seed.
    """
    lines: list[str] = []
    first = next(iter(results), None)
    for name in [*results][1:]:
        pair, names = (results[name], results[first]), (name, first)
        try:
            refuse_other_test(*pair, names)
        except ValueError as error:
            lines.append(str(error).replace('are not compared', 'stand in one table'))
        lines += differing(pair[0].trainings, pair[1].trainings, names)
    return [*dict.fromkeys(lines)]


def table(
    study: Study,
    rows: Mapping[str, Sequence[Mapping[str, float]]],
    differences: Sequence[str] = (),
) -> str:
    """Return a Markdown table: each row's mean +- deviation over seeds, and a paper's numbers.

    Args:
        study: the study.
        rows: row name -> a dict of metrics per seed; unfinished rows have empty cells.
        differences: lines of :func:`heading`.
    """
    printed = any(row.printed for row in study.rows)
    heads = [
        h for head in study.metrics.values() for h in [head, *([f'{head}, printed'] * printed)]
    ]
    lines = [
        study.title,
        '',
        *(f'- {line}' for line in differences),
        *([''] if differences else []),
        '| row | ' + ' | '.join(heads) + ' |',
        '|---' * (len(heads) + 1) + '|',
    ]
    for row in study.rows:
        cells = []
        for place, key in enumerate(study.metrics):
            cells.append(_spread([seed[key] for seed in rows.get(row.name, ()) if key in seed]))
            if printed:
                number = row.printed[place] if row.printed else None
                cells.append('' if number is None else f'{number:g}')
        lines.append(f'| {row.name} | ' + ' | '.join(cells) + ' |')
    return '\n'.join(lines + (['', study.note] if study.note else []))


def _spread(values: Sequence[float]) -> str:
    if not values:
        return ''
    mean = f'{statistics.mean(values):.4g}'
    return mean if len(values) == 1 else f'{mean} +- {statistics.stdev(values):.2g}'


def less_is_better(key: str) -> bool:
    """Return whether a lower value of a metric is better: mean and median ranks, errors."""
    return key.endswith(('_MdR', '_MnR', '_error'))


def against(
    study: Study,
    control: str,
    tests: Mapping[str, Mapping[int, FinishedTest]],
    margin: Optional[float] = None,
) -> dict[str, list[Difference]]:
    """Return the paired differences of all other rows to a control, corrected together.

    Args:
        study: the study.
        control: name of a row.
        tests: see :func:`tests_of`.
        margin: see :func:`~mmvtr.evaluation.differences.difference`.

    Returns:
        those of the 'best' epoch (or the only one that is tested), and of the 'last'.

    Raises:
        ValueError: no such row; rows were tested on other queries.
    """
    rows = {row.name: row for row in study.rows}
    if control not in rows:
        raise ValueError(f'--control: {study.name} has no row {control[:80]!r} in its table')
    by_epoch: dict[str, list[Difference]] = {}
    for epoch in ('best', 'last'):
        finished = {
            name: {seed: test.at(epoch) for seed, test in seeds.items() if test.at(epoch)}
            for name, seeds in tests.items()
        }
        every = [test for seeds in tests.values() for test in seeds.values()]
        if epoch == 'last' and not any(test.last for test in every):
            continue
        by_epoch[epoch] = corrected(
            difference(
                name,
                head,
                measured(rows[name], key, finished[name]),
                measured(rows[control], key, finished[control]),
                margin=margin,
            )
            for name in rows
            if name != control
            for key, head in study.metrics.items()
        )
    return by_epoch


def measured(row: Row, key: str, tests: Mapping[int, FinishedTest]) -> Measured:
    """Return a metric of a row's tests."""
    full = f'{row.prefix}{key}'
    values = {
        s: test.results.numbers[full] for s, test in tests.items() if full in test.results.numbers
    }
    parts = {s: tests[s].queries.parts(full) for s in values if tests[s].queries is not None}
    groups: Sequence[np.ndarray] = next(iter(parts.values()), ([], []))[1]
    return Measured(values, {s: arrays for s, (arrays, _) in parts.items()}, groups)


def report(
    study: Study,
    seeds: Sequence[int],
    work: Path,
    *,
    control: Optional[str] = None,
    margin: Optional[float] = None,
) -> str:
    """Write the tables of finished rows, and return them.

    ``table.md``, ``results.json``; with a control ``differences.csv`` (best) and
    ``differences_last.csv``, and a picture of each.

    Args:
        study, seeds, work: whose tests are read.
        control, margin: see :func:`against`.
    """
    tests = tests_of(study, seeds, work)
    rows = {
        row.name: [row_of(row, t.results.numbers, study.metrics) for t in tests[row.name].values()]
        for row in study.rows
    }
    rows = {name: [one for one in values if one] for name, values in rows.items()}
    firsts = {name: next(iter(by.values())).results for name, by in tests.items() if by}
    parts = [table(study, rows, heading(firsts))]
    if control is not None:
        parts += _differences(study, control, tests, margin, work)
    shown = '\n\n'.join(parts)
    write_text(work / 'table.md', shown + '\n')
    content: dict[str, Any] = dict(study=study.name, seeds=[*seeds], rows=rows)
    write_text(work / 'results.json', json.dumps(content, indent=1) + '\n')
    return shown


def _differences(
    study: Study,
    control: str,
    tests: Mapping[str, Mapping[int, FinishedTest]],
    margin: Optional[float],
    work: Path,
) -> list[str]:
    from mmvtr.visualization import save  # imported late: slow
    from mmvtr.visualization.difference_rows import difference_rows

    less = [head for key, head in study.metrics.items() if less_is_better(key)]
    if not tests.get(control, True):
        return [f'no differences: the row {control} is not finished']
    parts = []
    for epoch, rows in against(study, control, tests, margin).items():
        end = '' if epoch == 'best' else f'_{epoch}'
        title = f'{study.name}, {epoch} epoch, over {control}'
        if not rows:
            continue
        parts.append(f'{title}: {in_words(rows, margin)}\n\n{differences_table(rows, less=less)}')
        write_text(work / f'differences{end}.csv', differences_csv(rows, less=less))
        save(difference_rows(rows, less=less, title=title), work / f'differences{end}.png')
    return parts
