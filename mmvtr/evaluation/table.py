"""Text tables of results: each number beside chance and ceiling, and the protocol line."""

from __future__ import annotations

import re
import textwrap
from typing import Mapping, NamedTuple, Optional, Sequence

from mmvtr.evaluation.metric import Report

#: Directions as in keys -> titles, in the order of the columns; '' = a number without a direction.
DIRECTIONS = {
    't2v': 'text to video',
    'v2t': 'video to text',
    'v2t_caption': 'video to caption',
    '': 'both directions',
}
CELL, GAP, WIDTH = 8, '  ', 100
#: A median rank above this multiple of chance's is reported as a sign of distances, if chance's is
#: at least LEAST_MEDIAN (small galleries can reach the multiple by accident).
WORSE, LEAST_MEDIAN = 1.5, 10


class _Row(NamedTuple):
    """A row of the table: keys that differ only in their direction."""

    prefix: str
    name: str
    keys: dict[str, str]


def results_table(report: Report, of: Optional[str] = None) -> str:
    """Return a text table: a row a metric, a column a direction, with value, chance and ceiling.

    A further column has the value of a score that is equal for all true pairs.  It and the ceiling
    are left out if the truth of the set is not known.

    Args:
        report: the numbers.
        of: the part of the set that they cover, for a first line; None = the whole set.

    Example:
        ::

            >>> report = Report({'retrieval/t2v_R1': 12.34}, {'retrieval/t2v_R1': 1}, {})
            >>> print(results_table(report))
                              text to video
                              value  chance
            retrieval  R@1     12.3     1.0
    """
    limits = dict(alike=report.alike, ceiling=report.ceiling)
    columns = dict(value=report.values, chance=report.chance, **limits)
    columns = {name: numbers for name, numbers in columns.items() if numbers}
    head = [f'on {of}'] if of else []
    return '\n\n'.join([*head, *_blocks(list(report.values), columns), *_far_below_chance(report)])


def transforms_table(report: Report) -> str:
    """Return a text table of raw numbers beside those of each test-time transform, by direction.

    Example:
        ::

            >>> raw, ours = {'retrieval/t2v_R1': 12.34}, {'retrieval/t2v_R1': 15.0}
            >>> print(transforms_table(Report(raw, {}, {}, {'sinkhorn': ours})))
                               text to video
                                raw sinkhorn
            retrieval  R@1     12.3     15.0
    """
    columns = {'raw': report.values, **report.transformed}
    keys = [key for key in report.values if any(key in t for t in report.transformed.values())]
    rows = _rows(keys)
    present = [d for d in DIRECTIONS if any(d in row.keys for row in rows)]
    blocks = (
        _block([row for row in rows if direction in row.keys], [direction], columns)
        for direction in present
    )
    return '\n\n'.join([*blocks, *_far_below_chance(report)])


def _far_below_chance(report: Report) -> list[str]:
    """Return a note if matches rank last in their lists; none for small galleries."""
    notes = []
    for key, value in report.values.items():
        chance = report.chance.get(key, 0.0)
        if key.endswith('_MdR') and chance >= LEAST_MEDIAN and value > WORSE * chance:
            notes.append(f'{DIRECTIONS.get(key.split("/")[-1][:3])} {value:g} (chance {chance:g})')
    if not notes:
        return []
    return [
        f'note: matches stand at the end of the lists, median rank {", ".join(notes)}: are these '
        'distances? Higher must be better: give -x. Or rows and columns are not of one order'
    ]


def comparison_table(baseline: Mapping[str, float], method: Mapping[str, float]) -> str:
    """Return a text table of two results and their difference, a column a direction.

    Example:
        ::

            >>> print(comparison_table({'retrieval/t2v_R1': 12.3}, {'retrieval/t2v_R1': 15.0}))
                                       text to video
                            baseline  method  change
            retrieval  R@1      12.3    15.0    +2.7
    """
    change = {key: method[key] - value for key, value in baseline.items() if key in method}
    columns = dict(baseline=baseline, method=method, change=change)
    return '\n\n'.join(_blocks([*change], columns))


