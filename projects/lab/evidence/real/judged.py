"""What people say of pairs that nobody annotated, and how scores agree with it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Iterator, Mapping, NamedTuple

import numpy as np
import torch
from scipy.stats import spearmanr
from torch import Tensor

from mmvtr.functional.metrics.relevance import auc

sys.path.append(str(Path(__file__).resolve().parents[1]))  # study_parts, here and in what follows
from study_parts.image_judgments import read_flickr8k_crowd, read_flickr8k_expert  # noqa: E402


def crowd_pairs(data: Path) -> dict[tuple[str, str], float]:
    """Share of yes by (text id, image without suffix), pairs of a caption's own image left out."""
    return _unannotated(
        read_flickr8k_crowd(data / 'human_judgments/flickr8k/CrowdFlowerAnnotations.txt')
    )


def expert_pairs(data: Path) -> dict[tuple[str, str], float]:
    """Mean grade, 1 to 4, as :func:`crowd_pairs`."""
    return _unannotated(
        read_flickr8k_expert(data / 'human_judgments/flickr8k/ExpertAnnotations.txt')
    )


def _unannotated(pairs) -> dict[tuple[str, str], float]:
    rows = zip(pairs.texts, pairs.videos, pairs.values.tolist())
    return {
        (text, Path(image).stem): value
        for text, image, value in rows
        if text.partition('#')[0] != image
    }


class Judged(NamedTuple):
    """Judged unannotated pairs of a test set: places in its matrix, int64 [n], and values [n]."""

    rows: Tensor
    columns: Tensor
    values: Tensor

    @classmethod
    def of(cls, pairs: Mapping[tuple[str, str], float], texts: list[str], videos: list[str]):
        """The pairs of which both are in the set."""
        row, column = ({name: n for n, name in enumerate(names)} for names in (texts, videos))
        found = [(row[t], column[v], x) for (t, v), x in pairs.items() if t in row and v in column]
        rows, columns, values = zip(*found)
        return cls(torch.tensor(rows), torch.tensor(columns), torch.tensor(values).double())


def agreement(scores: Tensor, own: Tensor, crowd: Judged, expert: Judged) -> dict[str, float]:
    """How scores [T, V] agree with people, in percent.

    ``auc``: crowd majority among judged unannotated pairs; ``extra_ap``: mean average precision of
    a text's judged unannotated images, of texts with a right one; ``map``: the same with the text's
    own image among them; ``judged_p1``: the first image is the own one or right by people;
    ``expert_rho``: Spearman's with the experts' grade.
    """
    x, yes = scores[crowd.rows, crowd.columns], crowd.values > 0.5
    right = {(r, c) for r, c in zip(crowd.rows[yes].tolist(), crowd.columns[yes].tolist())}
    extra, first = [], []
    for row, part in _of_texts(crowd):
        best = int(scores[row].argmax())
        first.append(best == int(own[row]) or (row, best) in right)
        if yes[part].any():
            extra.append(average_precision(x[part], yes[part]))
    rho = spearmanr(scores[expert.rows, expert.columns].numpy(), expert.values.numpy())[0]
    return dict(
        auc=100 * float(auc(x[yes], x[~yes])),
        extra_ap=100 * float(np.mean(extra)),
        map=100 * float(np.mean([*_precisions(scores, own, crowd).values()])),
        judged_p1=100 * float(np.mean(first)),
        expert_rho=100 * float(rho),
    )


def _of_texts(crowd: Judged) -> Iterator[tuple[int, Tensor]]:
    """Each text that was judged and the places of its pairs."""
    order = crowd.rows.argsort(stable=True)
    rows, counts = crowd.rows[order].unique_consecutive(return_counts=True)
    return zip(rows.tolist(), order.split(counts.tolist()))


def shares(
    scores: Tensor, own: Tensor, crowd: Judged, expert: Judged, people: Mapping[str, float]
) -> dict[str, np.ndarray]:
    """How far each image, with its captions and what people said of them, moves three figures.

    Influences, float [V] in percent, of ``auc`` (Obuchowski, Biometrics 1997), ``map`` and, by
    leaving one image out, ``expert_rho``.  The variance of a figure over images is the sum of
    their squares.

    Args:
        people: what :func:`agreement` returns of the same scores.
    """
    images = scores.shape[1]
    x, yes = scores[crowd.rows, crowd.columns].double(), crowd.values > 0.5
    moved = torch.empty(len(x)).double()
    for mine, others in ((yes, ~yes), (~yes, yes)):
        below = _share_below(x[others], x[mine])
        better = below if mine is yes else 1 - below
        moved[mine] = (100 * better - people['auc']) / int(mine.sum())
    found = dict(auc=_summed(own[crowd.rows], moved, images))
    precisions = _precisions(scores, own, crowd)
    values = (100 * torch.tensor([*precisions.values()]) - people['map']) / len(precisions)
    found['map'] = _summed(own[[*precisions]], values, images)
    of_image, pairs = own[expert.rows].numpy(), scores[expert.rows, expert.columns].numpy()
    rho = np.zeros(images)
    for image in np.unique(of_image):
        rest = of_image != image
        left = spearmanr(pairs[rest], expert.values.numpy()[rest])[0]
        rho[image] = people['expert_rho'] - 100 * left
    return dict(found, expert_rho=rho)


def _precisions(scores: Tensor, own: Tensor, crowd: Judged) -> dict[int, float]:
    """Average precision of a text's judged images and its own, of texts with a right one."""
    found = {}
    for row, part in _of_texts(crowd):
        yes = crowd.values[part] > 0.5
        if yes.any():
            x = torch.cat([scores[row, crowd.columns[part]], scores[row, own[row]][None]])
            found[row] = average_precision(x, torch.cat([yes, torch.ones_like(yes[:1])]))
    return found


def _share_below(known: Tensor, x: Tensor) -> Tensor:
    """Share of known values [n] below each [m]; equal ones count half."""
    known = known.sort()[0]
    low, high = (torch.searchsorted(known, x, right=right) for right in (False, True))
    return (low + high).double() / (2 * len(known))


def _summed(of_image: Tensor, values: Tensor, images: int) -> np.ndarray:
    return torch.zeros(images).double().index_add(0, of_image, values.double()).numpy()


def average_precision(scores: Tensor, right: Tensor) -> float:
    """Of one list, scores [n] and bool [n] with a True."""
    hits = right[scores.argsort(descending=True)].double()
    precision = hits.cumsum(0) / torch.arange(1, len(hits) + 1)
    return float((precision * hits).sum() / hits.sum())
