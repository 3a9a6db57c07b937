"""Hits of a query as items of a sheet, and the texts that a figure is about."""

from __future__ import annotations

from typing import Any, Optional, Sequence, Union

import numpy as np
import torch
from torch import Tensor

from mmvtr.engine.hooks.film_strip import film_strip
from mmvtr.engine.hooks.pictures import Scene, annotated_block
from mmvtr.figures.study import Asked, Study
from mmvtr.models.target import Target
from mmvtr.visualization import SheetItem


def chosen_texts(asked: Asked, candidates: Sequence[int], *, among: str = 'texts') -> list[int]:
    """Rows of the texts that were asked for by id, else some of ``candidates``, drawn.

    Raises:
        ValueError: an id that the set has not, or no candidate.
    """
    ids = asked.model.evaluation.texts.ids
    if not isinstance(asked.queries, int):
        place = {text_id: row for row, text_id in enumerate(ids)}
        unknown = [query for query in asked.queries if query not in place]
        if unknown:
            raise ValueError(
                f'queries: no text has the id {unknown[0]!r:.80}; there are {len(ids):,}: '
                f'{", ".join(ids[:3])} ...'
            )
        return [place[query] for query in asked.queries]
    if not len(candidates):
        raise ValueError(f'the set has no {among}: nothing to draw')
    drawn = np.random.default_rng(asked.seed).permutation(np.asarray(candidates))
    return drawn[: asked.queries].tolist()


def mark(study: Study, row: int, column: int) -> Optional[str]:
    """What is known of a pair, as :class:`~mmvtr.visualization.SheetItem` says it."""
    known = study.evaluation.relation
    if known.positives[row, column]:
        return 'annotated'
    truly = known.truth is not None and bool(known.truth[row, column])
    return 'judged' if truly else 'other'


def video_item(study: Study, row: int, column: int, **numbers: Any) -> SheetItem:
    """A video found for a text."""
    video = study.video(column)
    strip = film_strip(video, study.dataset.video_pipeline.transforms)
    return SheetItem(
        title=video['video_id'],
        frames=strip.frames,
        score=float(study.scores[row, column]),
        right=mark(study, row, column),
        lacking=strip.lacking,
        **numbers,
    )


def text_item(study: Study, row: int, column: int, **numbers: Any) -> SheetItem:
    """A text found for a video."""
    return SheetItem(
        title=study.text(row)['text'],
        frames=np.zeros((0, 1, 1, 3), np.uint8),
        score=float(study.scores[row, column]),
        right=mark(study, row, column),
        **numbers,
    )


def frames_or_words(study: Study, column: int) -> Union[str, np.ndarray]:
    """The frames of a video that asks; its id where it has none to show."""
    video = study.video(column)
    strip = film_strip(video, study.dataset.video_pipeline.transforms)
    return strip.frames if len(strip.frames) else f'the video {video["video_id"]}'


def scene_of(study: Study, asked: Asked) -> Scene:
    """For what :mod:`mmvtr.engine.hooks.pictures` knows to read."""
    return Scene(study.evaluation, study.dataset, (), study.transforms, seed=asked.seed)


def annotated(study: Study, rows: Sequence[int], columns: Sequence[int]) -> Target:
    """What a training batch of these items would know of them."""
    return annotated_block(Scene(study.evaluation, study.dataset, ()), rows, columns)


def own_pairs(study: Study) -> Tensor:
    """int64 [V', 2]: for each video that has a text, its first one: (text, video)."""
    positives = study.evaluation.relation.positives
    columns = positives.any(0).nonzero().flatten()
    rows = positives.int().argmax(0)[columns]
    return torch.stack([rows, columns], 1)
