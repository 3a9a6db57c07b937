"""Conditions of effects.py as one reads them: rows, their controls, differences and verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Collection, Mapping, NamedTuple, Optional, Sequence

import numpy as np

from comparison.columns import TRUTH, lower_is_better
from comparison.files import (
    MATCHED,
    OWN,
    RECALL,
    T2V_RSUM,
    Cell,
    Row,
    check_numbers,
    check_text_videos,
    controls_of,
    load_cells,
    load_json,
    make_rows,
    with_sums,
)
from comparison.kinds import TRANSFORMS, Condition, Method
from comparison.statistics import Difference, difference, is_better, share
from comparison.verdicts import MATTERS, Truth, collapsed_seeds, verdict
from mmvtr.evaluation.paired import LEVEL, holm


class View(NamedTuple):
    """What is known about one condition.

    Attributes:
        name: of the condition.
        condition: its plan.
        rows: by name, in the order of the methods.
        labels: of the rows, and of planned methods without cells.
        groups: of the rows, see ``Method``; 'oracle' also where the transform is one, 'control'
            where the transform is missing that its method is meant to be tested with.
        bounds: 'chance' and 'ceiling' of each metric.
        controls: by row, those that it is compared with, see ``files.controls_of``.
        text_videos: int64 [T], video of each text; None where each video has one text.
        meant: rows with the transform that their method is meant to be tested with, or with none.
        corrected: by row and control, Holm's p of their difference in the aim, of all that the
            condition shows, times how often it was looked at.
        others: rows by role, at other settings than their own best; a method that has the same
            there stands with its own.
    """

    name: str
    condition: Condition
    rows: Mapping[str, Row]
    labels: Mapping[str, str]
    groups: Mapping[str, str]
    bounds: Mapping[str, Mapping[str, float]]
    controls: Mapping[str, Sequence[str]]
    text_videos: Optional[np.ndarray]
    meant: frozenset[str]
    corrected: Mapping[tuple[str, str], float] = {}
    others: Mapping[str, Mapping[str, Row]] = {}

    @property
    def base(self) -> Optional[Row]:
        """The row that all are compared with."""
        return self.rows.get(self.condition.baseline)

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
        return difference(row, self.base, key, self.text_videos)

    def edge(self, row: Row, key: str, control: Optional[str] = None) -> Optional[Difference]:
        """Difference to one of its controls, the first if none is named; None without any."""
        control = control or next(iter(self.controls[row.name]), None)
        if control is None:
            return None
        return difference(row, self.rows[control], key, self.text_videos)

    def share(self, row: Row) -> Optional[float]:
        """Percent of the oracle's gain in the aim."""
        oracle = self.rows.get(self.condition.oracle or '')
        if self.base is None or oracle is None or row.name == self.base.name:
            return None
        return share(row, self.base, oracle, self.condition.aim, self.text_videos)

    def oracle_gains(self, key: str) -> bool:
        """Whether the oracle is better than the baseline, by its interval."""
        oracle = self.rows.get(self.condition.oracle or '')
        return oracle is not None and is_better(self.gain(oracle, key), key)

    def is_baseline(self, row: Row) -> bool:
        """Whether it is a plain loss or encoder, which other rows are compared with."""
        return not row.transform and self.groups[row.name] == 'baseline'

    def collapsed(self, row: Row) -> tuple[int, ...]:
        """Seeds whose training has learnt nothing, see :func:`~verdicts.collapsed_seeds`."""
        return collapsed_seeds(row, self.bounds['chance'].get(T2V_RSUM))

    def verdict(self, row: Row, control: Optional[str] = None) -> str:
        """See :func:`~verdicts.verdict`; 'collapsed' where a seed of either row has."""
        control = control or next(iter(self.controls[row.name]), None)
        if self.collapsed(row) or control and self.collapsed(self.rows[control]):
            return 'collapsed'
        plan = self.condition
        gain, paid = (self.edge(row, key, control) for key in (plan.aim, plan.cost))
        p = self.corrected.get((row.name, control), 0.0)
        return word_of(plan, gain, paid, self.truth(row, control), p)

    def truth(self, row: Row, control: Optional[str] = None) -> Truth:
        """Differences to one of its controls in what is true, in both directions."""
        return Truth(*(self.edge(row, key, control) for key in TRUTH))

    def elsewhere(self, row: Row, role: str, key: Optional[str] = None) -> Optional[Difference]:
        """Difference to its first control at other settings; None where nothing was trained there.

        Args:
            row: at its own.
            role: ``MATCHED``: the row has the settings that are best for its control; ``RECALL``:
                each of both has those of its best paired recall.
            key: of the measure; None: the aim.
        """
        control, rows = next(iter(self.controls[row.name]), None), self.others.get(role, {})
        base = (rows if role == RECALL else self.rows).get(control)
        if base is None or row.name not in rows:
            return None
        return difference(rows[row.name], base, key or self.condition.aim, self.text_videos)

    def missing(self) -> list[str]:
        """'label: no cells' of planned methods; 'label: seed 1' of seeds that others have."""
        planned = [name for name in self.condition.methods if name in self.labels]
        found = {name: self.rows[name].cells.keys() for name in planned if name in self.rows}
        seeds = set().union(*found.values())
        lacks = {
            name: f'seed {", ".join(map(str, sorted(seeds - found[name])))}'
            if name in found
            else 'no cells'
            for name in planned
            if seeds - found.get(name, set())
        }
        return [f'{self.labels[name]}: {those}' for name, those in lacks.items()]


