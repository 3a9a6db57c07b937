"""Choices of the DVTR port over seeds, on the planted corpus with 60 % general captions.

    python tools/benchmark/dvtr_choices.py [--out docs/benchmark/dvtr_choices.json] [--jobs 2]

1. What p of a pair is compared with (``reference``), with a floor under the weights and without.
2. Algorithm 1's update of the encoders by the heads' losses (``detach_heads=False``), by its dose.
3. What each reference tells of the training pairs (tools/analysis_tools/soft_positives.py), judged
   with the same models, those of the config as it stands, with 30 and with 60 % general captions.

Whatever the floor of a training, eta is judged without one, whose ties would hide its order.
Learning rates are those that effects.py has chosen; nothing else is tuned.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Sequence

from planted_runs import (
    ROOT,
    SETS,
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

DVTR, BASELINE = (f'configs/{name}c2v_planted_features.py' for name in ('dvtr_', ''))
RATE = 'optim_wrapper.optimizer.lr={}'
SUPERVISION = 'model.supervision.{}={}'
REFERENCES = ('max', 'mean', 'text', 'min')
#: What the joint rows differ from by their dose alone.
JOINT = ('mean', 0.0)


def dvtr(reference: str, floor: float, *more: str) -> tuple[str, list[str]]:
    """Config and options of a row."""
    chosen = [SUPERVISION.format('reference', reference), SUPERVISION.format('floor', floor)]
    return DVTR, [RATE.format(2e-3), *chosen, *more]


def joint(dose: float) -> tuple[str, list[str]]:
    """The same with heads that move the encoders."""
    doses = [SUPERVISION.format(f'{name}_weight', dose) for name in ('match', 'align')]
    return dvtr(*JOINT, 'model.detach_heads=False', *doses)


METHODS = {
    'InfoNCE': (BASELINE, [RATE.format(1e-3)]),
    **{
        f'{reference}, floor {floor}': dvtr(reference, floor)
        for floor in (0.4, 0.0)
        for reference in REFERENCES[:3]
    },
    **{f'{", floor ".join(map(str, JOINT))}, joint {dose}': joint(dose) for dose in (0.01, 0.1, 1)},
}
COLUMNS = {
    'retrieval/rsum': 'rsum',
    'semantic/t2v_P1': 't2v P@1',
    'semantic/v2t_P1': 'v2t P@1',
    'semantic/v2t_mAP': 'v2t mAP',
}
DETECTION = {
    'soft_positive/eta_auc': 'AUC, eta',
    'soft_positive/scores_auc': 'AUC, cosine',
    'soft_positive/eta_breakeven': 'break-even, eta',
    'soft_positive/scores_breakeven': 'break-even, cosine',
    'soft_positive/eta_recall': 'recall, eta < .5',
    'soft_positive/eta_precision': 'precision, eta < .5',
}
#: The config as it stands.
SHIPPED = 'max, floor 0.4'
#: Shares of general captions -> changes to it.
CORPORA = {'30 %': [f'{name}general=0.3' for name in SETS], '60 %': []}


def run(name: str, seed: int) -> dict[str, float]:
    """Test results of a method, and what its eta tells of the training pairs."""
    config, options = METHODS[name]
    folder = folder_of(name, seed)
    test = train(config, folder, seed, options)['test']
    test = {key: test[key] for key in COLUMNS}
    return test if config == BASELINE else {**test, **detection(folder, 'own', options)}


def folder_of(name: str, seed: int) -> Path:
    """Of a training."""
    plain = name.replace(',', '').replace(' %', '').replace(' ', '_')
    return WORK / 'dvtr_choices' / f'{plain}_{seed}'


def judged(name: str, seed: int) -> dict[str, float]:
    """``'30 %, mean'``: what a reference tells of a corpus' training pairs."""
    corpus, reference = name.split(', ')
    options = [*METHODS[SHIPPED][1], *CORPORA[corpus]]
    folder = folder_of(f'{SHIPPED}, {corpus}' if CORPORA[corpus] else SHIPPED, seed)
    train(DVTR, folder, seed, options)
    return detection(folder, reference, [*options, SUPERVISION.format('reference', reference)])


def detection(folder: Path, name: str, options: Sequence[str]) -> dict[str, float]:
    """Of the training pairs, by the chosen checkpoint."""
    out = ROOT / folder / f'soft_positives_{name}.json'
    if not out.exists():
        (best,) = best_in(ROOT / folder)
        tool = 'tools/analysis_tools/soft_positives.py'
        options = [*options, SUPERVISION.format('floor', 0.0)]
        call(tool, DVTR, best, '--out', out, '--cfg-options', *options)
    return json.loads(out.read_text())['supervision']


def main() -> None:
    args = arguments(__doc__, 'docs/benchmark/dvtr_choices.json')
    make_features()
    # One after the other: the references of a corpus judge the same training.
    names = [f'{corpus}, {reference}' for corpus in CORPORA for reference in REFERENCES]
    known = over_seeds(judged, names, args.seeds, jobs=1)
    results = over_seeds(run, METHODS, args.seeds, args.jobs)
    columns = {**COLUMNS, **DETECTION}
    known = {name: [{key: row[key] for key in DETECTION} for row in known[name]] for name in names}
    rows = write(args.out, results, columns, seeds=args.seeds, methods=METHODS, judged=known)
    print(table(rows, columns) + '\n\n' + table(known, DETECTION))


if __name__ == '__main__':
    main()
