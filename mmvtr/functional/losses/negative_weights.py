"""Weights of negatives: a guide's mask, hardness, debiasing (Chuang et al.), groups."""

from __future__ import annotations

import math
from typing import Optional

import torch
from torch import Tensor

from mmvtr.functional.values import arrays_too, at_least_float32, check_one_of, check_range

__all__ = [
    'debiased_weights',
    'group_weights',
    'guide_mask',
    'guide_weights',
    'hardness_weights',
]

#: Rules by which a guide judges; see :func:`guide_mask`.
RULES = ('threshold', 'absolute', 'relative', 'share', 'self')


@arrays_too
def guide_mask(
    scores: Tensor, own: Tensor, *, rule: str = 'absolute', margin: float = 0.0
) -> Tensor:
    """Return which documents a guide deems false negatives: those strictly above text t's bar b_t.

    ==========  =================  ================================================================
    rule        b_t                whose
    ==========  =================  ================================================================
    threshold   m                  one bar for all texts, such as a calibrated one
    absolute    g_t - m            m = 0: GISTEmbed (Solatorio, 2024); m > 0: NV-Retriever (2024)
    relative    g_t - m abs(g_t)   as sentence-transformers reads NV-Retriever's share
    share       (1 - m) g_t        NV-Retriever's share of the own score: m = .05 is its 95 %
    self        g_t + m            of the model's own scores (Qwen3-Embedding, 2025: m = .1)
    ==========  =================  ================================================================

    ``relative`` and ``share`` differ for a negative g_t: the bar is below it or above it.

    Args:
        scores: float [T, V], the guide's scores.
        own: float [T], g_t, the guide's score of a text with its matched document; not finite if
            there is none: then nothing is above the bar, except with ``threshold``, which needs no
            g_t.
        rule: see above.
        margin: m; of any sign for ``threshold``, else at least 0.

    Returns:
        bool [T, V].  A positive may be among them: the losses weigh negatives only.

    Raises:
        ValueError: unknown rule; a negative margin, with which ``'self'`` would mask the positives
            themselves.

    Example:
        GISTEmbed: the guide scores document 1 higher for text 0 than its matched document. ::

            >>> guide = torch.tensor([[0.5, 0.6], [0.1, 0.9]])
            >>> guide_mask(guide, guide.diagonal())
            tensor([[False,  True],
                    [False, False]])
    """
    check_rule(rule, margin)
    return scores > _bars(own, rule, margin)


@arrays_too
def guide_weights(
    scores: Tensor,
    own: Tensor,
    *,
    rule: str = 'absolute',
    margin: float = 0.0,
    softness: float = 0.0,
) -> Tensor:
    """Return the weight of each negative: 0 above the bar, else 1; or a sigmoid about it (ours).

        w_tv = 1 - sigmoid((g_tv - b_t) / softness)

    With ``rule='threshold'`` that is a calibrated weight: with Platt scaling P(match) = sigmoid(a g
    + b), it is 1 - P(match) at margin -b / a and softness 1 / a.

    Args:
        scores, own, rule, margin: see :func:`guide_mask`.
        softness: in the unit of the scores; 0 gives the hard mask.

    Returns:
        float [T, V] in [0, 1], without a gradient.

    Raises:
        ValueError: see :func:`guide_mask`; a negative softness.

    Example:
        ::

            >>> guide = torch.tensor([[0.5, 0.6], [0.1, 0.9]])
            >>> guide_weights(guide, guide.diagonal(), softness=0.1)
            tensor([[0.5000, 0.2689],
                    [0.9997, 0.5000]])
    """
    check_rule(rule, margin, softness)
    scores, bars = scores.detach(), _bars(own.detach(), rule, margin)
    if not softness:
        return (scores <= bars).to(scores.dtype)
    return torch.sigmoid((bars - scores) / softness)


@arrays_too
def hardness_weights(
    scores: Tensor, positives: Tensor, *, alpha: float, over: Optional[str] = None
) -> Tensor:
    """Return the weight e^(alpha s) of each negative: harder negatives are pushed more.

    Without normalisation, as in LLaVE (Lan et al., 2025) and EmbeddingGemma: in a loss at
    temperature T the logit is s / T + alpha s, whose second term has no gradient.  With ``over``
    the mean weight of an anchor's negatives is 1, as in HN-NCE (Radenovic et al., 2023; there alpha
    is beta / T)::

        w_tv = N_t e^(alpha s_tv) / sum over the N_t negatives of t of e^(alpha s)

    Args:
        scores: float [T, V].
        positives: bool [T, V]; their weight is 1.
        alpha: per unit of the scores; if negative, harder negatives are pushed less.
        over: None, ``'t2v'`` (anchors are texts) or ``'v2t'`` (videos).

    Returns:
        float [T, V] > 0, without a gradient.

    Raises:
        ValueError: unknown ``over``.

    Example:
        ::

            >>> scores = torch.tensor([[0.9, 0.5, 0.1]])
            >>> own = torch.tensor([[True, False, False]])
            >>> hardness_weights(scores, own, alpha=2.0)
            tensor([[1.0000, 2.7183, 1.2214]])
            >>> hardness_weights(scores, own, alpha=2.0, over='t2v')
            tensor([[1.0000, 1.3799, 0.6201]])
    """
    check_one_of((None, 't2v', 'v2t'), over=over)
    logs = alpha * scores.detach()
    if over is not None:
        mean, _ = _log_mean(logs, ~positives, dim=1 if over == 't2v' else 0)
        logs = logs - mean
    return logs.masked_fill(positives, 0.0).exp()


