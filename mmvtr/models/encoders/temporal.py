"""CLIP's residual transformer over frames, with a padding mask for each sample."""

from __future__ import annotations

from collections import OrderedDict
from typing import Optional

import torch
from torch import Tensor, nn

from mmvtr.models.towers.open_clip_text import OpenCLIPText

#: Epsilon of the LayerNorms in the official temporal blocks (CLIP's own have 1e-5).
EPSILON = 1e-12


class QuickGELU(nn.Module):
    """CLIP's activation ``x * sigmoid(1.702 x)``."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply it elementwise to float of any shape."""
        return x * torch.sigmoid(1.702 * x)


class ResidualBlock(nn.Module):
    """``x + Attn(LN(x))``, then ``x + MLP(LN(x))``; no dropout.  Parameters named as CLIP's."""

    def __init__(self, dim: int, *, heads: int) -> None:
        super().__init__()
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.ln_1 = nn.LayerNorm(dim, eps=EPSILON)
        self.mlp = nn.Sequential(
            OrderedDict(
                c_fc=nn.Linear(dim, 4 * dim), gelu=QuickGELU(), c_proj=nn.Linear(4 * dim, dim)
            )
        )
        self.ln_2 = nn.LayerNorm(dim, eps=EPSILON)

    def forward(self, x: Tensor, padding: Tensor) -> Tensor:
        """Map float [N, T, D], bool [N, T] (True = ignored as a key) -> float [N, T, D]."""
        y = self.ln_1(x)
        x = x + self.attn(y, y, y, key_padding_mask=padding, need_weights=False)[0]
        return x + self.mlp(self.ln_2(x))


class TemporalTransformer(nn.Module):
    """CLIP4Clip's ``transformerClip``: bidirectional attention over the valid frames of a video.

    CLIP2Video's code gives some heads the padding mask of other samples (it repeats the mask as a
    block instead of element by element); here each sample uses its own.

    Args:
        dim: D.
        layers: number of blocks.
        heads: attention heads.
    """

    def __init__(self, dim: int, *, layers: int, heads: int) -> None:
        super().__init__()
        self.resblocks = nn.ModuleList(ResidualBlock(dim, heads=heads) for _ in range(layers))
        for block in self.resblocks:
            nn.init.normal_(block.attn.in_proj_weight, std=dim**-0.5)
            nn.init.normal_(block.attn.out_proj.weight, std=dim**-0.5 * (2 * layers) ** -0.5)
            nn.init.normal_(block.mlp.c_fc.weight, std=(2 * dim) ** -0.5)
            nn.init.normal_(block.mlp.c_proj.weight, std=dim**-0.5 * (2 * layers) ** -0.5)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Mix the valid tokens of each sample.

        Args:
            x: float [N, T, D].
            mask: bool [N, T], True = valid.

        Returns:
            float [N, T, D]; values at invalid tokens are undefined.
        """
        # A row without valid tokens attends to all of them: its output is masked later, and a
        # softmax over no key would put NaN into the gradients of all others.
        padding = ~(mask | ~mask.any(1, keepdim=True))
        for block in self.resblocks:
            x = block(x, padding)
        return x

    @classmethod
    def like(cls, text: nn.Module, dim: int, *, layers: int) -> 'TemporalTransformer':
        """Start from the first ``layers`` of CLIP's text transformer, if the widths agree.

        Otherwise use random weights (CLIP's recipe) and one head per 64 dimensions, as in CLIP.
        """
        if not _same_width(text, dim):
            return cls(dim, layers=layers, heads=max(1, dim // 64))
        transformer = cls(dim, layers=layers, heads=text.heads)
        for ours, clips in zip(transformer.resblocks, text.transformer.resblocks):
            ours.load_state_dict(clips.state_dict())
        return transformer


class FramePositions(nn.Module):
    """Learnt position embeddings of frames.

    Args:
        weight: float [rows, D], initial table.
    """

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)

    @classmethod
    def like(cls, text: nn.Module, dim: int, *, rows: Optional[int]) -> 'FramePositions':
        """Start from CLIP's text positions, if the widths agree; else from N(0, 0.02).

        Args:
            text: text tower.
            dim: D.
            rows: number of positions; None = as many as CLIP's text tower has, or 77.

        Raises:
            ValueError: more rows than CLIP's table has.
        """
        if not _same_width(text, dim):
            return cls(torch.randn(rows or 77, dim) * 0.02)
        table = text.positional_embedding.detach().clone()
        if rows is not None and rows > len(table):
            raise ValueError(
                f'max_frames={rows}, but frame positions start from the {len(table)} of CLIP'
            )
        return cls(table[:rows])

    def forward(self, length: int) -> Tensor:
        """Return the first ``length`` rows, float [length, D].

        Raises:
            ValueError: the table has fewer rows.
        """
        if length > len(self.weight):
            raise ValueError(
                f'{length} frames, but the position table has {len(self.weight)} rows: sample '
                'fewer frames or raise max_frames'
            )
        return self.weight[:length]


def _same_width(text: nn.Module, dim: int) -> bool:
    clips = isinstance(text, OpenCLIPText) and text.kind == 'causal'
    return clips and text.positional_embedding.shape[1] == dim
