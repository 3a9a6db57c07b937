"""Tables of stored results: what bounds set S, and eta on F."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from tables import _head, _line

STORED = Path(__file__).resolve().parents[1] / 'cells/real/stronger'


def stored_blocks() -> dict[str, str]:
    """Both by the name of their mark."""
    return {'S-bound': bound(), 'S-eta': eta()}


def bound() -> str:
    """R@k of the linear level among 1,432 unseen videos, of parts of the training set."""
    found = json.loads((STORED / 'bound.json').read_text())
    lines = _head(['linear level', 'queries', 'R@1', 'R@5', 'R@10'])

    def add(name: str, row: dict[str, Any]) -> None:
        lines.append(_line(name, row['queries'], row['R1'], row['R5'], row['R10']))

    for row in found['curve']:
        add(f'trained on {row["videos"]} videos', row)
    for row in found['frames']:
        most = '' if row['most'] == row['least'] else ' and more'
        name = f'{row["least"]}{most}' if row['most'] > 20 else f'{row["least"]} to {row["most"]}'
        add(f'of these, {name if most else row["least"]} frames', row)
    add('other captions in place of the video', found['captions'])
    return '\n'.join(lines)


def eta() -> str:
    """Eta of unannotated pairs by what people say, quartiles."""
    with np.load(STORED / 'eta.npz') as stored:
        values, grade, crowd = (stored[key] for key in ('eta', 'expert', 'crowd'))
    rows = [(f"experts' mean grade near {g}", np.rint(grade) == g) for g in (1, 2, 3, 4)]
    rows += [('the crowd says no', crowd <= 0.5), ('the crowd says yes', crowd > 0.5)]
    lines = _head(['pairs that nobody annotated', 'pairs', 'a quarter below', 'median', 'above'])
    for name, some in [row for row in rows if row[1].any()]:
        shown = np.quantile(values[some], (0.25, 0.5, 0.75))
        lines.append(_line(name, f'{some.sum():,}', *(f'{x:.2f}' for x in shown)))
    return '\n'.join(lines)
