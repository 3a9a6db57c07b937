"""DVTR's supervision: negatives weighted by their matching uncertainty.

A supervision reads the embeddings of the joint batch and the annotation's :class:`Target`, and
returns a new target together with the losses by which it trains its own parameters.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvtr.functional.losses.pairwise import binary_cross_entropy_sum
from mmvtr.functional.uncertainty import gaussian
from mmvtr.functional.values import at_least_float32, check_one_of, check_range
from mmvtr.models.blocks import BlockSupervision, Pairs, of_pairs
from mmvtr.models.supervisions.weights import Ramped
from mmvtr.models.target import Filled, Target
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding, Levels

#: What p of a pair can be compared with, see :func:`relative_uncertainty`.
REFERENCES = ('max', 'mean', 'min', 'text', 'video')
#: Eta above which a negative counts as sure (DVTR Fig. 4: over 95 % of them).
SURE = 0.9


@MODELS.register_module()
class DVTRSupervision(Ramped, BlockSupervision):
    """Matching uncertainty eta as the weight of each negative: DVTR with a sound reading.

    The match probability of a pair of Gaussians is ``p = sigmoid(b - a W / D)`` with W of Eq. 9
    and a > 0 (Eq. 10 with a monotone slope, divided by D so that it is not saturated), trained on
    positives and in-batch negatives, since Eq. 11 has no term that keeps p of a negative low.
    Eq. 8 is the mean cosine of samples, minus W / D in place of the KL divergence (as the text
    below Eq. 8 says), without the undefined logarithm.  The weight of a negative is its
    uncertainty relative to the best p of the text and of the video with their own partners,

        eta_tv = max(1 - (p_tv / reference(p_t, p_v))^sharpness, floor),
        p_t = max over t's positives,   p_v = max over v's,

    and carries no gradient: the loss decreases with eta, so a gradient would drive eta to 0.

    Args:
        level: the Gaussian level it reads (written by the model's heads).
        num_samples: K of Eq. 8.
        sharpness: above 1 down-weights only the likeliest matches.
        floor: smallest weight of a negative: how far semantics may gain at the cost of paired
            recall (docs/dvtr.md).  Eq. 13 has none: 0.
        reference: what p of a pair is compared with, one of :data:`REFERENCES`.  A general caption
            has a low p_t: ``'max'`` down-weights few of its soft positives, ``'text'`` most, and
            more true negatives (docs/dvtr.md).
        match_weight: weight of the loss of p (Eq. 11).
        align_weight: weight of Eq. 8.  If the heads move the encoders (``detach_heads=False``,
            Algorithm 1, line 7) the two weights set how much; otherwise only their ratio matters.
        ramp: (start, end) as shares of the training: the weight goes linearly from 1 to eta, as
            the heads are unreliable at first.

    Raises:
        ValueError: an argument outside its range.
    """

    fills = 'weights'  # models/target.py: check_read

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
        super().__init__(ramp)
        check_range('[1, inf]', num_samples=num_samples)
        check_range('[0, inf]', match_weight=match_weight, align_weight=align_weight)
        check_one_of(REFERENCES, reference=reference)
        check_range('[0, 1]', floor=floor)
        check_range('(0, inf]', sharpness=sharpness)
        self.level = level
        self.num_samples = num_samples
        self.sharpness = sharpness
        self.floor = floor
        self.reference = reference
        self.match_weight = match_weight
        self.align_weight = align_weight
        # Means are LayerNorm'ed, so W / D is about 2 for unrelated and 0 for equal vectors: p
        # starts at .12 for unrelated and .88 for equal vectors.
        self.slope = nn.Parameter(torch.tensor(math.log(math.expm1(2.0))))
        self.bias = nn.Parameter(torch.tensor(2.0))
        self.register_buffer('step', torch.zeros((), dtype=torch.long))

    def match_logits(self, texts: Levels, videos: Levels) -> Tensor:
        """Return the log odds of a match, [T, V] (Eq. 9-10)."""
        return self._logits(*self._prepared(texts, videos))

    def matrices(self, texts: Levels, videos: Levels) -> dict[str, Tensor]:
        """Return ``eta`` [T, V] for evaluation: 1 - p, as no partners are annotated there."""
        return {'eta': 1 - self.match_logits(texts, videos).sigmoid()}

    def begin(self, texts: Levels, videos: Levels, pairs: Pairs) -> dict[str, Tensor]:
        """Return the Gaussians, the best p of each item with its own pairs, and Eq. 8."""
        t, v = self._prepared(texts, videos)
        best_t, best_v = self._best(t, v, pairs)
        align = self._align(t, v, texts, videos, pairs)
        return dict(texts=t, videos=v, best_t=best_t, best_v=best_v, align=align)

    def block(self, begun: dict[str, Tensor], rows: slice, target: Target) -> Filled:
        """Return the target of the texts ``rows`` with weights, and sums over its entries."""
        logits = self._logits(begun['texts'][rows], begun['videos'])
        p, ramp = self._probabilities(logits), self.faded_in
        options = dict(floor=self.floor, sharpness=self.sharpness, reference=self.reference)
        eta = uncertainty(p, begun['best_t'][rows, None], begun['best_v'], **options)
        pairs = target.positives.nonzero(as_tuple=True)
        sums = dict(self._match_sums(logits, pairs), **eta_sums(eta.detach(), p.detach(), pairs))
        return target._replace(weights=1 - ramp * (1 - eta)), sums

    def finish(self, begun: dict[str, Tensor], sums: dict[str, Tensor]) -> dict[str, Tensor]:
        """Turn sums over all blocks into losses, and figures for the log."""
        return dict(
            loss_match=self.match_weight * self._match_loss(sums),
            loss_align=self.align_weight * begun['align'],
            **eta_figures(sums),
            eta_ramp=sums['eta'].new_tensor(self.faded_in),
        )

    @torch.no_grad()
    def weigh(
        self,
        texts: Levels,
        videos: Levels,
        same: Tensor,
        *,
        rows: slice = slice(None),
        columns: slice = slice(None),
    ) -> Tensor:
        """Return only the weights, of pairs that p is not trained on (those with a bank).

        Args:
            texts, videos: levels of T texts and V videos.
            same: bool [T, V], pairs of one video: p_t and p_v are the best p among them.
            rows, columns: rows and columns to return, R texts and C videos.

        Returns:
            float [R, C], ramped like those of :meth:`forward`.
        """
        t, v = self._prepared(texts, videos)
        best_t, best_v = self._best(t, v, Pairs.of(same))
        p = self._match(t[rows], v[columns])
        options = dict(floor=self.floor, sharpness=self.sharpness, reference=self.reference)
        eta = uncertainty(p, best_t[rows, None], best_v[columns], **options)
        return 1 - self.faded_in * (1 - eta)

    @torch.no_grad()
    def _best(self, t: Tensor, v: Tensor, pairs: Pairs) -> tuple[Tensor, Tensor]:
        """Return p_t, float [T], and p_v, float [V]: the best p among the pairs, 0 if none."""
        best = pairs.best(of_pairs(self._logits_of_pairs, (t,), (v,), pairs).sigmoid())
        return best[0].clamp_min(0), best[1].clamp_min(0)

    # -- overridden by PCMESupervision and by variants closer to the paper's equations -----------

    def _probabilities(self, logits: Tensor) -> Tensor:
        """Return p for the weights, [T, V], without a gradient."""
        return logits.detach().sigmoid()

    def _match_sums(self, logits: Tensor, pairs: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        """Return a block's sums for the loss of p (Eq. 11)."""
        loss = binary_cross_entropy_sum(logits, pairs)
        return dict(loss_match=loss, entries=loss.new_tensor(logits.numel()))

    def _match_loss(self, sums: dict[str, Tensor]) -> Tensor:
        """Return the loss of p from the sums of all blocks: 0-dim."""
        return sums['loss_match'] / sums['entries'].clamp_min(1)

    def _prepared(self, texts: Levels, videos: Levels) -> tuple[Tensor, Tensor]:
        """Return the vectors that are compared: [mu, sigma], float [T, 2D] and [V, 2D] (Eq. 9)."""
        t, v = texts[self.level], videos[self.level]
        return tuple(torch.cat([e.mean, e.log_std.exp()], -1) for e in (t, v))

    def _logits(self, t: Tensor, v: Tensor) -> Tensor:
        """Return the log odds of a match of all pairs, [T, V]."""
        return self._of_distance(gaussian.squared_distances(t, v), t.shape[-1] // 2)

    def _match(self, t: Tensor, v: Tensor) -> Tensor:
        """Return p of all pairs, [T, V], for use without gradient."""
        return self._logits(t, v).sigmoid()

    def _logits_of_pairs(self, t: Tensor, v: Tensor) -> Tensor:
        """Return the log odds of row i of ``t`` with row i of ``v``: [P]."""
        return self._of_distance((t - v).square().sum(-1), t.shape[-1] // 2)

    def _of_distance(self, w2: Tensor, dim: int) -> Tensor:
        return self.bias - F.softplus(self.slope) * w2 / dim

    def _align(self, t: Tensor, v: Tensor, texts: Levels, videos: Levels, pairs: Pairs) -> Tensor:
        """Return Eq. 8 over the annotated pairs: W / D minus the mean cosine of K x K samples."""
        generator = torch.Generator().manual_seed(int(self.step))
        self.step += self.training
        units = (
            gaussian.mean_unit_sample(e.mean, e.log_std, self.num_samples, generator)
            for e in (texts[self.level], videos[self.level])
        )
        of_texts, of_videos = zip((t, v), units)
        terms = of_pairs(_distance_less_cosine, of_texts, of_videos, pairs)
        return terms.sum() / max(len(pairs.rows), 1)


def _distance_less_cosine(t: Tensor, unit_t: Tensor, v: Tensor, unit_v: Tensor) -> Tensor:
    """Return Eq. 8 of P pairs, [P], from [mu, sigma] [P, 2D] and the mean unit samples [P, D]."""
    return (t - v).square().sum(-1) / unit_t.shape[-1] - (unit_t * unit_v).sum(-1)


@MODELS.register_module()
class LiteralDVTRSupervision(nn.Module):
    """DVTR's matching uncertainty as printed, to demonstrate its failure (Eq. 8, 10, 11).

    ``eta = sigmoid(-MLP(W))`` on the undivided W, ``L_eta = -eta`` on positives only, and
    ``L_U = -1/K^2 sum v_i . t_j + KL(z_t || z_v)`` (the last line of Eq. 8, which drops the
    logarithm).  The gradient flows through eta.  docs/dvtr.md shows the result.

    Args:
        level: the Gaussian level it reads.
        num_samples: K of Eq. 8.
        hidden: width of the MLP on the scalar W.
    """

    fills = 'weights'  # models/target.py: check_read

    def __init__(self, *, level: str = 'gaussian', num_samples: int = 7, hidden: int = 16) -> None:
        super().__init__()
        check_range('[1, inf]', num_samples=num_samples)
        self.level = level
        self.num_samples = num_samples
        self.mlp = nn.Sequential(nn.Linear(1, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        self.register_buffer('step', torch.zeros((), dtype=torch.long))

    def matrices(self, texts: Levels, videos: Levels) -> dict[str, Tensor]:
        """Return ``eta`` [T, V] (Eq. 10)."""
        t, v = texts[self.level], videos[self.level]
        return {'eta': self._eta(t.mean, t.log_std, v)}

    def forward(self, texts: Levels, videos: Levels, target: Target) -> Filled:
        """Return the target and the losses, see :class:`DVTRSupervision`."""
        t, v = texts[self.level], videos[self.level]
        pairs = target.positives.nonzero(as_tuple=True)
        align = self._align(t, v, *pairs)
        eta = self._eta(t.mean, t.log_std, v)
        sums = eta_sums(eta.detach(), 1 - eta.detach(), pairs)
        logs = dict(
            loss_match=-eta[pairs].sum() / max(len(pairs[0]), 1),
            loss_align=align,
            **eta_figures(sums),
            eta_ramp=eta.new_tensor(1.0),
        )
        return target._replace(weights=eta), logs

    def _eta(self, mean: Tensor, log_std: Tensor, videos: Embedding) -> Tensor:
        w2 = gaussian.wasserstein2(mean, log_std, videos.mean, videos.log_std)
        # Under autocast the MLP's output is half precision, in which sums over a batch lose
        # digits or overflow.
        return (-at_least_float32(self.mlp(w2[..., None]).squeeze(-1))).sigmoid()

    def _align(self, t: Embedding, v: Embedding, row: Tensor, column: Tensor) -> Tensor:
        generator = torch.Generator().manual_seed(int(self.step))
        self.step += self.training
        samples = [gaussian.sample(e.mean, e.log_std, self.num_samples, generator) for e in (t, v)]
        dot = gaussian.mean_sample_dot(samples[0][row], samples[1][column])
        kl = gaussian.kl_divergence(t.mean[row], t.log_std[row], v.mean[column], v.log_std[column])
        return (kl - dot).sum() / max(len(row), 1)


def relative_uncertainty(
    p: Tensor, positives: Tensor, *, floor: float, sharpness: float = 1.0, reference: str = 'max'
) -> Tensor:
    """Return ``max(1 - (p_tv / reference(p_t, p_v))^sharpness, floor)``, [T, V] in [floor, 1].

    p_t and p_v are the best match probabilities of a text and of a video with its own positives.
    If only one of the two has positives, its value is used for both; if neither has, the
    denominator is 1.

    Args:
        p: float [T, V] in [0, 1].
        positives: bool [T, V].
        floor, sharpness: see :class:`DVTRSupervision`.
        reference: ``'max'``, ``'mean'`` or ``'min'`` of p_t and p_v, ``'text'``: p_t only,
            ``'video'``: p_v only.

    Raises:
        ValueError: unknown reference.
    """
    pairs = Pairs.of(positives)
    text, video = (best.clamp_min(0) for best in pairs.best(p[pairs.rows, pairs.columns]))
    options = dict(floor=floor, sharpness=sharpness, reference=reference)
    return uncertainty(p, text[:, None], video, **options)


def uncertainty(
    p: Tensor, text: Tensor, video: Tensor, *, floor: float, sharpness: float, reference: str
) -> Tensor:
    """Return :func:`relative_uncertainty` from p_t, float [T, 1], and p_v, float [V]; 0 = none."""
    check_one_of(REFERENCES, reference=reference)
    text, video = torch.where(text > 0, text, video), torch.where(video > 0, video, text)
    best = dict(
        max=torch.maximum,
        mean=lambda t, v: (t + v) / 2,
        min=torch.minimum,
        text=lambda t, v: t,
        video=lambda t, v: v,
    )[reference](text, video)
    best = torch.where(best > 0, best, torch.ones_like(best))
    return (1 - (p / best).pow(sharpness)).clamp(floor, 1.0)


def eta_sums(eta: Tensor, p: Tensor, pairs: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
    """Return a block's sums for :func:`eta_figures`, from eta, p, float [T, V], and positives."""
    eta_own, p_own = eta[pairs], p[pairs]
    sure = (eta > SURE).sum() - (eta_own > SURE).sum()
    return dict(
        eta=eta.sum() - eta_own.sum(),
        sure=sure.to(eta.dtype),
        match_positive=p_own.sum(),
        match_negative=p.sum() - p_own.sum(),
        positives=eta.new_tensor(len(eta_own)),
        negatives=eta.new_tensor(eta.numel() - len(eta_own)),
    )


def eta_figures(sums: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the figures of eta for the log and the eta monitor.

    Mean eta of negatives and the share of them above :data:`SURE`, mean match probability of
    positives and of negatives.
    """
    positives, negatives = (sums[name].clamp_min(1) for name in ('positives', 'negatives'))
    return dict(
        eta_negative=sums['eta'] / negatives,
        eta_sure=sums['sure'] / negatives,
        match_positive=sums['match_positive'] / positives,
        match_negative=sums['match_negative'] / negatives,
    )
