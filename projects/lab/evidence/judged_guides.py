"""What the rules of a guide find of the right pairs that nobody annotated, judged by people.

    python projects/lab/evidence/judged_guides.py DATA VECTORS

DATA has the folder flickr8k/ of pages/judgments.md.  VECTORS has a sentence encoder's unit vectors
of the five captions of each judged image, flickr8k_crowd.npy [N, 5, D], and flickr8k_crowd_ids.txt,
the names of the N images.  The guide's score of a caption and an image is the cosine with the sum
of the image's captions; that of the own pair leaves the caption itself out.  Pairs whose caption
and image are both of the half for choosing choose the threshold (the best F1) and fit Platt's
calibration; those of the other half judge.  Seconds.  Writes judged_guides.json.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from judging.corpora import for_choosing
from study_parts.image_judgments import read_flickr8k_crowd
from torch import Tensor

from mmvtr.datasets.annotation_files import read_ids
from mmvtr.functional import auc, fit_calibration, guide_mask, guide_weights
from mmvtr.storage import write_atomically

CELLS = Path(__file__).resolve().parent / 'cells'
#: Those of the papers.
RULES = (('absolute', 0.0), ('absolute', 0.1), ('relative', 0.05), ('share', 0.05), ('self', 0.1))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('data', type=Path, metavar='DATA', help='folder of the judged sets')
    parser.add_argument('vectors', type=Path, metavar='VECTORS', help='folder of the vectors')
    parser.add_argument('--out', type=Path, default=CELLS, help='folder to write')
    args = parser.parse_args()
    images = read_ids(args.vectors / 'flickr8k_crowd_ids.txt')
    vectors = torch.from_numpy(np.load(args.vectors / 'flickr8k_crowd.npy')).float()
    found = figures(images, vectors, args.data / 'flickr8k/CrowdFlowerAnnotations.txt')
    text = json.dumps(found, indent=1) + '\n'
    write_atomically(args.out / 'judged_guides.json', lambda file: file.write(text.encode()))
    print(text)


def figures(images: list[str], vectors: Tensor, crowd: Path) -> dict[str, Any]:
    """Names of N images and vectors [N, 5, D] of their captions -> figures of the other half."""
    scores, own = guide(vectors)
    texts, items, right = judged(images, crowd)
    half = torch.zeros(len(images), dtype=torch.bool)
    by_name = torch.tensor(sorted(range(len(images)), key=images.__getitem__))
    half[by_name] = torch.from_numpy(for_choosing(len(images)))
    chosen, rest = half[texts // 5] & half[items], ~half[texts // 5] & ~half[items]
    s, lead = scores[texts, items], scores[texts, items] - own[texts]
    threshold = best_threshold(s[chosen], right[chosen])
    rules = {}
    for rule, margin in (*RULES, ('threshold', threshold)):
        mask = guide_mask(scores, own, rule=rule, margin=margin)[texts, items]
        rules[f'{rule} {margin:.2f}'] = dict(
            all=precision_recall(mask, right), other_half=precision_recall(mask[rest], right[rest])
        )
    fit = fit_calibration(s[chosen], right[chosen])
    slope, offset = fit.fitted.tolist()
    how = dict(rule='threshold', margin=-offset / slope, softness=1 / slope)
    weights = guide_weights(scores, own, **how)[texts, items]
    return dict(
        pairs=len(right),
        right=percent(right),
        auc=auc_of(s, right),
        auc_relative_to_own=auc_of(lead, right),
        auc_other_half=auc_of(s[rest], right[rest]),
        rules=rules,
        calibrated=dict(
            margin=round(how['margin'], 3),
            softness=round(how['softness'], 3),
            weight_of_right=round(float(weights[rest & right].mean()), 3),
            weight_of_wrong=round(float(weights[rest & ~right].mean()), 3),
            expected_right=percent(1 - weights[rest]),
            right=percent(right[rest]),
        ),
    )


def guide(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Unit vectors [N, 5, D] -> scores of captions and images [5 N, N], and of own pairs [5 N]."""
    texts, sums = vectors.flatten(0, 1), vectors.sum(1)
    others = F.normalize((sums[:, None] - vectors).flatten(0, 1), dim=1)
    return texts @ F.normalize(sums, dim=1).T, (texts * others).sum(1)


def judged(images: list[str], crowd: Path) -> tuple[Tensor, Tensor, Tensor]:
    """Captions (5 n + k), images and whether more than half say yes, of pairs of no own image."""
    place = {name: n for n, name in enumerate(images)}
    values = read_flickr8k_crowd(crowd)
    rows = []
    for text, image, share in zip(values.texts, values.videos, values.values):
        name, _, number = text.partition('#')
        if name in place and image in place and name != image:
            rows.append((5 * place[name] + int(number), place[image], int(share > 0.5)))
    texts, items, right = torch.tensor(rows).T
    return texts, items, right.bool()


def best_threshold(scores: Tensor, right: Tensor) -> float:
    """Of the best F1, in steps of .01."""
    steps = torch.arange(0, 1, 0.01)
    hits = torch.stack([(right & (scores > step)).sum() for step in steps])
    marked = torch.stack([(scores > step).sum() for step in steps])
    return round(float(steps[(2 * hits / (marked + right.sum())).argmax()]), 2)


def precision_recall(mask: Tensor, right: Tensor) -> dict[str, float]:
    hits = (mask & right).sum()
    return dict(
        precision=round(100 * float(hits / mask.sum().clamp_min(1)), 1),
        recall=round(100 * float(hits / right.sum().clamp_min(1)), 1),
        marked=percent(mask),
    )


def auc_of(scores: Tensor, right: Tensor) -> float:
    return round(float(auc(scores[right], scores[~right])), 3)


def percent(values: Tensor) -> float:
    return round(100 * float(values.double().mean()), 2)


if __name__ == '__main__':
    main()
