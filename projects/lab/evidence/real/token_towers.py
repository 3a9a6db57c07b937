"""Tokens of small towers that were trained to be matched token by token, for late_interaction.py.

    python projects/lab/evidence/real/token_towers.py --sets F T --seeds 0 1 2

Writes ``work_dirs/real/tokens_SET_ROW_SEED.npz``: words and frames of the test set and of 2,000
training pairs, with masks and weights, half precision.
"""

from __future__ import annotations

import argparse
import logging
import warnings
from pathlib import Path
from typing import Mapping

import numpy as np
import torch
from methods import METHODS, PLAIN, Method, model_of
from reading import dataset
from run import WORK, Evaluator, Place, places_of
from torch import Tensor
from training import Schedule, encode, train

from mmvtr.models.similarities.token import TokenSimilarity

RATE = 1e-3
#: Of the token rows; a cosine schedule.
SHORT = Schedule(10, looks=2)
#: Rows by set: sentence and image as one token each; words and frames by ColBERT's MaxSim, whose
#: words alone are matched; and by UATVR's token-wise interaction, both ways, with weights.
ROWS: Mapping[str, Mapping[str, Method]] = dict(
    F=dict(one=METHODS['infonce']),
    T=dict(
        maxsim=Method(
            'ti_vitb16_msrvtt',
            parts=('similarity', 'losses'),
            change={'similarity.mode': 'words', 'similarity.weights': None},
            text='words',
            encoder=PLAIN,
        ),
        ti=METHODS['ti'],
    ),
)


def tokens(model: torch.nn.Module, inputs: Mapping[str, object], side: str) -> dict[str, Tensor]:
    """Vectors [N, L, D], mask and weights [N, L] of the texts or of the videos."""
    texts, videos = encode(model, inputs)
    one = dict(text=texts, video=videos)[side]['global']
    if not isinstance(model.similarity, TokenSimilarity):
        return dict(vectors=one.mean[:, None], mask=torch.ones(len(one.mean), 1).bool())
    weights = model.similarity._weigh(side, one.tokens.float(), one.mask)
    found = dict(vectors=one.tokens, mask=one.mask)
    return found if weights is None else dict(found, weights=weights)


def written(place: Place, name: str, method: Method, seed: int) -> Path:
    """One training and its tokens, once."""
    path = WORK / f'tokens_{place.name}_{name}_{seed}.npz'
    if path.exists():
        return path
    judge = Evaluator(place, method)
    trained = train(
        model_of(method, place.about, place.text),
        dataset(place.folder, 'train', judge.kind),
        place.schedule if method.text == 'sentence' else SHORT,
        rate=RATE,
        supervision_rate=1.0,
        seed=seed,
        judge=judge.judge,
        hooks=[],
        work_dir=WORK / 'runs' / f'{place.name}_tokens',
    )
    trained.model.load_state_dict(trained.best)
    held: dict[str, np.ndarray] = {}
    with torch.no_grad():
        for part in ('test', 'bank'):
            split = judge.split(part)
            for side in ('text', 'video'):
                for key, x in tokens(trained.model, split.inputs, side).items():
                    x = x.half() if x.is_floating_point() else x
                    held[f'{part}_{side}_{key}'] = x.numpy()
            held[f'{part}_own'] = split.own.numpy()
    np.savez(path, **held)
    print(path, f'{trained.seconds:.0f} s, val {max(x for _, x in trained.curve):.1f}', flush=True)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--sets', nargs='+', choices=ROWS, default=list(ROWS))
    parser.add_argument('--rows', nargs='+', default=['one', 'maxsim', 'ti'])
    parser.add_argument('--seeds', nargs='+', type=int, default=[0, 1, 2])
    args = parser.parse_args()
    warnings.simplefilter('ignore')
    logging.disable(logging.INFO)
    torch.set_num_threads(1)
    wanted = argparse.Namespace(set=None, sets=args.sets, only=['infonce', 'ti'], text='minilm')
    places = places_of(wanted)
    for seed in args.seeds:
        for place in places:
            for name in {*args.rows} & {*ROWS[place.name]}:
                written(place, name, ROWS[place.name][name], seed)


if __name__ == '__main__':
    main()
