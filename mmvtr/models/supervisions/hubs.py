"""Centrality of a batch's items in their own modality, and hubness in the other modality."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvtr.functional.losses.neighbours import centrality_weights
from mmvtr.functional.values import at_least_float32, check_range, product
from mmvtr.models.bank import MemoryBank
from mmvtr.models.layers.pooling import unit
from mmvtr.models.target import Filled, Target
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding, Levels


@MODELS.register_module()
class HubSupervision(nn.Module):
    """Centrality and hubness of the items, for :class:`~mmvtr.models.losses.NeighborRetrLoss`.

    ``counts`` by direction: e^(scale c) of texts and of videos, with c the mean cosine of an item
    with all tokens of its modality in the batch.  ``hubness`` by direction, in the target's extras:
    mean cosine of videos (t2v) with the texts of a bank, and of texts (v2t) with its videos.  Both
    have gradients, as in the official code.

    The banks hold the vectors of the latest batches; while they are empty, the batch itself is
    used.  The official code compares tokens there, and fills its banks before the training.  If the
    level has no tokens, its vectors are used.

    Args:
        dim: D of the level.
        level: level whose vectors and tokens are read.
        scale: scale of the centrality, .3 in the official code; 0: equal counts.
        bank_size: K, 512 in the official code.
        official_mask: padding counts in the mean over tokens, as cosines of 0.

    Raises:
        ValueError: a scale that is not finite, a bank_size below 1.
    """

    fills = 'hubness'  # models/target.py: check_read

    def __init__(
        self,
        *,
        dim: int,
        level: str = 'global',
        scale: float = 0.3,
        bank_size: int = 512,
        official_mask: bool = False,
    ) -> None:
        super().__init__()
        check_range('(-inf, inf)', scale=scale)
        self.level = level
        self.scale = scale
        self.official_mask = official_mask
        self.banks = nn.ModuleDict(
            {side: MemoryBank(bank_size, {level: dim}) for side in ('text', 'video')}
        )

    def forward(self, texts: Levels, videos: Levels, target: Target) -> Filled:
        """Map levels of the joint batch -> its target with counts and hubness, and figures."""
        t, v = texts[self.level], videos[self.level]
        counts = dict(t2v=self._centrality(t), v2t=self._centrality(v))
        hubness = dict(t2v=self._hubness(v, 'text', t), v2t=self._hubness(t, 'video', v))
        if self.training:
            for side, items in (('text', t), ('video', v)):
                mean = at_least_float32(items.mean.detach())
                owner = torch.zeros(len(mean), dtype=torch.long, device=mean.device)
                self.banks[side].push({self.level: Embedding(F.normalize(mean, dim=1))}, owner)
        figures = {
            f'hubness_{side}': _spread(hubness[way])
            for side, way in (('video', 't2v'), ('text', 'v2t'))
        }
        return target._replace(counts=counts).put(hubness=hubness), figures

    def _centrality(self, items: Embedding) -> Tensor:
        """Return the centrality weights of items, float [N]."""
        others = items.mean
        if items.tokens is not None:
            others = items.tokens[items.mask]
            if self.official_mask:
                others = items.tokens.masked_fill(~items.mask[..., None], 0.0).flatten(0, 1)
        return centrality_weights(items.mean, others, scale=self.scale)

    def _hubness(self, items: Embedding, side: str, batch: Embedding) -> Tensor:
        """Return the mean cosine of items with the bank of a side, or that side's batch: [N]."""
        bank = self.banks[side]
        others = batch.mean
        if len(bank):
            others = bank.levels[self.level].mean[: len(bank)].clone()
        if not len(others):
            return at_least_float32(items.mean).sum(1) * 0.0
        x, y = (unit(a) for a in (items.mean, others))
        return product(x, y.mean(0).to(x.dtype))


def _spread(values: Tensor) -> Tensor:
    """Return the standard deviation of [N] numbers, 0-dim; 0 if N = 0."""
    return values.detach().std(correction=0) if len(values) else values.detach().sum()
