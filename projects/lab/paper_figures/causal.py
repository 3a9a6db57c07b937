"""Figures 5 and 11 of the frame-length paper and its Appendix B, for any two models."""

from __future__ import annotations

from collections import Counter
from typing import Any, Iterator

import numpy as np
import torch
from mmengine.config import Config
from torch import Tensor

from mmvtr.datasets.record_transforms import read_annotations
from mmvtr.engine.hooks.tested_model import FigureRequest, TestedModel, picture
from mmvtr.evaluation.length_bias import LengthBiasMetric
from mmvtr.functional.metrics.ranks import ranks
from mmvtr.functional.metrics.relevance import ndcg_at_k
from mmvtr.registry import bare_name
from mmvtr.visualization import canvas
from paper_figures.changes import moved_ranks
from paper_figures.relevance_strips import RelevanceStrip, relevance_strips
from paper_figures.study import run_tool

#: Number of hits per query.
DEPTH = 50
#: The tail: the rarest classes that together have this share of a training set (EPIC-KITCHENS).
TAIL = 0.2
#: Smallest differences of mean lengths, the paper's 60 frames (60 per second).
GAPS = dict(frames=60.0, seconds=1.0)


@picture(
    'causal2',
    'frame length, Fig. 2 and 6 to 10',
    needs='sets with verb and noun classes; no checkpoint',
    by_tool=True,
)
def lengths(request: FigureRequest) -> Iterator:
    """Draw mean lengths of actions in train and test."""
    run_tool('length_bias', request.line[0], '--out', request.out, *request.options)
    return iter(())


@picture('causal5', 'frame length, Fig. 5', needs='--against; a set whose relevance is known')
def gains(request: FigureRequest) -> 'canvas.Figure':
    """Draw the relevance of the 50 best hits for queries where it rises most."""
    return _strips(request, largest=True)


@picture('causal11', 'frame length, Fig. 11', needs='--against; a set whose relevance is known')
def losses(request: FigureRequest) -> 'canvas.Figure':
    """Draw the relevance of the 50 best hits for queries where it falls most."""
    return _strips(request, largest=False)


def _strips(request: FigureRequest, *, largest: bool) -> 'canvas.Figure':
    """Draw the requested number of queries of each direction.

    Raises:
        ValueError: no second model, or a dataset without relevance.
    """
    before, after = compared(request)
    relevance = after.evaluation.relation.relevance
    if relevance is None:
        raise ValueError(
            f'{after.cfg.filename}: strips of relevance need a set with verb and noun classes '
            '(EPIC-KITCHENS-100, YouCook2, MSR-VTT with tags, planted)'
        )
    depth, count = (
        request.top or DEPTH,
        request.queries if isinstance(request.queries, int) else None,
    )
    columns = {}
    for direction, place in (('text to video', 0), ('video to text', 1)):
        scores = [_by_query(one.best_scores()[place], place) for one in (before, after)]
        known = _by_query(relevance, place)
        worth = [100 * ndcg_at_k(x, known, k=depth) for x in scores]
        change = (worth[1] - worth[0]).nan_to_num(0.0)
        order = change.argsort(descending=largest, stable=True).tolist()
        queries = _rows_of_queries(request, after, place) if count is None else order
        strips = []
        for q in queries:
            if len(strips) == count or any(
                _text_of_query(after, place, q) == x.query for x in strips
            ):
                continue
            rows = {one.name: x[q] for one, x in zip((before, after), scores)}
            strips.append(
                RelevanceStrip(
                    _text_of_query(after, place, q),
                    {name: _relevance_of_best(row, known[q], depth) for name, row in rows.items()},
                    {one.name: float(w[q]) for one, w in zip((before, after), worth)},
                )
            )
        moved = int((change > 0).sum()), int((change < 0).sum())
        columns[f'{direction}: {moved[0]:,} better, {moved[1]:,} worse'] = strips
        line = (
            f'nDCG@{depth} of {after.name} over {before.name}, {direction}: {moved[0]:,} better, '
            f'{moved[1]:,} worse, mean {float(change.mean()):+.1f}'
        )
        request.notes.extend([] if line in request.notes else [line])
    least = min(map(len, columns.values()))
    columns = {name: strips[:least] for name, strips in columns.items()}
    most = f'of different words that {"gain" if largest else "lose"} most'
    which = 'asked for' if count is None else most
    return relevance_strips(columns, title=f'Relevance of the {depth} best hits of queries {which}')


def compared(request: FigureRequest) -> tuple[TestedModel, TestedModel]:
    """Return the model to compare with, and the model.

    Raises:
        ValueError: there is only one.
    """
    if request.against is None:
        raise ValueError('nothing to compare: give a second model by --against')
    return request.against, request.model


