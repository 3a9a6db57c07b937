"""Losses of NeighborRetr (Lin et al., CVPR 2025) against hubs: weights, soft positives, targets."""

from __future__ import annotations

from typing import NamedTuple, Union

import torch
import torch.nn.functional as F
from torch import Tensor

from mmvtr.functional.losses.contrastive import contrastive
from mmvtr.functional.transforms.sinkhorn import sinkhorn
from mmvtr.functional.values import arrays_too, at_least_float32, check_range, product

__all__ = [
    'Neighbours',
    'centrality_weights',
    'neighbour_degrees',
    'neighbour_loss',
    'score_divergence',
    'transport_targets',
    'uniform_loss',
]


@arrays_too
def centrality_weights(vectors: Tensor, others: Tensor, *, scale: float) -> Tensor:
    """Return e^(scale mean cosine): an item counts more if it is nearer to its modality.

    Args:
        vectors: float [N, D], N items.
        others: float [M, D], vectors to compare with; the official code uses all tokens of the
            modality in the batch, including the item's own tokens and padding (zeros).
        scale: .3 in the official code.

    Returns:
        float [N] > 0, with a gradient.

    Example:
        ::

            >>> centrality_weights(torch.eye(2), torch.tensor([[1.0, 0.0]]), scale=1.0)
            tensor([2.7183, 1.0000])
    """
    x, y = (F.normalize(at_least_float32(a), dim=-1) for a in (vectors, others))
    return (scale * product(x, y.mean(0))).exp()


class Neighbours(NamedTuple):
    """The matched pairs of an anchor and its neighbours.

    Attributes:
        degrees: float [T, V] in [0, 1]: 1 for matched pairs; the neighbours of an anchor sum to 1.
        among: bool [T, V], which entries are matched pairs or neighbours.
    """

    degrees: Tensor
    among: Tensor


@arrays_too
def neighbour_degrees(
    scores: Tensor, positives: Tensor, hubness: Tensor, *, neighbours: int, sharpness: float
) -> Neighbours:
    """Return soft positives of a text's k best unmatched videos: high if near and not a hub.

        y_tj = softmax over the neighbours j of t of sharpness (s'_tj - h'_tj)

    s' and h' are scores and hubness, each rescaled so that the smallest and largest value of the
    videos that are neither matches nor neighbours become 0 and 1 (as in the official code; a
    neighbour's score is above 1).  If there are fewer than two such videos, or all are equal, s'
    (h') is 0.

    Args:
        scores: float [T, V], cosines.
        positives: bool [T, V].
        hubness: float [V], how near a video is to texts in general: its mean score with a bank.
        neighbours: k; fewer if a text has fewer negatives.
        sharpness: 3 in the official code, its ``temperature``.

    Returns:
        :class:`Neighbours`, with gradients of scores and hubness, as in the official code.

    Raises:
        ValueError: ``neighbours`` below 1.

    Example:
        Videos 1 and 2 are equally near to the text, and 1 is a hub. ::

            >>> scores = torch.tensor([[0.9, 0.5, 0.5, 0.1, 0.0]])
            >>> own, hubs = scores > 0.8, torch.tensor([0.1, 0.5, 0.1, 0.1, 0.0])
            >>> neighbour_degrees(scores, own, hubs, neighbours=2, sharpness=0.5).degrees
            tensor([[1.0000, 0.1192, 0.8808, 0.0000, 0.0000]])
    """
    check_range('[1, inf]', neighbours=neighbours)
    if not scores.numel():
        return Neighbours(positives.to(scores.dtype), positives)
    negatives = ~positives
    count = min(neighbours, scores.shape[1])
    best = scores.detach().masked_fill(positives, -torch.inf).topk(count, 1).indices
    near = torch.zeros_like(positives).scatter(1, best, True) & negatives
    rest = negatives & ~near
    lead = _scaled(scores, rest) - _scaled(hubness.expand_as(scores), rest)
    lowest = torch.finfo(lead.dtype).min
    degrees = (sharpness * lead).masked_fill(~near, lowest).softmax(1)
    degrees = degrees.masked_fill(~near, 0.0).masked_fill(positives, 1.0)
    return Neighbours(degrees, near | positives)


@arrays_too
def neighbour_loss(
    scores: Tensor,
    positives: Tensor,
    hubness: Tensor,
    *,
    neighbours: int = 20,
    sharpness: float = 3.0,
    temperature: Union[float, Tensor] = 1.0,
) -> Tensor:
    """Return NeighborRetr's neighbour adjusting loss (t2v), which also pulls neighbours.

    The cross-entropy with the targets of :func:`neighbour_degrees`, over matches and neighbours
    alone: ``contrastive(form='outer_sum')`` with soft positives, where all other videos have weight
    0.

    Args:
        scores, positives, hubness, neighbours, sharpness: see :func:`neighbour_degrees`.
        temperature: divides the scores; 1 in the official code.

    Returns:
        0-dim tensor, the mean over texts with a matched video.

    Example:
        ::

            >>> scores = torch.tensor([[0.9, 0.5, 0.4, 0.0]])
            >>> neighbour_loss(scores, scores > 0.8, torch.zeros(4), neighbours=1)
            tensor(0.7130)
    """
    options = dict(neighbours=neighbours, sharpness=sharpness)
    neighbourhood = neighbour_degrees(scores, positives, hubness, **options)
    matched = positives.any(1)
    return contrastive(
        scores[matched],
        neighbourhood.degrees[matched],
        weights=neighbourhood.among[matched].to(neighbourhood.degrees.dtype),
        temperature=temperature,
        form='outer_sum',
        direction='t2v',
    )


