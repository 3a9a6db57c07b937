"""Corpora on which nothing was chosen, taken together: what a row gains on all of them."""

from __future__ import annotations

import statistics
from typing import Mapping, NamedTuple, Optional, Sequence

from comparison.columns import FOUND, TRUTH, heading
from comparison.files import MATCHED, OWN, Row
from comparison.general import LAST, LATER, UNUSED
from comparison.markdown import percent, signed, table
from comparison.statistics import Difference
from comparison.views import View
from mmvtr.evaluation.paired import holm
from mmvtr.evaluation.seeds import of_seeds

UNUSED_NAMES = tuple(f'general{seed}' for seed in (*UNUSED, *LATER, *LAST))
SETTINGS = {OWN: 'own best', MATCHED: "its control's best"}
#: How often the table was looked at before its last corpora were made, and after.  Conditions of
#: one corpus have ``looks`` of their own.
LOOKS = 2
ABOUT = """\
**Over the unused corpora together.** Differences to the control of the same seed, with Student's
95 % intervals over the means of the corpora: trainings on one corpus have its clips, captions and
test in common, so that more of them say nothing about another one. At the settings of its control
no learning rate was chosen for the row. *Of the possible gain*: of what the oracle gains over that
control, also by corpus (*24*: `general24`). *Corrected p*: of the aim, for the number of lines of
this table (Holm), and for two looks, as corpora 42 to 44 were made when the others had been seen;
so are its verdicts.
"""


class Gains(NamedTuple):
    """Of a row to a control: of each corpus the mean over its trainings.

    Attributes:
        trainings: pairs, each of one seed.
        aim, cost: differences.
        shares: percent of what the oracle gains over the control.
        seeds: of the corpora.
        beside: differences in truth and in paired recall of each direction, by key.
    """

    trainings: int
    aim: list[float]
    cost: list[float]
    shares: list[float]
    seeds: list[int]
    beside: Mapping[str, list[float]] = {}

    def of(self, key: str) -> Optional[Difference]:
        """Over the corpora, in one of the measures beside the aim; None where one has it not."""
        values = self.beside.get(key, ())
        return over_corpora(values) if len(values) == len(self.aim) else None


def unused_together(views: Mapping[str, View]) -> str:
    """What rows gain on the corpora that nothing was chosen on; '' before any was trained on."""
    made = together(unused(views))
    return f'{ABOUT}\n{made}' if made else ''


def unused(views: Mapping[str, View]) -> list[View]:
    """Those of them that have cells."""
    return [views[name] for name in UNUSED_NAMES if name in views]


class Pooled(NamedTuple):
    """A line of the table: a row at some settings, over its first control.

    Attributes:
        name: of the row.
        role: of its settings.
        gains: corpus by corpus.
        p: of the aim, corrected for the number of lines and of looks.
    """

    name: str
    role: str
    gains: Gains
    p: float


def pooled(views: Sequence[View]) -> list[Pooled]:
    """All rows with trainings on more than one of these corpora."""
    names = dict.fromkeys(name for view in views for name in view.rows)
    found = [
        (name, role, gains)
        for name in names
        for role in SETTINGS
        if (gains := gains_of(views, name, role)) is not None
        and len(gains.aim) > 1
        and (any(gains.aim) or any(gains.cost))  # else the trainings of its control once more
    ]
    ps = holm([over_corpora(gains.aim).p for *_, gains in found]) if found else []
    return [Pooled(*one, min(1.0, LOOKS * p)) for one, p in zip(found, ps)]


def together(views: Sequence[View]) -> str:
    """A table of them; '' for none."""
    lines = []
    for line in pooled(views):
        having = next(view for view in views if line.name in view.rows)
        plan, gains = having.condition, line.gains
        figures = [(gains.aim, plan.aim), (gains.cost, plan.cost), (gains.shares, plan.aim)]
        lines.append(
            [
                having.label(line.name),
                having.labels[having.controls[line.name][0]],
                SETTINGS[line.role],
                f'{gains.trainings}',
                *(told(over_corpora(values), key) for values, key in figures),
                *(told(gain, key) if (gain := gains.of(key)) else '' for key in TRUTH),
                ', '.join(f'{n}: {percent(x)}' for n, x in zip(gains.seeds, gains.shares)),
                f'{line.p:.3f}',
            ]
        )
    if not lines:
        return ''
    plan = views[0].condition
    headings = ['row', 'over', 'settings', 'trainings', heading(plan.aim), heading(plan.cost)]
    headings += ['of the possible gain, %', *map(heading, TRUTH), 'corpus by corpus', 'corrected p']
    return table(headings, lines)


def gains_of(views: Sequence[View], name: str, role: str) -> Optional[Gains]:
    """Where row, control and oracle have the same seeds; None where nothing was trained.

    Args:
        views: the corpora.
        name: of the row.
        role: of its settings; its first control has its own.
    """
    trainings, found = 0, Gains(0, [], [], [], [], {key: [] for key in (*TRUTH, *FOUND)})
    for view in views:
        rows = view.rows if role == OWN else view.others.get(role, {})
        if name not in rows or name in view.oracles or not view.controls[name]:
            continue
        if role != OWN and rows[name].cells is view.rows[name].cells:
            continue  # its settings are its control's anyway
        base = view.rows.get(view.controls[name][0])
        oracle = view.rows.get(view.condition.oracle or '')
        if base is None or oracle is None:
            continue
        aim, cost = (
            _differences(rows[name], base, key) for key in (view.condition.aim, view.condition.cost)
        )
        won = _differences(oracle, base, view.condition.aim)
        seeds = sorted(aim.keys() & cost.keys() & won.keys())
        if not seeds:
            continue
        trainings += len(seeds)
        found.aim.append(statistics.mean(aim[seed] for seed in seeds))
        found.cost.append(statistics.mean(cost[seed] for seed in seeds))
        found.shares.append(statistics.mean(100 * aim[seed] / won[seed] for seed in seeds))
        found.seeds.append(view.condition.corpus.get('seed', 0))
        for key, values in found.beside.items():
            gains = _differences(rows[name], base, key)
            values += [statistics.mean(gains[seed] for seed in seeds)] if gains else []
    return found._replace(trainings=trainings) if trainings else None


def over_corpora(values: Sequence[float]) -> Difference:
    """Of a mean of one value a corpus."""
    found = of_seeds(values)
    return Difference(found.mean, *found.interval, (), True, found.p, tuple(values))


def told(gain: Difference, key: str) -> str:
    """'+1.0 [-1.0, +3.0]'; of one corpus without an interval."""
    ends = f' [{signed(gain.low, key)}, {signed(gain.high, key)}]' if len(gain.gains) > 1 else ''
    return signed(gain.mean, key) + ends


def _differences(row: Row, control: Row, key: str) -> Mapping[int, float]:
    ours, theirs = row.values(key), control.values(key)
    return {seed: ours[seed] - theirs[seed] for seed in ours.keys() & theirs.keys()}
