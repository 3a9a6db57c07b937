"""Who may change positives, weights and margins of a score matrix during training.

A supervision reads the embeddings of the joint batch and the annotation's :class:`Target`, and
returns a new target together with the losses by which it trains its own parameters.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvtr.functional import gaussian
from mmvtr.functional.pairwise import bernoulli, masked_mean
from mmvtr.models.supervisions.ramp import checked_ramp, ramp_at
from mmvtr.models.target import Target
from mmvtr.registry import MODELS
from mmvtr.structures import Levels

#: What p of a pair can be compared with, see :func:`relative_uncertainty`.
REFERENCES = ('max', 'mean', 'min', 'text', 'video')
#: Above it a negative counts as sure (DVTR Fig. 4: over 95 % of them).
SURE = 0.9


@MODELS.register_module()
class DVTRSupervision(nn.Module):
    """Matching uncertainty eta as the weight of each negative: DVTR, read soundly.

    The match probability of a pair of Gaussians is ``p = sigmoid(b - a W / D)`` with W of Eq. 9
    and a > 0 (Eq. 10 with a monotone slope, divided by D so that it is not saturated), trained on
    positives and in-batch negatives, since Eq. 11 has no term that keeps p of a negative low.
    Eq. 8 is the mean cosine of samples, less W / D in place of the KL divergence (as the text
    below Eq. 8 says), without the undefined logarithm.  The weight of a negative is its
    uncertainty relative to what the text and the video reach with their own partners,

        eta_tv = max(1 - (p_tv / reference(p_t, p_v))^sharpness, floor),
        p_t = max over t's positives,   p_v = max over v's,

    and carries no gradient: the loss only falls as eta falls, so a gradient drives eta to 0.

    Args:
        level: the Gaussian level it reads (written by the model's heads).
        num_samples: K of Eq. 8.
        sharpness: above 1 spares the likeliest matches only.
        floor: smallest weight of a negative: how far semantics may gain at the cost of paired
            recall (docs/dvtr.md).  Eq. 13 has none: 0.
        reference: what p of a pair is compared with, one of :data:`REFERENCES`.  A general caption
            has a low p_t: ``'max'`` spares few of its soft positives, ``'text'`` most, and more
            true negatives (docs/dvtr.md).
        match_weight: of the loss of p (Eq. 11).
        align_weight: of Eq. 8.  Where the heads move the encoders (``detach_heads=False``,
            Algorithm 1, line 7) the two weights dose that; elsewhere no more than their ratio
            counts.
        ramp: (start, end) as shares of the training: the weight goes linearly from 1 to eta.  The
            heads need a while before their word counts.

    Attributes:
        progress: share of the training done; ProgressHook sets it, 1 without the hook.

    Raises:
        ValueError: an argument outside its range.
    """

    def __init__(
        self,
        *,
        level: str = 'gaussian',
        num_samples: int = 7,
        sharpness: float = 1.0,
        floor: float = 0.02,
        reference: str = 'max',
        match_weight: float = 1.0,
        align_weight: float = 1.0,
        ramp: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        super().__init__()
        if num_samples < 1:
            raise ValueError(f'num_samples (K) must be at least 1, not {num_samples}')
        for name, weight in (('match_weight', match_weight), ('align_weight', align_weight)):
            if weight < 0:
                raise ValueError(f'{name} must be at least 0, not {weight}')
        if reference not in REFERENCES:
            raise ValueError(f'reference must be one of {REFERENCES}, not {reference!r}')
        if not 0 <= floor <= 1:
            raise ValueError(f'floor must lie in [0, 1], not {floor}')
        if not sharpness > 0:
            raise ValueError(f'sharpness must be positive, not {sharpness}')
        self.level = level
        self.num_samples = num_samples
        self.sharpness = sharpness
        self.floor = floor
        self.reference = reference
        self.match_weight = match_weight
        self.align_weight = align_weight
        self.ramp = checked_ramp(ramp)
        self.progress = 1.0
        # Means are LayerNorm'ed, so W / D is about 2 for unrelated and 0 for equal vectors:
        # p starts at .88 for the one and .12 for the other.
        self.slope = nn.Parameter(torch.tensor(math.log(math.expm1(2.0))))
        self.bias = nn.Parameter(torch.tensor(2.0))
        self.register_buffer('step', torch.zeros((), dtype=torch.long))

    def match_logits(self, texts: Levels, videos: Levels) -> Tensor:
        """Log odds of a match, [T, V] (Eq. 9-10)."""
        t, v = texts[self.level], videos[self.level]
        w2 = gaussian.wasserstein2(t.mean, t.log_std, v.mean, v.log_std)
        return self.bias - F.softplus(self.slope) * w2 / t.mean.shape[-1]

    def matrices(self, texts: Levels, videos: Levels) -> dict[str, Tensor]:
        """``eta`` [T, V] for evaluation: 1 - p, as no annotated partner is known there."""
        return {'eta': 1 - self.match_logits(texts, videos).sigmoid()}

    def forward(
        self, texts: Levels, videos: Levels, target: Target
    ) -> tuple[Target, dict[str, Tensor]]:
        """Levels of the joint batch -> target with weights, and losses and figures for the log."""
        logits = self.match_logits(texts, videos)
        weights, figures = self._judge(logits, target.positives)
        losses = dict(
            loss_match=self.match_weight * bernoulli(logits, target.positives),
            loss_align=self.align_weight * self._align(texts, videos, target.positives),
            **figures,
        )
        return target._replace(weights=weights), losses

    def _judge(self, logits: Tensor, positives: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """Weights [T, V] as far as the ramp is up, and figures for the log."""
        p, ramp = logits.detach().sigmoid(), ramp_at(self.progress, self.ramp)
        eta = relative_uncertainty(
            p,
            positives,
            floor=self.floor,
            sharpness=self.sharpness,
            reference=self.reference,
        )
        return 1 - ramp * (1 - eta), eta_log(eta, p, positives, ramp)

    def _align(self, texts: Levels, videos: Levels, positives: Tensor) -> Tensor:
        """Eq. 8 over the annotated pairs: W / D less the mean cosine of K x K samples."""
        row, column = positives.nonzero(as_tuple=True)
        generator = torch.Generator().manual_seed(int(self.step))
        self.step += self.training
        t, v = texts[self.level], videos[self.level]
        samples = [gaussian.sample(e.mean, e.log_std, self.num_samples, generator) for e in (t, v)]
        cosine = gaussian.mean_sample_cosine(samples[0][row], samples[1][column])
        w2 = (t.mean[row] - v.mean[column]).square().mean(-1)
        w2 = w2 + (t.log_std[row].exp() - v.log_std[column].exp()).square().mean(-1)
        return (w2 - cosine).sum() / max(len(row), 1)


@MODELS.register_module()
class LiteralDVTRSupervision(nn.Module):
    """DVTR's matching uncertainty as printed, to be seen failing (Eq. 8, 10, 11).

    ``eta = sigmoid(-MLP(W))`` on the undivided W, ``L_eta = -eta`` on positives only, and
    ``L_U = -1/K^2 sum v_i . t_j + KL(z_t || z_v)`` (the last line of Eq. 8, which has dropped the
    logarithm).  The gradient flows through eta.  What happens is shown in docs/dvtr.md.

    Args:
        level: the Gaussian level it reads.
        num_samples: K of Eq. 8.
        hidden: width of the MLP on the scalar W.
    """

    def __init__(self, *, level: str = 'gaussian', num_samples: int = 7, hidden: int = 16) -> None:
        super().__init__()
        if num_samples < 1:
            raise ValueError(f'num_samples (K) must be at least 1, not {num_samples}')
        self.level = level
        self.num_samples = num_samples
        self.mlp = nn.Sequential(nn.Linear(1, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        self.register_buffer('step', torch.zeros((), dtype=torch.long))

    def matrices(self, texts: Levels, videos: Levels) -> dict[str, Tensor]:
        """``eta`` [T, V] (Eq. 10)."""
        t, v = texts[self.level], videos[self.level]
        w2 = gaussian.wasserstein2(t.mean, t.log_std, v.mean, v.log_std)
        return {'eta': (-self.mlp(w2[..., None]).squeeze(-1)).sigmoid()}

    def forward(
        self, texts: Levels, videos: Levels, target: Target
    ) -> tuple[Target, dict[str, Tensor]]:
        """As :meth:`DVTRSupervision.forward`."""
        eta = self.matrices(texts, videos)['eta']
        row, column = target.positives.nonzero(as_tuple=True)
        losses = dict(
            loss_match=-masked_mean(eta, target.positives),
            loss_align=self._align(texts, videos, row, column),
            **eta_log(eta.detach(), 1 - eta.detach(), target.positives, 1.0),
        )
        return target._replace(weights=eta), losses

    def _align(self, texts: Levels, videos: Levels, row: Tensor, column: Tensor) -> Tensor:
        generator = torch.Generator().manual_seed(int(self.step))
        self.step += self.training
        t, v = texts[self.level], videos[self.level]
        samples = [gaussian.sample(e.mean, e.log_std, self.num_samples, generator) for e in (t, v)]
        dot = gaussian.mean_sample_dot(samples[0][row], samples[1][column])
        kl = gaussian.kl_divergence(t.mean[row], t.log_std[row], v.mean[column], v.log_std[column])
        return (kl - dot).sum() / max(len(row), 1)


def relative_uncertainty(
    p: Tensor,
    positives: Tensor,
    *,
    floor: float,
    sharpness: float = 1.0,
    reference: str = 'max',
) -> Tensor:
    """``max(1 - (p_tv / reference(p_t, p_v))^sharpness, floor)``: [T, V] -> [T, V] in [floor, 1].

    p_t and p_v are the best match probabilities of a text and of a video with its own positives.
    Where one of them has none the other's stands for both, where neither has one the denominator
    is 1.

    Args:
        p: float [T, V] in [0, 1].
        positives: bool [T, V].
        floor, sharpness: see :class:`DVTRSupervision`.
        reference: ``'max'``, ``'mean'`` or ``'min'`` of p_t and p_v, ``'text'``: p_t alone,
            ``'video'``: p_v alone.

    Raises:
        ValueError: unknown reference.
    """
    if reference not in REFERENCES:
        raise ValueError(f'reference must be one of {REFERENCES}, not {reference!r}')
    if not p.numel():
        return p
    own = p.masked_fill(~positives, 0.0)
    text, video = own.amax(1, keepdim=True), own.amax(0, keepdim=True)
    text, video = torch.where(text > 0, text, video), torch.where(video > 0, video, text)
    best = dict(
        max=torch.maximum(text, video),
        mean=(text + video) / 2,
        min=torch.minimum(text, video),
        text=text,
        video=video,
    )[reference]
    best = torch.where(best > 0, best, torch.ones_like(best))
    return (1 - (p / best).pow(sharpness)).clamp(floor, 1.0)


def eta_log(eta: Tensor, p: Tensor, positives: Tensor, ramp: float) -> dict[str, Tensor]:
    """What the log and the eta monitor want to know.

    Mean eta of negatives and the share of them above :data:`SURE`, mean match probability of
    positives and of negatives, and the share of eta in the weight.
    """
    return dict(
        eta_negative=masked_mean(eta, ~positives),
        eta_sure=masked_mean((eta > SURE).to(eta.dtype), ~positives),
        match_positive=masked_mean(p, positives),
        match_negative=masked_mean(p, ~positives),
        eta_ramp=eta.new_tensor(ramp),
    )
