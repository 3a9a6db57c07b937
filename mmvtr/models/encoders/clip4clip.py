"""CLIP4Clip (Luo et al., arXiv:2104.08860), X-CLIP, and what CLIP-based dual encoders share."""

from __future__ import annotations

from collections import OrderedDict
from typing import ClassVar, Optional

import torch
from torch import Tensor, nn

from mmvtr.functional.values import check_one_of
from mmvtr.models.layers.pooling import empty_levels, encode_frames, masked, mean_of_units, unit
from mmvtr.models.towers.open_clip import OpenCLIPText
from mmvtr.models.towers.transformers import TransformersDualText, load_dual
from mmvtr.registry import MODELS, build
from mmvtr.structures import Embedding, Levels


class CLIPDualEncoder(nn.Module):
    """A frame tower and a text tower; subclasses pool frame vectors to videos.

    Level ``'global'`` carries tokens and mask for probabilistic heads and token similarities; other
    levels are vectors only.

    Args:
        frames: frame tower (config or module): float [N, ...] -> [N, D], attribute ``dim``.
        text: text tower: (ids [T, L], mask [T, L]) -> (tokens [T, L, D], pooled [T, D]).

    Raises:
        ValueError: the towers have different widths.
    """

    level_names: ClassVar[tuple[str, ...]] = ('global',)

    def __init__(self, frames: dict | nn.Module, text: dict | nn.Module) -> None:
        super().__init__()
        self.frames = build(frames)
        self.text = build(text)
        self.dim = self.frames.dim
        if self.text.dim != self.dim:
            raise ValueError(
                f'frame tower and text tower need one width, got {self.dim} and {self.text.dim}'
            )

    def encode_video(self, video: Tensor, frame_mask: Tensor) -> Levels:
        """Encode V videos.

        Args:
            video: float [V, F, 3, H, W] normalised frames, or [V, F, D_in] features.
            frame_mask: bool [V, F]; only valid frames are read.

        Returns:
            one Embedding per level: ``mean`` [V, D] of unit length; at level ``'global'`` also
            ``tokens`` [V, F, D] (not normalised, zero at padding) and ``mask`` [V, F].

        Raises:
            ValueError: a video without a valid frame, or more frames than positions.
        """
        if not video.shape[0]:
            return empty_levels(self, video.shape[1])
        return self._pool_frames(encode_frames(self.frames, video, frame_mask), frame_mask)

    def encode_text(self, text: Tensor, text_mask: Tensor) -> Levels:
        """Encode T texts.

        Args:
            text: int64 [T, L] token ids.
            text_mask: bool [T, L].

        Returns:
            the levels of ``encode_video``, with ``tokens`` [T, L, D] and ``mask`` [T, L].

        Raises:
            ValueError: a text without a token, or longer than the text tower takes.
        """
        if not text.shape[0]:
            return empty_levels(self, text.shape[1])
        tokens, pooled = self.text(text, text_mask)
        return self._pool_words(masked(tokens, text_mask), pooled, text_mask)

    def _pool_frames(self, frames: Tensor, mask: Tensor) -> Levels:
        """Turn frame vectors [V, F, D] and mask [V, F] into levels."""
        raise NotImplementedError

    def _pool_words(self, tokens: Tensor, pooled: Tensor, mask: Tensor) -> Levels:
        """Turn words [T, L, D], their pooled vector [T, D] and mask [T, L] into levels."""
        return {'global': Embedding(unit(pooled), tokens, mask)}


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
                f'max_frames={rows}, but frame positions start as the {len(table)} text positions '
                'of CLIP'
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


