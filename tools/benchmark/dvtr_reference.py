"""What DVTR's p of a pair is compared with: its eta over seeds, 60 % general captions.

    python tools/benchmark/dvtr_reference.py [--out docs/benchmark/dvtr_reference.json] [--jobs 2]

References max, text and mean, with a floor under the weights and without; then what each model's
own eta tells of the pairs that it is trained on (tools/analysis_tools/soft_positives.py; without
the floor, whose ties would hide their order).  The learning rates are those that effects.py has
chosen; nothing else is tuned.
"""

from __future__ import annotations

import json
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

DVTR, BASELINE = (f'configs/{name}c2v_planted_features.py' for name in ('dvtr_', ''))
RATE = 'optim_wrapper.optimizer.lr={}'
SUPERVISION = 'model.supervision.'
METHODS = {
    'InfoNCE': (BASELINE, [RATE.format(1e-3)]),
    **{
        f'{reference}, floor {floor}': (
            DVTR,
            [
                RATE.format(2e-3),
                f'{SUPERVISION}reference={reference}',
                f'{SUPERVISION}floor={floor}',
            ],
        )
        for floor in (0.4, 0.0)
        for reference in ('max', 'text', 'mean')
    },
}
COLUMNS = {
    'retrieval/rsum': 'rsum',
    'semantic/t2v_P1': 't2v P@1',
    'semantic/v2t_P1': 'v2t P@1',
    'semantic/v2t_mAP': 'v2t mAP',
    'soft_positive/eta_auc': 'AUC of eta',
    'soft_positive/scores_auc': 'AUC of cosine',
    'soft_positive/eta_breakeven': 'break-even of eta',
    'soft_positive/scores_breakeven': 'break-even of cosine',
    'soft_positive/eta_recall': 'recall, eta < .5',
    'soft_positive/eta_precision': 'precision, eta < .5',
}


def run(name: str, seed: int) -> dict[str, float]:
    """Test results of a method, and what its eta tells of the training pairs."""
    config, options = METHODS[name]
    folder = WORK / 'dvtr_reference' / f'{name.replace(", ", "_").replace(" ", "")}_{seed}'
    test = train(config, folder, seed, options)['test']
    test = {key: value for key, value in test.items() if not key.startswith('soft_positive/')}
    return test if config == BASELINE else {**test, **detection(config, folder, options)}


def detection(config: str, folder: Path, options: list[str]) -> dict[str, float]:
    """Of the training pairs, by the chosen checkpoint."""
    out = ROOT / folder / 'soft_positives.json'
    if not out.exists():
        (best,) = (ROOT / folder).glob('best_*.pth')
        options = [*options, f'{SUPERVISION}floor=0.0']
        tool = 'tools/analysis_tools/soft_positives.py'
        call(tool, config, best, '--out', out, '--cfg-options', *options)
    return json.loads(out.read_text())['supervision']


def main() -> None:
    args = arguments(__doc__, 'docs/benchmark/dvtr_reference.json')
    make_features()
    results = over_seeds(run, METHODS, args.seeds, args.jobs)
    rows = write(args.out, results, COLUMNS, seeds=args.seeds, methods=METHODS)
    print(table(rows, COLUMNS))


if __name__ == '__main__':
    main()
