"""DVTR's probabilistic head, which maps an encoder's embedding to a diagonal Gaussian."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mmvtr.functional.values import at_least_float32
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding


class AttentionPool(nn.Module):
    """Self-attention pooling ``sum_i softmax_i(w2 tanh(w1 x_i)) x_i`` over valid tokens.

    DVTR (Eq. 3-6) only says "self-attention layer"; this is the one of PCME, the probabilistic
    embeddings that it extends: d -> d/2 -> 1, no bias.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.score = nn.Sequential(
            nn.Linear(dim, dim // 2, bias=False), nn.Tanh(), nn.Linear(dim // 2, 1, bias=False)
        )

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Pool float [N, L, D] with mask bool [N, L] -> float [N, D]."""
        logits = self.score(tokens).squeeze(-1)
        attention = logits.masked_fill(~mask, torch.finfo(logits.dtype).min).softmax(-1)
        return (attention[..., None] * tokens).sum(1)


@MODELS.register_module()
class HierarchicalGaussianHead(nn.Module):
    """DVTR's hierarchical probabilistic encoder (Eq. 3-4 for video, 5-6 for text).

        mean = LN(g + sigmoid(MLP(Attn(l))))        spread = MLP'(g + Attn'(l))

    with g the global and l the local features.  Encoders give unit vectors g; they are scaled to
    ``sqrt(D) g``, whose coordinates have the magnitude of the sigmoid's (as CLIP's features have
    before normalisation), so that the head starts from the encoder's vector.

    Args:
        dim: D.
        hidden: width of the two-layer MLPs, default ``dim``.
        spread: ``'log_std'`` (default): MLP' is the log standard deviation.  ``'variance'``: MLP'
            is the variance, exactly as in Eq. 4 and 6, and may be negative; it is clamped at 1e-6
            because Eq. 9 takes its square root.
    """

    def __init__(self, dim: int, *, hidden: int | None = None, spread: str = 'log_std') -> None:
        super().__init__()
        if spread not in ('log_std', 'variance'):
            raise ValueError(f"spread must be 'log_std' or 'variance', not {spread!r}")
        hidden = hidden or dim
        self.spread = spread
        self.mean_attention, self.spread_attention = AttentionPool(dim), AttentionPool(dim)
        self.mean_mlp, self.spread_mlp = _mlp(dim, hidden), _mlp(dim, hidden)
        self.norm = nn.LayerNorm(dim)

    def forward(self, embedding: Embedding) -> Embedding:
        """Map an Embedding with tokens -> Embedding(mean [N, D], log_std [N, D])."""
        local, mask = embedding.tokens, embedding.mask
        g = embedding.mean * embedding.mean.shape[-1] ** 0.5
        mean = self.norm(g + self.mean_mlp(self.mean_attention(local, mask)).sigmoid())
        spread = at_least_float32(self.spread_mlp(g + self.spread_attention(local, mask)))
        if self.spread == 'variance':
            log_std = 0.5 * spread.clamp_min(1e-6).log()
        else:
            # exp(+-7) spans a factor of a million, which suffices, and exp() stays finite.
            log_std = spread.clamp(-7, 7)
        return Embedding(at_least_float32(mean), log_std=log_std)


def _mlp(dim: int, hidden: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))
