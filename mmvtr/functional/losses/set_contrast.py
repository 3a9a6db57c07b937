"""Contrast of sets: samples of texts and videos (UATVR, PCME), and tokens (TACo)."""

from __future__ import annotations

from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from mmvtr.functional.losses.contrastive import contrastive
from mmvtr.functional.losses.pairwise import REDUCTIONS
from mmvtr.functional.similarities.token_interaction import token_scores
from mmvtr.functional.uncertainty.gaussian import squared_distances
from mmvtr.functional.values import arrays_too, at_least_float32, check_one_of, product

__all__ = [
    'hard_negatives',
    'log_mean_sigmoid',
    'match_log_probability',
    'multi_instance',
    'over_samples',
    'sample_scores',
    'soft_contrast',
    'token_contrast',
]


@arrays_too
def multi_instance(
    texts: Tensor,
    videos: Tensor,
    positives: Tensor,
    *,
    temperature: float | Tensor = 1.0,
    normalise: bool = True,
    weights: Optional[Tensor] = None,
    form: str = 'pooled',
    direction: str = 'both',
) -> Tensor:
    """Return the contrastive loss whose rows and columns are samples (UATVR Eq. 11).

    For each sample of a text, all samples of its matched videos are positives and all other samples
    are negatives; the loss is the mean over samples.  ``form='pooled'`` sums over the positives
    inside the logarithm as Eq. 11 does, ``'outer_sum'`` outside as the official code does.

    Args:
        texts: float [T, S, D], samples of the texts.
        videos: float [V, S', D], samples of the videos.
        positives: bool [T, V].
        temperature: divides the inner products; Eq. 11 has none (= 1).
        normalise: compare cosines.  Samples of a Gaussian around a unit vector are not unit
            vectors, and Eq. 11 with inner products rewards long samples.
        weights: float [T, V] or None, weights of the negatives.
        form, direction: see :func:`mmvtr.functional.losses.contrastive.contrastive`.

    Returns:
        0-dim tensor.

    Raises:
        ValueError: from :func:`~mmvtr.functional.losses.contrastive.contrastive`.

    Example:
        One sample per item, each along its own axis: log(1 + 1 / e^2). ::

            >>> samples = torch.eye(2)[:, None]
            >>> multi_instance(samples, samples, torch.eye(2).bool(), temperature=0.5)
            tensor(0.1269)
    """
    repeats = texts.shape[1], videos.shape[1]
    return contrastive(
        sample_scores(texts, videos, normalise=normalise),
        over_samples(positives, *repeats),
        temperature=temperature,
        weights=None if weights is None else over_samples(weights, *repeats),
        form=form,
        direction=direction,
    )


@arrays_too
def sample_scores(texts: Tensor, videos: Tensor, *, normalise: bool) -> Tensor:
    """Return inner products (cosines) of all samples: float [T, S, D], [V, S', D] -> [T S, V S'].

    Example:
        Two samples of a text, one of a video. ::

            >>> sample_scores(2 * torch.eye(2)[None], torch.tensor([[[3., 4.]]]), normalise=True)
            tensor([[0.6000],
                    [0.8000]])
    """
    t, v = (at_least_float32(x).flatten(0, 1) for x in (texts, videos))
    if normalise:
        t, v = F.normalize(t, dim=-1), F.normalize(v, dim=-1)
    return product(t, v.t())


@arrays_too
def over_samples(x: Tensor, text_samples: int, video_samples: int) -> Tensor:
    """Repeat the entries of [T, V] (any dtype) for all pairs of samples: [T S, V S'].

    Example:
        ::

            >>> over_samples(torch.tensor([[1, 2]]), 2, 1)
            tensor([[1, 2],
                    [1, 2]])
    """
    return x.repeat_interleave(text_samples, 0).repeat_interleave(video_samples, 1)


#: Added under the root of the distance, as in PCME: keeps the gradient of equal vectors finite.
EPS = 1e-6