@arrays_too
def debiased_weights(
    scores: Tensor, positives: Tensor, *, prior: float, temperature: float | Tensor
) -> Tensor:
    """Return the weight of a text's negatives if a fraction of all videos are matches.

    Debiased contrastive learning (Chuang et al., NeurIPS 2020): the sum over negatives estimates
    that of true negatives, minus the expected contribution of matches among them::

        N g = N max((mean of negatives e^(s/T) - prior mean of positives e^(s/T)) / (1 - prior),
                    e^(-1/T))  =:  w sum of negatives e^(s/T)

    So it is one weight per text, with a gradient, as in the paper: ``contrastive(scores, positives,
    temperature=T, weights=debiased_weights(...), direction='t2v')`` is its loss.  For videos (v2t),
    transpose the matrices and the result.

    Args:
        scores: float [T, V], cosines: e^(-1/T) is the smallest possible term.
        positives: bool [T, V].
        prior: in [0, 1), tau+ of the paper; 0 gives weights of 1.
        temperature: T, the loss's temperature.

    Returns:
        float [T, V] >= 0; constant along rows, 1 if a text has no positive or no negative.

    Raises:
        ValueError: a prior outside [0, 1).

    Example:
        ::

            >>> scores = torch.tensor([[0.5, 0.5, 0.5]])
            >>> own = torch.tensor([[True, False, False]])
            >>> debiased_weights(scores, own, prior=0.1, temperature=0.1)  # nothing to correct
            tensor([[1., 1., 1.]])
            >>> scores = torch.tensor([[0.6, 0.5, 0.5]])
            >>> debiased_weights(scores, own, prior=0.1, temperature=0.1)  # (1 - .1 e) / .9
            tensor([[0.8091, 0.8091, 0.8091]])
    """
    check_range('[0, 1)', prior=prior)
    if not prior:
        return torch.ones_like(scores)
    logits = scores / temperature
    positive, matched = _log_mean(logits, positives, dim=1)
    negative, pushed = _log_mean(logits, ~positives, dim=1)
    # Beyond 1 / prior the difference is negative and the floor applies, so e^lead need not
    # overflow.
    lead = (positive - negative).clamp(max=1 - math.log(prior))
    floor = (-1 / torch.as_tensor(temperature) - negative).exp()
    weights = torch.maximum((1 - prior * lead.exp()) / (1 - prior), floor)
    return torch.where(matched & pushed, weights, 1.0).expand_as(logits)


@arrays_too
def group_weights(positives: Tensor, groups: Tensor) -> Tensor:
    """Return weight 1 for documents of the same group as a text's matched document, else 0.

    UNITE (Kong et al., 2025) compares a query only with candidates of its target's modality, as
    scores of different modalities are on different scales.  Its code masks the query direction
    only: ``contrastive(..., weights={'t2v': group_weights(positives, groups)})``.

    Args:
        positives: bool [T, V].
        groups: int64 [V], group of each document.

    Returns:
        float [T, V]; 1 where a text has no positive.

    Example:
        Two videos and an image. ::

            >>> group_weights(torch.eye(3).bool(), torch.tensor([0, 0, 1]))
            tensor([[1., 1., 0.],
                    [1., 1., 0.],
                    [0., 0., 1.]])
    """
    same = (groups[:, None] == groups).to(torch.get_default_dtype())
    weights = (positives.to(same.dtype) @ same > 0).to(same.dtype)
    return weights.masked_fill(~positives.any(1, keepdim=True), 1.0)


def check_rule(rule: str, margin: float, softness: float = 0.0) -> None:
    """Raise ValueError unless the arguments of :func:`guide_weights` are in range.

    Raises:
        ValueError: names the one that is out of range.

    Example:
        ::

            >>> check_rule('self', margin=-0.1)
            Traceback (most recent call last):
            ValueError: margin must be at least 0, or finite with rule='threshold', not -0.1
    """
    check_one_of(RULES, rule=rule)
    if not math.isfinite(margin) or rule != 'threshold' and margin < 0:
        raise ValueError(
            f"margin must be at least 0, or finite with rule='threshold', not {margin}"
        )
    check_range('[0, inf]', softness=softness)


def _bars(own: Tensor, rule: str, margin: float) -> Tensor:
    """Return the bars, float [T] -> [T, 1], see :func:`guide_mask`; inf where nothing is above."""
    own = at_least_float32(own)[:, None]
    if rule == 'threshold':
        return torch.full_like(own, margin)
    bars = {
        'absolute': own - margin,
        'relative': own - margin * own.abs(),
        'share': (1 - margin) * own,
        'self': own + margin,
    }
    return bars[rule].masked_fill(~own.isfinite(), math.inf)


def _log_mean(logs: Tensor, among: Tensor, *, dim: int) -> tuple[Tensor, Tensor]:
    """Return the log mean of e^logs over ``among`` (0 if empty), and whether it has entries.

    float, bool [T, V] -> float, bool [T, 1] or [1, V].
    """
    count = among.sum(dim, keepdim=True)
    some = count > 0
    if not logs.shape[dim]:
        return logs.sum(dim, keepdim=True), some
    logs = logs.masked_fill(~among & some, -math.inf)  # if there is none keep all, to stay finite
    mean = logs.logsumexp(dim, keepdim=True) - count.clamp_min(1).to(logs.dtype).log()
    return mean.masked_fill(~some, 0.0), some
