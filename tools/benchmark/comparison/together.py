"""Corpora on which nothing was chosen, taken together: what a row gains on all of them."""

from __future__ import annotations

import statistics
from typing import Mapping, NamedTuple, Optional, Sequence

from comparison.columns import heading
from comparison.files import MATCHED, OWN, Row
from comparison.general import UNUSED
from comparison.markdown import percent, table
from comparison.views import View
from mmvtr.evaluation.paired import student

UNUSED_NAMES = tuple(f'general{seed}' for seed in UNUSED)
SETTINGS = {OWN: 'own best', MATCHED: "its control's best"}
ABOUT = """\
**Over the unused corpora together.** Differences to the first control, training by training (each
pair has its seed), with Student's 95 % intervals over all trainings. At the settings of its control
nothing was chosen for the row.
"""


class Gains(NamedTuple):
    """Of a row to its first control, training by training.

    Attributes:
        aim, cost: differences, each of a training and one of its control with the same seed.
        shares: percent of what the oracle gains there, with the same seed.
        by_corpus: means of the shares.
    """

    aim: list[float]
    cost: list[float]
    shares: list[float]
    by_corpus: list[float]


def unused_together(views: Mapping[str, View]) -> str:
    """What rows gain on the corpora that nothing was chosen on; '' before any was trained on."""
    made = together([views[name] for name in UNUSED_NAMES if name in views])
    return f'{ABOUT}\n{made}' if made else ''


def together(views: Sequence[View]) -> str:
    """A table of all rows with several trainings on more than one of these corpora; '' for none."""
    lines = []
    names = dict.fromkeys(name for view in views for name in view.rows)
    for name in names:
        for role, settings in SETTINGS.items():
            gains = gains_of(views, name, role)
            if gains is None or len(gains.by_corpus) < 2:
                continue
            if not any(gains.aim) and not any(gains.cost):
                continue  # the trainings of its control once more
            label = next(view.label(name) for view in views if name in view.rows)
            lines.append(
                [
                    label,
                    settings,
                    f'{len(gains.aim)}',
                    *(_interval(values) for values in (gains.aim, gains.cost, gains.shares)),
                    ', '.join(map(percent, gains.by_corpus)),
                ]
            )
    if not lines:
        return ''
    plan = views[0].condition
    headings = ['row', 'settings', 'trainings', heading(plan.aim), heading(plan.cost)]
    return table([*headings, "of the oracle's gain", 'corpus by corpus'], lines)


def gains_of(views: Sequence[View], name: str, role: str) -> Optional[Gains]:
    """Where row, control and oracle have the same seeds; None where nothing was trained."""
    found = Gains([], [], [], [])
    for view in views:
        rows = view.rows if role == OWN else view.others.get(role, {})
        if name not in rows or name in view.oracles or not view.controls[name]:
            continue
        if role != OWN and rows[name].cells is view.rows[name].cells:
            continue  # its settings are its control's anyway
        control, oracle = (
            view.rows.get(other or '') for other in (view.controls[name][0], view.condition.oracle)
        )
        if control is None or oracle is None or view.base is None:
            continue
        aim, cost = (
            _differences(rows[name], control, key)
            for key in (view.condition.aim, view.condition.cost)
        )
        won = _differences(oracle, view.base, view.condition.aim)
        seeds = sorted(aim.keys() & cost.keys() & won.keys())
        if not seeds:
            continue
        shares = [100 * aim[seed] / won[seed] for seed in seeds]
        found.aim.extend(aim[seed] for seed in seeds)
        found.cost.extend(cost[seed] for seed in seeds)
        found.shares.extend(shares)
        found.by_corpus.append(statistics.mean(shares))
    return found if found.aim else None


def _differences(row: Row, control: Row, key: str) -> Mapping[int, float]:
    ours, theirs = row.values(key), control.values(key)
    return {seed: ours[seed] - theirs[seed] for seed in ours.keys() & theirs.keys()}


def _interval(values: Sequence[float]) -> str:
    low, high = student(values)
    return f'{statistics.mean(values):+.1f} [{low:+.1f}, {high:+.1f}]'
