"""What trained models tell of right pairs that nobody annotated, measured on people.

    python projects/lab/evidence/judged_weights.py DATA [--runs work_dirs/benchmark/judged_training]

DATA is the folder of Flickr8k with ExpertAnnotations.txt beside the crowd's.  Of each method of
judged_training.py, trained at batch 1,024 or else at 128: its scores, the sigmas of its heads,
DVTR's match probability, and the weights that its supervision gives, as detectors of the pairs of
judged_detectors.py.  Pairs are of test images, which no training has seen.  And settings of
agreement's weights, over the scores of InfoNCE.  AUC and break-even, mean over the seeds; of
weights also precision and recall of what they spare by more than half.  Writes judged_weights.json
and judged_weights_tables.md.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, Mapping, Sequence

import numpy as np
import torch
from judged_detectors import flickr8k
from judged_training import BASE, FIRST, METHODS, PERMUTED, Method, folder_of
from judging.detectors import Pairs
from judging.witnesses import held_out_agreement, load, test_batch, witnesses

from mmvtr.evaluation.soft_positive import breakeven, flagged_below
from mmvtr.functional.metrics.relevance import auc
from mmvtr.models.supervisions.relative_scores import relative_eta
from mmvtr.storage import write_atomically

CELLS = Path(__file__).resolve().parent / 'cells'
#: The first of them that a method was trained at.
BATCHES = (1024, 128)
#: Cosines that a deviation of agreement is worth, and slack, of RelativeScoreSupervision.
STRENGTHS, SLACKS = (0.0, 0.05, 0.1, 0.2), (0.0, -0.1, -0.2)
SOFTNESS = 0.07


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add('data', type=Path, metavar='DATA', help='folder of Flickr8k')
    add('--runs', type=Path, default=Path('work_dirs/benchmark/judged_training'))
    add('--out', type=Path, default=CELLS, help='folder to write')
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    torch.set_num_threads(1)
    pairs = {name: own for name, own in flickr8k(args.data).pairs.items() if len(own.right)}
    rows: list[dict[str, Any]] = []
    grid: dict[str, list[Numbers]] = {}
    batch = None
    for name, method in METHODS.items():
        size, folders = trained(args.runs, method)
        # other scores of a training that has its row, and a control that has no witness of its own
        if method.scores or PERMUTED in method.options or not folders:
            continue
        seeds = []
        for folder in folders:
            model, config = load(folder)
            batch = batch or test_batch(config, str(args.data))
            found = witnesses(model, batch)
            seeds.append(measured(found, batch['data_samples'], pairs))
            if name == BASE:
                made = settings(found['score'], held_out_agreement(batch))
                for key, numbers in measured(made, batch['data_samples'], pairs).items():
                    grid.setdefault(key, []).append(numbers)
        for witness in seeds[0]:
            numbers = over_seeds([one[witness] for one in seeds])
            rows.append(
                dict(method=name, batch=size, witness=witness, seeds=len(seeds), sets=numbers)
            )
        print(name, flush=True)
    sizes = {name: [len(own.right), int(own.right.sum())] for name, own in pairs.items()}
    chosen = {key: over_seeds(one) for key, one in grid.items()}
    content = dict(pairs=sizes, rows=rows, settings=chosen)
    for name, text in (
        ('judged_weights.json', json.dumps(content, indent=1) + '\n'),
        ('judged_weights_tables.md', tables(content)),
    ):
        write_atomically(args.out / name, lambda file, text=text: file.write(text.encode()))


def trained(runs: Path, method: Method) -> tuple[int, list[Path]]:
    """The batch size, and the trainings of its seeds that are done, if any."""
    for batch in BATCHES:
        folders = [runs / folder_of(method, batch, seed) for seed in FIRST]
        folders = [folder for folder in folders if (folder / 'done').exists()]
        if folders:
            break
    return batch, folders


def settings(scores: torch.Tensor, agreement: torch.Tensor) -> dict[str, torch.Tensor]:
    """What RelativeScoreSupervision takes away from weights, without a floor, by its settings.

    Args:
        scores, agreement: float [N, N], annotated pairs on the diagonal.
    """
    own = torch.eye(len(scores), dtype=torch.bool)
    return {
        f'weight, agreement {strength:g}, slack {slack:g}': 1
        - relative_eta(scores, own, softness=SOFTNESS, slack=slack + strength * agreement)
        for strength in STRENGTHS
        for slack in SLACKS
    }


#: By set: AUC and break-even, of weights also precision and recall.
Numbers = Mapping[str, Mapping[str, float]]


def measured(
    found: Mapping[str, torch.Tensor], samples: Mapping[str, Any], sets: Mapping[str, Pairs]
) -> dict[str, Numbers]:
    """In percent, by witness.

    Args:
        found: float [T, V] by witness.
        samples: ``text_ids`` and ``video_ids`` of rows and columns.
        sets: pairs as places among the images in the order of their names.
    """
    images = sorted(samples['video_ids'])
    rows = {name.rpartition('#')[0]: n for n, name in enumerate(samples['text_ids'])}
    columns = {name: n for n, name in enumerate(samples['video_ids'])}
    t, v = (np.array([places[name] for name in images]) for places in (rows, columns))
    result: dict[str, dict[str, dict[str, float]]] = {}
    for witness, matrix in found.items():
        for name, pairs in sets.items():
            values = matrix[t[pairs.texts], v[pairs.items]]
            right, wrong = (values[torch.from_numpy(x)] for x in (pairs.right, ~pairs.right))
            numbers = dict(auc=float(auc(right, wrong)), breakeven=breakeven(right, wrong))
            if witness.startswith('weight'):
                numbers.update(flagged_below(1 - right, 1 - wrong, 0.5))
            of_set = {key: 100 * x for key, x in numbers.items()}
            result.setdefault(witness, {})[name] = of_set
    return result


def over_seeds(seeds: Sequence[Numbers]) -> dict[str, dict[str, float]]:
    """Means, and the standard deviation of AUC."""
    found: dict[str, dict[str, float]] = {}
    for name, first in seeds[0].items():
        own = {key: [one[name][key] for one in seeds] for key in first}
        found[name] = {key: round(float(np.mean(x)), 1) for key, x in own.items()}
        spread = float(np.std(own['auc'], ddof=1)) if len(seeds) > 1 else 0.0
        found[name]['deviation'] = round(spread, 1)
    return found


def tables(content: Mapping[str, Any]) -> str:
    """Markdown."""
    heads = [f'{k} ({n:,} pairs, {right:,} right)' for k, (n, right) in content['pairs'].items()]
    lines = [
        'AUC and its standard deviation over the seeds; break-even; of weights, precision and '
        'recall of what is spared by more than half. Percent.',
        '',
        f'| method | batch | what tells | seeds | {" | ".join(heads)} |',
        '|---' * (len(heads) + 4) + '|',
    ]
    for row in content['rows']:
        cells = [row['method'], str(row['batch']), row['witness'], str(row['seeds'])]
        lines.append(f'| {" | ".join([*cells, *map(_cell, row["sets"].values())])} |')
    lines += ['', "Settings of agreement's weights over the scores of InfoNCE.", '']
    lines += [f'| setting | {" | ".join(heads)} |', '|---' * (len(heads) + 1) + '|']
    for name, sets in content['settings'].items():
        cells = [name.partition(', ')[2], *map(_cell, sets.values())]
        lines.append(f'| {" | ".join(cells)} |')
    return '\n'.join(lines) + '\n'


def _cell(numbers: Mapping[str, float]) -> str:
    cell = f'{numbers["auc"]} +- {numbers["deviation"]}; {numbers["breakeven"]}'
    if 'precision' in numbers:
        cell += f'; {numbers["precision"]}, {numbers["recall"]}'
    return cell


if __name__ == '__main__':
    main()
