"""HiT, TACo, DL-DKD++ and X-Pool beside their controls over seeds, on planted clips.

    python projects/lab/evidence/baselines_planted.py
        [--methods HiT "X-Pool"] [--seeds 0 1 2] [--jobs 2]

Do they train, far above chance, and what does each one's idea bring?  HiT reads experts of the
clips, TACo frame features, DL-DKD++ and X-Pool frame features of clips of three moments; a frame
tower trained on a sister corpus makes those.  The same schedule for a method and its controls;
nothing is tuned.  What is done is not done again.
"""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path
from typing import Mapping, NamedTuple, Sequence

import planted_features
from planted_runs import (
    ROOT,
    WORK,
    arguments,
    call,
    over_seeds,
    train,
    write,
)

HIT = 'projects/lab/configs/hit_planted_experts.py'
DLDKD = 'projects/lab/configs/dldkd_planted_features.py'
#: A test in both directions.
BOTH = ["test_evaluator.0.v2t_protocols=['max_over_captions']"]
TEACHER = Path('data/planted_teacher')


class Comparison(NamedTuple):
    """A method and its controls.

    Attributes:
        rows: config and options by label, the method first.
        features: folder of ``planted_features.py`` that it reads; None: it reads none.
        chosen_by: key on val that chooses the epoch.
    """

    rows: Mapping[str, tuple[str, Sequence[str]]]
    features: str | None = None
    chosen_by: str = 'retrieval/rsum'


COMPARISONS = {
    'HiT': Comparison(
        {
            'HiT': (HIT, []),
            'no banks, keys are the queries': (
                HIT,
                ['model.momentum=0.0', 'model.bank_size=1', 'model.in_batch=True'],
            ),
            'DVTR on HiT': ('projects/lab/configs/dvtr_hit_planted_experts.py', []),
        }
    ),
    'TACo': Comparison(
        {
            'TACo': ('projects/lab/configs/taco_planted_features.py', []),
            'vectors alone': ('projects/lab/configs/taco_planted_features_vectors.py', []),
        },
        features='clips',
    ),
    'DL-DKD++': Comparison(
        {
            'DL-DKD++': (DLDKD, BOTH),
            'no teacher': (
                DLDKD,
                [
                    *BOTH,
                    'model.losses.inherit_nce.follows=self',
                    'model.objectives.distillation.loss_weight=0.0',
                ],
            ),
        },
        features='untrimmed',
        chosen_by='retrieval/t2v_SumR',
    ),
    'X-Pool': Comparison(
        {
            'X-Pool': ('projects/lab/configs/xpool_planted_features.py', []),
            'mean of the frames': (
                'projects/lab/configs/clip4clip_planted_untrimmed_features.py',
                [],
            ),
        },
        features='untrimmed',
    ),
}
COLUMNS = {
    'retrieval/t2v_R1': 't2v R@1',
    'retrieval/v2t_R1': 'v2t R@1',
    'semantic/t2v_mAP': 't2v mAP',
    'semantic/v2t_mAP': 'v2t mAP',
}


def folder_of(method: str, row: str, seed: int) -> Path:
    """Of a training."""
    name = re.sub(r'\W+', '_', f'{method} {row} {seed}')
    return WORK / 'baselines_planted' / name


def make_teacher() -> None:
    """Vectors of a further seed of the best-frame model, for DL-DKD++."""
    if (ROOT / TEACHER).exists():
        return
    folder = WORK / 'baselines_planted' / 'teacher'
    config = 'projects/lab/configs/maxframe_planted_features.py'
    options = ['train_cfg.max_epochs=8', 'train_cfg.val_interval=8']
    train(config, folder, 10, options, chosen_by='retrieval/t2v_SumR')
    (last,) = (ROOT / folder).glob('epoch_*.pth')  # the only one that is kept
    sharing = ['--cfg-options', 'model.similarity.shared_frame=True']
    call('tools/export_teacher.py', config, last, '--out', TEACHER, *sharing)


def compare(method: str, seeds: Sequence[int], jobs: int) -> dict[str, list[dict[str, float]]]:
    """Test results of a method and its controls."""
    comparison = COMPARISONS[method]
    if comparison.features is not None:
        planted_features.make(comparison.features)
    if method == 'DL-DKD++':
        make_teacher()

    def run(row: str, seed: int) -> dict[str, float]:
        config, options = comparison.rows[row]
        folder = folder_of(method, row, seed)
        return train(config, folder, seed, options, chosen_by=comparison.chosen_by)['test']

    return over_seeds(run, comparison.rows, seeds, jobs)


