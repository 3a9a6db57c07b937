"""Encoders of partially relevant video retrieval: ARL, DL-DKD, MS-SL, GMMFormer."""

from __future__ import annotations

from functools import partial
from typing import Callable, ClassVar, Sequence

import torch
from torch import Tensor, nn

from mmvtr.functional.similarities.best_frames import clip_pooling
from mmvtr.models.layers.experts import init_as_bert
from mmvtr.models.layers.pooling import check_mask, encode_frames, masked, mean_of_units, unit
from mmvtr.models.layers.prvr import (
    GaussianBlock,
    LearntPooling,
    SelfAttention,
    TokenEncoder,
)
from mmvtr.registry import MODELS, build
from mmvtr.structures import Embedding, Levels


class PRVREncoder(nn.Module):
    """Base class: two towers of any widths, on which subclasses build levels.

    A text is one vector, not normalised, without tokens, so that the 87,175 captions of TVR fit in
    memory.  A video has tokens at every level, from which a similarity chooses.

    Args:
        frames: frame tower (config or module): float [N, ...] -> [N, D_v], attribute ``dim`` = D_v;
            ``FeatureFrames`` for stored features.
        text: text tower: (text [T, L, ...], mask [T, L]) -> (words [T, L, D_t], pooled), attribute
            ``dim`` = D_t; ``FeatureWords`` for stored features.  Only its words are read.
        dim: D.
        heads: attention heads over words.
        dropout: before the FC, after the positions and in the attention.
        max_words: rows of the position table of words.

    Attributes:
        token_levels: the levels of videos that carry tokens: all of them.
        text_tokens: whether the levels of texts carry tokens.
    """

    level_names: ClassVar[tuple[str, ...]]
    token_levels: ClassVar[tuple[str, ...]]
    text_tokens: ClassVar[bool] = False

    def __init__(
        self,
        frames: dict | nn.Module,
        text: dict | nn.Module,
        *,
        dim: int = 384,
        heads: int = 4,
        dropout: float = 0.2,
        max_words: int = 30,
    ) -> None:
        super().__init__()
        self.frames = build(frames)
        self.text = build(text)
        self.dim = dim
        self._layer = dict(dim=dim, heads=heads, dropout=dropout)
        self.words = self.tokens(self.text.dim, positions=max_words, kind='words')
        self.word_pooling = LearntPooling(dim)

    def tokens(
        self,
        in_dim: int,
        *,
        block: Callable[..., nn.Module] = SelfAttention,
        blocks: int = 1,
        positions: int,
        kind: str,
    ) -> TokenEncoder:
        """Build a branch of attention blocks; see :class:`.TokenEncoder`."""
        return TokenEncoder(
            in_dim,
            self.dim,
            positions=positions,
            block=partial(block, **self._layer),
            blocks=blocks,
            dropout=self._layer['dropout'],
            kind=kind,
        )

    def encode_video(self, video: Tensor, frame_mask: Tensor) -> Levels:
        """Encode V videos.

        Args:
            video: float [V, F, D_in] features, or [V, F, 3, H, W] normalised frames.
            frame_mask: bool [V, F]; only valid frames are read.

        Returns:
            one Embedding per level: ``mean`` [V, D], ``tokens`` [V, L, D] (not normalised, zero at
            padding) and ``mask`` [V, L].

        Raises:
            ValueError: features of another width, a video without a valid frame, or more frames
                than positions.
        """
        return self.video_levels(run_frames(self.frames, video, frame_mask), frame_mask)

    def encode_text(self, text: Tensor, text_mask: Tensor) -> Levels:
        """Encode T texts.

        Args:
            text: float [T, L, D_in] features, or int64 [T, L] token ids, depending on the tower.
            text_mask: bool [T, L].

        Returns:
            one Embedding per level with ``mean`` [T, D], not normalised.

        Raises:
            ValueError: features of another width, a text without a valid word, or more words than
                positions.
        """
        return self.text_levels(run_words(self.text, text, text_mask), text_mask)

    def video_levels(self, frames: Tensor, mask: Tensor) -> Levels:
        """Turn output of the frame tower [V, F, D_v], zero at padding, and its mask into levels."""
        raise NotImplementedError(f'{type(self).__name__} must define video_levels()')

    def text_levels(self, words: Tensor, mask: Tensor) -> Levels:
        """Turn output of the text tower [T, L, D_t], zero at padding, and its mask into levels."""
        vector = Embedding(self.word_pooling(self.words(words, mask), mask))
        return {name: vector for name in self.level_names}


