"""Causal intervention on frame length over seeds, where length is planted as a confounder.

    python tools/benchmark/causal_planted.py [--out docs/benchmark/causal_planted.json] [--jobs 2]

The baseline, the length split, and the controls that tell debiasing from ensembling: a split at
random, two models of different seeds on all clips, each part alone, and clips removed by length.
The same schedule for all; paired by training seed.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path

from planted_runs import (
    ROOT,
    WORK,
    arguments,
    call,
    make_features,
    over_seeds,
    table,
    train,
    write,
)

from mmvtr.engine.earlier_runs import best_in

CONFOUND = 0.9
BASE = 'configs/c2v_planted_confound_features.py'
METHODS = {
    'baseline': (BASE, []),
    'length split': ('configs/causal_planted_features.py', []),
    'random split': ('configs/causal_planted_features_random.py', []),
    'RmvAll': ('configs/c2v_planted_confound_features_rmvall.py', []),
    'RmvRand': ('configs/c2v_planted_confound_features_rmvrand.py', []),
}
COLUMNS = {
    'retrieval/rsum': 'rsum',
    'retrieval/t2v_R1': 't2v R@1',
    'retrieval/v2t_R1': 'v2t R@1',
    'semantic/t2v_nDCG50': 't2v nDCG@50',
    'semantic/v2t_nDCG50': 'v2t nDCG@50',
    'length_bias/t2v_train_correlation': 'length bias',
    'length_bias/t2v_test_correlation': 'its control',
    'length_bias/t2v_train_items': 'train-like items',
}


def run(name: str, seed: int) -> dict[str, float]:
    """Test results of one training."""
    config, options = METHODS[name]
    folder = WORK / 'causal_planted' / f'{Path(config).stem}_{seed}'
    return train(config, folder, seed, options)['test']


def two_seeds(seed: int, other: int) -> dict[str, float]:
    """The scores of two baselines summed."""
    folder = WORK / 'causal_planted'
    out = ROOT / folder / f'two_seeds_{seed}.json'
    if not out.exists():
        parts = [ROOT / folder / f'{Path(BASE).stem}_{s}' for s in (seed, other)]
        checkpoints = [best_in(part)[0] for part in parts]
        call('tools/test.py', BASE, *checkpoints, '--work-dir', folder / 'two_seeds', '--out', out)
    return json.loads(out.read_text())


def members(results: list[dict[str, float]], k: int) -> list[dict[str, float]]:
    """The numbers of one part alone."""
    start = f'member_{k}/'
    return [{key.removeprefix(start): x for key, x in r.items() if start in key} for r in results]


def paired(rows: dict[str, list[dict[str, float]]], better: str, than: str) -> str:
    """Differences seed by seed."""
    words = []
    for key in ('retrieval/rsum', 'semantic/t2v_nDCG50', 'semantic/v2t_nDCG50'):
        gains = [a[key] - b[key] for a, b in zip(rows[better], rows[than])]
        listed = ', '.join(f'{gain:+.1f}' for gain in gains)
        words.append(f'{COLUMNS[key]} {statistics.mean(gains):+.1f} ({listed})')
    return f'{better} - {than}: ' + '; '.join(words)


def main() -> None:
    args = arguments(__doc__, 'docs/benchmark/causal_planted.json')
    make_features('confound90', frames=12, length_confound=CONFOUND)
    results = over_seeds(run, METHODS, args.seeds, args.jobs)
    others = [*args.seeds[1:], args.seeds[0]]
    results['two seeds summed'] = [two_seeds(*pair) for pair in zip(args.seeds, others)]
    for k, part in enumerate(('short', 'long')):
        results[f'{part} clips only'] = members(results['length split'], k)
    about = dict(seeds=args.seeds, methods=METHODS, confound=CONFOUND)
    rows = write(args.out, results, COLUMNS, **about)
    print(table(rows, COLUMNS))
    for control in ('baseline', 'random split', 'two seeds summed'):
        print(paired(rows, 'length split', control))


if __name__ == '__main__':
    main()
