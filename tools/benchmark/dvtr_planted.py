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
import os
import statistics
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

ROOT = Path(__file__).parents[2]
WORK = Path('work_dirs/benchmark/dvtr_planted')
FEATURES = Path('data/planted_features/general60')
SISTER = 'seed=1000'
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


def call(*command: object) -> None:
    """Run a tool; its log stays in the work dir, its errors end this program."""
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=ROOT,
        env={**os.environ, 'OMP_NUM_THREADS': '1'},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        raise SystemExit(f'{" ".join(map(str, command))} failed:\n{done.stderr[-3000:]}')


def options(values: dict[str, object]) -> list[str]:
    return [f'{key}={value}' for key, value in values.items()]


def make_features() -> None:
    """Steps 1 and 2."""
    sister = WORK / 'sister'
    sets = [f'{kind}_dataloader.dataset.' for kind in ('train', 'val', 'test')]
    if not (ROOT / sister / 'done').exists():
        call(
            'tools/train.py',
            'configs/c2v_planted.py',
            '--work-dir',
            sister,
            '--resume',
            '--cfg-options',
            'train_cfg.max_epochs=12',
            'train_cfg.val_interval=4',
            *(name + SISTER for name in sets),
        )
        (ROOT / sister / 'done').touch()
    (best,) = (ROOT / sister).glob('best_*.pth')
    call(
        'tools/extract_features.py',
        'configs/c2v_planted.py',
        best,
        '--out',
        FEATURES,
        '--cfg-options',
        *(f'{name}general=0.6' for name in sets),
    )


def train(method: str, point: dict[str, float], seed: int) -> dict[str, dict[str, float]]:
    """Train and test once; the metrics of the chosen epoch on val, and on test."""
    name = '_'.join([METHODS[method].split('/')[1][:-3], *map(str, point.values()), f'seed{seed}'])
    folder = ROOT / WORK / name
    if not (folder / 'done').exists():
        call(
            'tools/train.py',
            METHODS[method],
            '--work-dir',
            folder,
            '--seed',
            seed,
            '--resume',
            '--cfg-options',
            *options(point),
        )
        (folder / 'done').touch()
    # A resumed run has one folder of logs for each start; the test is in the last one.
    starts = sorted(path for path in folder.iterdir() if path.is_dir())
    lines = [line for s in starts for line in (s / 'vis_data/scalars.json').open()]
    val = [json.loads(line) for line in lines if 'retrieval/rsum' in line]
    test = json.loads((starts[-1] / f'{starts[-1].name}.json').read_text())
    return dict(val=max(val, key=lambda row: row['retrieval/rsum']), test=test)


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
            (method, i): pool.submit(train, method, point, 0)
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
            method: [
                pool.submit(train, method, points[chosen[method]], s) for s in range(args.seeds)
            ]
            for method in args.methods
        }
        results = {
            method: [run.result()['test'] for run in those] for method, those in runs.items()
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
    print(table(record))


def table(record: dict) -> str:
    """Markdown: mean +- standard deviation over the seeds."""
    lines = ['| method | ' + ' | '.join(COLUMNS.values()) + ' |', '|---' * (len(COLUMNS) + 1) + '|']
    for method, entry in record.items():
        cells = []
        for key in COLUMNS:
            values = [row[key] for row in entry['test'] if key in row]
            spread = statistics.stdev(values) if len(values) > 1 else 0.0
            cells.append(f'{statistics.mean(values):.1f} +- {spread:.1f}' if values else '')
        lines.append(f'| {method} | ' + ' | '.join(cells) + ' |')
    return '\n'.join(lines)


if __name__ == '__main__':
    main()