def word_of(
    plan: Condition,
    gain: Optional[Difference],
    paid: Optional[Difference],
    truth: Truth = Truth(),
    p: float = 0.0,
) -> str:
    """The verdict on a difference in the aim of a condition, and one in its cost.

    Args:
        plan: the condition.
        gain, paid: the differences.
        truth: what is true, in both directions.
        p: of the aim, corrected.
    """
    return verdict(
        gain,
        None if plan.aim == plan.cost else paid,
        matters=MATTERS[plan.aim],
        lower=lower_is_better(plan.aim),
        holds=p <= 1 - LEVEL,
        trades=gain is not None and truth.trades(plan.aim, gain),
    )


class Found(NamedTuple):
    """What lies in a folder of cells.

    Attributes:
        views: conditions with cells, in the order of the plan.
        cells: of the views.
        strangers: cells of no plan.
        older: cells of another config than the plan's.
    """

    views: list[View]
    cells: list[Cell]
    strangers: list[Cell]
    older: list[Cell]


def make_views(
    folder: Path,
    methods: Mapping[str, Method],
    conditions: Mapping[str, Condition],
    shas: Mapping[tuple[str, str, int, str], str] = {},
) -> Found:
    """Read a folder of cells.

    Args:
        folder: with the cells; ``conditions.json`` and ``tuning.json`` where there are any.
        methods: all that may have cells.
        conditions: the same; of each, the methods that it lists are shown.
        shas: of the plan's configs, by condition, method, seed and role; cells without are taken
            as they are.

    Raises:
        ValueError: see :func:`load_cells`; or ``conditions.json`` holds what is no number.
    """
    cells = load_cells(folder)
    planned = {
        (name, method)
        for name, plan in conditions.items()
        for method in plan.methods
        if method in methods
    }
    known, older, rest = [], [], []
    for cell in cells:
        sha = shas.get(cell.key, cell.config_sha)
        its_plan = known if sha == cell.config_sha else older
        (its_plan if (cell.condition, cell.method) in planned else rest).append(cell)
    path = folder / 'conditions.json'
    described = load_json(path) if path.exists() else {}
    tuning = load_json(folder / 'tuning.json') if (folder / 'tuning.json').exists() else {}
    views = [
        _view(
            name, plan, those, methods, described.get(name, {}), path, tuning.get(plan.family, {})
        )
        for name, plan in conditions.items()
        if (those := [cell for cell in known if cell.condition == name])
    ]
    return Found(views, known, rest, older)


