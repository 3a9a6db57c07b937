"""Methods on experts beside their controls over seeds, on the experts of the planted corpus.

    python projects/lab/evidence/experts_planted.py [--jobs 2]
        [--methods CE "DVTR on CE"]

One schedule for all; nothing is tuned.  TeachText's teachers are two further seeds of CE.
"""

from __future__ import annotations

from pathlib import Path

from planted_runs import WORK, arguments, over_seeds, table, train, write

CE = 'configs/ce_planted_experts.py'
#: Name -> its config, and the control whose rows its own are compared with.
METHODS = {
    'CE': (CE, None),
    'MoEE': ('projects/lab/configs/moee_planted_experts.py', 'CE'),
    'MMT': ('projects/lab/configs/mmt_planted_experts.py', None),
    'TeachText on CE': ('projects/lab/configs/teachtext_ce_planted_experts.py', 'CE'),
    'CMGSD on CE': ('projects/lab/configs/cmgsd_ce_planted_experts.py', 'CE'),
    'DVTR on CE': ('projects/lab/configs/dvtr_ce_planted_experts.py', 'CE'),
}
TEACHERS = (10, 11)
COLUMNS = {
    'retrieval/t2v_R1': 't2v R@1',
    'retrieval/v2t_R1': 'v2t R@1',
    'retrieval/rsum': 'rsum',
    'semantic/t2v_P1': 't2v P@1',
    'semantic/v2t_P1': 'v2t P@1',
    'semantic/t2v_mAP': 't2v mAP',
    'semantic/v2t_mAP': 'v2t mAP',
}


def folder(name: str, seed: int) -> Path:
    """Work dir of a training."""
    return WORK / 'experts_planted' / f'{Path(METHODS[name][0]).stem}_{seed}'


def run(name: str, seed: int) -> dict[str, float]:
    """Test results of a method."""
    options = []
    if name == 'TeachText on CE':
        for index, teacher in enumerate(TEACHERS):
            checkpoint = folder('CE', teacher) / 'epoch_12.pth'
            options.append(f'model.supervision.members.{index}.checkpoint={checkpoint}')
    return train(METHODS[name][0], folder(name, seed), seed, options)['test']


def differences(
    rows: dict[str, list[dict[str, float]]],
) -> dict[str, list[dict[str, float]]]:
    """Each row minus its control of the same seed."""
    return {
        f'{name} - {control}': [
            {key: row[key] - base[key] for key in row}
            for row, base in zip(rows[name], rows[control])
        ]
        for name, (_, control) in METHODS.items()
        if control in rows and name in rows
    }


def main() -> None:
    args = arguments(__doc__, 'projects/lab/evidence/cells/experts_planted.json', list(METHODS))
    if 'TeachText on CE' in args.methods:
        over_seeds(run, ['CE'], TEACHERS, args.jobs)
    results = over_seeds(run, args.methods, args.seeds, args.jobs)
    methods = {name: METHODS[name][0] for name in args.methods}
    rows = write(args.out, results, COLUMNS, seeds=args.seeds, methods=methods)
    print(table(rows, COLUMNS))
    print('\nminus the control of the same seed\n')
    print(table(differences(rows), COLUMNS))


if __name__ == '__main__':
    main()
