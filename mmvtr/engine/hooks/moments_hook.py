"""Position of a text's match in its best videos: to seek to the moment, and to evaluate it.

In partially relevant retrieval a video is scored by its best frame; that frame is the match.
"""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple, Optional, Sequence

import torch
from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch import Tensor, nn

from mmvtr.datasets import VideoTextDataset
from mmvtr.engine.loops.evaluation import Encoded, Evaluation, bare, to_device
from mmvtr.functional.similarities.tiles import top_of_rows
from mmvtr.functional.values import check_range
from mmvtr.models.similarities.best_frame import Matches
from mmvtr.registry import HOOKS
from mmvtr.storage import write_text
from mmvtr.structures import Levels, take

#: Videos whose frames are on the device at the same time.
VIDEOS = 512


class FoundMoments(NamedTuple):
    """The best K videos of T texts, and the matched span in each.

    Attributes:
        column: int64 [T, K], the videos, best first.
        score: float [T, K].
        matches: matches of these T K pairs, row by row.
    """

    column: Tensor
    score: Tensor
    matches: Matches


class Annotated(NamedTuple):
    """P texts whose moment in their single video is annotated.

    Attributes:
        rows: int64 [P], positions of the texts.
        columns: int64 [P], positions of their videos.
        span: float64 [P, 2], begin and end of the moment as shares of the video.
    """

    rows: Tensor
    columns: Tensor
    span: Tensor


@HOOKS.register_module()
class MomentsHook(Hook):
    """Hook that writes where texts match in their best videos, and reports the pointing accuracy.

    A test writes ``file`` to the work dir, a list with one entry per text: ``text_id``, ``text``
    and its best ``videos``, each with ``video_id``, ``score``, ``frame`` (index of the matched one
    among the compared frames or clips) and ``begin_seconds`` and ``end_seconds`` of that frame in
    the file; of a video of unknown length ``begin_share`` and ``end_share``, in [0, 1], instead.

    If moments are annotated, every evaluation reports ``moment/t2v_pointing``: the percentage of
    texts whose matched frame in their own video has its middle inside the annotated moment.
    ``moment/t2v_pointing_chance`` is that of a uniformly random point: the mean share of the
    moments in their videos, in percent.

    Args:
        top: videos per text.
        file: name of the file.

    Raises:
        ValueError: top below 1; (before the run) the similarity has no matched frames.
    """

    def __init__(self, *, top: int = 10, file: str = 'moments.json') -> None:
        check_range('[1, inf]', **{'MomentsHook.top': top})
        self.top = top
        self.file = file

    def before_run(self, runner: Runner) -> None:
        refuse_without_frames(bare(runner.model))

    def reported(self, keys: set[str], runner: Runner) -> set[str]:
        """Return the keys of its results, if moments are annotated."""
        return {'moment/t2v_pointing', 'moment/t2v_pointing_chance'}

    def after_scoring(self, runner: Runner, evaluation: Evaluation) -> None:
        """Write the moments and report the pointing accuracy; called on rank 0."""
        evaluation.numbers.update(pointing(evaluation))
        if evaluation.mode != 'test':
            return
        moments = find_moments(
            evaluation.model,
            evaluation.texts.levels,
            evaluation.videos.levels,
            evaluation.matrices['scores'],
            top=self.top,
        )
        entries = listed(moments, evaluation.texts, evaluation.videos, evaluation.dataset)
        path = os.path.join(runner.work_dir, self.file)
        lines = ',\n'.join(json.dumps(entry, ensure_ascii=False) for entry in entries)
        write_text(path, f'[\n{lines}\n]\n')
        runner.logger.info(f'moments of the best {moments.column.shape[1]} videos per text: {path}')


def refuse_without_frames(model: nn.Module) -> None:
    """Raise ValueError if the model has no matched frames of pairs."""
    similarity = model.similarity
    if not hasattr(similarity, 'paired_matches'):
        raise ValueError(
            f'{type(similarity).__name__} has no matched frames, so there is no moment to jump to: '
            'that takes a BestFrameSimilarity (or leave MomentsHook out of custom_hooks)'
        )


def find_moments(
    model: nn.Module, texts: Levels, videos: Levels, scores: Tensor, *, top: int
) -> FoundMoments:
    """Return the best videos of each text and the matched spans in them, computing T K pairs only.

    Args:
        model: a retriever whose similarity has ``paired_matches``.
        texts: levels of T texts.
        videos: levels of V videos, with tokens.
        scores: float [T, V].
        top: K, at most the number of videos.
    """
    values, places = top_of_rows(scores, top)
    column = places.cpu()
    rows = torch.arange(len(column)).repeat_interleave(column.shape[1])
    matches = matches_of(model, texts, videos, rows, column.flatten())
    return FoundMoments(column, values.cpu(), matches)


