"""What a bank of training texts is worth to a trained model, beside one of texts it has not seen.

    python projects/lab/evidence/real/training_bank.py [--sets F J M]
    python projects/lab/evidence/real/training_bank.py --sets F --text words --seeds 20 21 22

Models are members of ``members.py``, trained if they are not there.  A bank is one text each of
validation videos, of as many training videos, or of all training videos; each seed draws its own.
Transforms are those of :func:`mmvtr.fit` that have defaults, at these.  Weights: of the epoch with
the highest rsum of validation, and of the last.  R@1 of test (of M 1k-A), text to video, in points
over raw; training minus validation texts with a 95 % interval over seeds and queries.  Adds to
``cells/real/training_bank.json`` and prints its tables.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence

import numpy as np
import reading
import run
import torch
from members import member
from results import RESULTS, rates_of
from sets import in_a_sentence
from torch import Tensor
from training import encode

import mmvtr
from mmvtr import functional as fn
from mmvtr.evaluation.queries import groups
from mmvtr.evaluation.seeds import of_seeds_and_queries

OUT = RESULTS / 'training_bank.json'
WAYS = ('auto', 'sinkhorn', 'unbalanced_sinkhorn', 'inverted_softmax', 'csls', 'local_scaling')
WAYS += ('nnn', 'qb_norm', 'dual_softmax')
BANKS = ('val', 'train', 'all train')


def drawn(folder: Path, split: str, text: str, size: Optional[int], seed: int) -> reading.Whole:
    """Return one text each of so many videos of a split (None: of all), and these videos."""
    data, draw = reading.dataset(folder, split, text), np.random.default_rng(seed)
    videos = sorted(draw.permutation(data.videos_with_text)[:size].tolist())
    return reading.whole(data, [int(draw.choice(data.texts_of[v])) for v in videos], videos)


def right(
    model: Any, test: reading.Whole, banks: Mapping[str, reading.Whole]
) -> dict[str, np.ndarray]:
    """Return whether each text finds its video first, 0 or 100, float64 [T].

    Returns:
        Of test raw (``'raw'``) and by way and bank (``'nnn, val'``); of a bank's texts among its
        own videos (``'val'``).
    """

    def vectors(some: reading.Whole) -> tuple[Tensor, Tensor]:
        return tuple(map(model.similarity.flat, encode(model, some.inputs)))

    def first(scores: Tensor, some: reading.Whole) -> np.ndarray:
        return 100 * (fn.ranks(scores, some.positives) <= 1).double().numpy()

    texts, videos = vectors(test)
    found = dict(raw=first(mmvtr.fit(videos).scores(texts), test))
    for name, bank in banks.items():
        seen = vectors(bank)
        found[name] = first(seen[0] @ seen[1].t(), bank)
        for way in WAYS:
            found[f'{way}, {name}'] = first(mmvtr.fit(videos, seen[0], way).scores(texts), test)
    return found


def of_place(place: run.Place, seeds: Sequence[int]) -> dict[str, Any]:
    """Return figures of a set, by weights."""
    text, rate = place.text, rates_of(place.name, place.text, 'ensemble')[0]
    small = (place.folder / 'captions_1ka.csv').exists()
    test = reading.evaluated(place.folder, '1ka' if small else 'test', text)
    size = len(reading.dataset(place.folder, 'val', text).videos_with_text)
    hits: dict[str, dict[str, list[np.ndarray]]] = dict(last={}, best={})
    for seed in seeds:
        trained = member(place, rate, seed)
        banks = {
            name: drawn(place.folder, split, text, count, seed)
            for name, split, count in zip(BANKS, ('val', 'train', 'train'), (None, size, None))
        }
        for when, found in hits.items():
            if when == 'best':
                trained.model.load_state_dict(trained.best)
            for key, values in right(trained.model, test, banks).items():
                found.setdefault(key, []).append(values)
        print(f'{place.name} seed {seed}', flush=True)
    own = groups(test.positives)[0].numpy()
    return dict(
        queries=len(test.texts),
        gallery=len(test.videos),
        seeds=len(seeds),
        banks={name: len(bank.texts) for name, bank in banks.items()},
        **{when: figures(found, own) for when, found in hits.items()},
    )


def figures(hits: Mapping[str, list[np.ndarray]], own: np.ndarray) -> dict[str, Any]:
    """Return R@1 raw and of the banks, gains by way and bank, and training minus validation."""
    mean = {key: float(np.mean([x.mean() for x in values])) for key, values in hits.items()}
    found: dict[str, Any] = {key: mean[key] for key in ('raw', *BANKS)} | dict(ways={})
    for way in WAYS:
        row = {name: mean[f'{way}, {name}'] - mean['raw'] for name in BANKS}
        pairs = zip(hits[f'{way}, train'], hits[f'{way}, val'])
        estimate = of_seeds_and_queries([np.stack([a - b for a, b in pairs])], [own])
        found['ways'][way] = dict(row, apart=estimate.mean, interval=list(estimate.interval))
    return found


def table(found: Mapping[str, Any], when: str) -> str:
    """Return the gains of one epoch by way and set, of each bank; bold: train differs from val."""
    lines = ['| | ' + ' | '.join(found) + ' |', '|---' * (len(found) + 1) + '|']
    for way in WAYS:
        cells = []
        for one in found.values():
            row = one[when]['ways'][way]
            low, high = row['interval']
            mark = '**' if low > 0 or high < 0 else ''
            cells.append(
                f'{row["val"]:+.1f} / {mark}{row["train"]:+.1f}{mark} / {row["all train"]:+.1f}'
            )
        lines.append(f'| `{way}` | ' + ' | '.join(cells) + ' |')
    return '\n'.join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add('--sets', nargs='+', default=['F', 'J', 'M'])
    add('--text', choices=('minilm', 'words'), default='minilm', help='what texts are made of')
    add('--seeds', nargs='+', type=int, default=[20, 21, 22, 23, 24])
    add('--out', type=Path, default=OUT)
    args = parser.parse_args()
    run.quiet()
    found = json.loads(args.out.read_text()) if args.out.exists() else {}
    for name in args.sets:
        made = (run.WORK / name / 'made.json').exists()
        folder = run.WORK / name if made else run.prepare(name, run.SETS[name](), run.WORK / name)
        found[f'{name} {args.text}'] = of_place(run.Place(name, folder, args.text), args.seeds)
        args.out.write_text(json.dumps(found, indent=1) + '\n')
    for when in ('best', 'last'):
        print(f'\n{when} epoch\n\n{table(found, when)}')


if __name__ == '__main__':
    torch.set_num_threads(1)
    in_a_sentence(main)
