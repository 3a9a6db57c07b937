"""Base class of the CLIP-based dual encoders: two towers of one width, and text encoding."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from mmvtr.models.layers.pooling import empty_levels, encode_frames, masked, unit
from mmvtr.registry import build
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
