"""Pictures of an evaluation: from its matrices, levels and relation to figures."""

from __future__ import annotations

import sys
from typing import Any, Iterator, Optional, Sequence

import torch
from mmengine.logging import print_log
from torch import Tensor, nn

from mmvtr.datasets import collate_retrieval
from mmvtr.datasets.records import class_table
from mmvtr.engine.hooks.moments_hook import annotated, matches_of
from mmvtr.engine.hooks.tested_model import FigureRequest, Picture, TestedModel, picture, table
from mmvtr.engine.loops.evaluation import Evaluation, to_device
from mmvtr.functional.metrics.graded_relevance import class_overlap, class_relevance
from mmvtr.functional.similarities.tiles import top_of_rows
from mmvtr.models.target import Annotation, Target, judges, pushed
from mmvtr.structures import Levels, take
from mmvtr.visualization import (
    canvas,
    eta_against_loss,
    hubs,
    moment_curve,
    retrieval_sheet,
    score_matrix,
    sigma_against_generality,
)

#: Texts and videos in a drawn score matrix, and texts whose pairs a scatter of eta shows.
BLOCK, ETA_TEXTS = 20, 256


def _gives_eta(model: nn.Module) -> bool:
    return hasattr(getattr(model, 'supervision', None), 'matrices')


def _has_heads(model: nn.Module) -> bool:
    return all(getattr(part, 'heads', None) for part in getattr(model, 'members', [model]))


def _scores_frames(model: nn.Module) -> bool:
    return hasattr(model.similarity, 'frame_scores')


# -- one function per picture --------------------------------------------------------------------


@picture('score_matrix')
def matrix_picture(request: FigureRequest) -> 'canvas.Figure':
    """Draw a part of the score matrix: queries and other texts, with their videos and others."""
    study = request.model
    relation, scores = study.evaluation.relation, study.scores
    queries = request.rows() if request.queries else []
    others = [row for row in request.drawn(BLOCK, len(scores)) if row not in queries]
    rows = [*queries, *others][:BLOCK]
    matching = [v for row in rows for v in relation.positives[row].nonzero().flatten().tolist()]
    columns = list(dict.fromkeys([*matching, *request.drawn(BLOCK, scores.shape[1])]))[:BLOCK]

    def part(matrix: Optional[Tensor]) -> Optional[Tensor]:
        return None if matrix is None else matrix[rows][:, columns]

    return score_matrix(
        part(scores),
        part(relation.positives),
        training_weights(study, rows, columns),
        truth=part(relation.truth),
        text_names=[study.text(row)['text'] for row in rows],
        video_names=[study.video(column)['video_id'] for column in columns],
        whole=tuple(scores.shape),
    )


@picture('sheet', all_scores=False)
def sheets(request: FigureRequest) -> Iterator[tuple[int, 'canvas.Figure']]:
    """Draw the best hits of each query."""
    study, rows = request.model, request.rows()
    evaluation, scores = study.evaluation, study.scores
    sigmas = {kind: evaluation.matrices.get(f'{kind}_sigma') for kind in ('text', 'video')}
    name, biases = additive(study, rows)
    added = '' if name is None else f', bias of {name}'
    for number, row in enumerate(rows):
        best = top_of_rows(scores[row, None], request.top)[1][0].tolist()
        spans = matched_spans(evaluation, row, best)
        hits = []
        for column in best:
            span, duration = spans.get(column), study.video(column).get('duration')
            if span is not None and duration is not None:
                span = span[0] * duration, span[1] * duration
            hit = study.hit(
                row,
                column,
                bias=_number(biases, column),
                sigma=_number(sigmas['video'], column),
                moment=span,
                duration=None if span is None else duration,
            )
            hits.append(hit._replace(right=None) if hit.right == 'other' else hit)
        subtitle = f'best {len(best)} of {scores.shape[1]:,} videos by raw score{added}'
        positives = evaluation.relation.positives[row]
        if positives.any():
            rank = 1 + int((scores[row] > scores[row][positives].max()).sum())
            subtitle += f'; the annotated video has rank {rank:,}'
        sigma = _number(sigmas['text'], row)
        yield number, retrieval_sheet(study.text(row)['text'], hits, subtitle=subtitle, sigma=sigma)


def _number(values: Optional[Tensor], place: int) -> Optional[float]:
    return None if values is None else float(values[place])


@picture('hubs')
def hub_picture(request: FigureRequest) -> 'canvas.Figure':
    """Draw how evenly the gallery is retrieved, raw and after each transform."""
    evaluation = request.model.evaluation
    after = {name: tuple(evaluation.transformed[name]) for name in request.model.transforms}
    return hubs(evaluation.matrices['scores'], after)


