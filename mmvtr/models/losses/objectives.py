"""Objectives that read levels, not a score matrix: of Gaussians, captions and tokens."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvtr.errors import UnknownKey
from mmvtr.functional.losses.pairwise import REDUCTIONS
from mmvtr.functional.losses.set_contrast import multi_instance, soft_contrast, token_contrast
from mmvtr.functional.uncertainty.gaussian import (
    geometric_sigma,
    kl_to_unit,
    sample,
)
from mmvtr.functional.uncertainty.inclusion import inclusion, inclusion_loss
from mmvtr.functional.values import check_one_of, check_range
from mmvtr.models.layers.pooling import unit
from mmvtr.models.target import LocalBatch, Target
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding, Levels


class DistributionObjective(nn.Module):
    """Base class: the weighted ``compute`` of the Gaussians of T texts and V videos.

    Args:
        level: the Gaussian level it reads (written by the model's heads).
        loss_weight: factor of the loss.
    """

    def __init__(self, *, level: str = 'gaussian', loss_weight: float = 1.0) -> None:
        super().__init__()
        self.level = level
        self.loss_weight = loss_weight

    def forward(
        self, texts: Levels, videos: Levels, target: Target, batch: LocalBatch | None = None
    ) -> dict[str, Tensor]:
        """Return ``{'loss': ...}`` of the joint batch, and figures for the log."""
        losses = self.compute(self._gaussian(texts), self._gaussian(videos), target)
        return {**losses, 'loss': self.loss_weight * losses['loss']}

    def compute(self, texts: Embedding, videos: Embedding, target: Target) -> dict[str, Tensor]:
        """Return the unweighted ``'loss'``, and figures."""
        raise NotImplementedError(f'{type(self).__name__} must define compute()')

    def _gaussian(self, levels: Levels) -> Embedding:
        if self.level not in levels or levels[self.level].log_std is None:
            offered = [name for name, level in levels.items() if level.log_std is not None]
            raise UnknownKey(
                f'{type(self).__name__} reads the Gaussian level {self.level!r}, the model offers '
                f'{offered}: give it heads'
            )
        return levels[self.level]


class SampledObjective(DistributionObjective):
    """Base of the objectives that compare samples.

    The noise is a function of the number of the training step: the same on all processes, after a
    resume, and in all objectives with the same ``num_samples``.

    Args:
        num_samples: K of UATVR Eq. 10.
        level, loss_weight: see :class:`DistributionObjective`.
    """

    def __init__(self, *, num_samples: int = 7, **kwargs) -> None:
        super().__init__(**kwargs)
        check_range('[1, inf]', num_samples=num_samples)
        self.num_samples = num_samples
        self.register_buffer('step', torch.zeros((), dtype=torch.long))

    def samples(self, texts: Embedding, videos: Embedding) -> tuple[Tensor, Tensor]:
        """Draw reparameterised samples, float [T, K, D] and [V, K, D]."""
        generator = torch.Generator().manual_seed(int(self.step))
        self.step += self.training
        t, v = (sample(e.mean, e.log_std, self.num_samples, generator) for e in (texts, videos))
        return t, v


@MODELS.register_module()
class MultiInstanceContrast(SampledObjective):
    """UATVR's distribution-based uncertainty adaptation L_DUA (Eq. 11), in both directions.

    Eq. 11 and the official code have neither temperature nor normalisation (``temperature=1,
    normalise=False``), which favours samples of large norm.  The default compares cosines, which
    need a temperature.  Weights of a supervision apply to the negatives.

    Args:
        temperature: divides the similarity of samples.
        normalise: compare cosines of samples, not inner products.
        form: ``'pooled'`` (Eq. 11), or ``'outer_sum'`` (official code).
        num_samples: samples of each text and video, K of Eq. 10.
        level: the Gaussian level it reads, written by the model's heads.
        loss_weight: factor of the loss; alpha of Eq. 13 is .01.
    """

    def __init__(
        self, *, temperature: float = 0.05, normalise: bool = True, form: str = 'pooled', **kwargs
    ) -> None:
        super().__init__(**kwargs)
        check_range('(0, inf]', temperature=temperature)
        check_one_of(('pooled', 'outer_sum'), form=form)
        self.temperature = temperature
        self.normalise = normalise
        self.form = form

    def compute(self, texts: Embedding, videos: Embedding, target: Target) -> dict[str, Tensor]:
        loss = multi_instance(
            *self.samples(texts, videos),
            target.positives,
            temperature=self.temperature,
            normalise=self.normalise,
            weights=target.weights,
            form=self.form,
        )
        return {'loss': loss}


@MODELS.register_module()
class KLToUnit(DistributionObjective):
    """KL of the Gaussians from N(0, I) (UATVR Eq. 12): summed over D, mean over items.

    The terms of texts and of videos are added.  beta of Eq. 13 is 1e-4, for a mean over items, so
    that it does not depend on the batch size.  The VIB term of PCME++ and ProLIP is a mean over D
    too: divide their weight by D to get the one here.  Logs the mean sigma of either side.

    Args:
        halved: use log sigma as the log variance, as ProLIP's code does.
        level, loss_weight: see :class:`DistributionObjective`.
    """

    def __init__(self, *, halved: bool = False, **kwargs) -> None:
        super().__init__(**kwargs)
        self.halved = halved

    def compute(self, texts: Embedding, videos: Embedding, target: Target) -> dict[str, Tensor]:
        part = 0.5 if self.halved else 1.0
        loss = sum(mean(kl_to_unit(e.mean, part * e.log_std)) for e in (texts, videos))
        return {'loss': loss, **sigma_log(texts, videos)}


@MODELS.register_module()
class OfficialKLToUnit(SampledObjective):
    """UATVR Eq. 12 as implemented in the official codes of UATVR and PCME.

    Log sigma is used as the log variance, the mean of the K samples as the mean, and the sum is
    over the batch as well as over D.  Draws the samples of :class:`MultiInstanceContrast`.

    Args:
        num_samples, level, loss_weight: see :class:`MultiInstanceContrast`.
    """

    def compute(self, texts: Embedding, videos: Embedding, target: Target) -> dict[str, Tensor]:
        pairs = zip(self.samples(texts, videos), (texts, videos))
        loss = sum(kl_to_unit(z.mean(1), e.log_std / 2).sum() for z, e in pairs)
        return {'loss': loss, **sigma_log(texts, videos)}


@MODELS.register_module()
class InclusionLoss(DistributionObjective):
    """ProLIP's inclusion loss of videos' Gaussians in those of their texts: a mean over pairs.

    A text says less than its video shows, so its Gaussian should be the wider one.  Logs the share
    of annotated pairs for which it is (``included``).

    Args:
        scale, eps, form: see :func:`.inclusion_loss`; those of ProLIP's command line are 1000, -20
            and ``'official'`` at a weight of 1e-7.
        level, loss_weight: see :class:`DistributionObjective`.
    """

    def __init__(
        self, *, scale: float = 1.0, eps: float = 0.0, form: str = 'exact', **kwargs
    ) -> None:
        super().__init__(**kwargs)
        check_range('(0, inf]', scale=scale)
        check_one_of(('exact', 'official'), form=form)
        self.scale = scale
        self.how = dict(eps=eps, form=form)

    def compute(self, texts: Embedding, videos: Embedding, target: Target) -> dict[str, Tensor]:
        rows, columns = target.positives.nonzero(as_tuple=True)
        v = videos.mean[columns], videos.log_std[columns]
        t = texts.mean[rows], texts.log_std[rows]
        loss = inclusion_loss(*v, *t, scale=self.scale, **self.how)
        with torch.no_grad():
            within = [inclusion(*a, *b, **self.how).sum(-1) for a, b in ((v, t), (t, v))]
        return {'loss': loss, 'included': mean((within[0] > within[1]).float())}


@MODELS.register_module()
class SoftContrast(SampledObjective):
    """PCME's soft contrastive loss, over all pairs of the joint batch (UATVR Tab. 1, starred rows).

    Args:
        slope, bias: slope and bias of the match probability, see
            :func:`.match_log_probability`; initial values if they are learnt.  The defaults follow
            UATVR's copy of PCME (a = b = 5); PCME on COCO: 30.
        learnable: train them, as PCME does; the slope stays positive.
        reduction: see :func:`.binary_cross_entropy`; ``'sum'`` is official.
        num_samples, level, loss_weight: see :class:`MultiInstanceContrast`.
    """

    def __init__(
        self,
        *,
        slope: float = 10.0,
        bias: float = 10.0,
        learnable: bool = True,
        reduction: str = 'mean',
        **kwargs,
    ) -> None:
        super().__init__(**kwargs)
        check_range('(0, inf]', slope=slope)
        check_one_of(REDUCTIONS, reduction=reduction)
        # softplus(raw_slope) = slope
        raw_slope = slope + math.log(-math.expm1(-slope))
        self.raw_slope = nn.Parameter(torch.tensor(raw_slope), requires_grad=learnable)
        self.bias = nn.Parameter(torch.tensor(float(bias)), requires_grad=learnable)
        self.reduction = reduction

    def compute(self, texts: Embedding, videos: Embedding, target: Target) -> dict[str, Tensor]:
        loss = soft_contrast(
            *self.samples(texts, videos),
            target.positives,
            slope=F.softplus(self.raw_slope),
            bias=self.bias,
            reduction=self.reduction,
        )
        return {'loss': loss}


def sigma_log(texts: Embedding, videos: Embedding) -> dict[str, Tensor]:
    """Return the mean over items of their geometric mean sigma, for either side."""
    sides = dict(sigma_text=texts, sigma_video=videos)
    return {name: mean(geometric_sigma(e.log_std.detach())) for name, e in sides.items()}


def mean(x: Tensor) -> Tensor:
    """Return the mean of [N]; 0 if N = 0 (all videos of a batch may be broken)."""
    return x.sum() / max(len(x), 1)


@MODELS.register_module()
class QueryDiversity(nn.Module):
    """Query diverse loss (GMMFormer, AAAI 2024), on texts that share a video::

        mean over texts i of log(1 + sum over j != i of the same video e^{scale (cos_ij + margin)})

    Captions of one video describe different moments, so their embeddings should differ.

    Args:
        level: level of the texts.
        margin, scale, loss_weight: by dataset (TVR .15, 32, .001; ActivityNet .2, 32, .015;
            Charades-STA .15, 32, .005).
    """

    def __init__(
        self, *, margin: float, scale: float, loss_weight: float, level: str = 'clip'
    ) -> None:
        super().__init__()
        self.margin = margin
        self.scale = scale
        self.loss_weight = loss_weight
        self.level = level

    def forward(
        self, texts: Levels, videos: Levels, target: Target, batch: LocalBatch | None = None
    ) -> dict[str, Tensor]:
        """Return ``{'loss': ...}`` of the joint batch's texts and positives, 0 without texts."""
        units = unit(texts[self.level].mean)
        if not len(units):
            return {'loss': units.sum()}
        matches = target.positives.float()
        siblings = (matches @ matches.t() > 0).fill_diagonal_(False)
        logits = self.scale * (units @ units.t() + self.margin)
        logits = logits.masked_fill(~siblings, -torch.inf)
        none = logits.new_zeros(len(units), 1)  # the 1 of log(1 + ...)
        return {'loss': self.loss_weight * torch.cat([none, logits], 1).logsumexp(1).mean()}


@MODELS.register_module()
class TokenContrast(nn.Module):
    """Contrast of words of interest with the batch's videos (TACo, Yang et al., ICCV 2021).

    See :func:`.token_contrast`: from texts to videos only, averaged over texts, where the paper
    sums.  Reads level ``'global'`` and the weights of level ``'interest'``; a supervision's weights
    apply to the negatives.

    Args:
        temperature: tau_2 of the paper (there 1).
        loss_weight: factor of the loss (paper: .5).

    Raises:
        ValueError: a temperature that is not positive; (called) levels without tokens.
    """

    def __init__(self, *, temperature: float = 1.0, loss_weight: float = 1.0) -> None:
        super().__init__()
        check_range('(0, inf]', temperature=temperature)
        self.temperature = temperature
        self.loss_weight = loss_weight

    def forward(
        self, texts: Levels, videos: Levels, target: Target, batch: LocalBatch | None = None
    ) -> dict[str, Tensor]:
        """Return ``{'loss': 0-dim}`` of the joint batch."""
        sides = dict(text=texts, video=videos)
        for side, levels in sides.items():
            if 'interest' not in levels or levels['interest'].tokens is None:
                raise ValueError(
                    f"TokenContrast reads tokens of levels 'global' and 'interest', the {side}s "
                    f'have {sorted(levels)}: it needs a TACoEncoder and a CascadeSimilarity'
                )
        loss = token_contrast(
            texts['global'].tokens,
            texts['interest'].tokens.squeeze(-1),
            videos['global'].tokens,
            videos['global'].mask,
            target.positives,
            temperature=self.temperature,
            weights=target.weights,
        )
        return {'loss': self.loss_weight * loss}
