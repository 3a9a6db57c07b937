"""Hubs of token-wise scores on real sets, raw and debiased.

    python projects/lab/evidence/real/token_towers.py        # trains; a minute or two a tower
    python projects/lab/evidence/real/late_interaction.py    # reads work_dirs/real/tokens_*.npz

Texts ask for videos and back, by mmvtr.fit with a bank of 2,000 training pairs.  Writes
``cells/late_interaction.json``; ``--page`` writes its table into ``pages/late_interaction.md``.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import defaultdict
from pathlib import Path
from typing import Any, Iterator

import numpy as np
import torch

import mmvtr
from mmvtr import Tokens
from mmvtr.functional import k_occurrence, ranks, skewness

HERE = Path(__file__).resolve().parent.parent
WORK = Path('work_dirs/real')
ROWS = dict(
    one=('Flickr8k images, one token each', 'maxsim', 'maxsim_of_items'),
    maxsim=('MSR-VTT words and frames, MaxSim', 'maxsim', 'maxsim_of_items'),
    ti=("MSR-VTT words and frames, UATVR's interaction", 'token_wise', 'token_wise'),
)
TRANSFORMS = (None, 'auto', 'unbalanced_sinkhorn', 'sinkhorn', 'csls', 'nnn')


def tokens(held: Any, part: str, side: str) -> Tokens:
    """Texts or videos of the test set or of the bank."""
    name = f'{part}_{side}_'
    weights = held[name + 'weights'].astype('f4') if name + 'weights' in held else None
    return Tokens(held[name + 'vectors'].astype('f4'), held[name + 'mask'], weights)


def measured(path: Path) -> Iterator[dict[str, Any]]:
    """Both directions of one tower, a row a transform."""
    _, _, row, seed = path.stem.split('_')
    held = dict(np.load(path))
    _, *geometries = ROWS[row]
    test = {side: tokens(held, 'test', side) for side in ('text', 'video')}
    bank = {side: tokens(held, 'bank', side) for side in ('text', 'video')}
    bank['video'] = bank['video'][held['bank_own']]
    own = torch.tensor(held['test_own'])
    match = own[:, None] == torch.arange(len(test['video']))
    for direction, geometry in zip(('t2v', 'v2t'), geometries):
        ask, find = ('text', 'video') if direction == 't2v' else ('video', 'text')
        positives = match if direction == 't2v' else match.t()
        for name in TRANSFORMS:
            start = time.process_time()
            known = None if name is None else (bank[ask], bank[find])
            fitted = mmvtr.fit(test[find], known, name, geometry=geometry)
            seconds = time.process_time() - start
            scores = torch.from_numpy(fitted.scores(test[ask]))
            found, lists = ranks(scores, positives), k_occurrence(scores, k=10)
            yield dict(
                row=row,
                seed=int(seed),
                direction=direction,
                transform=str(name),
                chosen=fitted.transform_ or 'raw',
                r1=100 * float((found <= 1).double().mean()),
                r10=100 * float((found <= 10).double().mean()),
                skewness=float(skewness(lists)),
                most=100 * float(lists.max()) / len(scores),
                never=100 * float((lists == 0).double().mean()),
                fit_seconds=round(seconds, 1),
            )


def table(rows: list[dict[str, Any]]) -> str:
    """Markdown, means over seeds."""
    groups = defaultdict(list)
    for row in rows:
        groups[row['row'], row['direction'], row['transform']].append(row)
    lines = [
        '| set and scores | direction | transform | R@1 | R@10 | hubness | in most lists | in none |',
        '|---|---|---|---|---|---|---|---|',
    ]
    for (row, direction, name), some in groups.items():
        mean = {key: np.mean([x[key] for x in some]) for key in ('r1', 'r10', 'skewness', 'most')}
        never = np.mean([x['never'] for x in some])
        said = 'raw' if name == 'None' else f'`{name}`'
        if name == 'auto':
            said += ' (' + ', '.join(sorted({x['chosen'] for x in some})) + ')'
        lines.append(
            f'| {ROWS[row][0]} | {direction} | {said} | {mean["r1"]:.1f} | {mean["r10"]:.1f} | '
            f'{mean["skewness"]:.1f} | {mean["most"]:.1f} % | {never:.1f} % |'
        )
    return '\n'.join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--page', action='store_true', help='the table from the cells')
    args = parser.parse_args()
    cells, page = HERE / 'cells/late_interaction.json', HERE / 'pages/late_interaction.md'
    rows = json.loads(cells.read_text()) if cells.exists() else []
    if args.page:
        text = page.read_text()
        mark = r'(<!-- table -->\n\n).*?(\n\n<!-- /table -->)'
        page.write_text(re.sub(mark, lambda m: m[1] + table(rows) + m[2], text, flags=re.S))
        return
    torch.set_num_threads(1)
    done = {(row['row'], row['seed']) for row in rows}
    for path in sorted(WORK.glob('tokens_*.npz')):
        _, _, row, seed = path.stem.split('_')
        if (row, int(seed)) not in done:
            for one in measured(path):
                rows.append(one)
                print(one, flush=True)
            cells.write_text(json.dumps(rows, indent=1) + '\n')


if __name__ == '__main__':
    main()