@picture('eta', needs='a DVTRSupervision', has=_gives_eta)
def eta_picture(request: FigureRequest) -> 'canvas.Figure':
    """Draw DVTR's eta of some texts' pairs against their loss as matches."""
    study = request.model
    relation, scores = study.evaluation.relation, study.scores
    rows = torch.tensor(sorted(request.drawn(ETA_TEXTS, len(scores))))
    eta = eta_of(study, rows, range(scores.shape[1]))
    logits = scores / study.temperature
    drawn = logits[rows]
    loss = (drawn.logsumexp(1, keepdim=True) + logits.logsumexp(0)) / 2 - drawn
    truth = None if relation.truth is None else relation.truth[rows]
    return eta_against_loss(eta, loss, relation.positives[rows], truth, seed=request.seed)


@picture('sigma', needs='probabilistic heads', has=_has_heads)
def sigma_picture(request: FigureRequest) -> 'canvas.Figure':
    """Draw the model's uncertainty of texts."""
    evaluation = request.model.evaluation
    matrices, truth = evaluation.matrices, evaluation.relation.truth
    sigma = matrices['text_sigma']
    videos = matrices['scores'].shape[1]
    if truth is None:
        log_p = (matrices['scores'] / matrices['temperature']).log_softmax(1)
        fits = (-(log_p.exp() * log_p).sum(1)).exp()
        axis_label = f'videos over which its scores spread (perplexity), of {videos:,}'
    else:
        fits = truth.sum(1)
        sigma, fits = sigma[fits > 0], fits[fits > 0]
        axis_label = f'videos that the text truly fits, of {videos:,}'
    return sigma_against_generality(sigma, fits, measured_by=axis_label)


@picture('moment', needs='a BestFrameSimilarity', has=_scores_frames, all_scores=False)
def moment_pictures(request: FigureRequest) -> Iterator[tuple[int, 'canvas.Figure']]:
    """Draw each query's score along its own video if its moment is known, else its best hit."""
    study, rows = request.model, request.rows()
    evaluation = study.evaluation
    annotations = annotated(evaluation)
    moments: dict[int, tuple[int, list[float]]] = {}
    if annotations is not None:
        lists = (x.tolist() for x in annotations._replace(span=annotations.span.clamp(0, 1)))
        moments = {row: (column, span) for row, column, span in zip(*lists)}
    best = study.scores.argmax(1)
    for number, row in enumerate(rows):
        column, span = moments.get(row, (int(best[row]), None))
        curve = study.model.similarity.frame_scores(*levels_of(study, [row], [column]))[0, 0]
        video = study.video(column)
        yield (
            number,
            moment_curve(
                curve[curve.isfinite()],
                matched=matched_spans(evaluation, row, [column])[column],
                annotated=span,
                duration=video.get('duration'),
                text=study.text(row)['text'],
                video=video['video_id'],
            ),
        )


#: The pictures of :class:`~mmvtr.engine.hooks.pictures_hook.PicturesHook`, in display order.
PICTURES: dict[str, Picture] = table(sys.modules[__name__])


def check_pictures(names: Sequence[str]) -> tuple[str, ...]:
    """Return picture names without repetition.

    Raises:
        ValueError: none, or an unknown one.
    """
    names = [names] if isinstance(names, str) else list(names)
    unknown = [name for name in names if name not in PICTURES]
    if unknown or not names:
        raise ValueError(
            f'pictures: some of {", ".join(PICTURES)} expected, got '
            + (f'{unknown[0]!r:.80}' if unknown else 'none')
        )
    return tuple(dict.fromkeys(names))


def lacking(model: Optional[nn.Module], *, exact: bool = True) -> dict[str, str]:
    """Return the pictures that a model does not support, and what it lacks for each.

    Args:
        model: the retriever; None = scores alone.
        exact: whether all scores are known; a shortlist gives only some.
    """
    lacks: dict[str, str] = {}
    for name, row in PICTURES.items():
        if row.has is not None and (model is None or not row.has(model)):
            lacks[name] = 'a model' if model is None else row.needs
        elif row.all_scores and not exact:
            lacks[name] = 'all scores'
    return lacks


# -- what they read ----------------------------------------------------------------------------


