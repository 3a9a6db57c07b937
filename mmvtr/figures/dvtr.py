"""Figures 3 to 6 of DVTR, of any model; 4 to 6 of one with an uncertainty of pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from mmvtr.engine.hooks.pictures import training_weights
from mmvtr.engine.loop.evaluation import to_device
from mmvtr.figures.items import (
    annotated,
    chosen_texts,
    frames_or_words,
    own_pairs,
    scene_of,
    text_item,
    video_item,
)
from mmvtr.figures.study import Asked, Study
from mmvtr.structures import take
from mmvtr.visualization.calibration import negatives_of_query
from mmvtr.visualization.matrix import compared_matrices
from mmvtr.visualization.sheet import retrieval_sheet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Named = Iterator[tuple[str, 'Figure']]
#: Pairs of a similarity matrix, texts whose negatives make a distribution, hits of a query.
PAIRS, TEXTS, HITS = 10, 256, 3


def similarity_matrices(asked: Asked) -> Named:
    """Fig. 3: scores of some pairs before (``against``) and after."""
    model = asked.model
    pairs = own_pairs(model)
    drawn = np.random.default_rng(asked.seed).permutation(len(pairs))[:PAIRS]
    rows, columns = (side.tolist() for side in pairs[torch.from_numpy(drawn)].t())
    truth = model.evaluation.relation.truth
    named = {study.name: part(study.scores, rows, columns) for study in both(asked)}
    yield (
        'dvtr3',
        compared_matrices(
            named,
            None if truth is None else part(truth, rows, columns),
            text_names=[model.text(row)['text'] for row in rows],
            video_names=[model.video(column)['video_id'] for column in columns],
        ),
    )


def both(asked: Asked) -> list[Study]:
    """What is compared, before and after; the model alone where nothing is."""
    return [study for study in (asked.against, asked.model) if study is not None]


def part(matrix: Tensor, rows: Sequence[int], columns: Sequence[int]) -> Tensor:
    return matrix[rows][:, columns]


def calibration(asked: Asked) -> Named:
    """Fig. 4: what each negative of a query adds to the loss, against its eta.

    Some texts meet all videos of the set as if these were one batch.  A negative's part in the
    contrastive loss is -log(1 - q), q its share of the text's softmax, with all weights 1 and with
    the supervision's.

    Raises:
        ValueError: the model's supervision gives no weights, or the text has no annotated video.
    """
    model = asked.model
    known = model.evaluation.relation
    matched = known.positives.any(1).nonzero().flatten().numpy()
    (query, *_) = chosen_texts(asked, matched, among='text with a video')
    others = np.random.default_rng(asked.seed).permutation(matched)[:TEXTS].tolist()
    rows = [query, *(row for row in others if row != query)]
    columns = list(range(model.scores.shape[1]))
    eta = training_weights(scene_of(model, asked), rows, columns)
    if eta is None:
        raise ValueError(
            'the supervision of the model gives negatives no weights: DVTR Fig. 4 needs a '
            'DVTRSupervision or another that weighs'
        )
    eta = eta.cpu()
    positives = annotated(model, rows, columns).positives.cpu()
    logits = model.scores[rows] / model.evaluation.matrices['temperature']
    plain, debiased = (push(logits, positives, weights) for weights in (torch.ones_like(eta), eta))
    negatives = ~positives[0]
    truth = None if known.truth is None else known.truth[query][negatives]
    sure = float((eta[~positives] > 0.9).float().mean())
    asked.said.append(f'dvtr4: {100 * sure:.1f} % of the negatives of {len(rows)} texts above .9')
    yield (
        'dvtr4',
        negatives_of_query(
            eta[0][negatives],
            plain[0][negatives],
            debiased[0][negatives],
            eta[~positives],
            truth,
            query=model.text(query)['text'],
            queries=len(rows),
        ),
    )


def push(logits: Tensor, positives: Tensor, weights: Tensor) -> Tensor:
    """-log(1 - q) of each entry, q its share of its row's weighted softmax; float64 [T, V]."""
    weighted = logits.double() + weights.double().clamp_min(1e-30).log().masked_fill(positives, 0.0)
    return -torch.log1p(-weighted.softmax(1).clamp_max(1 - 1e-12))


def eta_of(study: Study, rows: Sequence[int], columns: Sequence[int]) -> Tensor:
    """Uncertainty of pairs at test time, where no annotated partner is known: float [R, C].

    Raises:
        ValueError: the model has none.
    """
    supervision = getattr(study.model, 'supervision', None)
    if not hasattr(supervision, 'matrices'):
        raise ValueError(
            f'{study.name}: no uncertainty of pairs: the config needs a DVTRSupervision or a '
            'PCMESupervision'
        )
    sides = [
        to_device(take(items.levels, torch.as_tensor(places)), study.evaluation.device)
        for items, places in ((study.evaluation.texts, rows), (study.evaluation.videos, columns))
    ]
    with torch.no_grad():
        return supervision.matrices(*sides)['eta'].cpu()


def text_queries(asked: Asked) -> Named:
    """Fig. 5: the best videos of texts, with the uncertainty of each pair."""
    model, scores = asked.model, asked.model.scores
    rows = chosen_texts(asked, range(len(scores)))
    for number, row in enumerate(rows):
        best = scores[row].topk(min(asked.top or HITS, scores.shape[1])).indices.tolist()
        eta = eta_of(model, [row], best)[0].tolist()
        hits = [video_item(model, row, v, eta=e) for v, e in zip(best, eta)]
        said = (
            f'best {len(best)} of {scores.shape[1]:,} videos with the uncertainty eta of the pair'
        )
        yield f'dvtr5_{number}', retrieval_sheet(model.text(row)['text'], hits, said=said)


def video_queries(asked: Asked) -> Named:
    """Fig. 6: the best texts of videos, with the uncertainty of each pair."""
    model, scores = asked.model, asked.model.scores
    rows = chosen_texts(
        asked, model.evaluation.relation.positives.any(1).nonzero().flatten().tolist()
    )
    for number, row in enumerate(rows):  # the videos of the texts that were chosen
        column = int(model.evaluation.relation.positives[row].int().argmax())
        best = scores[:, column].topk(min(asked.top or HITS, len(scores))).indices.tolist()
        eta = eta_of(model, best, [column])[:, 0].tolist()
        hits = [text_item(model, t, column, eta=e) for t, e in zip(best, eta)]
        said = f'best {len(best)} of {len(scores):,} texts with the uncertainty eta of the pair'
        yield f'dvtr6_{number}', retrieval_sheet(frames_or_words(model, column), hits, said=said)