def protocol_line(protocol: Mapping[str, object]) -> str:
    """Return ``protocol: name value | ...`` wrapped at 100 characters, without None values.

    Example:
        ::

            >>> protocol_line({'split': 'test', 'texts': 1000, 'frames': None})
            'protocol: split test | texts 1000'
    """
    items = [f'{name} {value}' for name, value in protocol.items() if value is not None]
    # Keep an item on one line if it fits.
    unbroken = [x.replace(' ', '\xa0') if len(x) < WIDTH - 12 else x for x in items]
    wrapped = textwrap.fill(
        f'protocol: {" | ".join(unbroken)}',
        WIDTH,
        subsequent_indent=' ' * 10,
        break_on_hyphens=False,
        break_long_words=False,
    )
    return wrapped.replace('\xa0', ' ')


def _rows(keys: Sequence[str]) -> list[_Row]:
    rows: dict[tuple[str, str], _Row] = {}
    for key in keys:
        prefix, _, name = key.partition('/')
        direction = max((d for d in DIRECTIONS if name.startswith(f'{d}_')), key=len, default='')
        name = name.removeprefix(f'{direction}_')
        shown = re.sub(r'^(R|P|nDCG)(\d+)$', r'\1@\2', name)
        rows.setdefault((prefix, shown), _Row(prefix, shown, {})).keys[direction] = key
    return list(rows.values())


def _blocks(keys: Sequence[str], columns: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return blocks of rows: the directions side by side, then rows without a direction."""
    rows = _rows(keys)
    directed = [row for row in rows if '' not in row.keys]
    present = [d for d in DIRECTIONS if any(d in row.keys for row in directed)]
    others = [row for row in rows if '' in row.keys]
    blocks = (_block(directed, present, columns), _block(others, [''], columns))
    return [block for block in blocks if block]


def _block(
    rows: Sequence[_Row], directions: Sequence[str], columns: Mapping[str, Mapping[str, float]]
) -> str:
    if not rows:
        return ''
    margin = max(len(row.prefix) for row in rows) + 2
    label = margin + max(len(row.name) for row in rows) + 1
    cells = {name: max(CELL, len(name) + 1) for name in columns}
    wide = sum(cells.values())
    if label + len(directions) * (wide + len(GAP)) - len(GAP) > WIDTH:
        parts = _narrower(directions, cells, WIDTH - label)
        if len(parts) > 1:
            return '\n\n'.join(_part(rows, *part, columns) for part in parts)
    heads = GAP.join(DIRECTIONS[d].rjust(wide) for d in directions)
    names = GAP.join(''.join(name.rjust(cells[name]) for name in columns) for _ in directions)
    lines = [' ' * label + heads, ' ' * label + names]
    last = None
    for row in rows:
        stub = ('' if row.prefix == last else row.prefix).ljust(margin) + row.name
        values = [_values(row.keys.get(d), columns, cells) for d in directions]
        lines.append((stub.ljust(label) + GAP.join(values)).rstrip())
        last = row.prefix
    return '\n'.join(lines)


def _narrower(
    directions: Sequence[str], cells: Mapping[str, int], room: int
) -> list[tuple[Sequence[str], list[str]]]:
    """Return the directions and columns into which a block wider than ``room`` is cut.

    One part per direction; for a single direction, its first column and as many others as fit.
    """
    if len(directions) > 1:
        return [([direction], [*cells]) for direction in directions]
    first, *others = cells
    parts = [[first]]
    for name in others:
        if len(parts[-1]) > 1 and sum(cells[x] for x in [*parts[-1], name]) > room:
            parts.append([first])
        parts[-1].append(name)
    return [(directions, part) for part in parts]


def _part(
    rows: Sequence[_Row],
    directions: Sequence[str],
    names: Sequence[str],
    columns: Mapping[str, Mapping[str, float]],
) -> str:
    """Return the block of some directions and columns, without empty rows."""
    shown = [row for row in rows if row.keys.keys() & {*directions}]
    return _block(shown, directions, {name: columns[name] for name in names})


def _values(
    key: Optional[str], columns: Mapping[str, Mapping[str, float]], cells: Mapping[str, int]
) -> str:
    values = {name: None if key is None else of.get(key) for name, of in columns.items()}
    signs = {'change': '+'}
    return ''.join(
        ('' if value is None else f'{value:{signs.get(name, "")}.{_digits(key)}f}').rjust(
            cells[name]
        )
        for name, value in values.items()
    )


def _digits(key: str) -> int:
    """Return the number of decimals: one for percentages and ranks, three for mean scores."""
    fine = '_mean_' in key or key.endswith(('_error', '_hubness')) or 'modality_gap' in key
    return 3 if fine else 1
