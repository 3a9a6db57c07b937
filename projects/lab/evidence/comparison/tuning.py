"""The grid of pages/comparison_tables.md, what was chosen, and how little that choice says."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, Mapping, Sequence

from comparison.kinds import Condition, Method
from comparison.markdown import table
from mmvtr.datasets.planted_corpus.world import Knobs

#: Columns of a table of the grid; more points go to a further table.
WIDTH = 8


def tuning_section(
    tuning: Mapping[str, Any],
    methods: Mapping[str, Method],
    conditions: Mapping[str, Condition],
    link: str,
) -> str:
    """The section of the page.

    Args:
        tuning: ``tuning.json``.
        methods: by name.
        conditions: the same.
        link: folder of the cells, from the page.
    """
    names = dict.fromkeys(name for choices in tuning.values() for name in choices)
    normalised = [methods[name].label for name in names if name in methods and methods[name].meant]
    text = (
        'The grid is the learning rate and nothing else, the same for every method; all other '
        "settings are the configs' own. Each point was trained once, and the best on val (bold) "
        'was taken for all conditions of the family. It is judged by the aim at the last epoch '
        '(moments: v2t mAP; classes: class nDCG), '
        'which is shown; one training cannot tell two apart that differ by less than what '
        'would matter, and among those near to the best paired recall decides. What paired recall '
        'alone would choose is in italics.'
    )
    if normalised:
        text += (
            f' Those trained with NCL ({", ".join(normalised)}) are judged by rsum after Sinkhorn '
            'instead: NCL is meant to be tested with its biases.'
        )
    parts = ['## Tuning\n', text + '\n']
    for family, choices in tuning.items():
        points = {_point(entry['point']) for choice in choices.values() for entry in choice['grid']}
        of = sorted(
            {f'{choice["condition"]}, seed {choice["seed"]}' for choice in choices.values()}
        )
        parts.append(f'### {family} (tuned on {"; ".join(of)})\n')
        ordered = sorted(points)
        for k in range(0, len(ordered), WIDTH):
            some = ordered[k : k + WIDTH]
            lines = [
                [methods[name].label if name in methods else name, *_grid_line(choice, some)]
                for name, choice in choices.items()
            ]
            parts.append(table(['method', *some], [line for line in lines if any(line[1:])]))
        confounded = _confounded(choices, methods, conditions)
        if confounded:
            parts.append(confounded + '\n')
        parts.append(f'From [`tuning.json`]({link}/tuning.json).\n')
    return '\n'.join(parts)


def _confounded(
    choices: Mapping[str, Any], methods: Mapping[str, Method], conditions: Mapping[str, Condition]
) -> str:
    """Who is compared with the baseline at another point of the grid, and what decided that."""
    where = next(iter(choices.values()))['condition']
    if where not in conditions or conditions[where].baseline not in choices:
        return ''
    plan = conditions[where]
    base = choices[plan.baseline]
    others = [methods[m].label for m in choices if choices[m]['chosen'] != base['chosen']]
    if not others:
        return ''
    clips = {**asdict(Knobs()), **plan.corpus}['num_val']
    values = ', '.join(f'{entry["val"]:.1f} at {_point(entry["point"])}' for entry in base['grid'])
    return (
        f'**Confounded**: {methods[plan.baseline].label} ({values}) stands at '
        f'{_point(base["chosen"])}; at another point stand {"; ".join(others)}. What '
        f'decided is one training a point, judged on {clips} clips of val (a query is '
        f'{100 / clips:.2f} points of each R@K or P@1). A verdict between two points holds the '
        'learning rate as well.'
    )


def _grid_line(choice: Mapping[str, Any], points: Sequence[str]) -> list[str]:
    values = {_point(entry['point']): f'{entry["val"]:.1f}' for entry in choice['grid']}
    marks = {_point(choice['chosen']): '**'}
    if 'by_recall' in choice:
        marks.setdefault(_point(choice['by_recall']), '*')
    marked = {point: marks.get(point, '') + value for point, value in values.items()}
    return [marked[point] + marks.get(point, '') if point in marked else '' for point in points]


def _point(options: Mapping[str, Any]) -> str:
    """'lr 0.001, temperature 0.07': by the last part of each option that says something."""
    words = []
    for option, value in options.items():
        parts = [part for part in option.split('.') if part not in ('init', 'value')]
        words.append(f'{parts[-1]} {value}')
    return ', '.join(words)
