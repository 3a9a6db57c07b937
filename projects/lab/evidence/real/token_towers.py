"""Vectors of a small tower of F, for late_interaction.py: an image and a caption are a token each.

    python projects/lab/evidence/real/token_towers.py --seeds 0

Writes ``work_dirs/real/tokens_F_one_SEED.npz``: vectors [N, 1, D] of the test set and of 2,000
training pairs, half precision, with masks.  Three minutes a seed.
"""

from __future__ import annotations

import argparse
import logging
import warnings
from pathlib import Path

import numpy as np
import torch
from methods import METHODS
from reading import dataset
from run import WORK, Evaluator, Place, places_of
from training import train

RATE = 1e-3


def written(place: Place, seed: int) -> Path:
    """One training and its vectors, once."""
    path = WORK / f'tokens_F_one_{seed}.npz'
    if path.exists():
        return path
    method = METHODS['infonce']
    judge = Evaluator(place, method)
    trained = train(
        place.config(method),
        dataset(place.folder, 'train', judge.kind),
        place.schedule,
        rate=RATE,
        seed=seed,
        judge=judge.judge,
        hooks=[],
        work_dir=WORK / 'runs' / f'{place.name}_tokens',
    )
    trained.model.load_state_dict(trained.best)
    held: dict[str, np.ndarray] = {}
    for part in ('test', 'bank'):
        for side, levels in zip(('text', 'video'), judge.levels(trained.model, part)):
            mean = levels['global'].mean
            held[f'{part}_{side}_vectors'] = mean[:, None].half().numpy()
            held[f'{part}_{side}_mask'] = np.ones((len(mean), 1), dtype=bool)
        held[f'{part}_own'] = judge.split(part).own.numpy()
    np.savez(path, **held)
    print(path, f'{trained.seconds:.0f} s, val {max(x for _, x in trained.curve):.1f}', flush=True)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--seeds', nargs='+', type=int, default=[0])
    seeds = parser.parse_args().seeds
    warnings.simplefilter('ignore')
    logging.disable(logging.INFO)
    torch.set_num_threads(1)
    (place,) = places_of(argparse.Namespace(set=None, sets=['F'], only=['infonce'], text='minilm'))
    for seed in seeds:
        written(place, seed)


if __name__ == '__main__':
    main()