@MODELS.register_module()
class CLIP4Clip(CLIPDualEncoder):
    """CLIP4Clip with a parameter-free or a transformer aggregator.

    Video: frames of unit length, their masked mean, unit length again.  Text: the EOT token.
    One level, ``'global'``; its tokens are the frames before normalisation, and the words.

    Args:
        frames, text: towers, see :class:`~mmvtr.models.encoders.clip4clip.CLIPDualEncoder`.
        aggregator: ``'mean'`` (the paper's meanP), or ``'transformer'`` (seqTransf): before the
            mean, frames plus positions go through a transformer, whose output is added to them.
        temporal_layers: blocks of that transformer; it starts from the first layers of CLIP's
            text tower, and its positions from CLIP's, if the widths agree.
        max_frames: rows of its position table; None: as many as the text tower's (77).
    """

    def __init__(
        self,
        frames: dict | nn.Module,
        text: dict | nn.Module,
        *,
        aggregator: str = 'mean',
        temporal_layers: int = 4,
        max_frames: Optional[int] = None,
    ) -> None:
        super().__init__(frames, text)
        check_one_of(('mean', 'transformer'), aggregator=aggregator)
        self.position = self.temporal = None
        if aggregator == 'transformer':
            self.position = FramePositions.like(self.text, self.dim, rows=max_frames)
            self.temporal = TemporalTransformer.like(self.text, self.dim, layers=temporal_layers)

    def _pool_frames(self, frames: Tensor, mask: Tensor) -> Levels:
        if self.temporal is not None:
            x = frames + self.position(frames.shape[1])
            frames = masked(frames + self.temporal(x, mask), mask)
        return {'global': Embedding(mean_of_units(frames, mask), frames, mask)}


@MODELS.register_module()
class XCLIPEncoder(nn.Module):
    """Video tower and text tower of transformers' XCLIPModel, without its video-specific prompts.

    One level, ``'global'``: the normalised outputs of ``get_video_features`` and
    ``get_text_features``; its tokens are the frames before they are mixed over time, and the words.

    Args:
        model: name on the hub, local folder, or a dict for ``AutoConfig.for_model``, which gives
            random weights.

    Attributes:
        num_frames: required number of frames of a video.

    Raises:
        ValueError, RuntimeError: see
            :class:`~mmvtr.models.towers.transformers.TransformersFrames`.
    """

    level_names = ('global',)

    def __init__(self, model: str | dict) -> None:
        super().__init__()
        read = ('vision_model', 'mit', 'visual_projection', 'text_model', 'text_projection')
        dual = load_dual(model, ('xclip',), used=read)
        self.num_frames = dual.config.vision_config.num_frames
        self.dim = dual.config.projection_dim
        self.vision_model, self.mit = dual.vision_model, dual.mit
        self.visual_projection = dual.visual_projection
        self.text = TransformersDualText(dual)

    def encode_video(self, video: Tensor, frame_mask: Tensor) -> Levels:
        """Encode V videos.

        Args:
            video: float [V, F, 3, H, W], normalised.
            frame_mask: bool [V, F], all True, F = ``num_frames``.

        Returns:
            level ``'global'``: mean [V, D] of unit length, tokens [V, F, D], mask [V, F].

        Raises:
            ValueError: a video of another number of frames.
        """
        if not video.shape[0]:
            return empty_levels(self, video.shape[1])
        counts = frame_mask.sum(1)
        if video.shape[1] != self.num_frames or not frame_mask.all():
            raise ValueError(
                f'XCLIPEncoder takes videos of {self.num_frames} frames, got {int(counts.min())} '
                f'to {int(counts.max())}: set num_frames in the video pipeline, and repeat or '
                'leave out shorter videos'
            )
        frames = self.vision_model(pixel_values=video.flatten(0, 1)).pooler_output
        frames = self.visual_projection(frames).unflatten(0, video.shape[:2])
        pooled = self.mit(frames).pooler_output
        return {'global': Embedding(unit(pooled), frames, frame_mask)}

    def encode_text(self, text: Tensor, text_mask: Tensor) -> Levels:
        """Encode ids int64 [T, L] with mask bool [T, L] -> level ``'global'``, as for videos.

        Raises:
            ValueError: see :func:`~mmvtr.models.towers.base.check_text`.
        """
        if not text.shape[0]:
            return empty_levels(self, text.shape[1])
        tokens, pooled = self.text(text, text_mask)
        return {'global': Embedding(unit(pooled), masked(tokens, text_mask), text_mask)}
