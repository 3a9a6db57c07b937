"""Cross-encoder: scores a pair of text and video from their joint tokens (TACo's fusion)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mmvtr.functional.values import at_least_float32
from mmvtr.models.layers.experts import init_as_bert

TEXT, VIDEO = 0, 1


class CrossEncoder(nn.Module):
    """Self-attention over a text's words and a video's rows, scored from the first output.

    From the paper: embeddings of the type and of the absolute position, two layers, ``w . z`` of
    the text's first word ([CLS]).  Ours: positions count from 0 on either side, LayerNorm and
    dropout at the input as in BERT.

    Args:
        dim: D.
        layers, heads, feedforward, dropout: settings of the transformer.
        positions: maximal number of tokens of a text, and of a video.

    Raises:
        ValueError: a ``dim`` that is not a multiple of ``heads``, or fewer than one layer or
            position.
    """

    def __init__(
        self, dim: int, *, layers: int, heads: int, feedforward: int, dropout: float, positions: int
    ) -> None:
        super().__init__()
        if dim % heads or min(layers, positions) < 1:
            raise ValueError(
                'CrossEncoder needs a dim that is a multiple of heads, a layer and a position, got '
                f'dim {dim}, heads {heads}, layers {layers} and positions {positions}'
            )
        self.type_embedding = nn.Embedding(2, dim)
        self.position_embedding = nn.Embedding(positions, dim)
        self.norm, self.dropout = nn.LayerNorm(dim, eps=1e-12), nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(
                dim, heads, feedforward, dropout, 'gelu', layer_norm_eps=1e-12, batch_first=True
            )
            for _ in range(layers)
        )
        self.score = nn.Linear(dim, 1, bias=False)
        self.apply(init_as_bert)

    def forward(
        self, words: Tensor, word_mask: Tensor, frames: Tensor, frame_mask: Tensor
    ) -> Tensor:
        """Score P pairs.

        Args:
            words: float [P, L, D]; the score is read at the first word.
            word_mask: bool [P, L].
            frames: float [P, F, D].
            frame_mask: bool [P, F].

        Returns:
            float [P], at least float32; empty, with zero gradients, for no pair.

        Raises:
            ValueError: more tokens than there are positions.
        """
        if not len(words):
            return sum(p.flatten()[:0].sum() for p in self.parameters()) + words.flatten()[:0]
        sides = [self._placed('text', words, TEXT), self._placed('video', frames, VIDEO)]
        x = self.dropout(self.norm(torch.cat(sides, 1)))
        padding = ~torch.cat([word_mask, frame_mask], 1)
        for block in self.blocks:
            x = block(x, src_key_padding_mask=padding)
        return at_least_float32(self.score(x[:, 0]).squeeze(1))

    def _placed(self, kind: str, tokens: Tensor, number: int) -> Tensor:
        length, most = tokens.shape[1], self.position_embedding.num_embeddings
        if length > most:
            raise ValueError(
                f'a {kind} has {length} tokens, but the fusion knows {most} positions: raise '
                'similarity.positions, or let the pipeline keep fewer'
            )
        place = self.position_embedding.weight[:length] + self.type_embedding.weight[number]
        return tokens + place
