"""TACo's two encoders (Yang et al., ICCV 2021): unnormalised tokens of both sides in one space.

There is no public code of TACo.  Where a docstring says "ours", the paper does not specify it.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from mmvtr.models.layers.experts import ExpertTransformer, init_as_bert
from mmvtr.models.layers.pooling import empty_levels, masked
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding, Levels

#: Level of the weights of tokens.
INTEREST = 'interest'


@MODELS.register_module()
class TACoEncoder(ExpertTransformer):
    """Encoder of rows of ``LoadExperts`` by a linear layer and self-attention, and of BERT's words.

    From the paper: a video is the mean of its tokens, a text its [CLS], and neither is normalised.
    Ours: rows of several experts form one sequence with embeddings of expert and time (the paper
    does not say how it combines features of two networks), LayerNorm and dropout before the layers
    as in BERT, and a linear layer after a text tower whose width is not ``dim``.

    Level ``'global'`` holds these vectors and tokens.  Level ``'interest'`` holds the weight of
    each token: its tokens are [N, L, 1], for a text the weights of
    :class:`~mmvtr.datasets.TokensOfInterest`, for a video 1 / (number of rows), as in its mean.

    Args:
        text: text tower: (ids [T, L], mask [T, L]) -> (words [T, L, D_t], pooled), attribute
            ``dim`` = D_t.
        experts: width of the features of each expert, by name.
        dim: D.
        layers, heads, feedforward, dropout: settings of the video's transformer; the paper has 1
            layer in ablations, 2 in comparisons with others, 4 in pretraining.
        max_seconds: rows of the time embedding table.

    Raises:
        ValueError: no experts, or a ``dim`` that is not a multiple of ``heads``.
    """

    level_names: ClassVar[tuple[str, ...]] = ('global', INTEREST)
    token_levels: ClassVar[tuple[str, ...]] = level_names

    def __init__(
        self,
        text: dict | nn.Module,
        *,
        dim: int = 768,
        layers: int = 2,
        heads: int = 12,
        **kwargs: Any,
    ) -> None:
        super().__init__(text, dim=dim, layers=layers, heads=heads, **kwargs)
        self.project_text = nn.Identity()
        if self.text.dim != dim:
            self.project_text = nn.Linear(self.text.dim, dim).apply(init_as_bert)

    def encode_nothing(self, side: str) -> Levels:
        """Return levels of zero items, see :func:`~mmvtr.models.layers.pooling.empty_levels`."""
        levels = empty_levels(self, 1)
        # No gradient, as in other processes: else the gather would wait for theirs.
        wide = levels[INTEREST].map(Tensor.detach)
        levels[INTEREST] = Embedding(wide.mean[:, :1], wide.tokens[..., :1], wide.mask)
        return levels

    def encode_video(
        self, video: Tensor, frame_mask: Tensor, *, expert: Tensor, second: Tensor
    ) -> Levels:
        """Encode V videos.

        Args:
            video, frame_mask, expert, second: see
                :meth:`~mmvtr.models.layers.experts.ExpertTransformer.rows`.

        Returns:
            level ``'global'``: ``tokens`` [V, F, D], zero at padding, ``mask`` [V, F] and ``mean``
            [V, D] of the valid ones; level ``'interest'``: ``tokens`` [V, F, 1].

        Raises:
            ValueError: see ``ExpertTransformer.rows``.
        """
        if not len(video):
            return self.encode_nothing('video')
        rows, tags, _ = self.rows(video, frame_mask, expert, second)
        x = self.dropout(self.norm(rows + tags))
        for block in self.blocks:
            x = block(x, src_key_padding_mask=~frame_mask)
        tokens = masked(x, frame_mask)
        count = frame_mask.sum(1, keepdim=True)
        weights = frame_mask.to(tokens.dtype) / count
        return _levels(tokens.sum(1) / count, tokens, frame_mask, weights)

    def encode_text(self, text: Tensor, text_mask: Tensor, *, interest: Tensor) -> Levels:
        """Encode T texts.

        Args:
            text: int64 [T, L] token ids.
            text_mask: bool [T, L].
            interest: float [T, R], R >= L, the weight of each token.

        Returns:
            level ``'global'``: ``tokens`` [T, L, D], zero at padding, ``mask`` [T, L] and ``mean``
            [T, D], the first of them; level ``'interest'``: ``tokens`` [T, L, 1].

        Raises:
            ValueError: fewer weights than tokens, or weights that are negative or NaN; see also
                :func:`~mmvtr.models.towers.base.check_text`.
        """
        if not len(text):
            return self.encode_nothing('text')
        if interest.shape[1] < text.shape[1]:
            raise ValueError(
                f'a text has {text.shape[1]} tokens and {interest.shape[1]} weights of interest: '
                'the length of TokensOfInterest must be the max_length of the tokenizer'
            )
        weights = interest[:, : text.shape[1]].masked_fill(~text_mask, 0)
        if not torch.compiler.is_compiling() and not (weights >= 0).all():
            text_number = int((~(weights >= 0)).any(1).int().argmax())
            raise ValueError(
                f'weights of interest must be numbers from 0, text {text_number} of the batch has '
                f'{str(weights[text_number].tolist())[:80]}'
            )
        tokens = masked(self.project_text(self.text(text, text_mask)[0]), text_mask)
        return _levels(tokens[:, 0], tokens, text_mask, weights.to(tokens.dtype))


def _levels(mean: Tensor, tokens: Tensor, mask: Tensor, weights: Tensor) -> Levels:
    """Make levels of float [N, D], [N, L, D], bool [N, L] and float [N, L]."""
    interest = Embedding(weights.sum(1, keepdim=True), weights[..., None], mask)
    return {'global': Embedding(mean, tokens, mask), INTEREST: interest}