def bounds(method: str, seed: int) -> dict[str, dict[str, float]]:
    """Chance and ceiling of the columns, from the table that the method's test has printed.

    A line of it is a name and, of t2v, v2t and whatever follows, value, chance and ceiling.
    """
    folder = ROOT / folder_of(method, next(iter(COMPARISONS[method].rows)), seed)
    log = ''.join(path.read_text() for path in sorted(folder.glob('*/*.log')))
    found: dict[str, dict[str, float]] = dict(chance={}, ceiling={})
    for key in COLUMNS:
        way, _, name = key.partition('/')[2].partition('_')
        label = {'R1': 'R@1', 'mAP': 'mAP'}[name]
        lines = re.findall(rf'(?m) {label}((?: +[\d.]+){{6,}}) *$', log)
        numbers = lines[-1].split()[0 if way == 't2v' else 3 :]
        found['chance'][key], found['ceiling'][key] = map(float, numbers[1:3])
    return found


def main() -> None:
    args = arguments(
        __doc__, 'projects/lab/evidence/cells/baselines_planted.json', list(COMPARISONS)
    )
    results, limits = {}, {}
    for method in args.methods:
        found = compare(method, args.seeds, args.jobs)
        results.update({f'{method} | {row}': tests for row, tests in found.items()})
        limits[method] = bounds(method, args.seeds[0])
    # What other calls have measured stays.
    known = load_json(args.out) if args.out.exists() else {}
    kept = {name: rows for name, rows in known.get('test', {}).items() if name not in results}
    limits = {**known.get('limits', {}), **limits}
    rows = write(args.out, {**kept, **results}, COLUMNS, seeds=args.seeds, limits=limits)
    print(page_table(rows, limits))
    print(differences(rows))


def load_json(path: Path) -> dict:
    """What an earlier call has written."""
    return json.loads(path.read_text())


def cell(values: Sequence[float]) -> str:
    """Mean and standard deviation; of one seed, which has none, the value."""
    mean = f'{statistics.mean(values):.1f}'
    return mean if len(values) == 1 else f'{mean} +- {statistics.stdev(values):.1f}'


def page_table(
    rows: Mapping[str, Sequence[Mapping[str, float]]],
    limits: Mapping[str, Mapping[str, Mapping[str, float]]],
) -> str:
    """Markdown: means and standard deviations, and above each method chance and ceiling."""
    names = list(COLUMNS.values())
    lines = ['| | ' + ' | '.join(names) + ' |', '|---' * (len(names) + 1) + '|']
    for method, comparison in COMPARISONS.items():
        if method not in limits:
            continue
        for kind, values in limits[method].items():
            told = ' | '.join(f'{values[key]:g}' for key in COLUMNS)
            lines.append(f'| {method}: {kind} | {told} |')
        for row in comparison.rows:
            seeds = rows.get(f'{method} | {row}', ())
            if not seeds:
                continue
            cells = [cell([test[key] for test in seeds if key in test]) for key in COLUMNS]
            count = f'{len(seeds)} seed' + 's' * (len(seeds) > 1)
            lines.append(f'| {row} ({count}) | ' + ' | '.join(cells) + ' |')
    return '\n'.join(lines)


def differences(rows: Mapping[str, Sequence[Mapping[str, float]]]) -> str:
    """Markdown: a method minus its control, and what builds on a method minus that one, by seed."""
    lines = ['| | ' + ' | '.join(COLUMNS.values()) + ' |', '|---' * (len(COLUMNS) + 1) + '|']
    for method, comparison in COMPARISONS.items():
        first, control, *further = comparison.rows
        for row, base in [(first, control), *((other, first) for other in further)]:
            pairs = [*zip(*(rows.get(f'{method} | {name}', ()) for name in (row, base)))]
            if len(pairs) < 2:
                continue
            cells = []
            for key in COLUMNS:
                gaps = [one[key] - other[key] for one, other in pairs]
                cells.append(f'{statistics.mean(gaps):+.1f} +- {statistics.stdev(gaps):.1f}')
            lines.append(f'| {row}, minus {base} | ' + ' | '.join(cells) + ' |')
    return '\n'.join(lines)


if __name__ == '__main__':
    main()