def run_frames(tower: nn.Module, video: Tensor, frame_mask: Tensor) -> Tensor:
    """Return the output of a frame tower, float [V, F, D_v], zero where the mask is False.

    Raises:
        ValueError: a video has no valid frame (its index is named).
    """
    return encode_frames(tower, video, frame_mask) if video.shape[0] else _none(tower, video)


def run_words(tower: nn.Module, text: Tensor, text_mask: Tensor) -> Tensor:
    """Return the words of a text tower, float [T, L, D_t], zero where the mask is False.

    Raises:
        ValueError: a text has no valid word (its index is named).
    """
    check_mask(text_mask, 'text_mask')
    return masked(tower(text, text_mask)[0], text_mask) if text.shape[0] else _none(tower, text)


def _none(tower: nn.Module, items: Tensor) -> Tensor:
    """Return float [0, L, D] that depends on the tower, as distributed training requires."""
    like = next(tower.parameters(), items)
    anchor = sum((p.sum() for p in tower.parameters() if p.requires_grad), like.new_zeros(()))
    return anchor.expand(0, items.shape[1], tower.dim)


@MODELS.register_module()
class ARLEncoder(PRVREncoder):
    """ARL's encoder (Cho et al., AAAI 2025, Eq. 1), or one of its two branches.

    FC and ReLU, learnt positions, one transformer layer; words are pooled by attention, frames by
    the max of Eq. 3 in the similarity.  One level, ``'global'``; the vector of a video, the mean of
    its unit frames, is for baselines that pool.

    There is no public code.  "Typical parameters as GMMFormer": D = 384, 4 heads, dropout .2; the
    layers are those of its predecessors, which have no feed-forward part.  Two such encoders on TVR
    have the 5.34 M parameters of Tab. 3 if positions are not counted (5.46 M with them).

    Args:
        frames, text: see :class:`PRVREncoder`.
        max_frames: rows of the position table of frames.
        settings: ``dim``, ``heads``, ``dropout``, ``max_words`` of :class:`PRVREncoder`.
    """

    level_names = token_levels = ('global',)

    def __init__(
        self,
        frames: dict | nn.Module,
        text: dict | nn.Module,
        *,
        max_frames: int = 128,
        **settings: float,
    ) -> None:
        super().__init__(frames, text, **settings)
        self.video = self.tokens(self.frames.dim, positions=max_frames, kind='frames')

    def video_levels(self, frames: Tensor, mask: Tensor) -> Levels:
        tokens = masked(self.video(frames, mask), mask)
        return {'global': Embedding(mean_of_units(tokens, mask), tokens, mask)}


@MODELS.register_module()
class DLDKDEncoder(ARLEncoder):
    """One branch of DL-DKD (Dong et al., ICCV 2023): :class:`ARLEncoder` with a final mapping.

    A last linear layer, without activation, maps the frames only, not the text.  The model has two
    branches: ``TwoBranches(encoder=..., names=('inherit', 'explore'))``.

    Args:
        frames, text, settings: see :class:`ARLEncoder`.
    """

    def __init__(self, frames: dict | nn.Module, text: dict | nn.Module, **settings) -> None:
        super().__init__(frames, text, **settings)
        self.mapping = nn.Linear(self.dim, self.dim)
        self.mapping.apply(init_as_bert)

    def video_levels(self, frames: Tensor, mask: Tensor) -> Levels:
        tokens = masked(self.mapping(self.video(frames, mask)), mask)
        return {'global': Embedding(mean_of_units(tokens, mask), tokens, mask)}


