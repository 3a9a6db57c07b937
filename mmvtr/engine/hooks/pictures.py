"""Which pictures an evaluation gives: from its matrices, levels and relation to figures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Iterator, NamedTuple, Optional, Sequence

import numpy as np
import torch
from mmengine.logging import print_log
from torch import Tensor, nn

from mmvtr.datasets.records import class_table
from mmvtr.datasets.video_text import VideoTextDataset
from mmvtr.engine.hooks.film_strip import film_strip
from mmvtr.engine.hooks.moments_hook import annotated, matches_of
from mmvtr.engine.loop.evaluation import Evaluation, to_device
from mmvtr.functional.metrics.class_relevance import class_overlap, class_relevance
from mmvtr.models.target import Annotation, Target, judges, pushed
from mmvtr.structures import take
from mmvtr.visualization import (
    SheetItem,
    eta_against_loss,
    hubs,
    moment_curve,
    retrieval_sheet,
    score_matrix,
    sigma_against_generality,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Texts and videos of a score matrix, and texts whose pairs a scatter of eta shows.
BLOCK, ETA_TEXTS = 20, 256


class Scene(NamedTuple):
    """An evaluation to be drawn.

    Attributes:
        evaluation: the set and its scores; ``model`` may be None where scores are all there is.
        dataset: of the set.
        queries: places of the texts whose hits are drawn.
        transforms: names of its transformed scores that are test-time transforms.
        top: hits of a query.
        seed: of all draws.
    """

    evaluation: Evaluation
    dataset: VideoTextDataset
    queries: Sequence[int]
    transforms: Sequence[str] = ()
    top: int = 5
    seed: int = 0

    def text(self, row: int) -> dict[str, Any]:
        """The record of a text."""
        return self.dataset.texts[int(self.evaluation.texts.index[row])]

    def video(self, column: int) -> dict[str, Any]:
        """The record of a video."""
        return self.dataset.videos[int(self.evaluation.videos.index[column])]

    def drawn(self, count: int, of: int) -> list[int]:
        """Some of so many places, by the seed."""
        return np.random.default_rng((self.seed, of)).permutation(of)[:count].tolist()


#: (name of a picture, what makes it), in the order in which they are shown.
Named = Iterator[tuple[str, 'Figure']]


# -- one maker a picture -----------------------------------------------------------------------


def matrix_picture(scene: Scene) -> Named:
    """A part of the score matrix: the queries and other texts, with their videos and others."""
    known, scores = scene.evaluation.relation, scene.evaluation.matrices['scores']
    others = [row for row in scene.drawn(BLOCK, len(scores)) if row not in scene.queries]
    rows = [*scene.queries, *others][:BLOCK]
    own = [v for row in rows for v in known.positives[row].nonzero().flatten().tolist()]
    columns = list(dict.fromkeys([*own, *scene.drawn(BLOCK, scores.shape[1])]))[:BLOCK]

    def part(matrix: Optional[Tensor]) -> Optional[Tensor]:
        return None if matrix is None else matrix[rows][:, columns]

    yield (
        'score_matrix',
        score_matrix(
            part(scores),
            part(known.positives),
            training_weights(scene, rows, columns),
            truth=part(known.truth),
            text_names=[scene.text(row)['text'] for row in rows],
            video_names=[scene.video(column)['video_id'] for column in columns],
            whole=tuple(scores.shape),
        ),
    )


def sheets(scene: Scene) -> Named:
    """The best hits of each query."""
    refuse_without_queries(scene)
    evaluation = scene.evaluation
    scores = evaluation.matrices['scores']
    text_sigma = evaluation.matrices.get('text_sigma')
    name, biases = additive(scene)
    added = '' if name is None else f', bias of {name}'
    for number, row in enumerate(scene.queries):
        best = scores[row].topk(min(scene.top, scores.shape[1])).indices.tolist()
        spans = matched_spans(evaluation, row, best)
        hits = [_hit(scene, row, column, biases, spans.get(column)) for column in best]
        said = f'best {len(best)} of {scores.shape[1]:,} videos by raw score{added}'
        own = evaluation.relation.positives[row]
        if own.any():
            rank = 1 + int((scores[row] > scores[row][own].max()).sum())
            said += f'; the annotated video has rank {rank:,}'
        sigma = None if text_sigma is None else float(text_sigma[row])
        yield (
            f'sheet_{number}',
            retrieval_sheet(scene.text(row)['text'], hits, said=said, sigma=sigma),
        )


def _hit(
    scene: Scene,
    row: int,
    column: int,
    biases: Optional[Tensor],
    span: Optional[tuple[float, float]],
) -> SheetItem:
    evaluation, video = scene.evaluation, scene.video(column)
    known = evaluation.relation
    sigma = evaluation.matrices.get('video_sigma')
    truly = known.truth is not None and bool(known.truth[row, column])
    strip = film_strip(video, scene.dataset.video_pipeline.transforms)
    duration = video.get('duration')
    if span is not None and duration is not None:
        span = span[0] * duration, span[1] * duration
    return SheetItem(
        title=video['video_id'],
        frames=strip.frames,
        score=float(evaluation.matrices['scores'][row, column]),
        right='annotated' if known.positives[row, column] else 'judged' if truly else None,
        bias=None if biases is None else float(biases[column]),
        sigma=None if sigma is None else float(sigma[column]),
        moment=span,
        duration=None if span is None else duration,
        lacking=strip.lacking,
    )


def hub_picture(scene: Scene) -> Named:
    """How evenly the gallery is found, raw and after each transform."""
    after = {name: tuple(scene.evaluation.transformed[name]) for name in scene.transforms}
    yield 'hubs', hubs(scene.evaluation.matrices['scores'], after)


def eta_picture(scene: Scene) -> Named:
    """DVTR's eta of the pairs of some texts against what they would cost as matches."""
    evaluation, known = scene.evaluation, scene.evaluation.relation
    scores = evaluation.matrices['scores']
    rows = torch.tensor(sorted(scene.drawn(ETA_TEXTS, len(scores))))
    levels = take(evaluation.texts.levels, rows), evaluation.videos.levels
    with torch.no_grad():
        made = evaluation.model.supervision.matrices(
            *(to_device(side, evaluation.device) for side in levels)
        )
    if 'eta' not in made:
        raise ValueError(f'the supervision gives {sorted(made)}, expected eta')
    logits = scores / evaluation.matrices['temperature']
    own = logits[rows]
    loss = (own.logsumexp(1, keepdim=True) + logits.logsumexp(0)) / 2 - own
    truth = None if known.truth is None else known.truth[rows]
    yield (
        'eta',
        eta_against_loss(made['eta'], loss, known.positives[rows], truth, seed=scene.seed),
    )


