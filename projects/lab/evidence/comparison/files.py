"""The files of effects.py, read again and checked: cells, and the rows that they make."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Iterable, Mapping, NamedTuple, Optional, Sequence

import numpy as np

from comparison.records import NAME, Key, read_records, unpacked

#: Paired recall where only texts ask: t2v R@1 + R@5 + R@10.
T2V_RSUM = 'retrieval/t2v_rsum'
#: And where only videos ask.
V2T_RSUM = 'retrieval/v2t_rsum'
#: Mean average precision of what is true, the mean of both directions.
BOTH_MAP = 'semantic/mAP'
#: What is added to the metrics of a test: the parts of a sum, and how many of them one counts.
SUMS = {
    T2V_RSUM: (('retrieval/t2v_R1', 'retrieval/t2v_R5', 'retrieval/t2v_R10'), 1),
    V2T_RSUM: (('retrieval/v2t_R1', 'retrieval/v2t_R5', 'retrieval/v2t_R10'), 1),
    BOTH_MAP: (('semantic/t2v_mAP', 'semantic/v2t_mAP'), 2),
}
#: Measures with a value for each query: 100 x the sum of the means of these fields.
OF_QUERIES = {
    'retrieval/rsum': ('t2v_recalls', 'v2t_recalls'),
    T2V_RSUM: ('t2v_recalls',),
    V2T_RSUM: ('v2t_recalls',),
    'semantic/t2v_P1': ('t2v_P1',),
    'semantic/v2t_P1': ('v2t_P1',),
}
#: By how much such a measure may differ from its queries, in percent points: float32 sums.
TOLERANCE = 0.05
#: Whose settings a cell has: its method's best by the aim of the condition, by paired recall, or
#: those of the row that it is compared with.
OWN, RECALL, MATCHED = ROLES = ('own', 'recall', 'matched')
#: Of ``made``: all text.
MADE = ('date', 'commit', 'machine', 'tower')
FIELDS = dict(
    condition=str,
    method=str,
    seed=int,
    role=str,
    config=str,
    config_sha=str,
    command=str,
    chosen=dict,
    made=dict,
    cpu_seconds=(int, float, type(None)),
    val=dict,
    test=dict,
    queries=dict,
)


class Cell(NamedTuple):
    """One training and its test.

    Attributes:
        condition: name.
        method: name.
        seed: of the training.
        role: one of :data:`ROLES`.
        config: file that was trained.
        config_sha: of the complete config, with all options.
        command: that trained it.
        chosen: point of the grid.
        made: ``date``, ``commit``, ``machine`` and ``tower``, the frame tower of its features.
        cpu_seconds: CPU time of the training and its test; None = no training of its own.
        val: metrics of the chosen epoch.
        test: metrics; those of a transform are prefixed ``<transform>/``. :data:`SUMS` are added.
        queries: for '' and each transform, float64 [Q] by field: ``t2v_recalls`` and
            ``v2t_recalls`` (how many of R@1, R@5, R@10 a query reaches), ``t2v_P1`` and ``v2t_P1``
            (in [0, 1]; NaN = no true item).
    """

    condition: str
    method: str
    seed: int
    role: str
    config: str
    config_sha: str
    command: str
    chosen: Mapping[str, Any]
    made: Mapping[str, str]
    cpu_seconds: Optional[float]
    val: Mapping[str, float]
    test: Mapping[str, float]
    queries: Mapping[str, Mapping[str, np.ndarray]]

    @property
    def key(self) -> Key:
        """What tells it from all others."""
        return self.condition, self.method, self.seed, self.role


class Row(NamedTuple):
    """A method, or a transform of its scores, in one condition.

    Attributes:
        method: name.
        transform: '' = raw scores.
        cells: by seed, ascending.
    """

    method: str
    transform: str
    cells: Mapping[int, Cell]

    @property
    def name(self) -> str:
        """``method`` or ``method/transform``."""
        return '/'.join(filter(None, (self.method, self.transform)))

    @property
    def is_measured(self) -> bool:
        """Whether a cell has a metric of its transform."""
        keys = (key for cell in self.cells.values() for key in cell.test)
        return not self.transform or any(key.startswith(f'{self.transform}/') for key in keys)

    def values(self, key: str) -> dict[int, float]:
        """``key`` of the seeds that have it."""
        key = '/'.join(filter(None, (self.transform, key)))
        return {seed: cell.test[key] for seed, cell in self.cells.items() if key in cell.test}

    def queries(self, seed: int, field: str) -> Optional[np.ndarray]:
        """Float64 [Q], or None where the cell has no such field."""
        return self.cells[seed].queries.get(self.transform, {}).get(field)


def load_json(path: Path) -> Any:
    """What a file holds.

    Raises:
        ValueError: it is no JSON.
    """
    try:
        return json.loads(path.read_text())
    except ValueError as error:
        raise ValueError(f'{path}: no JSON ({error}); remove the file and run again') from None


def load_cells(folder: Path) -> list[Cell]:
    """All lines of ``cells.jsonl``, sorted by condition, method, seed and role.

    Raises:
        ValueError: no cells; or a line is damaged, is of the cell of another line, or has queries
            that do not give its metrics.
    """
    cells, places = [], {}
    for where, fields in read_records(folder):
        cell = cell_of(fields, where)
        first = places.setdefault(cell.key, where)
        if first is not where:
            raise ValueError(f'{where}: the same cell as {first}; remove one of them')
        cells.append(cell)
    if not cells:
        raise ValueError(f'{folder}: no cells, expected them in {NAME}')
    return sorted(cells, key=lambda cell: cell.key)


def cell_of(fields: Any, where: str) -> Cell:
    """One line, checked.

    Args:
        fields: what it holds.
        where: file and line, for errors.

    Raises:
        ValueError: see :func:`load_cells`.
    """
    if not isinstance(fields, dict):
        raise ValueError(f'{where}: expected a JSON object, not {type(fields).__name__}')
    for name, kind in FIELDS.items():
        if name not in fields:
            raise ValueError(f'{where}: has no {name!r}')
        if not isinstance(fields[name], kind) or isinstance(fields[name], bool):
            raise ValueError(f'{where}: {name!r} is {str(fields[name])[:40]!r}, of the wrong type')
    if fields['role'] not in ROLES:
        raise ValueError(f"{where}: 'role' is {fields['role']!r}, expected one of {ROLES}")
    for name in MADE:
        if not isinstance(fields['made'].get(name), str):
            raise ValueError(f"{where}: 'made' has no {name!r}")
    for part in ('val', 'test'):
        check_numbers(fields[part], f'{where}: {part!r}')
    queries = {
        transform: {name: _query_values(where, name, given) for name, given in table.items()}
        for transform, table in fields['queries'].items()
    }
    test = with_sums(fields['test'], ('', *queries))
    cell = Cell(**{**{name: fields[name] for name in FIELDS}, 'test': test, 'queries': queries})
    _check_queries(where, cell)
    return cell


def with_sums(numbers: Mapping[str, float], transforms: Iterable[str] = ('',)) -> dict[str, float]:
    """Metrics with those :data:`SUMS` of each transform whose parts are there; '' = raw scores."""
    sums = {}
    for transform in transforms:
        prefix = f'{transform}/' if transform else ''
        for name, (parts, count) in SUMS.items():
            if all(prefix + key in numbers for key in parts):
                sums[prefix + name] = sum(numbers[prefix + key] for key in parts) / count
    return {**numbers, **sums}


def check_numbers(numbers: Mapping[str, Any], where: str) -> None:
    """Refuse what is no finite number.

    Raises:
        ValueError: names ``where`` and the key.
    """
    for key, value in numbers.items():
        if type(value) not in (int, float) or not math.isfinite(value):
            raise ValueError(f'{where} of {key!r} is {value!r}, expected a finite number')


def check_text_videos(given: Any, where: str) -> Optional[np.ndarray]:
    """Int64 [T], video of each text; None where nothing is given or each video has one text.

    Raises:
        ValueError: names ``where``; it is no list of positions.
    """
    if given is None:
        return None
    if not isinstance(given, list) or any(type(x) is not int or x < 0 for x in given):
        raise ValueError(f'{where}: expected a list with the position of the video of each text')
    return None if len(set(given)) == len(given) else np.array(given)


def _query_values(where: str, name: str, given: Any) -> np.ndarray:
    try:
        values = np.array(unpacked(given), dtype=np.float64)
    except (TypeError, ValueError):
        values = np.empty(0)
    if np.isnan(values).all():  # of none, too
        raise ValueError(f"{where}: 'queries' of {name!r}: expected a number for each query")
    return values


def _check_queries(where: str, cell: Cell) -> None:
    for transform, table in cell.queries.items():
        for measure, names in OF_QUERIES.items():
            key = '/'.join(filter(None, (transform, measure)))
            if key not in cell.test or not all(name in table for name in names):
                continue
            given = 100 * sum(float(np.nanmean(table[name])) for name in names)
            if abs(given - cell.test[key]) > TOLERANCE:
                raise ValueError(
                    f"{where}: {key!r} is {cell.test[key]:.3f}, its 'queries' give {given:.3f}"
                )


def make_rows(cells: Iterable[Cell], methods: Mapping[str, Sequence[str]]) -> dict[str, Row]:
    """Rows by name, in the order of ``methods``; methods and transforms without metrics have none.

    Args:
        cells: of one condition.
        methods: the transforms of each that have rows, in that order; '' = raw scores.
    """
    found: dict[str, dict[int, Cell]] = {}
    for cell in cells:
        found.setdefault(cell.method, {})[cell.seed] = cell
    rows = [
        Row(method, transform, found[method])
        for method, transforms in methods.items()
        if method in found
        for transform in transforms
    ]
    return {row.name: row for row in rows if row.is_measured}


def controls_of(
    row: Row, rows: Mapping[str, Row], controls: Sequence[str], baseline: str, meant: bool
) -> tuple[str, ...]:
    """Names of the rows that it is compared with, the one that decides first.

    Args:
        row: whose controls they are.
        rows: all of the condition, by name.
        controls: of the method; () = the baseline.
        baseline: method.
        meant: whether the row is its method as that is meant to be tested: its controls are those
            very rows. Those of any other row are what the same transform makes of their methods.

    Returns:
        Those that have cells; where none has, the baseline with the same transform, else the
        baseline's raw scores; nothing where there is none of them, and for the baseline itself.
    """
    same = Row(baseline, row.transform, {}).name
    names = controls or (same,)
    if not meant:
        names = [Row(name.split('/')[0], row.transform, {}).name for name in names]

    def found(names: Iterable[str]) -> tuple[str, ...]:
        return tuple(name for name in dict.fromkeys(names) if name in rows and name != row.name)

    return found(names) or found((same, baseline))[:1]
