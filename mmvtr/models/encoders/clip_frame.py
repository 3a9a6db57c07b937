"""MS-SL and GMMFormer: a branch of 32 clips and a branch of all frames, scored separately."""

from __future__ import annotations

from functools import partial
from typing import Callable

import torch
from torch import Tensor, nn

from mmvtr.functional.similarities.best_frames import clip_pooling
from mmvtr.models.encoders.prvr import PRVREncoder
from mmvtr.models.layers.pooling import masked, mean_of_units, unit
from mmvtr.models.layers.prvr import GaussianBlock, LearntPooling, SelfAttention, TokenEncoder
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding, Levels


class ClipFrameEncoder(PRVREncoder):
    """Base of encoders with levels ``'clip'`` and ``'frame'``; a text has one vector for both.

    The clips are normalised means of a video's frame features, see :func:`.clip_pooling`; a video
    of any length has K of them.

    Args:
        frames, text, dim, heads, dropout, max_words: see :class:`~.prvr.PRVREncoder`.
        block: factory of an attention block.
        blocks: number of blocks of a branch.
        clips: K.
        max_frames: rows of the position table of frames.
    """

    level_names = token_levels = ('clip', 'frame')

    def __init__(
        self,
        frames: dict | nn.Module,
        text: dict | nn.Module,
        *,
        dim: int,
        heads: int,
        dropout: float,
        block: Callable[[], nn.Module],
        blocks: int,
        clips: int = 32,
        max_frames: int = 128,
        max_words: int = 30,
    ) -> None:
        super().__init__(frames, text, dim=dim, heads=heads, dropout=dropout, max_words=max_words)
        self.clips = clips
        branch = partial(
            TokenEncoder, self.frames.dim, dim, block=block, blocks=blocks, dropout=dropout
        )
        self.clip = branch(positions=clips, kind='clips')
        self.frame = branch(positions=max_frames, kind='frames')

    def video_levels(self, frames: Tensor, mask: Tensor) -> Levels:
        pooling = clip_pooling(mask, self.clips, dtype=frames.dtype)
        return self.branch_levels(unit(pooling @ frames), frames, mask)

    def branch_levels(self, clips: Tensor, frames: Tensor, mask: Tensor) -> Levels:
        """Return the levels of given clips and frames.

        Args:
            clips: float [V, K, D_v].
            frames: float [V, F, D_v], zero at padding.
            mask: bool [V, F], of frames.
        """
        every = mask.new_ones(clips.shape[:2])
        clips = self.clip(clips, every)
        frames = masked(self.frame(frames, mask), mask)
        return {
            'clip': Embedding(mean_of_units(clips, every), clips, every),
            'frame': self._frame_level(frames, mask),
        }

    def _frame_level(self, frames: Tensor, mask: Tensor) -> Embedding:
        """Make level ``'frame'`` of encoded frames [V, F, D], zero at padding, and their mask."""
        raise NotImplementedError(f'{type(self).__name__} must define _frame_level()')


@MODELS.register_module()
class MSSLEncoder(ClipFrameEncoder):
    """MS-SL's encoder (Dong et al., ACM MM 2022); its scores are those of ``MSSLSimilarity``.

    One attention layer per branch.  Level ``'clip'`` has K tokens, level ``'frame'`` all frames;
    the similarity makes the 528 proposals and the attention that they guide.

    Args:
        frames, text, dim, heads, dropout: see :class:`~.prvr.PRVREncoder`.
        lengths: ``clips``, ``max_frames``, ``max_words`` of :class:`ClipFrameEncoder`.
    """

    def __init__(
        self,
        frames: dict | nn.Module,
        text: dict | nn.Module,
        *,
        dim: int = 384,
        heads: int = 4,
        dropout: float = 0.1,
        **lengths: int,
    ) -> None:
        settings = dict(dim=dim, heads=heads, dropout=dropout)
        block = partial(SelfAttention, **settings)
        super().__init__(frames, text, block=block, blocks=1, **settings, **lengths)

    def _frame_level(self, frames: Tensor, mask: Tensor) -> Embedding:
        return Embedding(mean_of_units(frames, mask), frames, mask)


@MODELS.register_module()
class GMMFormerEncoder(ClipFrameEncoder):
    """GMMFormer's encoder (Wang et al., AAAI 2024).

    Two Gaussian blocks per branch.  Level ``'clip'`` has K tokens, the best of which counts; level
    ``'frame'`` has one, the frames pooled by a learnt vector.

    Args:
        frames, text, dim, heads, dropout: see :class:`~.prvr.PRVREncoder`.
        padded_windows: windows over frames span the padding of the batch, as in the official code;
            by default they span a video's own frames.
        lengths: ``clips``, ``max_frames``, ``max_words`` of :class:`ClipFrameEncoder`.
    """

    def __init__(
        self,
        frames: dict | nn.Module,
        text: dict | nn.Module,
        *,
        dim: int = 384,
        heads: int = 4,
        dropout: float = 0.2,
        padded_windows: bool = False,
        **lengths: int,
    ) -> None:
        settings = dict(dim=dim, heads=heads, dropout=dropout)
        block = partial(GaussianBlock, **settings, padded_windows=padded_windows)
        super().__init__(frames, text, block=block, blocks=2, **settings, **lengths)
        self.frame_pooling = LearntPooling(dim)

    def _frame_level(self, frames: Tensor, mask: Tensor) -> Embedding:
        vector = self.frame_pooling(frames, mask)
        one = torch.ones(len(vector), 1, dtype=torch.bool, device=vector.device)
        return Embedding(vector, vector[:, None], one)
