"""Figures 2, 3, 5 to 8 and Appendix D of NCL, for any model and its test-time transforms."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Iterator

from mmengine.logging import MMLogger
from torch import Tensor

from mmvtr.apis import vectors
from mmvtr.engine.hooks.query_queue import QueryQueueHook
from mmvtr.engine.hooks.score_transforms import ScoreTransformHook
from mmvtr.engine.hooks.tested_model import FigureRequest, TestedModel, picture
from mmvtr.evaluation import RetrievalMetric, evaluate
from mmvtr.functional.metrics.hubness import error_rates_by_mass, normalisation_error, relative_mass
from mmvtr.functional.metrics.modality_gap import bias_gradient, modal_biases, modality_gap
from mmvtr.functional.metrics.ranks import ranks
from mmvtr.registry import HOOKS
from mmvtr.storage.weights import read_checkpoint
from mmvtr.structures import Directed
from mmvtr.visualization import canvas
from mmvtr.visualization.hubness import DIRECTIONS, MASS_EDGES
from mmvtr.visualization.sheet import retrieval_sheet
from paper_figures.changes import recall_by_size
from paper_figures.masses import mass_by_bias, mass_errors
from paper_figures.plane import bars, modality_plane

#: Requirement of the figures that draw vectors.
VECTORS = 'scores that are inner products; --against as-built for before training'


def scored(request: FigureRequest) -> dict[str, tuple[TestedModel, Directed]]:
    """Return all scores to compare: raw scores of each model, then each of its transforms."""
    found = {}
    for one in request.both:
        found[f'{one.name}, raw'] = (one, Directed(one.scores, one.scores))
        for name in one.transforms:
            found[f'{one.name}, {name}'] = (one, one.evaluation.transformed[name])
    return found


@picture('ncl2', 'NCL Fig. 2', needs='nothing; --against for a baseline beside')
def normalisation_errors(request: FigureRequest) -> 'canvas.Figure':
    """Draw normalisation errors, raw and after the config's transforms.

    The error is the mean distance of an item's summed retrieval probability from its fair share.
    """
    groups = {
        name: [
            float(normalisation_error(pair[place], temperature=one.temperature, dim=1 - place))
            for place in (0, 1)
        ]
        for name, (one, pair) in scored(request).items()
    }
    request.notes.extend(
        [f'ncl2: {name}: t2v {t:.3f}, v2t {v:.3f}' for name, (t, v) in groups.items()]
    )
    where = request.model.dataset.protocol()['dataset']
    title = f'How far items are from a fair share of the retrieval probabilities ({where})'
    return bars(groups, DIRECTIONS, title=title, y='normalisation error (Eq. 5)')


@picture('ncl3', 'NCL Fig. 3', needs='nothing; of --against where it is given')
def errors_by_mass(request: FigureRequest) -> 'canvas.Figure':
    """Draw false negatives and positives by the summed retrieval probability of an item."""
    model = request.against or request.model
    known = model.evaluation.relation.positives
    rates = {
        direction: error_rates_by_mass(
            model.scores, known, temperature=model.temperature, dim=dim, edges=MASS_EDGES
        )
        for direction, dim in zip(DIRECTIONS, (1, 0))
    }
    return mass_errors(rates, title=f'False retrievals of the raw scores, {model.name}')


@picture('ncl5', 'NCL Fig. 5', needs='a QueryQueueHook and a transform that reads it')
def queue_sizes(request: FigureRequest) -> 'canvas.Figure':
    """Draw R@1 after a transform from smaller and smaller query queues.

    The set is not encoded again: each size takes the newest queries of the checkpoint's queue.

    Raises:
        ValueError: the config has no QueryQueueHook, no transform reads it, or it is empty.
    """
    model = request.model
    queue, transform = queue_and_transform(model)
    keys = {'text to video': 'retrieval/t2v_R1', 'video to text': 'retrieval/v2t_R1'}
    sizes = [size for size in (queue.size // 2**i for i in range(8)) if size >= 16][::-1]
    numbers = [from_newest(model, transform, queue, size) for size in sizes]
    points = {direction: [x[key] for x in numbers] for direction, key in keys.items()}
    raw = {direction: model.numbers[key] for direction, key in keys.items()}
    title = f'{transform.name} from a queue of train queries'
    return recall_by_size(sizes, points, raw, title=title)


def queue_and_transform(model: TestedModel) -> tuple[QueryQueueHook, ScoreTransformHook]:
    """Return the queue of a checkpoint, and the first transform of its config that reads it."""
    built = [HOOKS.build(hook) for hook in model.cfg.get('custom_hooks') or []]
    queues = [hook for hook in built if isinstance(hook, QueryQueueHook)]
    readers = [hook for hook in built if getattr(hook, 'source', None) == 'train_queue']
    readers = [hook for hook in readers if hook.name in model.transforms]
    if not queues or not readers:
        raise ValueError(
            f'{model.cfg.filename}: ncl5 needs a QueryQueueHook and a transform that reads it in '
            'custom_hooks, as the ncl_* configs have them, and a checkpoint with a queue'
        )
    queues[0].after_load_checkpoint(None, read_checkpoint(model.cfg.load_from))
    return queues[0], readers[0]


def from_newest(
    model: TestedModel, transform: ScoreTransformHook, queue: QueryQueueHook, size: int
) -> dict[str, float]:
    """Return the recall of scores transformed with only the newest ``size`` queries of a queue."""
    cut = QueryQueueHook(size=size)
    for kind, stored in queue.queues.items():
        cut.queues[kind].push(stored.queries())
    runner = SimpleNamespace(hooks=[cut], logger=MMLogger.get_current_instance())
    evaluation = replace(model.evaluation, notes={}, transductive=set())
    scores = transform.transformed(runner, evaluation)
    report = evaluate(
        [RetrievalMetric()], evaluation.matrices, evaluation.relation, {transform.name: scores}
    )
    return report.transformed[transform.name]


@picture('ncl6', 'NCL Fig. 6', needs='--against, or a test-time transform')
def examples(request: FigureRequest) -> Iterator[tuple[int, 'canvas.Figure']]:
    """Draw texts that only normalised scores get right, with their summed probabilities."""
    before, after = sides(request)
    known = request.model.evaluation.relation.positives
    first = {name: ranks(pair.t2v, known) for name, (_, pair) in (before, after)}
    (old, (old_study, old_pair)), (new, (new_study, new_pair)) = before, after
    fixed = ((first[old] > 1) & (first[new] == 1)).nonzero().flatten()
    broken = ((first[old] == 1) & (first[new] > 1)).nonzero().flatten()
    request.notes.append(
        f'ncl6: {len(fixed)} texts are right only with {new}, {len(broken)} only with {old}'
    )
    mass = [
        relative_mass(pair.t2v, temperature=one.temperature)
        for one, pair in ((old_study, old_pair), (new_study, new_pair))
    ]
    rows = request.rows(fixed.tolist(), among=f'text that only {new} gets right')
    for number, row in enumerate(rows):
        own = int(known[row].int().argmax())
        other = int(old_pair.t2v[row].argmax())
        hits = [
            new_study.hit(
                row,
                column,
                note=f'{whose}; mass {mass[0][column]:.2f}, then {mass[1][column]:.2f}',
            )
            for whose, column in (('own', own), ('found before', other))
        ]
        subtitle = (
            f'before: {old}; after: {new}; rank of its own video {first[old][row]:.0f}, then '
            f'{first[new][row]:.0f}\na mass of 1 is a fair share; of all texts {len(fixed)} are '
            f'right only after, {len(broken)} only before'
        )
        yield number, retrieval_sheet(new_study.text(row)['text'], hits, subtitle=subtitle)


def sides(request: FigureRequest) -> tuple[tuple[str, Any], tuple[str, Any]]:
    """Return (name, (study, scores)) before and after.

    Raises:
        ValueError: there is only one: no other model, and no transform.
    """
    found = list(scored(request).items())
    before = found[0]  # raw scores of the model to compare with, or of the model itself
    model = request.model
    name = f'{model.name}, {model.transforms[0] if model.transforms else "raw"}'
    after = (name, dict(found)[name])
    if before[0] == after[0]:
        raise ValueError(
            'nothing to compare: give a second model by --against, or a config with a test-time '
            'transform (SinkhornHook)'
        )
    return before, after


@picture(
    'ncl7',
    'NCL Fig. 7',
    needs='scores that are inner products; no checkpoint = as the config builds it',
)
def space(request: FigureRequest) -> 'canvas.Figure':
    """Draw texts and videos in two dimensions, by PCA or t-SNE."""
    spaces = {one.name: tuple(x.cpu() for x in flat(one)) for one in request.both}
    known = request.model.evaluation.relation.positives
    return modality_plane(spaces, known, method=request.method, seed=request.seed)


def flat(one: TestedModel) -> tuple[Tensor, Tensor]:
    """Return the vectors whose inner products are the scores, float [T, D] and [V, D]."""
    return tuple(
        vectors(one.model, items.levels) for items in (one.evaluation.texts, one.evaluation.videos)
    )


@picture('ncl8', 'NCL Fig. 8', needs=VECTORS)
def similarities(request: FigureRequest) -> 'canvas.Figure':
    """Draw mean cosines within and between the modalities."""
    gaps = {one.name: modality_gap(*flat(one)) for one in request.both}
    groups = {name: [float(x) for x in gap[:3]] for name, gap in gaps.items()}
    request.notes.extend(
        [f'ncl8: {name}: modal means {float(gap.distance):.3f} apart' for name, gap in gaps.items()]
    )
    names = ('text - text', 'video - video', 'text - video')
    title = 'Mean cosine of two items of a kind, and of a text with a video'
    return bars(groups, names, title=title, y='mean cosine')


@picture('ncl_d', 'NCL Appendix D (Eq. 24-28)', needs=VECTORS)
def implicit_biases(request: FigureRequest) -> 'canvas.Figure':
    """Draw how often items are found, by the bias that the modality gap gives them.

    Also report for each model the size of the gradient that would reduce this.
    """
    points: dict[str, dict[str, tuple[Tensor, Tensor]]] = {'videos': {}, 'texts': {}}
    for one in request.both:
        texts, videos = flat(one)
        known, gamma = one.evaluation.relation.positives, one.temperature
        scores = texts @ videos.t()
        for kind, dim in (('videos', 1), ('texts', 0)):
            bias = getattr(modal_biases(texts, videos), kind.removesuffix('s'))
            mass = relative_mass(scores, temperature=gamma, dim=dim)
            points[kind][one.name] = ((bias / gamma).cpu(), mass.cpu())
            steep = bias_gradient(scores, known, temperature=gamma, dim=dim).abs().mean()
            request.notes.append(
                f'ncl_d: {one.name}: {kind}: mean gradient by a bias (Eq. 28, with the '
                f'temperature) {float(steep):.2e}'
            )
    title = 'How often items are found, by the bias that the modality gap gives them'
    return mass_by_bias(points, title=title)
