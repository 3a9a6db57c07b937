"""NCL beside its controls over seeds, on the planted corpus with imbalanced captions.

    python tools/benchmark/ncl_planted.py [--out docs/benchmark/ncl_planted.json] [--jobs 2]

Two trainings a seed, with and without Sinkhorn-Knopp in the loss.  Each is tested raw and after the
test-time transforms of its config, so that what training gives and what testing gives stay apart;
and Sinkhorn again with smaller queues and with marginals that count every training video once.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from planted_runs import WORK, make_features, spread, table, test, train

CONFIGS = {
    'CLIP4Clip': 'configs/clip4clip_planted_features.py',
    'NCL in training': 'configs/ncl_clip4clip_planted_features.py',
}
#: Prefix of the keys of a test-time transform, and how a row of the table calls it.
TRANSFORMS = {
    '': '',
    'inverted_softmax/': ', inverted softmax (train queue)',
    'sinkhorn/': ', Sinkhorn (train queue)',
    'sinkhorn_oracle/': ', Sinkhorn (test queries: oracle)',
}
#: Further tests of Sinkhorn with the train queue.
VARIANTS = {
    'a queue of 128': 'custom_hooks.0.size=128',
    'a queue of 256': 'custom_hooks.0.size=256',
    'a queue of 512': 'custom_hooks.0.size=512',
    'a queue of 1024': 'custom_hooks.0.size=1024',
    'marginals per video': 'custom_hooks.1.marginals=per_video',
}
COLUMNS = {
    'retrieval/rsum': 'rsum',
    'retrieval/t2v_R1': 't2v R@1',
    'retrieval/v2t_R1': 'v2t R@1',
    'normalisation/t2v_error': 't2v error',
    'normalisation/v2t_error': 'v2t error',
    'normalisation/t2v_hubness': 't2v hubness',
    'normalisation/v2t_hubness': 'v2t hubness',
    'semantic/t2v_mAP': 't2v mAP',
    'semantic/v2t_mAP': 'v2t mAP',
}


def rows_of(results: dict[str, list[dict]]) -> dict[str, list[dict[str, float]]]:
    """One row for each training and transform, each with one dict of columns a seed."""
    return {
        name + suffix: [{key: test[prefix + key] for key in COLUMNS} for test in tests]
        for name, tests in results.items()
        for prefix, suffix in TRANSFORMS.items()
    }


def differences(rows: dict[str, list[dict[str, float]]]) -> dict[str, list[dict[str, float]]]:
    """Each row minus the raw baseline of the same seed."""
    baseline = next(iter(rows.values()))
    return {
        name: [{key: row[key] - base[key] for key in row} for row, base in zip(seeds, baseline)]
        for name, seeds in list(rows.items())[1:]
    }


def variants(name: str, seeds: list[int]) -> dict[str, list[dict[str, float]]]:
    """Rows of the further tests of one training."""
    rows = {}
    for variant, option in VARIANTS.items():
        tests = [
            test(CONFIGS[name], folder(name, seed), variant.replace(' ', '_'), [option])
            for seed in seeds
        ]
        rows[f'{name}, Sinkhorn, {variant}'] = [
            {key: row[f'sinkhorn/{key}'] for key in COLUMNS} for row in tests
        ]
    return rows


def folder(name: str, seed: int) -> Path:
    """Work dir of a training."""
    return WORK / 'ncl_planted' / f'{Path(CONFIGS[name]).stem}_{seed}'


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--out', type=Path, default=Path('docs/benchmark/ncl_planted.json'))
    parser.add_argument('--seeds', type=int, nargs='+', default=[0, 1, 2])
    parser.add_argument('--jobs', type=int, default=2, help='trainings at a time, one thread each')
    args = parser.parse_args()

    make_features()
    with ThreadPoolExecutor(args.jobs) as pool:
        runs = {
            name: [pool.submit(train, config, folder(name, s), s) for s in args.seeds]
            for name, config in CONFIGS.items()
        }
        results = {name: [run.result()['test'] for run in those] for name, those in runs.items()}
    rows = rows_of(results)
    for name in CONFIGS:
        rows.update(variants(name, args.seeds))
    args.out.parent.mkdir(parents=True, exist_ok=True)
    record = dict(seeds=args.seeds, configs=CONFIGS, test=rows)
    args.out.write_text(json.dumps(record, indent=1) + '\n')
    print(table(rows, COLUMNS))
    print('\nminus the raw baseline of the same seed\n')
    print(table(differences(rows), COLUMNS))
    before, after = (
        [row['normalisation/v2t_error'] for row in rows[name]]
        for name in ('CLIP4Clip', 'CLIP4Clip, Sinkhorn (train queue)')
    )
    down = [100 * (1 - a / b) for a, b in zip(after, before)]
    print(f'\nv2t normalisation error falls by {spread(down)} %')


if __name__ == '__main__':
    main()
