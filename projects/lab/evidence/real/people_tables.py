"""Tables of people's word on F, with intervals over seeds and over images."""

from __future__ import annotations

from typing import Optional, Sequence

import numpy as np
from measure import bits, unpacked
from tables import NAMES, TEXTS, Change, Row, Table, _head, _line, _mean, _over

#: Of each item of a test set, in a row.
CAPTIONS = dict(F=5, J=5, M=4, L=4, T=4)
PEOPLE = dict(
    auc='AUC', expert_rho='expert rho', map='mAP', extra_ap='AP of EXTRA', judged_p1='P@1'
)


def people_blocks(table: Table, words: Optional[Table], again: Sequence[Row]) -> dict[str, str]:
    """All of them by the name of their mark.

    Args:
        table: of F, over MiniLM.
        words: of F, over words from scratch.
        again: rows made again, which have each image's share in people's figures.
    """
    shares = [Table(again, 'F', 'minilm'), *([words] if words else [])]
    return {
        'people': people_table(table, short=True),
        'people-all': people_table(table, short=False),
        'items': by_items(table),
        'people-items': '\n\n'.join(filter(None, map(people_by_items, shares))),
    }


def people_by_items(table: Table) -> str:
    """Differences in people's figures with intervals over images, where one excludes 0; or ''."""
    keys = ('auc', 'expert_rho', 'map')
    lines = _head([f'Flickr8k, {TEXTS[table.text]}', 'seeds', *(PEOPLE[key] for key in keys)])
    for name in NAMES:
        pairs = [(a, b) for a, b in table.paired(name, 'best') if 'shares' in a and 'shares' in b]
        if not pairs or not table.control(name):
            continue
        shown = []
        for key in keys:
            mean = np.mean([a['people'][key] - b['people'][key] for a, b in pairs])
            moved = [unpacked(a['shares'][key]) - unpacked(b['shares'][key]) for a, b in pairs]
            half = 1.96 * np.sqrt((np.mean(moved, 0) ** 2).sum())
            shown.append(Change(mean, mean - half, mean + half, 1.0, len(pairs) + 1).short)
        if '**' in ''.join(shown):
            lines.append(_line(_over(table, name), len(pairs), *shown))
    return '\n'.join(lines) if len(lines) > 2 else ''


def people_table(table: Table, *, short: bool) -> str:
    """People's word beside paired recall: differences to the control.

    Args:
        short: three measures, and rows of which an interval excludes 0.
    """
    shown = dict([*PEOPLE.items()][:3]) if short else PEOPLE
    lines, keys = _head(['method', *shown.values()]), [f'people.{key}' for key in shown]
    base = table.figures('infonce', 'best').values()
    if base:
        lines.append(_line('InfoNCE itself', *(f'{_mean(base, key):.1f}' for key in keys)))
    for name in table.listed():
        changes = [table.change(name, key).short for key in keys]
        if not short or '**' in ''.join(changes):
            lines.append(_line(_over(table, name), *changes))
    return '\n'.join(lines)


def by_items(table: Table, draws: int = 2000) -> str:
    """R@1 with intervals over items, drawn with their captions, of rows where one excludes 0."""
    draw = np.random.default_rng(0)
    lines = _head(['method', 't2v R@1', 'v2t R@1'])
    for name in table.listed():
        pairs = [(a, b) for a, b in table.paired(name, 'best') if 'hits' in a and 'hits' in b]
        if not pairs:
            continue
        shown = []
        for direction in ('t2v', 'v2t'):
            each = np.mean([_bits(a, direction) - _bits(b, direction) for a, b in pairs], 0)
            captions = CAPTIONS.get(table.name, 1) if direction == 't2v' else 1
            each = 100 * each[: len(each) // captions * captions].reshape(-1, captions).mean(1)
            means = each[draw.integers(0, len(each), (draws, len(each)))].mean(1)
            low, high = np.quantile(means, (0.025, 0.975))
            shown.append(str(Change(each.mean(), low, high, 1.0, len(pairs) + 1)))
        if '**' in ''.join(shown):
            lines.append(_line(_over(table, name), *shown))
    return '\n'.join(lines)


def _bits(row: Row, direction: str) -> np.ndarray:
    return bits(row['hits'][direction])
