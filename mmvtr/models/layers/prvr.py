"""Layers of the encoders of partially relevant video retrieval.

MS-SL, GMMFormer and DL-DKD share these layers: FC and ReLU, learnt positions, attention without a
feed-forward part, and pooling by one learnt vector.
"""

from __future__ import annotations

import math
from typing import Callable, Optional, Sequence

import torch
from torch import Tensor, nn

from mmvtr.functional.similarities.token_interaction import token_weights
from mmvtr.functional.values import at_least_float32
from mmvtr.models.layers.experts import init_as_bert

#: Width of a flat Gaussian window.
FLAT = math.inf


class TokenEncoder(nn.Module):
    """Encoder of stored features (ARL Eq. 1): LN, dropout, FC, ReLU; positions; blocks.

    Args:
        in_dim: width of the features.
        dim: D.
        positions: rows of the position table.
        block: factory of a block, (float [N, L, D], mask bool [N, L]) -> [N, L, D].
        blocks: number of blocks.
        dropout: before the FC and after the positions.
        kind: ``'frames'``, ``'clips'`` or ``'words'``, for messages.
    """

    def __init__(
        self,
        in_dim: int,
        dim: int,
        *,
        positions: int,
        block: Callable[[], nn.Module],
        blocks: int,
        dropout: float,
        kind: str,
    ) -> None:
        super().__init__()
        self.kind = kind
        self.project = nn.Sequential(
            nn.LayerNorm(in_dim), nn.Dropout(dropout), nn.Linear(in_dim, dim), nn.ReLU()
        )
        self.position = nn.Embedding(positions, dim)
        self.position_norm = nn.LayerNorm(dim)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(block() for _ in range(blocks))
        self.apply(init_as_bert)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Encode float [N, L, in_dim], bool [N, L] -> float [N, L, D], undefined at padding.

        Raises:
            ValueError: more tokens than positions.
        """
        rows = self.position.num_embeddings
        if x.shape[1] > rows:
            raise ValueError(
                f'{x.shape[1]} {self.kind}, but the encoder has {rows} positions: shorten them '
                f'in the pipeline or raise max_{self.kind}'
            )
        x = self.project(x) + self.position.weight[: x.shape[1]]
        x = self.dropout(self.position_norm(x))
        for block in self.blocks:
            x = block(x, mask)
        return x


class SelfAttention(nn.Module):
    """``LN(x + Linear(attention(x)))``, the transformer layer of these models (no feed-forward).

    Args:
        dim: D.
        heads: attention heads.
        dropout: dropout of attention weights and of the residual branch.
        width: width of a Gaussian window over each token (GMMFormer), see
            :func:`gaussian_windows`.
        padded_windows: whether the windows also span the padding.

    Raises:
        ValueError: ``dim`` is not a multiple of ``heads``.
    """

    def __init__(
        self,
        dim: int,
        *,
        heads: int,
        dropout: float,
        width: float = FLAT,
        padded_windows: bool = False,
    ) -> None:
        super().__init__()
        if dim % heads:
            raise ValueError(f'dim must be a multiple of heads, not {dim} of {heads}')
        self.heads = heads
        self.width = width
        self.padded_windows = padded_windows
        self.query, self.key, self.value, self.output = (nn.Linear(dim, dim) for _ in range(4))
        self.attention_dropout, self.dropout = nn.Dropout(dropout), nn.Dropout(dropout)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Attend within float [N, L, D], with mask bool [N, L] -> float [N, L, D]."""
        q, k, v = (
            linear(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for linear in (self.query, self.key, self.value)
        )
        logits = at_least_float32(q @ k.mT) / q.shape[-1] ** 0.5
        if self.width != FLAT:
            span = torch.ones_like(mask) if self.padded_windows else mask
            logits = logits * gaussian_windows(span, self.width, dtype=logits.dtype)[:, None]
        logits = logits.masked_fill(~mask[:, None, None], torch.finfo(logits.dtype).min)
        attention = self.attention_dropout(logits.softmax(-1)).to(v.dtype)
        mixed = (attention @ v).transpose(1, 2).flatten(2)
        return self.norm(x + self.dropout(self.output(mixed)))


class GaussianBlock(nn.Module):
    """GMMFormer's block: the mean of attention layers with different windows.

    Args:
        dim, heads, dropout, padded_windows: see :class:`SelfAttention`.
        widths: widths of the windows, ``inf`` is flat.
    """

    def __init__(
        self,
        dim: int,
        *,
        heads: int,
        dropout: float,
        widths: Sequence[float] = (FLAT, 0.5, 1.0, 5.0),
        padded_windows: bool = False,
    ) -> None:
        super().__init__()
        settings = dict(heads=heads, dropout=dropout, padded_windows=padded_windows)
        self.layers = nn.ModuleList(SelfAttention(dim, width=w, **settings) for w in widths)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Average the layers' outputs: float [N, L, D], bool [N, L] -> float [N, L, D]."""
        return torch.stack([layer(x, mask) for layer in self.layers]).mean(0)


class LearntPooling(nn.Module):
    """``sum_i softmax_i(w x_i) x_i`` over valid tokens, with one learnt vector w."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.score = nn.Linear(dim, 1, bias=False)
        self.apply(init_as_bert)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Pool float [N, L, D] with mask bool [N, L] -> float [N, D]."""
        weights = token_weights(self.score(tokens).squeeze(-1), mask)
        return (weights[..., None] * at_least_float32(tokens)).sum(1)


def gaussian_windows(mask: Tensor, width: float, *, dtype: Optional[torch.dtype] = None) -> Tensor:
    """Return GMMFormer's windows, which multiply the attention logits.

        g[i, j] = exp(-(j / (n - 1) - i / n)^2 / (2 (width / 9)^2)),    each row over its maximum

    for the n valid tokens of an item, which i and j count.  (The division of i by n and of j by
    n - 1 follows the official code; there n is the padded length, so that a window depends on the
    rest of the batch.)

    Args:
        mask: bool [N, L].
        width: positive, ``inf`` is flat.
        dtype: dtype of the result, default torch's.

    Returns:
        float [N, L, L], rows are queries; undefined at invalid tokens.
    """
    dtype = dtype or torch.get_default_dtype()
    place = (mask.cumsum(1) - 1).clamp(min=0).to(dtype)
    count = mask.sum(1, keepdim=True).to(dtype)
    center, grid = place / count, place / (count - 1).clamp(min=1)
    exponent = -((grid[:, None] - center[..., None]) ** 2) / (2 * (width / 9) ** 2)
    return (exponent - exponent.amax(-1, keepdim=True)).exp()