def matches_of(
    model: nn.Module, texts: Levels, videos: Levels, rows: Tensor, columns: Tensor
) -> Matches:
    """Return ``paired_matches`` of P pairs on the model's device, a few videos at a time.

    Args:
        model, texts, videos: see :func:`find_moments`.
        rows, columns: int64 [P], text and video of each pair, on the CPU.

    Returns:
        Matches on the CPU.
    """
    device = torch.device(model.data_preprocessor.device)
    texts = to_device(texts, device)
    frame = torch.empty(len(rows), dtype=torch.long)
    span = torch.empty(len(rows), 2, dtype=torch.float64)
    blocks = columns // VIDEOS
    for block in blocks.unique().tolist():
        pairs, first = (blocks == block).nonzero().flatten(), block * VIDEOS
        some = to_device(take(videos, slice(first, first + VIDEOS)), device)
        places = rows[pairs].to(device), (columns[pairs] - first).to(device)
        matches = model.similarity.paired_matches(texts, some, *places)
        frame[pairs], span[pairs] = (x.cpu() for x in matches)
    return Matches(frame, span)


def pointing(evaluation: Evaluation) -> dict[str, float]:
    """Return the numbers of MomentsHook; {} if no moment is annotated."""
    moments = annotated(evaluation)
    if moments is None:
        return {}
    levels = evaluation.texts.levels, evaluation.videos.levels
    middle = matches_of(evaluation.model, *levels, moments.rows, moments.columns).span.mean(1)
    begin, end = moments.span.unbind(1)
    inside = (begin <= middle) & (middle <= end)
    return {
        'moment/t2v_pointing': 100 * float(inside.double().mean()),
        'moment/t2v_pointing_chance': 100 * float((end - begin).mean()),
    }


def annotated(evaluation: Evaluation) -> Optional[Annotated]:
    """Return the texts with known moments that have one encoded video of known length; or None."""
    dataset = evaluation.dataset
    place = {v: column for column, v in enumerate(evaluation.videos.index.tolist())}
    rows, columns, spans = [], [], []
    for row, text in enumerate(dataset.texts[t] for t in evaluation.texts.index.tolist()):
        video = dataset.videos[text['video_idx'][0]]
        column = place.get(text['video_idx'][0])
        single = column is not None and len(text['video_idx']) == 1
        if single and 'start' in text and 'duration' in video:
            rows.append(row)
            columns.append(column)
            spans.append((text['start'] / video['duration'], text['end'] / video['duration']))
    if not rows:
        return None
    return Annotated(*map(torch.tensor, (rows, columns)), torch.tensor(spans, dtype=torch.float64))


def listed(
    moments: FoundMoments, texts: Encoded, videos: Encoded, dataset: VideoTextDataset
) -> list[dict[str, Any]]:
    """Return the entries of MomentsHook's file, text by text."""
    shape = moments.column.shape
    frames, spans = moments.matches.frame.view(shape), moments.matches.span.view(*shape, 2)
    records = [dataset.videos[v] for v in videos.index.tolist()]
    entries = []
    for t, hits in zip(texts.index.tolist(), zip(moments.column, moments.score, frames, spans)):
        best = [
            dict(
                video_id=videos.ids[v],
                score=round(score, 6),
                frame=frame,
                **times(span, records[v]),
            )
            for v, score, frame, span in zip(*(x.tolist() for x in hits))
        ]
        record = dataset.texts[t]
        entries.append(dict(text_id=record['text_id'], text=record['text'], videos=best))
    return entries


def begin_of(video: dict[str, Any]) -> float:
    """Return the second of a video's file at which its pictures begin."""
    return video.get('begin', video.get('start', 0.0))


def times(span: Sequence[float], video: dict[str, Any]) -> dict[str, float]:
    """Return a span as ``begin_seconds`` and ``end_seconds`` of the file, or as ``*_share``."""
    unit, begin, length = 'share', 0.0, 1.0
    if 'duration' in video:
        unit, begin, length = 'seconds', begin_of(video), video['duration']
    at = (round(begin + x * length, 4) for x in span)
    return {f'{side}_{unit}': x for side, x in zip(('begin', 'end'), at)}