@arrays_too
def match_log_probability(
    texts: Tensor, videos: Tensor, *, slope: float | Tensor, bias: float | Tensor
) -> tuple[Tensor, Tensor]:
    """Return log p and log(1 - p) that a text and a video match, of all pairs (PCME Eq. 2-3).

    ``p_tv = mean over S x S' sample pairs of sigmoid(bias - slope |z_t - z_v|)``.  The official
    code writes ``e^x / (e^x + e^-x)`` for the sigmoid, which is that of 2x: its a and b are half
    of ``slope`` and ``bias``.

    Args:
        texts: float [T, S, D], samples of the texts.
        videos: float [V, S', D], samples of the videos.
        slope, bias: numbers or 0-dim tensors; ``slope > 0``.

    Returns:
        Two float [T, V]; they stay finite where p is 0 or 1 to rounding.

    Example:
        One sample each, 3 away from the other: p = sigmoid(3 - 3). ::

            >>> texts, videos = torch.tensor([[[0.0]]]), torch.tensor([[[3.0]]])
            >>> yes, no = match_log_probability(texts, videos, slope=1.0, bias=3.0)
            >>> round(yes.exp().item(), 4), round(no.exp().item(), 4)
            (0.5, 0.5)
    """
    t, v = (at_least_float32(x).flatten(0, 1) for x in (texts, videos))
    logits = bias - slope * (squared_distances(t, v) + EPS).sqrt()
    logits = logits.unflatten(1, videos.shape[:2]).unflatten(0, texts.shape[:2])  # [T, S, V, S']
    return tuple(log_mean_sigmoid(x, (1, 3)) for x in (logits, -logits))


@arrays_too
def soft_contrast(
    texts: Tensor,
    videos: Tensor,
    positives: Tensor,
    *,
    slope: float | Tensor,
    bias: float | Tensor,
    reduction: str = 'mean',
) -> Tensor:
    """Return PCME's soft contrast: ``-log p`` of positives, ``-log(1 - p)`` of all other pairs.

    Args:
        texts, videos, slope, bias: see :func:`match_log_probability`.
        positives: bool [T, V].
        reduction: see :func:`.binary_cross_entropy`; ``'sum'`` is official (PCME adds both
            directions, which are equal, and UATVR's copy takes half of that).

    Returns:
        0-dim tensor; 0 for an empty matrix.

    Raises:
        ValueError: unknown reduction, or shapes that differ.

    Example:
        A match at a distance of 3 has p = 1/2, and a loss of log 2. ::

            >>> texts, videos = torch.tensor([[[0.0]]]), torch.tensor([[[3.0]]])
            >>> soft_contrast(texts, videos, torch.ones(1, 1).bool(), slope=1.0, bias=3.0)
            tensor(0.6931)
    """
    check_one_of(REDUCTIONS, reduction=reduction)
    if positives.shape != (len(texts), len(videos)):
        raise ValueError(
            f'positives {tuple(positives.shape)} must be [{len(texts)} texts, {len(videos)} videos]'
        )
    yes, no = match_log_probability(texts, videos, slope=slope, bias=bias)
    loss = -torch.where(positives, yes, no).sum()
    return loss / max(REDUCTIONS[reduction](positives), 1)