def sigma_picture(scene: Scene) -> Named:
    """How uncertain the model is of texts that could mean much."""
    matrices, truth = scene.evaluation.matrices, scene.evaluation.relation.truth
    sigma = matrices['text_sigma']
    videos = matrices['scores'].shape[1]
    if truth is None:
        log_p = (matrices['scores'] / matrices['temperature']).log_softmax(1)
        fits = (-(log_p.exp() * log_p).sum(1)).exp()
        said = f'videos over which its scores spread (perplexity), of {videos:,}'
    else:
        fits = truth.sum(1)
        sigma, fits = sigma[fits > 0], fits[fits > 0]
        said = f'videos that the text truly fits, of {videos:,}'
    yield 'sigma', sigma_against_generality(sigma, fits, measured_by=said)


def moment_pictures(scene: Scene) -> Named:
    """Each query along its own video, if its moment there is known, else along its best hit."""
    refuse_without_queries(scene)
    evaluation = scene.evaluation
    known = annotated(scene.dataset, evaluation.texts, evaluation.videos)
    moments: dict[int, tuple[int, list[float]]] = {}
    if known is not None:
        listed = (known.rows.tolist(), known.columns.tolist(), known.span.clamp(0, 1).tolist())
        moments = {row: (column, span) for row, column, span in zip(*listed)}
    best = evaluation.matrices['scores'].argmax(1)
    for number, row in enumerate(scene.queries):
        column, span = moments.get(row, (int(best[row]), None))
        pair = [
            to_device(take(items.levels, torch.tensor([place])), evaluation.device)
            for items, place in ((evaluation.texts, row), (evaluation.videos, column))
        ]
        curve = evaluation.model.similarity.frame_scores(*pair)[0, 0]
        video = scene.video(column)
        yield (
            f'moment_{number}',
            moment_curve(
                curve[curve.isfinite()],
                matched=matched_spans(evaluation, row, [column])[column],
                annotated=span,
                duration=video.get('duration'),
                text=scene.text(row)['text'],
                video=video['video_id'],
            ),
        )


PICTURES: dict[str, Callable[[Scene], Named]] = dict(
    score_matrix=matrix_picture,
    sheet=sheets,
    hubs=hub_picture,
    eta=eta_picture,
    sigma=sigma_picture,
    moment=moment_pictures,
)


