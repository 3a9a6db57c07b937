"""Metrics and token-wise scores beside numpy, the form of CLIP4Clip and one einsum a tile."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from cpu_rows.timing import Call, Row, beside
from mmvtr.evaluation import RetrievalMetric
from mmvtr.evaluation.metric import evaluate
from mmvtr.functional import token_scores
from mmvtr.structures import Relation

LEVELS = (1, 5, 10)


def evaluation(quick: bool, repeats: int) -> list[Row]:
    """RetrievalMetric with several captions a video and with one; scores of tokens."""
    rows = []
    sizes = ((27_763, 2_990), (4_000, 4_000), (1_000, 1_000))  # the last: MSR-VTT 1k-A
    for texts, videos in ((60, 20), (40, 40)) if quick else sizes:
        rows += _of_a_matrix(texts, videos, repeats)
    return rows + _of_tokens(
        *((20, 20, 4, 6, 8) if quick else (1_000, 1_000, 12, 32, 512)), repeats
    )


def _of_a_matrix(texts: int, videos: int, repeats: int) -> list[Row]:
    scores = torch.randn(texts, videos, generator=torch.Generator().manual_seed(0))
    own = torch.arange(texts) * videos // texts
    relation = Relation(F.one_hot(own, videos).bool())
    metric = RetrievalMetric(v2t_protocols=('max_over_captions',))
    matrix, place = scores.numpy(), own.numpy()
    anchors: dict[str, Call] = {'numpy argsort': lambda: _by_argsort(matrix, place)}
    if texts == videos:
        anchors['sort and compare, as CLIP4Clip'] = lambda: _by_sorting(matrix)
    others: dict[str, Call] = {}
    if importlib.util.find_spec('torchmetrics'):
        importlib.import_module('torchmetrics.retrieval')  # whose memory is not the call's
        others['torchmetrics, t2v alone'] = lambda: _by_torchmetrics(scores, own)
    size = f'{texts:,} x {videos:,}'
    matrices = dict(scores=scores)
    return [
        *beside(f'RetrievalMetric, {size}', lambda: _recalls(metric(matrices, relation)),
                anchors | others, repeats, _same),
        *beside(f'its table with chance, {size}',
                lambda: _recalls(evaluate([metric], matrices, relation).values, 'retrieval/'),
                anchors, repeats, _same),
    ]  # fmt: skip


def _recalls(values: Any, prefix: str = '') -> list[float]:
    return [float(values[f'{prefix}{way}_R{k}']) for way in ('t2v', 'v2t') for k in LEVELS]


def _same(one: list[float], other: list[float]) -> str:
    return f'R@K within {max(abs(a - b) for a, b in zip(one, other)):.1g}'


def _by_argsort(matrix: np.ndarray, own: np.ndarray) -> list[float]:
    """Places of the own video among all, and of a video's best caption among those of others."""
    found = []
    grouped = np.full((matrix.shape[1],) * 2, -np.inf, 'float32')
    np.maximum.at(grouped, own, matrix)  # [V, V]: the best caption of row's video for a column's
    for scores, right in ((matrix, own), (grouped.T, np.arange(len(grouped)))):
        order = np.argsort(-scores, axis=1)
        places = (order == right[:, None]).argmax(1)
        found += [100 * float((places < k).mean()) for k in LEVELS]
    return found


def _by_torchmetrics(scores: Tensor, own: Tensor) -> list[float]:
    """Each text is a query of its own; a score of 0 or less counts as not retrieved."""
    from torchmetrics.retrieval import RetrievalRecall

    texts, videos = scores.shape
    metrics = [RetrievalRecall(top_k=k) for k in LEVELS]
    given = (scores - scores.min() + 1).flatten(), F.one_hot(own, videos).bool().flatten()
    for metric in metrics:
        metric.update(*given, indexes=torch.arange(texts).repeat_interleave(videos))
    return [100 * float(metric.compute()) for metric in metrics]


def _by_sorting(matrix: np.ndarray) -> list[float]:
    """Sort each row, and look where the diagonal's value stands."""
    found = []
    for scores in (matrix, matrix.T):
        ordered = np.sort(-scores, axis=1)
        places = np.where(ordered == -np.diag(scores)[:, None])[1]
        found += [100 * float((places < k).mean()) for k in LEVELS]
    return found


def _of_tokens(
    texts: int, videos: int, frames: int, words: int, dim: int, repeats: int
) -> list[Row]:
    generator = torch.Generator().manual_seed(0)
    t = F.normalize(torch.randn(texts, words, dim, generator=generator), dim=-1)
    v = F.normalize(torch.randn(videos, frames, dim, generator=generator), dim=-1)
    masks = torch.ones(texts, words).bool(), torch.ones(videos, frames).bool()

    def in_tiles() -> Tensor:
        done = []
        for rows in t.split(max(1, 2**22 // (words * videos * frames))):
            each = torch.einsum('tld,vfd->tvlf', rows, v)
            done.append((each.amax(3).mean(2) + each.amax(2).mean(2)) / 2)
        return torch.cat(done)

    work = f'token_scores, {texts:,} x {videos:,} x {frames} x {words} x {dim}'
    return beside(
        work, lambda: token_scores(t, masks[0], v, masks[1]), {'einsum in tiles': in_tiles},
        repeats, lambda a, b: f'within {float((a - b).abs().max()):.1g}',
    )  # fmt: skip