@arrays_too
def log_mean_sigmoid(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Return ``log mean sigmoid(x)`` over ``dims``, finite for finite x: float [...] -> [...].

    ``sigmoid(x) = e^min(x, 0) / (1 + e^-|x|)``, of which only the first factor can underflow: its
    greatest exponent is taken out of the sum.  Cheaper than a log-sum-exp of log sigmoids.

    Example:
        Also where every sigmoid is 0 to rounding. ::

            >>> log_mean_sigmoid(torch.tensor([0.0, 0.0]), (0,)).exp()
            tensor(0.5000)
            >>> log_mean_sigmoid(torch.tensor([-200.0, -200.0]), (0,))
            tensor(-200.)
    """
    # At x = 0 the gradient of minimum is 1/2, and that of |x| is 0: together a sigmoid's, 1/4.
    # A sigmoid of |x| would have no gradient beyond 16 (s (1 - s) with s = 1 to rounding).
    low = torch.minimum(x, x.new_zeros(()))
    top = low.detach().amax(dims, keepdim=True)
    mean = ((low - top).exp() / (1 + (-x.abs()).exp())).mean(dims)
    return mean.log() + top.squeeze(dims)


@arrays_too
def token_contrast(
    words: Tensor,
    interest: Tensor,
    frames: Tensor,
    frame_mask: Tensor,
    positives: Tensor,
    *,
    temperature: float | Tensor = 1.0,
    weights: Optional[Tensor] = None,
    entries: int = 2**22,
) -> Tensor:
    """Return the contrastive loss of words of interest against videos, summed by their weights.

        - sum_p a_p log( sum_P e^{s_pv} / (sum_P e^{s_pv} + sum_{not P} w_v e^{s_pv}) )

    over its own videos (P) and the others, where ``s_pv = max_f <w_p, f> / temperature`` over the
    valid frames f of video v: text-to-video only, with inner products of tokens as given.  The
    mean is over all texts that have a positive (the paper sums); a text without a word of interest
    adds 0 and is counted.

    Args:
        words: float [T, L, D]; half precision is computed in float32.
        interest: float [T, L] >= 0, a; words with 0, such as padding, are skipped.
        frames: float [V, F, D].
        frame_mask: bool [V, F].
        positives: bool [T, V].
        temperature: divides the scores.
        weights: float [T, V] or None (= 1), weight of each negative.
        entries: largest number of similarities in memory.

    Returns:
        0-dim tensor; 0 if no text has a positive, or none has a word of interest.

    Raises:
        ValueError: shapes that do not fit, or a video without a valid frame.

    Example:
        Two words of weight 1/2 against two videos of a frame each, the first one's own. ::

            >>> words, frames = torch.eye(2)[None], torch.eye(2)[:, None]
            >>> token_contrast(words, torch.full((1, 2), 0.5), frames, torch.ones(2, 1).bool(),
            ...                torch.tensor([[True, False]]))
            tensor(0.8133)
    """
    if interest.shape != words.shape[:2] or positives.shape != (len(words), len(frames)):
        raise ValueError(
            f'{len(words)} texts of {words.shape[1]} words and {len(frames)} videos need interest '
            f'{tuple(words.shape[:2])} and positives {(len(words), len(frames))}, got '
            f'{tuple(interest.shape)} and {tuple(positives.shape)}'
        )
    matched = positives.any(1)
    text, place = ((interest > 0) & matched[:, None]).nonzero(as_tuple=True)
    if not len(text):
        return (words.sum() + frames.sum() + interest.sum()) * 0.0
    words_of_pair = words[text, place][:, None]
    there = torch.ones(len(text), 1, dtype=torch.bool, device=words.device)
    scores = token_scores(words_of_pair, there, frames, frame_mask, side='words', entries=entries)
    pushed = None if weights is None else weights[text]
    counts = interest[text, place]
    options = dict(temperature=temperature, weights=pushed, counts=counts, direction='t2v')
    return contrastive(scores, positives[text], **options) * (counts.sum() / matched.sum())


@arrays_too
def hard_negatives(scores: Tensor, candidates: Tensor, count: int) -> Tensor:
    """Return the best-scored candidates of each text and of each video (TACo's cascade).

    Args:
        scores: float [T, V].
        candidates: bool [T, V], the pairs that may be chosen.
        count: K', videos chosen for a text, and texts for a video; fewer if there are no more.

    Returns:
        bool [T, V], pairs chosen in either direction.  Among equal scores the first are chosen.

    Example:
        Texts take the first or the second video; the last one takes text 1. ::

            >>> scores = torch.tensor([[9.0, 2.0, 1.0], [3.0, 9.0, 2.0], [4.0, 2.0, 9.0]])
            >>> hard_negatives(scores, ~torch.eye(3).bool(), 1).int()
            tensor([[0, 1, 0],
                    [1, 0, 1],
                    [1, 0, 0]], dtype=torch.int32)
    """
    chosen = torch.zeros_like(candidates)
    scores = scores.masked_fill(~candidates, -torch.inf)
    for dim in (1, 0):
        best = scores.sort(dim=dim, descending=True, stable=True).indices
        best = best.narrow(dim, 0, min(count, scores.shape[dim]))
        chosen = chosen.scatter(dim, best, True)
    return chosen & candidates