@torch.no_grad()
def training_weights(
    study: TestedModel, rows: Sequence[int], columns: Sequence[int]
) -> Optional[Tensor]:
    """Return the training weights of these pairs if they formed one batch.

    They come from the model's supervision, or from its teacher if that acts.  Float [len(rows),
    len(columns)]; None if there is no supervision, if it gives scores of teachers or no weights, or
    if it reads what only a training batch has (agreement, an oracle's truth), which is logged.  A
    test uses the weights at the end of a training, a validation the current ones.
    """
    evaluation = study.evaluation
    parts = [getattr(evaluation.model, name, None) for name in ('supervision', 'teacher')]
    if parts[0] is None or getattr(parts[0], 'fills', '') == 'teacher':
        return None
    block = annotated_block(study, rows, columns)
    stood = [(part, part.progress) for part in parts if hasattr(part, 'progress')]
    if evaluation.mode == 'test':
        for part, _ in stood:
            part.progress = 1.0
    try:
        sides = levels_of(study, rows, columns)
        if parts[1] is not None and parts[1].acts:
            batch = batch_of(study, rows, columns)
            of_teacher = parts[1].own_levels(batch['inputs'], batch['data_samples'])
            sides = ({**live, **other} for live, other in zip(sides, of_teacher))
        filled, _ = (parts[0] if parts[1] is None else parts[1])(*sides, block)
    except ValueError as error:
        print_log(f'score_matrix is drawn without weights: {error}', 'current')
        return None
    finally:
        for part, progress in stood:
            part.progress = progress
    targets = [filled] if isinstance(filled, Target) else list(filled.values())
    judging = [target for target in targets if judges(target, block)]
    return pushed(judging[0], block) if judging else None


def batch_of(study: TestedModel, rows: Sequence[int], columns: Sequence[int]) -> dict[str, Any]:
    """Return some texts and videos as a batch, loaded again."""
    evaluation, data = study.evaluation, study.dataset
    items = [data.load_video(int(place)) for place in evaluation.videos.index[columns]]
    items += [data.load_text(int(place)) for place in evaluation.texts.index[rows]]
    return evaluation.model.data_preprocessor(collate_retrieval(items))


def levels_of(
    study: TestedModel, rows: Sequence[int], columns: Sequence[int]
) -> tuple[Levels, Levels]:
    """Return the encoded levels of some texts and videos, on the model's device."""
    sides = (study.evaluation.texts, rows), (study.evaluation.videos, columns)
    texts, videos = (
        to_device(take(items.levels, torch.as_tensor(places)), study.evaluation.device)
        for items, places in sides
    )
    return texts, videos


@torch.no_grad()
def eta_of(study: TestedModel, rows: Sequence[int], columns: Sequence[int]) -> Tensor:
    """Return the pairs' uncertainty at test time, without annotated partners: float [R, C].

    Raises:
        ValueError: the model has none.
    """
    supervision = getattr(study.model, 'supervision', None)
    if not hasattr(supervision, 'matrices'):
        raise ValueError(
            f'{study.name}: there is no uncertainty of pairs: the config needs a '
            'DVTRSupervision or a PCMESupervision'
        )
    matrices = supervision.matrices(*levels_of(study, rows, columns))
    if 'eta' not in matrices:
        raise ValueError(f'the supervision gives {sorted(matrices)}, expected eta')
    return matrices['eta'].cpu()


def annotated_block(study: TestedModel, rows: Sequence[int], columns: Sequence[int]) -> Target:
    """Return the target of a training batch of these items: positives and class relevance."""
    device = study.evaluation.device
    positives = study.evaluation.relation.positives[rows][:, columns].to(device)
    texts, videos = [study.text(t) for t in rows], [study.video(v) for v in columns]
    if 'classes' not in texts[0] or 'classes' not in videos[0]:
        return Target(positives)
    tables = [
        {kind: class_table(records, kind).to(device) for kind in sorted(records[0]['classes'])}
        for records in (texts, videos)
    ]
    return Target(positives, known=Annotation(class_relevance(*tables), class_overlap(*tables)))


def additive(study: TestedModel, rows: Sequence[int]) -> tuple[Optional[str], Optional[Tensor]]:
    """Return the first transform that adds one number per video, and these numbers, float [V].

    Sinkhorn and the inverted softmax do; other transforms depend on the text.  This is tested on
    some texts: those of ``rows`` and the first four.
    """
    raw = study.scores
    some = torch.tensor(sorted({*rows, *range(min(4, len(raw)))}))
    for name in study.transforms if len(some) > 1 else ():
        added = study.evaluation.transformed[name].t2v[some] - raw[some]
        if (added - added[0]).abs().max() <= 1e-4 * raw[some].abs().max():
            return name, added[0]
    return None, None


def matched_spans(
    evaluation: Evaluation, row: int, columns: Sequence[int]
) -> dict[int, tuple[float, float]]:
    """Return begin and end, as shares, of a text's matches in some videos; {} if unknown."""
    if not hasattr(getattr(evaluation.model, 'similarity', None), 'paired_matches'):
        return {}
    pairs = torch.full((len(columns),), row), torch.tensor(columns)
    levels = evaluation.texts.levels, evaluation.videos.levels
    spans = matches_of(evaluation.model, *levels, *pairs).span.tolist()
    return {column: (begin, end) for column, (begin, end) in zip(columns, spans)}
