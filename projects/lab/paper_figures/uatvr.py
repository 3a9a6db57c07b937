"""Figure 3 of UATVR, for models with probabilistic heads; 4 and 5 for models that match tokens."""

from __future__ import annotations

from typing import Iterator

import numpy as np
import torch

from mmvtr.engine.hooks.tested_model import FigureRequest, TestedModel, picture
from mmvtr.functional.metrics.ranks import ranks
from mmvtr.structures import take
from mmvtr.visualization import canvas
from paper_figures.attention import (
    compare,
    name_tokens,
    pieces_of,
    refuse_without_matches,
)
from paper_figures.changes import sigma_over_epochs
from paper_figures.token_strips import Pair, token_picture

#: Number of texts that are compared with one video.
TEXTS = 3


@picture('uatvr3', 'UATVR Fig. 3', needs='heads, and a checkpoint of each epoch')
def sigma_and_recall(request: FigureRequest) -> 'canvas.Figure':
    """Draw R@1 and mean sigma over the epochs.

    Raises:
        ValueError: fewer than two checkpoints of different epochs, or a model without heads.
    """
    models = sorted(request.models, key=lambda one: one.epoch or 0)
    epochs = [one.epoch for one in models]
    if None in epochs or len(set(epochs)) < 2:
        raise ValueError(
            f'uatvr3 needs checkpoints of two epochs or more, got those of {epochs!r:.80}; a '
            'training with --best-on-test keeps all of them'
        )
    found = {}
    for name, kind, place in (('text to video', 'text', 0), ('video to text', 'video', 1)):
        sides = []
        for one in models:
            sigma = one.evaluation.matrices.get(f'{kind}_sigma')
            if sigma is None:
                raise ValueError(f'{one.cfg.filename}: the model has no probabilistic heads')
            first = ranks(one.scores, one.evaluation.relation.positives, dim=1 - place)
            first = first[~first.isnan()]
            sides.append((100 * float((first <= 1).double().mean()), float(sigma.mean())))
        found[name] = tuple(np.array(side) for side in zip(*sides))
    return sigma_over_epochs(epochs, found)


@picture('uatvr4', 'UATVR Fig. 4', needs='a TokenSimilarity and words')
def extra_tokens(request: FigureRequest) -> Iterator[tuple[int, 'canvas.Figure']]:
    """Draw the contributions of a video's frames and extra tokens for several texts."""
    model = request.model
    refuse_without_matches(model.model)
    scores, positives = model.scores, model.evaluation.relation.positives
    for number, row in enumerate(request.rows(positives.any(1).nonzero().flatten().tolist())):
        column = int(positives[row].int().argmax())
        best = scores[:, column].topk(min(TEXTS, len(scores))).indices.tolist()
        texts = list(dict.fromkeys([row, *best]))[:TEXTS]
        pairs = [carried(model, text, column) for text in texts]
        title = 'Which frames and extra tokens (+) carry the scores of different texts'
        yield number, of_tokens(model, column, pairs, title)


@picture('uatvr5', 'UATVR Fig. 5', needs='a TokenSimilarity and words; --against for the baseline')
def hits_and_tokens(request: FigureRequest) -> Iterator[tuple[str, 'canvas.Figure']]:
    """Draw the first hits of a baseline and of the model, with the tokens' contributions."""
    model = request.model
    refuse_without_matches(model.model)
    known = model.evaluation.relation.positives
    first = {one.name: ranks(one.scores, known) for one in request.both}
    if request.against is None:
        candidates = (first[model.name] == 1).nonzero().flatten()
    else:
        wrong = first[request.against.name] > 1
        candidates = (wrong & (first[model.name] == 1)).nonzero().flatten()
    rows = request.rows(candidates.tolist(), among='text that only this model gets right')
    for number, row in enumerate(rows):
        columns = [int(model.scores[row].argmax())]
        if request.against is not None:
            columns.append(int(request.against.scores[row].argmax()))
        for place, column in enumerate(dict.fromkeys(columns)):
            finder = (model if place == 0 else request.against).name
            right = bool(known[row, column])
            title = f'found first by {finder}: {"right" if right else "wrong"}'
            pair = carried(model, row, column)
            yield f'{number}{"ab"[place]}', of_tokens(model, column, [pair], title, right=right)


def carried(study: TestedModel, row: int, column: int) -> Pair:
    """Return the tokens' contributions to the score of a text with a video."""
    text = study.text(row)
    sides = [
        take(items.levels, torch.tensor([place]))
        for items, place in ((study.evaluation.texts, row), (study.evaluation.videos, column))
    ]
    frames = int(study.evaluation.videos.lengths[column])
    names = pieces_of(study.dataset.text_pipeline.transforms, text)
    items = (
        name_tokens(study.model, sides[0], names, 'word_extra'),
        name_tokens(study.model, sides[1], [str(i + 1) for i in range(frames)], 'frame_extra'),
    )
    return compare(study.model, text['text'], *items)


def of_tokens(
    study: TestedModel, column: int, pairs: list[Pair], title: str, *, right=None
) -> 'canvas.Figure':
    """Draw the frames of a video, with strips of token contributions."""
    count = int(study.evaluation.videos.lengths[column])
    frames = study.frames(column, num_frames=count)['frames']
    title = f'{title} ({study.video(column)["video_id"]})'
    return token_picture(title, frames, pairs, right=right)
