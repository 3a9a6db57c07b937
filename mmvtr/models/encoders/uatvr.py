"""UATVR's encoder (Fang et al., ICCV 2023): frames and words with extra aggregating tokens."""

from __future__ import annotations

from copy import deepcopy
from typing import ClassVar, Optional

import torch
from torch import Tensor, nn

from mmvtr.functional.values import check_one_of
from mmvtr.models.encoders.clip4clip import CLIPDualEncoder, FramePositions, TemporalTransformer
from mmvtr.models.layers.pooling import check_mask, masked, mean_of_units, unit
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding, Levels, pad_tokens


class ExtraTokens(nn.Module):
    """Module that adds positions to a sequence and appends C extra tokens (UATVR Sec. 3.2).

    Args:
        position: float [rows, D], initial table of positions.
        kind: ``'frames'`` or ``'words'``, for messages.
        length: length of the longest sequence.
        count: C.
        learnt: the extra tokens are parameters without positions.  Otherwise, as in the official
            code, they are the rows after row ``length - 1`` of the table, and shorter sequences are
            padded to ``length``.

    Raises:
        ValueError: the table is too short.
    """

    def __init__(
        self, position: Tensor, *, kind: str, length: int, count: int, learnt: bool
    ) -> None:
        super().__init__()
        needed = length if learnt else length + count
        if len(position) < needed:
            raise ValueError(
                f'max_{kind}={length} and {count} extra tokens need {needed} position rows, '
                f'there are {len(position)}: raise position_rows'
            )
        self.kind, self.length, self.count, self.learnt = kind, length, count, learnt
        self.position = nn.Parameter(position)
        self.tokens = None
        if learnt and count:
            self.tokens = nn.Parameter(torch.randn(count, position.shape[1]) * 0.02)

    def forward(self, x: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return the input of the transformer.

        Args:
            x: float [N, L, D].
            mask: bool [N, L].

        Returns:
            float [N, L' + C, D] and its mask, True on the extra tokens; L' = L if they are learnt,
            else ``length``.

        Raises:
            ValueError: L > ``length``.
        """
        if x.shape[1] > self.length:
            raise ValueError(
                f'{x.shape[1]} {self.kind}, but the encoder has positions for '
                f'{self.length}: shorten them in the pipeline or raise max_{self.kind}'
            )
        if not self.learnt:
            mask = pad_tokens(mask, self.length)
            x = pad_tokens(x, self.length + self.count)
        x = x + self.position[: x.shape[1]]
        if self.tokens is not None:
            x = torch.cat([x, self.tokens.expand(x.shape[0], -1, -1)], 1)
        return x, torch.cat([mask, mask.new_ones(mask.shape[0], self.count)], 1)


@MODELS.register_module()
class UATVR(CLIPDualEncoder):
    """Encoder of frames and words with extra tokens by a transformer (seqTransf of CLIP4Clip).

    A residual connection adds its input at frames and words to its output; extra tokens have none.
    Two levels, both with tokens, and with the normalised mean of the unit tokens as vector:

    - ``'global'``: frames and extra tokens of a video, words and extra tokens of a text, which a
      :class:`~mmvtr.models.TokenSimilarity` compares (Eq. 8; without extra tokens Eq. 7).
    - ``'local'``: tokens of unit length, without the extra tokens; the probabilistic heads read it.

    Only the transformer reads the first word, CLIP's start of text (w^0 in the paper): Eq. 7 and 8
    sum over w^1 to w^N.  The end of text, CLIP's sentence vector, counts as a word.

    Our reading of the paper: one transformer for both, as Tab. 2 counts ("symmetrically" in
    Sec. 3.2 could mean two); "randomly initialized" is N(0, .02), also for words' positions, while
    frames start from CLIP's.

    Args:
        frames, text: towers, see :class:`~mmvtr.models.encoders.clip4clip.CLIPDualEncoder`.
        max_frames, max_words: lengths of the longest video and text (words with SOT and EOT).
        extra_frames, extra_words: C_v and C_t; 0: no extra tokens.
        extra: ``'tokens'``: learnt vectors after the sequence.  ``'positions'`` (official code):
            further rows of the position tables.
        match_sot: SOT counts as a word at level ``'global'``, as in the official code if C_t >= 1;
            with C_t = 0 an aliased mask hides it there.
        temporal_layers: blocks of the transformer.
        shared: one transformer for frames and words, otherwise one each.
        position_rows: rows of both tables; default: as many as needed (official checkpoints: 77).

    Raises:
        ValueError: an unknown ``extra``, a negative C, or tables that are too short or longer
            than CLIP's; (called) a video without a frame, a text without a token besides SOT, or
            one that is too long.
    """

    level_names = ('global', 'local')
    token_levels: ClassVar[tuple[str, ...]] = ('global', 'local')

    def __init__(
        self,
        frames: dict | nn.Module,
        text: dict | nn.Module,
        *,
        max_frames: int = 12,
        max_words: int = 32,
        extra_frames: int = 3,
        extra_words: int = 2,
        extra: str = 'tokens',
        match_sot: bool = False,
        temporal_layers: int = 4,
        shared: bool = True,
        position_rows: Optional[int] = None,
    ) -> None:
        super().__init__(frames, text)
        check_one_of(('tokens', 'positions'), extra=extra)
        if min(extra_frames, extra_words) < 0:
            raise ValueError(
                f'extra_frames and extra_words must be at least 0, not {extra_frames} and '
                f'{extra_words}'
            )
        learnt = extra == 'tokens'
        frame_rows = position_rows or max_frames + (0 if learnt else extra_frames)
        word_rows = position_rows or max_words + (0 if learnt else extra_words)
        # No name here may start with 'frames' or 'text': schedules select the towers by that.
        self.frame_extra = ExtraTokens(
            FramePositions.like(self.text, self.dim, rows=frame_rows).weight.detach(),
            kind='frames',
            length=max_frames,
            count=extra_frames,
            learnt=learnt,
        )
        self.word_extra = ExtraTokens(
            torch.randn(word_rows, self.dim) * 0.02,
            kind='words',
            length=max_words,
            count=extra_words,
            learnt=learnt,
        )
        self.match_sot = match_sot
        self.transformer = TemporalTransformer.like(self.text, self.dim, layers=temporal_layers)
        self.word_transformer = None
        if not shared:
            self.word_transformer = deepcopy(self.transformer)

    def _pool_frames(self, frames: Tensor, mask: Tensor) -> Levels:
        tokens, mask = _mix(frames, mask, self.frame_extra, self.transformer)
        count = tokens.shape[1] - self.frame_extra.count
        return {
            'global': _level(tokens, mask),
            'local': _level(unit(tokens[:, :count]), mask[:, :count]),
        }

    def _pool_words(self, tokens: Tensor, pooled: Tensor, mask: Tensor) -> Levels:
        check_mask(mask[:, 1:], 'text_mask behind SOT')
        transformer = self.transformer if self.word_transformer is None else self.word_transformer
        tokens, matched = _mix(tokens, mask, self.word_extra, transformer)
        count = tokens.shape[1] - self.word_extra.count
        words = matched[:, :count].clone()
        words[:, 0] = False
        if not self.match_sot:
            matched = torch.cat([words, matched[:, count:]], 1)
        return {'global': _level(tokens, matched), 'local': _level(unit(tokens[:, :count]), words)}


def _mix(
    x: Tensor, mask: Tensor, extra: ExtraTokens, transformer: nn.Module
) -> tuple[Tensor, Tensor]:
    """Mix float [N, L, D], bool [N, L] -> [N, L' + C, D], zero at padding, and its mask."""
    mixed, mask = extra(x, mask)
    mixed = transformer(mixed, mask)
    return masked(mixed + pad_tokens(x, mixed.shape[1]), mask), mask


def _level(tokens: Tensor, mask: Tensor) -> Embedding:
    return Embedding(mean_of_units(tokens, mask), tokens, mask)
