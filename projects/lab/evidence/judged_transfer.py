"""Trainings of judged_training.py on images that they know nothing of, judged by other people.

    python projects/lab/evidence/judged_transfer.py DATA [--methods ...]

DATA has the folders cxc/ and coco/ of pages/judgments.md.  The trained models of batch 1,024 score
captions of COCO's 5,000 test images, halves of 2,500 at a time: one asks, the other four are the
item, as in judgments.py; Crisscrossed Captions says which others are right.  No setting and no
epoch was chosen on them.  Differences to InfoNCE over the seeds that were looked at, over those
that confirm, and over both.  Seconds a model; what is done is not done again.  Writes
judged_transfer.json and judged_transfer_tables.md.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, Mapping

import numpy as np
import torch
from judged_training import (
    BASE,
    CONFIRMING,
    FIRST,
    METHODS,
    differences,
    folder_of,
    levels_of,
)
from judging.corpora import crisscrossed
from judging.encoded import Encoder
from judging.measures import DIRECTIONS, known, measure
from judging.trained import transfer_tables
from judging.witnesses import load

from mmvtr.storage import write_atomically

CELLS = Path(__file__).resolve().parent / 'cells'
BATCH = 1024
RAW = [name for name, method in METHODS.items() if not method.scores]
SEEDS = dict(first=[*FIRST], confirming=[*CONFIRMING], all=[*FIRST, *CONFIRMING])


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add('data', type=Path, metavar='DATA', help='folder of the judged sets')
    add('--methods', nargs='+', choices=RAW, default=RAW)
    add('--runs', type=Path, default=Path('work_dirs/benchmark/judged_training'))
    add('--out', type=Path, default=CELLS, help='folder to write')
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    torch.set_num_threads(1)
    of: dict[str, dict[int, dict[str, np.ndarray]]] = {}
    for name in dict.fromkeys([BASE, *args.methods]):
        for seed in SEEDS['all']:
            folder = args.runs / folder_of(METHODS[name], BATCH, seed)
            if (folder / 'done').exists():
                of.setdefault(name, {})[seed] = values_of(folder, args.data)
                print(f'{name}, seed {seed}', flush=True)
    content = dict(batch=BATCH, rows=rows_of(of))
    for name, text in (
        ('judged_transfer.json', json.dumps(content, indent=1) + '\n'),
        ('judged_transfer_tables.md', transfer_tables(content)),
    ):
        write_atomically(args.out / name, lambda file, text=text: file.write(text.encode()))


def values_of(folder: Path, data: Path) -> dict[str, np.ndarray]:
    """Of each of 5,000 queries, by direction and measure; kept beside the training."""
    kept = folder / 'crisscrossed.npz'
    if not kept.exists():
        parts: dict[str, list[np.ndarray]] = {}
        for half in crisscrossed(data / 'cxc', data / 'coco', Encoder(*load(folder))):
            for direction in DIRECTIONS:
                rows = half.scores if direction == 't2v' else half.scores.t().contiguous()
                for key, x in measure(rows, known(half, direction))._asdict().items():
                    parts.setdefault(f'{direction}_{key}', []).append(x.numpy())
        whole = {key: np.concatenate(both) for key, both in parts.items()}
        write_atomically(kept, lambda file: np.savez(file, **whole))
    with np.load(kept) as values:
        return dict(values)


def rows_of(of: Mapping[str, Mapping[int, Mapping[str, np.ndarray]]]) -> list[dict[str, Any]]:
    """By method and kind of seeds: levels, and differences to InfoNCE of the same seeds."""
    rows = []
    for name, values in of.items():
        for kind, seeds in SEEDS.items():
            own = {seed: values[seed] for seed in seeds if seed in values}
            base = {seed: of[BASE][seed] for seed in own if seed in of.get(BASE, {})}
            if not own or (kind == 'all' and not values.keys() & {*CONFIRMING}):
                continue
            row = dict(method=name, seeds=[*own], level=levels_of(own))
            if name != BASE and base:
                everybody = np.ones(len(next(iter(own.values()))['t2v_R1']), dtype=bool)
                row['minus_infonce'] = differences(own, base, everybody)
            rows.append(row)
    return rows


if __name__ == '__main__':
    main()
