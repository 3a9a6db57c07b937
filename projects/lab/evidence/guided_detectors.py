"""A sentence encoder and caption implication, together, as detectors of unannotated right pairs.

    python projects/lab/evidence/guided_detectors.py DATA VECTORS MORE

What was written down before: pages/real_scores_plan.md, part 4.  DATA has the folders of
judged_detectors.py, VECTORS those of judged_guides.py, and MORE coco_test_captions.npy, which
``real_scores.py --encode`` makes.  Each part is brought to a standard deviation of 1 over the pairs
of the half of Flickr8k for choosing; weights are chosen by AUC there, and the same sums, with the
same means and deviations, are measured on the other half, on the experts' pairs and on CxC.
A minute.  Writes cells/guided_detectors.json.
"""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path
from typing import Any, Mapping, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from judged_detectors import crisscrossed, flickr8k, interval
from judging.corpora import coco_captions
from judging.detectors import DETECTORS, Captions, Pairs, Scores
from study_parts.flickr8k import read_captions
from torch import Tensor

from mmvtr.datasets.annotation_files import read_ids
from mmvtr.functional.metrics.relevance import auc
from mmvtr.storage import write_atomically

CELLS = Path(__file__).resolve().parent / 'cells'
CHOSEN = 'Flickr8k crowd, for choosing'
#: What is measured.
SHOWN = (CHOSEN, 'Flickr8k crowd, other half', 'Flickr8k experts, all', 'CxC')
#: Of the parts beside the guide.
WEIGHTS = (0.0, 0.25, 0.5, 1.0, 2.0)
WORDS = {
    'implication': 'implication, mean of words',
    'agreement': 'agreement (default)',
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('data', type=Path, metavar='DATA', help='folder of the judged sets')
    parser.add_argument('vectors', type=Path, metavar='VECTORS', help='of the judged images')
    parser.add_argument('more', type=Path, metavar='MORE', help='of the captions of COCO')
    parser.add_argument('--out', type=Path, default=CELLS, help='folder to write')
    args = parser.parse_args()
    flickr, coco = flickr8k(args.data / 'flickr8k'), crisscrossed(args.data)
    guides = [
        guide(flickr, flickr8k_vectors(args.data / 'flickr8k', args.vectors)),
        guide(coco, coco_vectors(args.data / 'coco', args.more)),
    ]
    found = ladder([flickr, coco], guides)
    text = json.dumps(found, indent=1) + '\n'
    write_atomically(args.out / 'guided_detectors.json', lambda file: file.write(text.encode()))
    print(text)


def flickr8k_vectors(folder: Path, vectors: Path) -> dict[str, Tensor]:
    """By caption, of the judged images."""
    captions = read_captions(folder / 'Flickr8k.token.txt')
    rows = torch.from_numpy(np.load(vectors / 'flickr8k_crowd.npy')).float()
    return {
        text: row
        for image, own in zip(read_ids(vectors / 'flickr8k_crowd_ids.txt'), rows, strict=True)
        for (_, text), row in zip(captions[image], own, strict=True)
    }


def coco_vectors(folder: Path, more: Path) -> dict[str, Tensor]:
    """By caption."""
    lines = (folder / 'testall_caps.txt').read_text(encoding='utf-8').splitlines()
    rows = torch.from_numpy(np.load(more / 'coco_test_captions.npy')).float()
    assert len(coco_captions(folder)[0]) == len(rows)
    return dict(zip(lines, rows, strict=True))


def guide(data: Captions, vectors: Mapping[str, Tensor]) -> dict[str, Scores]:
    """Cosine with the sum of an item's captions, and the largest one with one of them."""
    texts = torch.stack([vectors[text] for text in data.texts])
    captions = [torch.stack([vectors[text] for text in item]) for item in data.items]
    sums = F.normalize(torch.stack([x.sum(0) for x in captions]), dim=1)

    def summed(t: np.ndarray, v: np.ndarray) -> np.ndarray:
        return (texts[t] * sums[v]).sum(1).numpy()

    def nearest(t: np.ndarray, v: np.ndarray) -> np.ndarray:
        return np.array([float((captions[b] @ texts[a]).max()) for a, b in zip(t, v)])

    return dict(guide=summed, nearest=nearest)


def ladder(sets: Sequence[Captions], guides: Sequence[Mapping[str, Scores]]) -> dict[str, Any]:
    """Each part alone, and sums of chosen weights, on all pairs of both sets."""
    parts: dict[str, dict[str, np.ndarray]] = {}
    pairs: dict[str, Pairs] = {}
    for data, own in zip(sets, guides, strict=True):
        made: dict[str, Scores] = {**own, **{k: DETECTORS[x](data) for k, x in WORDS.items()}}
        for name, some in data.pairs.items():
            pairs[name] = some
            parts[name] = {key: score(some.texts, some.items) for key, score in made.items()}
    chosen = {key: (x.mean(), x.std()) for key, x in parts[CHOSEN].items()}
    for values in parts.values():
        for key, (mean, deviation) in chosen.items():
            values[key] = (values[key] - mean) / deviation
    found: dict[str, Any] = {}
    for name, others in {
        'guide': (),
        'nearest': None,
        'implication': None,
        'agreement': None,
        'guide + nearest': ('nearest',),
        'guide + implication': ('implication',),
        'guide + agreement': ('agreement',),
        'guide + implication + agreement': ('implication', 'agreement'),
        'all four': ('nearest', 'implication', 'agreement'),
    }.items():
        weights = {name: 1.0} if others is None else best(parts[CHOSEN], pairs[CHOSEN], others)
        found[name] = dict(weights=weights, sets={})
        for key in SHOWN:
            own, alone = _sum(parts[key], weights), parts[key]['guide']
            found[name]['sets'][key] = dict(
                AUC=auc_of(own, pairs[key]),
                **({} if name == 'guide' else dict(gain=interval(own, pairs[key], alone))),
            )
        print(name, weights, found[name]['sets'], flush=True)
    return found


def best(parts: Mapping[str, np.ndarray], pairs: Pairs, others: Sequence[str]) -> dict[str, float]:
    """Weights beside the guide's 1 of the highest AUC."""

    def value(weights: tuple[float, ...]) -> float:
        return auc_of(_sum(parts, dict(zip(('guide', *others), (1.0, *weights)))), pairs)

    chosen = max(itertools.product(WEIGHTS, repeat=len(others)), key=value)
    return dict(zip(('guide', *others), (1.0, *chosen)))


def auc_of(scores: np.ndarray, pairs: Pairs) -> float:
    """In percent."""
    right, wrong = (torch.from_numpy(scores[x]) for x in (pairs.right, ~pairs.right))
    return round(100 * float(auc(right, wrong)), 2)


def _sum(parts: Mapping[str, np.ndarray], weights: Mapping[str, float]) -> np.ndarray:
    return np.sum([weight * parts[key] for key, weight in weights.items()], axis=0)


if __name__ == '__main__':
    main()