def _by_query(matrix: Tensor, place: int) -> Tensor:
    """Return [T, V] with the queries of a direction as rows."""
    return matrix if place == 0 else matrix.t().contiguous()


def _relevance_of_best(scores: Tensor, relevance: Tensor, depth: int) -> np.ndarray:
    best = scores.topk(min(depth, len(scores))).indices
    return relevance[best].numpy()


def _text_of_query(study: TestedModel, place: int, query: int) -> str:
    """Return the query text, or the first caption of the query video."""
    if place == 0:
        return study.text(query)['text']
    own = study.evaluation.relation.positives[:, query].nonzero().flatten().tolist()
    return study.text(own[0])['text'] if own else study.video(query)['video_id']


def _rows_of_queries(request: FigureRequest, study: TestedModel, place: int) -> list[int]:
    """Return the rows of the requested texts, or of their videos."""
    rows = request.rows()
    positives = study.evaluation.relation.positives
    return rows if place == 0 else [int(positives[row].int().argmax()) for row in rows]


# -- Appendix B --------------------------------------------------------------------------------


@picture(
    'causal_b',
    'frame length, Appendix B',
    needs='--against; lengths and classes of train and test',
)
def remaining_failures(request: FigureRequest) -> 'canvas.Figure':
    """Draw failures that may be due to lengths, and which of them remain.

    Raises:
        ValueError: no second model, or unknown lengths or actions.
    """
    before, after = compared(request)
    relation = before.evaluation.relation
    loader = before.cfg.get('train_dataloader')
    if loader is None:
        raise ValueError(f'{before.cfg.filename} has no train_dataloader, whose lengths count')
    train = read_annotations(loader.dataset, 'environments')
    metric = LengthBiasMetric(train=train, **_length_options(before.cfg))
    found = metric.narrowed(before.best_scores().t2v, relation)
    tail = tail_classes(train)
    suspects = [
        row
        for row in found['nearer'].tolist()
        if not any(a[k] in tail[k] for a in relation.text_actions[row] for k in (0, 1))
    ]
    request.notes.extend(
        [
            f'failures of {before.name} (match behind rank 10): {len(found["failed"]):,}',
            f'- of an action whose lengths differ by {metric.least:g} {metric.unit} or more: '
            f'{len(found["gap"]):,}',
            f'- whose first {metric.top} are nearer to the train mean: {len(found["nearer"]):,}',
            f'- without a tail verb or noun: {len(suspects):,}',
        ]
    )
    if not suspects:
        raise ValueError(f'{before.name} has no failure that may come from lengths (Appendix B)')
    rows = torch.tensor(suspects)
    old, new = (
        ranks(one.best_scores().t2v[rows], relation.positives[rows]) for one in (before, after)
    )
    better, worse = (old - new).clamp_min(0), (new - old).clamp_min(0)
    still = metric.narrowed(after.best_scores().t2v, relation)
    request.notes.extend(
        [
            f'of these {len(suspects):,}, with {after.name}: {int((better > 0).sum()):,} better by '
            f'{float(better.sum()):,.0f} ranks in all, {int((worse > 0).sum()):,} worse by '
            f'{float(worse.sum()):,.0f}; {int((new > 10).sum()):,} are still behind rank 10, '
            f'{len(set(suspects) & set(still["nearer"].tolist())):,} still follow the train mean',
        ]
    )
    title = f'{len(suspects):,} failures that may come from frame lengths (Appendix B)'
    return moved_ranks(old, new, names=(before.name, after.name), title=title)


def _length_options(cfg: Config) -> dict[str, Any]:
    """Return ``min_gap`` and ``top`` of the config's LengthBiasMetric, or else the paper's."""
    metrics = cfg.get('test_evaluator') or []
    for metric in metrics if isinstance(metrics, (list, tuple)) else [metrics]:
        if bare_name(metric) == 'LengthBiasMetric':
            return {key: metric[key] for key in ('min_gap', 'top') if key in metric}
    return dict(min_gap=GAPS)


def tail_classes(train) -> tuple[set[int], set[int]]:
    """Return the tail's verbs and nouns: the rarest, together with ``TAIL`` of the training set."""
    tails = []
    for kind in (0, 1):
        counts = Counter(action[kind] for video in train.videos for action in video['actions'])
        total, tail = 0, set()
        for name, count in sorted(counts.items(), key=lambda item: (item[1], item[0])):
            total += count
            if total > TAIL * sum(counts.values()):
                break
            tail.add(name)
        tails.append(tail)
    return tails[0], tails[1]


@picture(
    'cost',
    'frame length, Tab. 5; UATVR, Tab. 2; ARL, Tab. 3',
    needs='nothing; no checkpoint, no data',
    by_tool=True,
)
def cost(request: FigureRequest) -> Iterator:
    """Print parameters, GFLOPs and time of a training step."""
    run_tool('cost', request.line[0], *request.options)
    return iter(())
