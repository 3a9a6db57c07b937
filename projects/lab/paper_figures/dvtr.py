"""Figures 3 to 6 of DVTR, for any model; 4 to 6 need an uncertainty of pairs."""

from __future__ import annotations

from typing import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from mmvtr.engine.hooks.pictures import annotated_block, eta_of, training_weights
from mmvtr.engine.hooks.tested_model import FigureRequest, picture
from mmvtr.visualization import canvas
from mmvtr.visualization.sheet import retrieval_sheet
from paper_figures.matrices import compared_matrices
from paper_figures.negatives import negatives_of_query

#: Numbers of pairs in a matrix, of texts for the distribution of eta, and of hits per query.
PAIRS, TEXTS, HITS = 10, 256, 3


@picture('dvtr3', 'DVTR Fig. 3', needs='--against for the model before')
def similarity_matrices(request: FigureRequest) -> 'canvas.Figure':
    """Draw the scores of ten pairs of texts and videos, before and after."""
    model, known = request.model, request.model.evaluation.relation
    # The first text of each video that has one.
    videos = known.positives.any(0).nonzero().flatten()
    pairs = torch.stack([known.positives.int().argmax(0)[videos], videos], 1)
    drawn = np.random.default_rng(request.seed).permutation(len(pairs))[:PAIRS]
    rows, columns = (side.tolist() for side in pairs[torch.from_numpy(drawn)].t())
    return compared_matrices(
        {study.name: part(study.scores, rows, columns) for study in request.both},
        None if known.truth is None else part(known.truth, rows, columns),
        text_names=[model.text(row)['text'] for row in rows],
        video_names=[model.video(column)['video_id'] for column in columns],
    )


def part(matrix: Tensor, rows: Sequence[int], columns: Sequence[int]) -> Tensor:
    return matrix[rows][:, columns]


@picture(
    'dvtr4',
    'DVTR Fig. 4',
    needs="a supervision that weighs negatives; --split train for the paper's set",
)
def calibration(request: FigureRequest) -> 'canvas.Figure':
    """Draw the loss of each negative of a query against its eta, and the distribution of eta.

    Some texts are compared with all videos of the set as if these were one batch.  A negative's
    part in the contrastive loss is -log(1 - q), where q is its share of the text's softmax, with
    all weights 1 and with the supervision's.

    Raises:
        ValueError: the model's supervision gives no weights, or the text has no annotated video.
    """
    model = request.model
    known = model.evaluation.relation
    matched = known.positives.any(1).nonzero().flatten().numpy()
    (query, *_) = request.rows(matched, among='text with a video')
    others = np.random.default_rng(request.seed).permutation(matched)[:TEXTS].tolist()
    rows = [query, *(row for row in others if row != query)]
    columns = list(range(model.scores.shape[1]))
    eta = training_weights(model, rows, columns)
    if eta is None:
        raise ValueError(
            'the supervision of the model gives negatives no weights: DVTR Fig. 4 needs a '
            'DVTRSupervision or another that weighs'
        )
    eta = eta.cpu()
    positives = annotated_block(model, rows, columns).positives.cpu()
    logits = model.scores[rows] / model.temperature
    plain, debiased = (push(logits, positives, weights) for weights in (torch.ones_like(eta), eta))
    negatives = ~positives[0]
    truth = None if known.truth is None else known.truth[query][negatives]
    sure = float((eta[~positives] > 0.9).float().mean())
    request.notes.append(
        f'dvtr4: {100 * sure:.1f} % of the negatives of {len(rows)} texts above .9'
    )
    return negatives_of_query(
        eta[0][negatives],
        plain[0][negatives],
        debiased[0][negatives],
        eta[~positives],
        truth,
        query=model.text(query)['text'],
        queries=len(rows),
    )


def push(logits: Tensor, positives: Tensor, weights: Tensor) -> Tensor:
    """Return -log(1 - q), q an entry's share of its row's weighted softmax; float64 [T, V]."""
    weighted = logits.double() + weights.double().clamp_min(1e-30).log().masked_fill(positives, 0.0)
    return -torch.log1p(-weighted.softmax(1).clamp_max(1 - 1e-12))


@picture('dvtr5', 'DVTR Fig. 5', needs='a DVTRSupervision or PCMESupervision')
def text_queries(request: FigureRequest) -> Iterator[tuple[int, 'canvas.Figure']]:
    """Draw the best videos of texts, with the uncertainty of each pair."""
    model, scores = request.model, request.model.scores
    for number, row in enumerate(request.rows(range(len(scores)))):
        best = scores[row].topk(min(request.top or HITS, scores.shape[1])).indices.tolist()
        eta = eta_of(model, [row], best)[0].tolist()
        hits = [model.hit(row, v, eta=e) for v, e in zip(best, eta)]
        yield (
            number,
            retrieval_sheet(model.text(row)['text'], hits, subtitle=_subtitle(scores, 1, hits)),
        )


@picture('dvtr6', 'DVTR Fig. 6', needs='a DVTRSupervision or PCMESupervision')
def video_queries(request: FigureRequest) -> Iterator[tuple[int, 'canvas.Figure']]:
    """Draw the best texts of videos, with the uncertainty of each pair."""
    model, scores = request.model, request.model.scores
    positives = model.evaluation.relation.positives
    rows = request.rows(positives.any(1).nonzero().flatten().tolist())
    for number, row in enumerate(rows):  # the videos of the requested texts
        column = int(positives[row].int().argmax())
        best = scores[:, column].topk(min(request.top or HITS, len(scores))).indices.tolist()
        eta = eta_of(model, best, [column])[:, 0].tolist()
        hits = [model.hit(t, column, text=True, eta=e) for t, e in zip(best, eta)]
        frames = model.frames(column)['frames']
        query = frames if len(frames) else f'the video {model.video(column)["video_id"]}'
        yield number, retrieval_sheet(query, hits, subtitle=_subtitle(scores, 0, hits))


def _subtitle(scores: Tensor, dim: int, hits: Sequence) -> str:
    items = f'{scores.shape[dim]:,} {("texts", "videos")[dim]}'
    return f'best {len(hits)} of {items} with the uncertainty eta of the pair'