@torch.no_grad()
@arrays_too
def transport_targets(
    scores: Tensor, positives: Tensor, *, share: float, temperature: float, iterations: int = 50
) -> Tensor:
    """Return targets that retrieve all videos equally often: matches plus a transport plan.

        share P + (1 - share) own,     P = e^((s + a + b) / temperature), rows sum to 1

    a and b are Sinkhorn-Knopp's biases (:func:`.sinkhorn`), own is 1 / P_t at each of P_t matched
    videos.

    Args:
        scores: float [T, V].
        positives: bool [T, V].
        share: weight of the plan, .7 in the official code's arguments, .3 in its signature.
        temperature: temperature of the plan, 1 in the official code.
        iterations: number of Sinkhorn-Knopp iterations.

    Returns:
        float [T, V] in [0, 1]; without a gradient; rows of texts without a matched video are 0.

    Raises:
        ValueError: a share outside [0, 1].

    Example:
        ::

            >>> scores = torch.tensor([[0.9, 0.1], [0.8, 0.7]])
            >>> transport_targets(scores, torch.eye(2).bool(), share=0.5, temperature=1.0)
            tensor([[0.7933, 0.2067],
                    [0.2067, 0.7933]])
    """
    check_range('[0, 1]', share=share)
    own = positives.to(scores.dtype)
    own = own / own.sum(1, keepdim=True).clamp_min(1)
    if not scores.numel() or not share:
        return own
    biases = sinkhorn(scores, temperature=temperature, iterations=iterations)
    plan = ((scores + biases.columns) / temperature).softmax(1)
    return (share * plan + (1 - share) * own) * positives.any(1, keepdim=True)


@arrays_too
def uniform_loss(
    scores: Tensor,
    positives: Tensor,
    *,
    temperature: Union[float, Tensor],
    share: float = 0.7,
    plan_temperature: float = 1.0,
    iterations: int = 50,
) -> Tensor:
    """Return NeighborRetr's uniform regularisation (t2v), with :func:`transport_targets`.

    Args:
        scores, positives, share, iterations: see there.
        temperature: divides the scores in the cross-entropy; 1 / 3 in the official code, which
            passes its ``temperature`` as a factor.
        plan_temperature: temperature of the plan.

    Returns:
        0-dim tensor, the mean over texts with a matched video.

    Example:
        ::

            >>> uniform_loss(torch.eye(2), torch.eye(2).bool(), temperature=0.1, share=0.5)
            tensor(1.3448)
    """
    options = dict(share=share, temperature=plan_temperature, iterations=iterations)
    targets = transport_targets(scores, positives, **options)
    matched = positives.any(1)
    return contrastive(
        scores[matched],
        targets[matched].clamp(max=1.0),
        temperature=temperature,
        form='outer_sum',
        direction='t2v',
    )


@arrays_too
def score_divergence(scores: Tensor, teacher: Tensor) -> Tensor:
    """Return KL(softmax of teacher's row || softmax of row), averaged over all T x V entries.

    The official code of NeighborRetr also averages over entries, not over texts.

    Args:
        scores: float [T, V].
        teacher: float [T, V]; it also receives a gradient.

    Returns:
        0-dim tensor; 0 for an empty matrix.

    Example:
        ::

            >>> score_divergence(torch.zeros(1, 2), torch.tensor([[1.0, 0.0]]))
            tensor(0.0555)
    """
    log_scores, log_teacher = (at_least_float32(x).log_softmax(1) for x in (scores, teacher))
    return (log_teacher.exp() * (log_teacher - log_scores)).sum() / max(scores.numel(), 1)


def _scaled(values: Tensor, among: Tensor) -> Tensor:
    """Rescale float [T, V] by rows so that the entries ``among`` span 0 to 1; 0 where these are
    fewer than two or all equal, NaN where one of them is NaN.
    """
    low = values.masked_fill(~among, torch.inf).amin(1, keepdim=True)
    high = values.masked_fill(~among, -torch.inf).amax(1, keepdim=True)
    some = ~(high <= low)  # True also for a NaN
    low, width = torch.where(some, low, 0.0), torch.where(some, high - low, 1.0)
    return torch.where(some, (values - low) / width, 0.0)