def check_pictures(names: Sequence[str]) -> tuple[str, ...]:
    """Names of pictures, each once.

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


def lacking(model: Optional[nn.Module]) -> dict[str, str]:
    """Pictures that a model (None: scores alone) cannot give, and what it lacks for each."""
    if model is None:
        return dict.fromkeys(('eta', 'sigma', 'moment'), 'a model')
    found = {}
    if not hasattr(getattr(model, 'supervision', None), 'matrices'):
        found['eta'] = 'a DVTRSupervision'
    if not all(getattr(part, 'heads', None) for part in getattr(model, 'members', [model])):
        found['sigma'] = 'probabilistic heads'
    if not hasattr(model.similarity, 'frame_scores'):
        found['moment'] = 'a BestFrameSimilarity'
    return found


def refuse_without_queries(scene: Scene) -> None:
    """Raise ValueError where the evaluated set has none of the texts that were asked for."""
    if not scene.queries:
        raise ValueError('the set has none of the queries')


# -- what they read ----------------------------------------------------------------------------


@torch.no_grad()
def training_weights(scene: Scene, rows: Sequence[int], columns: Sequence[int]) -> Optional[Tensor]:
    """How hard the model's supervision would push these pairs, were they one training batch.

    Float [len(rows), len(columns)]; None where it has none, says nothing of negatives, or reads
    what only a training batch brings (agreement, an oracle's truth); the log says the last.  A test
    has the weights of the end of a training, a validation those of where it stands.
    """
    evaluation = scene.evaluation
    supervision = getattr(evaluation.model, 'supervision', None)
    if supervision is None:
        return None
    texts, videos = (
        to_device(take(items.levels, torch.tensor(places)), evaluation.device)
        for items, places in ((evaluation.texts, rows), (evaluation.videos, columns))
    )
    known = annotated_block(scene, rows, columns)
    progress = getattr(supervision, 'progress', None)
    if evaluation.mode == 'test' and progress is not None:
        supervision.progress = 1.0
    try:
        made, _ = supervision(texts, videos, known)
    except ValueError as error:
        print_log(f'score_matrix is drawn without weights: {error}', 'current')
        return None
    finally:
        if progress is not None:
            supervision.progress = progress
    targets = [made] if isinstance(made, Target) else list(made.values())
    judging = [target for target in targets if judges(target, known)]
    return pushed(judging[0], known) if judging else None


def annotated_block(scene: Scene, rows: Sequence[int], columns: Sequence[int]) -> Target:
    """What a training batch of these items would know of them: positives, and what classes say."""
    device = scene.evaluation.device
    positives = scene.evaluation.relation.positives[rows][:, columns].to(device)
    texts, videos = [scene.text(t) for t in rows], [scene.video(v) for v in columns]
    if 'classes' not in texts[0] or 'classes' not in videos[0]:
        return Target(positives)
    tables = [
        {kind: class_table(records, kind).to(device) for kind in sorted(records[0]['classes'])}
        for records in (texts, videos)
    ]
    return Target(positives, known=Annotation(class_relevance(*tables), class_overlap(*tables)))


def additive(scene: Scene) -> tuple[Optional[str], Optional[Tensor]]:
    """The first transform that adds one number to each video, and float [V] of these numbers.

    Sinkhorn and the inverted softmax do; what others make of a score depends on the text.
    """
    raw = scene.evaluation.matrices['scores']
    some = torch.tensor(sorted({*scene.queries, *range(min(4, len(raw)))}))
    for name in scene.transforms if len(some) > 1 else ():
        added = scene.evaluation.transformed[name].t2v[some] - raw[some]
        if (added - added[0]).abs().max() <= 1e-4 * raw[some].abs().max():
            return name, added[0]
    return None, None


def matched_spans(
    evaluation: Evaluation, row: int, columns: Sequence[int]
) -> dict[int, tuple[float, float]]:
    """Begin and end, as shares, of where a text matches in videos; none if nothing says it."""
    if not hasattr(getattr(evaluation.model, 'similarity', None), 'paired_matches'):
        return {}
    pairs = torch.full((len(columns),), row), torch.tensor(columns)
    levels = evaluation.texts.levels, evaluation.videos.levels
    spans = matches_of(evaluation.model, *levels, *pairs).span.tolist()
    return {column: (begin, end) for column, (begin, end) in zip(columns, spans)}
