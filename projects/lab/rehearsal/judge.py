"""Measure how a model in training treats pairs whose truth the simulation knows."""

from __future__ import annotations

import math
from contextlib import contextmanager
from typing import Any, Iterator, Optional

import torch
from mmengine.runner import Runner
from torch import Tensor, nn

from mmvtr.evaluation.soft_positive import breakeven
from mmvtr.functional.metrics.hubness import normalisation_error
from mmvtr.functional.metrics.relevance import auc
from mmvtr.functional.transforms.sinkhorn import sinkhorn
from mmvtr.models.supervisions.arl import ARLSupervision, units_of
from mmvtr.models.supervisions.stored_vectors import StoredFrameTeacher
from mmvtr.models.target import Target, mean_weights
from mmvtr.structures import Levels
from rehearsal.masses import masses, pulls_further
from rehearsal.record import mean_of
from rehearsal.scored import Scored, first_items


@torch.no_grad()
def judge(runner: Runner, *, batch: int) -> dict[str, float]:
    """Return figures of the first training items, in eval mode.

    ``batch`` is the batch size of the real training, for figures that depend on it.

    ``eta_*``: weights of true negatives and of soft positives, after the supervision's ramp;
    ``sets_*``: pairs it calls ambiguous; ``scores_*``, ``R1``: fused scores; ``sigma_*``: heads,
    general against specific texts; ``error_*``: normalisation error of the retrieval probabilities,
    raw and with Sinkhorn's biases; ``mass_*``: composition of the gradient, if a loss pulls more
    than the annotated pairs; ``seen``: items of a member's environment so far.  Figures of several
    members begin with ``member<k>_``.
    """
    whole = runner.model
    dataset = runner.train_dataloader.dataset
    if not hasattr(whole, 'members'):
        with evaluating(whole):
            return _judge(whole, whole, dataset, first_items(dataset, None), batch)
    figures: dict[str, float] = {}
    with evaluating(whole):
        for k, member in enumerate(whole.members):
            found = _judge(member, whole, dataset, first_items(dataset, k), batch)
            found['seen'] = float(whole.seen[k])
            figures.update({f'member{k}_{name}': value for name, value in found.items()})
    return figures


def _judge(
    model: nn.Module, whole: nn.Module, dataset: Any, items: list[int], batch: int
) -> dict[str, float]:
    scored = Scored.of(model, whole, dataset, items)
    known, soft, negative = scored.known, scored.soft, scored.negative
    scores, texts = scored.matrices['scores'], scored.texts
    samples = scored.batch['data_samples']
    figures = _of_scores(scores, known, soft, negative)
    figures.update(_of_temperature(model, scores))
    if 'gaussian' in texts:
        figures.update(_of_sigma(texts, dataset, samples['text_idx']))
    relevance, overlap, *_ = known.known
    if relevance is not None:
        figures['relevant_share'] = mean_of((relevance >= 0.5).float(), ~known.positives)
        figures['overlap_share'] = mean_of(overlap.float(), ~known.positives)
    # The vectors of a frame teacher are stored for a training set only.
    if model.supervision is not None and not isinstance(model.supervision, StoredFrameTeacher):
        with after_ramp(model.supervision):
            made = scored.supervised(model)
        figures.update(_of_supervision(made, known, soft, negative))
        if isinstance(model.supervision, ARLSupervision) and model.supervision.found:
            # A set that a strategy has turned into matches, or into nothing, is no longer a set.
            for name, found in model.supervision.found.items():
                figures.update(_of_sets(name, found.cpu(), known, soft))
            figures.update(_of_frames(model.supervision, scored, dataset))
    if pulls_further(model):
        figures.update(masses(model, whole, dataset, items, batch=batch))
    return figures


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put a model in eval mode within the block, then restore its mode."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


@contextmanager
def after_ramp(supervision: nn.Module) -> Iterator[None]:
    """Set weights to eta within the block, as if the ramp that leads to it were over."""
    if not hasattr(supervision, 'ramp'):
        yield
        return
    before, supervision.progress = supervision.progress, 1.0
    try:
        yield
    finally:
        supervision.progress = before


def _of_scores(scores: Tensor, known: Target, soft: Tensor, negative: Tensor) -> dict[str, float]:
    own = scores.masked_fill(~known.positives, -math.inf).amax(1, keepdim=True)
    rank = 1 + ((scores > own) & ~known.positives).sum(1)
    figures = dict(
        R1=100 * float((rank == 1).float().mean()),
        scores_positive=mean_of(scores, known.positives),
        scores_negative=mean_of(scores, negative),
        scores_soft=mean_of(scores, soft),
        soft_share=100 * float(soft.float().mean()),
    )
    if soft.any():
        figures['scores_auc'] = _auc(scores, soft, negative)
    return figures


def _of_temperature(model: nn.Module, scores: Tensor) -> dict[str, float]:
    """Return figures of retrieval probabilities, which need scores on the scale of cosines."""
    temperature = float(model.temperature())
    a, b = sinkhorn(scores, temperature=temperature, iterations=4)
    balanced = scores + a[:, None] + b
    return dict(
        temperature=temperature,
        error_raw=float(normalisation_error(scores, temperature=temperature)),
        error_balanced=float(normalisation_error(balanced, temperature=temperature)),
    )


