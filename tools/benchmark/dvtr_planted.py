"""DVTR beside its baseline over seeds, on the planted corpus with 60 % general captions.

    python tools/benchmark/dvtr_planted.py [--out docs/benchmark/dvtr_planted.json] [--jobs 2]

1. A frame tower is trained with CLIP2Video on a sister corpus: other clips, other captions.
2. It writes the features of the corpus, frozen from then on.
3. Every method is tuned on the same grid with seed 0 and chosen by paired rsum on val.
4. Every method is trained with its choice over the seeds and tested.

What is done is not done again: a killed run goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

from planted_runs import WORK, make_features, table, train

METHODS = {
    'baseline': 'configs/c2v_planted_features.py',
    'DVTR, sound': 'configs/dvtr_c2v_planted_features.py',
    'DVTR, literal': 'configs/dvtr_c2v_planted_features_literal.py',
}
GRID = {
    'optim_wrapper.optimizer.lr': (5e-4, 1e-3, 2e-3),
    'model.temperature.init': (0.05, 0.07),
}
COLUMNS = {
    'retrieval/rsum': 'rsum',
    'retrieval/t2v_R1': 't2v R@1',
    'retrieval/v2t_R1': 'v2t R@1',
    'semantic/t2v_P1': 't2v P@1',
    'semantic/v2t_P1': 'v2t P@1',
    'semantic/t2v_mAP': 't2v mAP',
    'semantic/v2t_mAP': 'v2t mAP',
    'soft_positive/eta_auc': 'AUC of eta',
    'soft_positive/scores_auc': 'AUC of cosine',
}


def run(method: str, point: dict[str, float], seed: int) -> dict[str, dict[str, float]]:
    """Train a method at a point of the grid."""
    config = METHODS[method]
    name = '_'.join([Path(config).stem, *map(str, point.values()), f'seed{seed}'])
    options = [f'{key}={value}' for key, value in point.items()]
    return train(config, WORK / 'dvtr_planted' / name, seed, options)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--out', type=Path, default=Path('docs/benchmark/dvtr_planted.json'))
    parser.add_argument('--methods', nargs='+', choices=METHODS, default=list(METHODS))
    parser.add_argument('--seeds', type=int, default=3)
    parser.add_argument('--jobs', type=int, default=2, help='trainings at a time, one thread each')
    args = parser.parse_args()

    make_features()
    points = [dict(zip(GRID, values)) for values in product(*GRID.values())]
    with ThreadPoolExecutor(args.jobs) as pool:
        tuning = {
            (method, i): pool.submit(run, method, point, 0)
            for method in args.methods
            for i, point in enumerate(points)
        }
        chosen = {
            method: max(
                range(len(points)),
                key=lambda i, m=method: tuning[m, i].result()['val']['retrieval/rsum'],
            )
            for method in args.methods
        }
        runs = {
            method: [pool.submit(run, method, points[chosen[method]], s) for s in range(args.seeds)]
            for method in args.methods
        }
        results = {
            method: [done.result()['test'] for done in those] for method, those in runs.items()
        }

    record = {
        method: dict(
            config=METHODS[method],
            chosen=points[chosen[method]],
            val_rsum_of_grid=[
                dict(**points[i], rsum=tuning[method, i].result()['val']['retrieval/rsum'])
                for i in range(len(points))
            ],
            test=[{key: row[key] for key in COLUMNS if key in row} for row in rows],
        )
        for method, rows in results.items()
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(record, indent=1) + '\n')
    print(table({method: entry['test'] for method, entry in record.items()}, COLUMNS))


if __name__ == '__main__':
    main()
