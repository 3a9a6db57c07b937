"""What people say of pairs that nobody annotated, and how scores agree with it."""

from __future__ import annotations

from pathlib import Path
from typing import Mapping, NamedTuple

import numpy as np
import torch
from scipy.stats import spearmanr
from study_parts.image_judgments import read_flickr8k_crowd, read_flickr8k_expert
from torch import Tensor

from mmvtr.functional.metrics.relevance import auc


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
    order = crowd.rows.argsort(stable=True)
    _, counts = crowd.rows[order].unique_consecutive(return_counts=True)
    extra, whole, first = [], [], []
    for part in order.split(counts.tolist()):
        row = int(crowd.rows[part[0]])
        best = int(scores[row].argmax())
        first.append(best == int(own[row]) or (row, best) in right)
        if yes[part].any():
            extra.append(average_precision(x[part], yes[part]))
            with_own = torch.cat([x[part], scores[row, own[row]][None]])
            whole.append(average_precision(with_own, torch.cat([yes[part], torch.ones(1).bool()])))
    rho = spearmanr(scores[expert.rows, expert.columns].numpy(), expert.values.numpy())[0]
    return dict(
        auc=100 * float(auc(x[yes], x[~yes])),
        extra_ap=100 * float(np.mean(extra)),
        map=100 * float(np.mean(whole)),
        judged_p1=100 * float(np.mean(first)),
        expert_rho=100 * float(rho),
    )


def average_precision(scores: Tensor, right: Tensor) -> float:
    """Of one list, scores [n] and bool [n] with a True."""
    hits = right[scores.argsort(descending=True)].double()
    precision = hits.cumsum(0) / torch.arange(1, len(hits) + 1)
    return float((precision * hits).sum() / hits.sum())
