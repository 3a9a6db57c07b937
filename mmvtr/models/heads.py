"""Probabilistic heads: an encoder's embedding -> a diagonal Gaussian (DVTR, UATVR, PCME)."""

from __future__ import annotations

import math
from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvtr.functional.uncertainty.gaussian import bounded
from mmvtr.functional.values import at_least_float32, check_one_of
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
        check_one_of(('log_std', 'variance'), spread=spread)
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


class UnitMeanHead(nn.Module):
    """Base class of the heads below: the unit mean, and the range of log_std.

    Args:
        log_std_range: log_std is clamped to it; outside it only gradients towards it pass.
    """

    def __init__(self, *, log_std_range: tuple[float, float] = (-7.0, 7.0)) -> None:
        super().__init__()
        low, high = log_std_range
        if not low < high:
            raise ValueError(f'log_std_range must be (low, high), not {log_std_range}')
        self.log_std_range = (low, high)

    def gaussian(self, mean: Tensor, log_std: Tensor) -> Embedding:
        """Make an Embedding in float32 of a mean and a log_std, both float [N, D]."""
        low, high = self.log_std_range
        mean, log_std = at_least_float32(mean), at_least_float32(log_std)
        return Embedding(F.normalize(mean, dim=-1), log_std=bounded(log_std, low, high))

    def clamped(self, embedding: Embedding) -> Tensor:
        """Return the share of log_std entries clamped to an end of the range, a 0-dim tensor."""
        low, high = self.log_std_range
        at_ends = (embedding.log_std <= low) | (embedding.log_std >= high)
        return at_ends.sum() / max(at_ends.numel(), 1)


@MODELS.register_module()
class GaussianHead(UnitMeanHead):
    """UATVR's head as printed (Eq. 9): ``mean = l2(LN(FC(x)))``, ``log_std = FC'(x)``.

    The paper calls FC' sigma, which could be negative; we read it as log sigma.

    Args:
        dim: D.
        initial_log_std: initial bias of FC'.  Default ``-log(D) / 2``: the noise of a sample then
            has the norm of the mean.  At 0 it would be sqrt(D) times as large, and drown the mean.
        own_mean: False keeps the encoder's vector, normalised, as the mean, as PCME++ and ProLIP
            do: the head then does not change a pretrained encoder's vectors.
        log_std_range: see :class:`UnitMeanHead`.
    """

    def __init__(
        self, dim: int, *, initial_log_std: Optional[float] = None, own_mean: bool = True, **kwargs
    ) -> None:
        super().__init__(**kwargs)
        self.mean = nn.Linear(dim, dim) if own_mean else nn.Identity()
        self.log_std = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim) if own_mean else nn.Identity()
        start_spread(self.log_std, initial_log_std)

    def forward(self, embedding: Embedding) -> Embedding:
        """Map an Embedding -> Embedding(mean [N, D], log_std [N, D]); tokens are not read."""
        x = embedding.mean
        return self.gaussian(self.norm(self.mean(x)), self.log_std(x))


@MODELS.register_module()
class PCMEGaussianHead(UnitMeanHead):
    """PCME's head, which UATVR's official code uses instead of its Eq. 9.

        mean = l2(LN(g + sigmoid(FC(Attn(l)))))        log_std = FC'(Attn'(l)) + FC''(g)

    with g the global and l the local features.

    Args:
        dim: D.
        use_mask: attend to valid tokens only.  The official code attends to the padding too.
        initial_log_std, log_std_range: see :class:`GaussianHead`.
        init_std: linear weights begin N(0, init_std), biases 0 (UATVR's code: .02); None: as
            torch's.

    Raises:
        ValueError: (called) the embedding has no tokens.
    """

    def __init__(
        self,
        dim: int,
        *,
        use_mask: bool = True,
        initial_log_std: Optional[float] = None,
        init_std: Optional[float] = None,
        **kwargs,
    ) -> None:
        super().__init__(**kwargs)
        self.use_mask = use_mask
        self.mean_attention, self.log_std_attention = AttentionPool(dim), AttentionPool(dim)
        self.mean_local, self.norm = nn.Linear(dim, dim), nn.LayerNorm(dim)
        self.log_std_local, self.log_std_global = nn.Linear(dim, dim), nn.Linear(dim, dim)
        start_linears(self, init_std)
        start_spread(self.log_std_global, initial_log_std)

    def forward(self, embedding: Embedding) -> Embedding:
        """Map an Embedding with tokens -> Embedding(mean [N, D], log_std [N, D])."""
        g, tokens, mask, _ = embedding
        if tokens is None:
            raise ValueError(
                'PCMEGaussianHead reads tokens, but its level has none: choose another head_reads'
            )
        if not self.use_mask:
            mask = torch.ones_like(mask)
        mean = self.norm(g + self.mean_local(self.mean_attention(tokens, mask)).sigmoid())
        log_std = self.log_std_local(self.log_std_attention(tokens, mask))
        return self.gaussian(mean, log_std + self.log_std_global(g))


def start_linears(module: nn.Module, std: Optional[float]) -> None:
    """Set the weights of linear layers to N(0, std) and their biases to 0; None: leave them."""
    for linear in module.modules() if std is not None else ():
        if isinstance(linear, nn.Linear):
            nn.init.normal_(linear.weight, std=std)
            if linear.bias is not None:
                nn.init.zeros_(linear.bias)


def start_spread(linear: nn.Linear, log_std: Optional[float]) -> None:
    """Set the bias of a log_std layer to its initial value, default ``-log(D) / 2``."""
    value = -math.log(linear.out_features) / 2 if log_std is None else log_std
    nn.init.constant_(linear.bias, value)
