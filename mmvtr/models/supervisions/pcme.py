"""DVTR with PCME as its uncertainty module (DVTR Tab. IX, DVTR_pcme)."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from mmvtr.functional.losses.set_contrast import EPS, log_mean_sigmoid, match_log_probability
from mmvtr.functional.uncertainty.gaussian import sample, squared_distances
from mmvtr.models.blocks import Pairs
from mmvtr.models.supervisions.dvtr import DVTRSupervision
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding, Levels

#: Largest number of sample distances in memory, K x K a pair, when pairs with a bank of thousands
#: of items are weighted.
ENTRIES = 2**22


@MODELS.register_module()
class PCMESupervision(DVTRSupervision):
    """Weights of negatives from PCME's match probability instead of DVTR's.

    ``p = mean over K x K sample pairs of sigmoid(bias - slope |z_t - z_v|)``, trained by PCME's
    soft contrastive loss only (the cross-entropy of p); DVTR's Eq. 8 is left out.  The weights are
    computed from p as in :class:`DVTRSupervision`.  Use it with ``PCMEGaussianHead``.

    All texts share their K noise vectors, and all videos theirs: p of a pair then does not depend
    on the other items of its batch or tile, and pairs are compared with less noise.

    Args:
        **kwargs: see :class:`DVTRSupervision`; there is no Eq. 8, and so no ``align_weight``.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(align_weight=0.0, **kwargs)
        # Distances of samples around unit means are between 0 and a little more than 2.
        with torch.no_grad():
            self.slope.fill_(math.log(math.expm1(10.0)))
            self.bias.fill_(10.0)

    def _prepared(self, texts: Levels, videos: Levels) -> tuple[Tensor, Tensor]:
        """Return K samples of each item, float [T, K, D] and [V, K, D]."""
        generator = torch.Generator().manual_seed(int(self.step))
        return tuple(self._samples(side[self.level], generator) for side in (texts, videos))

    def _logits(self, t: Tensor, v: Tensor) -> Tensor:
        yes, no = match_log_probability(t, v, slope=F.softplus(self.slope), bias=self.bias)
        return yes - no

    def _match(self, t: Tensor, v: Tensor) -> Tensor:
        """Return the mean of one sigmoid an entry; :meth:`_logits` needs two logarithms."""
        if len(t) < len(v):
            return self._match(v, t).t()  # p is symmetric; the longer side is split
        entries = t.shape[1] * v.shape[1] * max(len(v), 1)  # of a row
        return torch.cat([self._of_some(part, v) for part in t.split(max(1, ENTRIES // entries))])

    def _of_some(self, t: Tensor, v: Tensor) -> Tensor:
        x = squared_distances(t.flatten(0, 1), v.flatten(0, 1)).add_(EPS).sqrt_()
        x = x.mul_(-F.softplus(self.slope)).add_(self.bias).sigmoid_()
        return x.view(*t.shape[:2], *v.shape[:2]).mean((1, 3))

    def _logits_of_pairs(self, t: Tensor, v: Tensor) -> Tensor:
        distances = (t[:, :, None] - v[:, None]).square().sum(-1)
        logits = self.bias - F.softplus(self.slope) * (distances + EPS).sqrt()
        yes, no = (log_mean_sigmoid(x, (1, 2)) for x in (logits, -logits))
        return yes - no

    def _align(self, t: Tensor, v: Tensor, texts: Levels, videos: Levels, pairs: Pairs) -> Tensor:
        """Return no Eq. 8; count the step."""
        self.step += self.training
        return pairs.rows.new_zeros((), dtype=torch.float32)

    def finish(self, begun: dict[str, Tensor], sums: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return losses and figures like :class:`DVTRSupervision`, without Eq. 8."""
        losses = super().finish(begun, sums)
        del losses['loss_align']
        return losses

    def _samples(self, items: Embedding, generator: torch.Generator) -> Tensor:
        unit = items.mean.new_zeros(1, items.mean.shape[-1])
        noise = sample(unit, unit, self.num_samples, generator)
        return items.mean[:, None] + items.log_std.exp()[:, None] * noise