def _view(
    name: str,
    plan: Condition,
    cells: Sequence[Cell],
    methods: Mapping[str, Method],
    described: Mapping[str, Any],
    path: Path,
    tuned: Mapping[str, Mapping[str, Any]],
) -> View:
    """One condition.

    Args:
        name, plan, methods: what is planned; ``cells``: of it.
        described: what the file at ``path`` says of it.
        tuned: what was chosen on val, by method of its family.
    """
    shown = [method for method in methods if method in plan.methods]
    own = [cell for cell in cells if cell.role == OWN]
    rows = make_rows(own, {method: _transforms(methods[method]) for method in shown})
    bounds = {bound: described.get(bound, {}) for bound in ('chance', 'ceiling')}
    for bound, numbers in bounds.items():
        check_numbers(numbers, f'{path}: {bound!r} of {name}')
    bounds = {bound: with_sums(numbers) for bound, numbers in bounds.items()}
    labels = {method: methods[method].label for method in shown}
    labels.update((key, label_of(row, methods)) for key, row in rows.items())
    meant = frozenset(
        key for key, row in rows.items() if row.transform == methods[row.method].meant
    )
    groups = {key: _group(row, methods[row.method], key in meant) for key, row in rows.items()}
    controls = {
        key: controls_of(row, rows, methods[row.method].controls, plan.baseline, key in meant)
        for key, row in rows.items()
    }
    videos = check_text_videos(described.get('text_videos'), f"{path}: 'text_videos' of {name}")
    view = View(name, plan, rows, labels, groups, bounds, controls, videos, meant)
    others = {}
    for role in (MATCHED, RECALL):
        same = {method for method in shown if _is_own(role, method, plan, methods, tuned)}
        others[role] = _at(role, rows, cells, same)
    return view._replace(corrected=_corrected(view), others=others)


def _is_own(
    role: str,
    method: str,
    plan: Condition,
    methods: Mapping[str, Method],
    tuned: Mapping[str, Mapping[str, Any]],
) -> bool:
    """Whether the settings of a role are those that the method has anyway."""
    control = next(iter(methods[method].controls), plan.baseline).split('/')[0]
    of, key = (control, 'chosen') if role == MATCHED else (method, 'by_recall')
    if not {method, of} <= tuned.keys():
        return False
    return tuned[of].get(key) == tuned[method]['chosen']


def _at(
    role: str, rows: Mapping[str, Row], cells: Sequence[Cell], same: Collection[str]
) -> dict[str, Row]:
    """The rows with the cells of a role; those of ``same`` methods, without any, as they are."""
    found: dict[str, dict[int, Cell]] = {}
    for cell in cells:
        if cell.role == role:
            found.setdefault(cell.method, {})[cell.seed] = cell
    return {
        name: row._replace(cells=found.get(row.method, row.cells))
        for name, row in rows.items()
        if row.method in {*found, *same}
    }


def _corrected(view: View) -> dict[tuple[str, str], float]:
    """Holm's p of the rows that get a verdict, over each control that is another training, times
    the looks at them."""
    ps = {
        (name, control): gain.p
        for name, row in view.rows.items()
        if name not in view.oracles and not view.is_baseline(row) and not view.collapsed(row)
        for control in view.controls[name]
        if not view.collapsed(view.rows[control])
        and (gain := view.edge(row, view.condition.aim, control)) is not None
        and any(gain.gains)
    }
    looks = view.condition.looks
    return {pair: min(1.0, looks * p) for pair, p in zip(ps, holm(list(ps.values())))}


def label_of(row: Row, methods: Mapping[str, Method]) -> str:
    """Of a row, with its transform, or the lack of one, where that is not as it is meant."""
    method = methods[row.method]
    if row.transform == method.meant:
        return method.label
    how = TRANSFORMS[row.transform] if row.transform else 'biases left out at test'
    return f'{method.label}, {how}'


def _transforms(method: Method) -> list[str]:
    """Of the rows of a method; the one that it is meant with comes first."""
    return list(dict.fromkeys((method.meant, '', *method.transforms)))


def _group(row: Row, method: Method, meant: bool) -> str:
    if 'oracle' in row.transform:
        return 'oracle'
    return method.group if meant or row.transform else 'control'