@MODELS.register_module()
class TwoBranches(nn.Module):
    """Two encoders of one config, each with its own initial weights (ARL, DL-DKD).

    They share the towers, which run once per batch.  Level ``'global'`` of the first is level
    ``'a'`` here, that of the second ``'b'``.

    Args:
        encoder: config of a :class:`PRVREncoder` with one level.
        names: names of the branches, used for their weights and levels.

    Raises:
        ValueError: an encoder of several levels, or not two different names.
    """

    text_tokens = False

    def __init__(self, encoder: dict, *, names: Sequence[str] = ('a', 'b')) -> None:
        super().__init__()
        names = tuple(names)
        if len(names) != 2 or names[0] == names[1] or any(hasattr(self, name) for name in names):
            raise ValueError(f'TwoBranches needs two names that are not taken, got {names}')
        self.level_names = self.token_levels = names
        first = MODELS.build(encoder)
        if first.level_names != ('global',):
            raise ValueError(
                f"TwoBranches needs an encoder of level 'global' alone, {encoder['type']} has "
                f'{first.level_names}'
            )
        frames, text, self.dim = first.frames, first.text, first.dim
        # Keep this order: mmengine and optimizers iterate over submodules as they were added.
        self.add_module(names[0], first)
        self.frames, self.text = frames, text
        self.add_module(names[1], MODELS.build({**encoder, 'frames': frames, 'text': text}))
        for name in names:
            branch = getattr(self, name)
            branch.frames = branch.text = None

    def encode_video(self, video: Tensor, frame_mask: Tensor) -> Levels:
        """Run :meth:`PRVREncoder.encode_video` of both branches, levels ``'a'`` and ``'b'``."""
        frames = run_frames(self.frames, video, frame_mask)
        return {
            name: getattr(self, name).video_levels(frames, frame_mask)['global']
            for name in self.level_names
        }

    def encode_text(self, text: Tensor, text_mask: Tensor) -> Levels:
        """Run :meth:`PRVREncoder.encode_text` of both branches, levels ``'a'`` and ``'b'``."""
        words = run_words(self.text, text, text_mask)
        return {
            name: getattr(self, name).text_levels(words, text_mask)['global']
            for name in self.level_names
        }


class ClipFrameEncoder(PRVREncoder):
    """Base of encoders with levels ``'clip'`` and ``'frame'``; a text has one vector for both.

    The clips are normalised means of a video's frame features, see :func:`.clip_pooling`; a video
    of any length has K of them.

    Args:
        frames, text: see :class:`PRVREncoder`.
        block: attention block of a branch, called with ``dim``, ``heads`` and ``dropout``.
        blocks: number of blocks of a branch.
        clips: K.
        max_frames: rows of the position table of frames.
        settings: ``dim``, ``heads``, ``dropout``, ``max_words`` of :class:`PRVREncoder`.
    """

    level_names = token_levels = ('clip', 'frame')

    def __init__(
        self,
        frames: dict | nn.Module,
        text: dict | nn.Module,
        *,
        block: Callable[..., nn.Module] = SelfAttention,
        blocks: int = 1,
        clips: int = 32,
        max_frames: int = 128,
        **settings: float,
    ) -> None:
        super().__init__(frames, text, **settings)
        self.clips = clips
        branch = partial(self.tokens, self.frames.dim, block=block, blocks=blocks)
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
        frames, text, settings: see :class:`ClipFrameEncoder`.
        dropout: see :class:`PRVREncoder`.
    """

    def __init__(
        self,
        frames: dict | nn.Module,
        text: dict | nn.Module,
        *,
        dropout: float = 0.1,
        **settings: float,
    ) -> None:
        super().__init__(frames, text, dropout=dropout, **settings)

    def _frame_level(self, frames: Tensor, mask: Tensor) -> Embedding:
        return Embedding(mean_of_units(frames, mask), frames, mask)


@MODELS.register_module()
class GMMFormerEncoder(ClipFrameEncoder):
    """GMMFormer's encoder (Wang et al., AAAI 2024).

    Two Gaussian blocks per branch.  Level ``'clip'`` has K tokens, the best of which counts; level
    ``'frame'`` has one, the frames pooled by a learnt vector.

    Args:
        frames, text, settings: see :class:`ClipFrameEncoder`.
        padded_windows: windows over frames span the padding of the batch, as in the official code;
            by default they span a video's own frames.
    """

    def __init__(
        self,
        frames: dict | nn.Module,
        text: dict | nn.Module,
        *,
        padded_windows: bool = False,
        **settings: float,
    ) -> None:
        block = partial(GaussianBlock, padded_windows=padded_windows)
        super().__init__(frames, text, block=block, blocks=2, **settings)
        self.frame_pooling = LearntPooling(self.dim)

    def _frame_level(self, frames: Tensor, mask: Tensor) -> Embedding:
        vector = self.frame_pooling(frames, mask)
        there = torch.ones(len(vector), 1, dtype=torch.bool, device=vector.device)
        return Embedding(vector, vector[:, None], there)