def _of_sigma(texts: Levels, dataset: Any, text_idx: Tensor) -> dict[str, float]:
    """Return the geometric mean of sigma for general and for specific texts."""
    log_std = texts['gaussian'].log_std.mean(-1).cpu()
    rows = [dataset.texts[t]['row'] for t in text_idx.tolist()]
    general = torch.from_numpy(~dataset.meaning.named[rows])
    figures = dict(
        log_std=float(log_std.mean()),
        log_std_spread=float(log_std.std()),
    )
    if general.any() and not general.all():
        figures['sigma_auc'] = _auc(log_std[None], general[None], ~general[None])
        figures['sigma_general'] = math.exp(mean_of(log_std, general))
        figures['sigma_specific'] = math.exp(mean_of(log_std, ~general))
    return figures


def _of_supervision(
    made: Target | dict[str, Target], known: Target, soft: Tensor, negative: Tensor
) -> dict[str, float]:
    targets = [made] if isinstance(made, Target) else made.values()
    figures: dict[str, float] = {}
    for target in targets:
        eta = mean_weights(target)
        if eta is not None:
            eta = eta.cpu()
            figures.update(
                eta_negative=mean_of(eta, negative),
                eta_above=100 * mean_of((eta > 0.9).float(), negative),
                eta_soft=mean_of(eta, soft),
                spared=100 * mean_of((eta < 0.5).float(), ~known.positives),
            )
            if soft.any():
                figures['eta_auc'] = _auc(-eta, soft, negative)
                figures['eta_breakeven'] = 100 * breakeven(-eta[soft], -eta[negative])
    return figures


def _of_sets(name: str, found: Tensor, known: Target, soft: Tensor) -> dict[str, float]:
    """Return figures of the ambiguous sets of a branch of ARL, bool [T, V]."""
    return {
        f'sets_share_{name}': 100 * mean_of(found.float(), ~known.positives),
        f'sets_texts_{name}': 100 * float(found.any(1).float().mean()),
        f'sets_precision_{name}': 100 * mean_of(soft.float(), found),
    }


def _of_frames(supervision: ARLSupervision, scored: Scored, dataset: Any) -> dict[str, float]:
    """Return figures of ARL's text-frame level: how many pairs have an ambiguous frame besides the
    best one, and how many frames of a text's own moment are pushed away nevertheless.
    """
    units = {n: units_of(scored.texts[n], scored.videos[n]) for n in supervision.levels}
    pairs, columns = scored.known.positives.nonzero(as_tuple=True)
    texts = scored.batch['data_samples']['text_idx'][pairs]
    rows = [dataset.texts[t]['row'] for t in texts.tolist()]
    place = torch.from_numpy(dataset.meaning.moment[rows] % dataset.world.moments)
    some, pushed, count = 0.0, 0.0, 0.0
    for name in supervision.levels:
        sets = supervision.frame_sets(name, units, pairs, columns)
        unit, frames, mask = units[name]
        scores = torch.einsum('pd,pfd->pf', unit[pairs], frames[columns])
        best = scores.masked_fill(~mask[columns], -math.inf).argmax(1, keepdim=True)
        others = mask[columns].scatter(1, best, False)
        moments = torch.arange(frames.shape[1]) * dataset.world.moments // frames.shape[1]
        own = others & (moments == place[:, None])
        some += float((sets & others).any(1).float().mean())
        pushed += float((own & ~sets).sum())
        count += float(own.sum())
    return dict(
        frames_pairs=100 * some / len(supervision.levels), frames_pushed=100 * pushed / count
    )


def _auc(scores: Tensor, soft: Tensor, negative: Tensor) -> float:
    """Return the AUC in percent; soft positives should score higher."""
    return 100 * float(auc(scores[soft], scores[negative]))


@torch.no_grad()
def scatter(runner: Runner, *, points: int = 600) -> Optional[dict[str, Any]]:
    """Return log10 of the softmax probability, and the weight, of unannotated pairs (DVTR Fig. 4).

    Returns:
        Two lists for true negatives and two for soft positives, at most ``points`` long; None if no
        supervision gives weights.
    """
    model = runner.model
    supervision = getattr(model, 'supervision', None)
    if supervision is None or hasattr(supervision, 'own_levels'):
        return None
    dataset = runner.train_dataloader.dataset
    with evaluating(model):
        scored = Scored.of(model, model, dataset, first_items(dataset, None))
        made = scored.supervised(model)
    if not isinstance(made, Target) or made.weights is None:
        return None
    weights = mean_weights(made)
    cost = (scored.matrices['scores'] / model.temperature()).log_softmax(1) / math.log(10)
    found = {}
    for name, chosen in (('soft', scored.soft), ('negative', scored.negative)):
        x, y = cost[chosen], weights[chosen]
        some = torch.linspace(0, max(0, len(x) - 1), min(points, len(x))).long()
        found[name] = [x[some].tolist(), y[some].tolist()]
    return found
