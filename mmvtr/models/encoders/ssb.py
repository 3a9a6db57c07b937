"""SSB's two encoders (Patrick et al., ICLR 2021, arXiv:2010.02824).

Frame features through an RNN, words through T5 and a CNN, both through transformer pooling.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from mmvtr.functional.values import at_least_float32
from mmvtr.models.layers.pooling import check_mask, empty_levels, masked, unit
from mmvtr.registry import MODELS, build
from mmvtr.structures import Embedding, Levels


@MODELS.register_module()
class SSBEncoder(nn.Module):
    """The dual encoder of Support-Set Bottlenecks, over precomputed frame features.

    Video: bidirectional GRU, then :class:`TransformerPooling`.  Text: a text tower, a 1-d
    convolution with ReLU, then the same pooling.  One level, ``'global'``, with tokens; those of a
    video are read by :class:`~mmvtr.models.losses.captioning.CrossCaptioning`.

    Stated (NCL, App. C): T5-base; motion features of R(2+1)D-34 and appearance features of
    ResNet152, concatenated; an RNN on videos, a CNN on texts, then transformer pooling; dropout
    .1 on MSR-VTT and MSVD, 0 on ActivityNet.  There is no public code, and the rest is our choice:
    GRU, widths, kernel, numbers of layers and heads, where dropout acts, and pooling by a learnt
    query.

    Args:
        text: text tower: (ids [T, L], mask [T, L]) -> (tokens [T, L, D_text], pooled), with
            attribute ``dim`` = D_text; only its tokens are read.
        in_dim: D_in of the stored features (512 + 2048).
        dim: D, width of the joint space and of the tokens; even.
        kernel: odd width of the convolution, in words.
        layers, heads: of each transformer pooling.
        dropout: before and inside the transformer pooling.

    Raises:
        ValueError: an odd ``dim`` or an even ``kernel``.
    """

    level_names: ClassVar[tuple[str, ...]] = ('global',)

    def __init__(
        self,
        text: dict | nn.Module,
        *,
        in_dim: int,
        dim: int = 1024,
        kernel: int = 3,
        layers: int = 1,
        heads: int = 8,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        if dim % 2 or not kernel % 2:
            raise ValueError(f'dim must be even and kernel odd, not {dim} and {kernel}')
        self.dim = dim
        self.text = build(text)
        self.rnn = nn.GRU(in_dim, dim // 2, batch_first=True, bidirectional=True)
        self.cnn = nn.Conv1d(self.text.dim, dim, kernel, padding=kernel // 2)
        self.dropout = nn.Dropout(dropout)
        pooling = dict(layers=layers, heads=heads, dropout=dropout)
        self.video_pooling = TransformerPooling(dim, **pooling)
        self.text_pooling = TransformerPooling(dim, **pooling)

    def encode_video(self, video: Tensor, frame_mask: Tensor) -> Levels:
        """Encode V videos.

        Args:
            video: float [V, F, D_in] features.
            frame_mask: bool [V, F], True on valid frames, which come first.

        Returns:
            level ``'global'``: ``mean`` [V, D] of unit length, ``tokens`` [V, F, D] (not
            normalised, zero at padding) and ``mask`` [V, F].

        Raises:
            ValueError: another width; a video without a valid frame, or padding before one.
        """
        if video.shape[2:] != (self.rnn.input_size,):
            raise ValueError(
                f'SSBEncoder takes features [V, F, {self.rnn.input_size}], got '
                f'{list(video.shape)}: in_dim must be the width of the stored features'
            )
        if not video.shape[0]:
            return empty_levels(self, video.shape[1])
        check_mask(frame_mask, 'frame_mask')
        _check_order(frame_mask)
        packed = pack_padded_sequence(
            at_least_float32(video), frame_mask.sum(1).cpu(), batch_first=True, enforce_sorted=False
        )
        # Under autocast, cuDNN's RNNs run in float16 whatever the chosen precision.
        with torch.autocast(video.device.type, enabled=False):
            hidden, _ = self.rnn(packed)
        frames, _ = pad_packed_sequence(hidden, batch_first=True, total_length=video.shape[1])
        return self._levels(self.video_pooling, frames, frame_mask)

    def encode_text(self, text: Tensor, text_mask: Tensor) -> Levels:
        """Encode T texts.

        Args:
            text: int64 [T, L] token ids.
            text_mask: bool [T, L].

        Returns:
            the level of ``encode_video``, with ``tokens`` [T, L, D] and ``mask`` [T, L].

        Raises:
            ValueError: see :func:`~mmvtr.models.towers.base.check_text`.
        """
        if not text.shape[0]:
            return empty_levels(self, text.shape[1])
        words, _ = self.text(text, text_mask)
        # Zeros at padding equal the zero padding of the convolution for a single text.
        words = self.cnn(masked(words, text_mask).transpose(1, 2)).relu().transpose(1, 2)
        return self._levels(self.text_pooling, words, text_mask)

    def _levels(self, pooling: nn.Module, tokens: Tensor, mask: Tensor) -> Levels:
        tokens, pooled = pooling(self.dropout(tokens), mask)
        return {'global': Embedding(unit(pooled), masked(tokens, mask), mask)}


class TransformerPooling(nn.Module):
    """A transformer over the valid tokens and a learnt query, whose output is the pooled vector.

    Pre-norm blocks with GELU; the preceding RNN or CNN encodes the order, so there are no position
    embeddings.
    """

    def __init__(self, dim: int, *, layers: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.randn(dim) * 0.02)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(
                dim, heads, 4 * dim, dropout, activation='gelu', batch_first=True, norm_first=True
            )
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(dim)

    def forward(self, tokens: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Pool float [N, L, D] with mask bool [N, L] -> tokens [N, L, D] and pooled [N, D].

        Values at invalid tokens are undefined.
        """
        query = self.query.to(tokens.dtype).expand(tokens.shape[0], 1, -1)
        padding = torch.cat([torch.zeros_like(mask[:, :1]), ~mask], 1)
        x = torch.cat([query, tokens], 1)
        for block in self.blocks:
            x = block(x, src_key_padding_mask=padding)
        x = self.norm(x)
        return x[:, 1:], x[:, 0]


def _check_order(frame_mask: Tensor) -> None:
    prefix = ~(frame_mask[:, 1:] & ~frame_mask[:, :-1]).any(1)
    if not prefix.all():
        raise ValueError(
            f'frame_mask of item {int(prefix.int().argmin())} of the batch has padding in front '
            'of a valid frame: SSBEncoder needs True, ..., True, False, ...'
        )
