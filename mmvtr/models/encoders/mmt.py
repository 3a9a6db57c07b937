"""MMT's two encoders (Gabeur et al., ECCV 2020): a transformer over the features of many experts.

A video is one vector per expert.  A text is one vector per expert too, and a weight for each
expert.  An expert without features of a video (no speech, no face) is missing.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from mmvtr.models.layers.experts import (
    AGGREGATED,
    ExpertTransformer,
    GatedEmbedding,
    weighed_experts,
)
from mmvtr.models.layers.pooling import empty_levels, masked, unit
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding, Levels


@MODELS.register_module()
class MMTEncoder(ExpertTransformer):
    """Encoder with the multi-modal transformer and its text side, for rows of ``LoadExperts``.

    Video: each row of an expert is projected to D, and each expert has one more, aggregated row
    that starts as the maximum of its projected ones.  An embedding of the expert and one of the
    time are added to all rows; a transformer like BERT's mixes them, across experts and time; its
    outputs at the aggregated rows are the video.  Text: the first word (BERT's CLS) through a
    :class:`GatedEmbedding` for each expert, and a softmax over experts as weights.

    One level, ``'global'``, whose tokens are the experts, by name in alphabetical order (as
    ``LoadExperts`` numbers them).  Those of a video are unit vectors, zero where the mask says that
    the expert is missing.  Those of a text are unit vectors times the text's weights, which
    :class:`~mmvtr.models.similarities.mmt.ExpertSimilarity` reads back as lengths.  Ours, not the
    paper's: unit vectors for videos too, LayerNorm and dropout before the transformer as in BERT,
    and only experts with features in the transformer.

    Args:
        text: text tower: (ids [T, L], mask [T, L]) -> (words [T, L, D_t], pooled), attribute
            ``dim`` = D_t; only its first word is read.
        experts: width of the features of each expert, by name.
        dim: D.
        layers, heads, feedforward, dropout: settings of the transformer.
        max_seconds: rows of the time embedding table.

    Raises:
        ValueError: no experts, or a ``dim`` that is not a multiple of ``heads``.
    """

    level_names: ClassVar[tuple[str, ...]] = ('global',)

    def __init__(self, text: dict | nn.Module, **kwargs: Any) -> None:
        super().__init__(text, **kwargs)
        sizes = self.text.dim, self.dim
        self.phrases = nn.ModuleDict({name: GatedEmbedding(*sizes) for name in self.experts})
        self.weigh = nn.Linear(self.text.dim, len(self.experts), bias=False)

    def encode_video(
        self, video: Tensor, frame_mask: Tensor, *, expert: Tensor, second: Tensor
    ) -> Levels:
        """Encode V videos.

        Args:
            video, frame_mask, expert, second: see
                :meth:`~mmvtr.models.layers.experts.ExpertTransformer.rows`.

        Returns:
            level ``'global'``: ``tokens`` [V, E, D], ``mask`` [V, E], True for available experts,
            and ``mean`` [V, D] over those.

        Raises:
            ValueError: see ``ExpertTransformer.rows``.
        """
        if not len(video):
            return empty_levels(self, len(self.experts))
        rows, tags, expert = self.rows(video, frame_mask, expert, second)
        highest, available = self._aggregate(rows, expert)
        rows = rows + tags
        aggregated = highest + self.expert_embedding.weight + self.time_embedding.weight[AGGREGATED]
        x = self.dropout(self.norm(torch.cat([aggregated, rows], 1)))
        padding = ~torch.cat([available, frame_mask], 1)
        for block in self.blocks:
            x = block(x, src_key_padding_mask=padding)
        tokens = masked(unit(x[:, : len(self.experts)]), available)
        mean = tokens.sum(1) / available.sum(1, keepdim=True)
        return {'global': Embedding(mean, tokens, available)}

    def encode_text(self, text: Tensor, text_mask: Tensor) -> Levels:
        """Encode T texts.

        Args:
            text: int64 [T, L] token ids, or other input of the text tower.
            text_mask: bool [T, L].

        Returns:
            level ``'global'``: ``tokens`` [T, E, D], whose norms are the weights of the experts
            and sum to 1, ``mask`` [T, E], all True, and ``mean`` [T, D], the sum of the tokens.

        Raises:
            ValueError: see :func:`~mmvtr.models.towers.base.check_text`.
        """
        if not len(text):
            return empty_levels(self, len(self.experts))
        first = self.text(text, text_mask)[0][:, 0]
        units = torch.stack([phrase(first) for phrase in self.phrases.values()], 1)
        return {'global': weighed_experts(units, self.weigh(first))}

    def _aggregate(self, rows: Tensor, expert: Tensor) -> tuple[Tensor, Tensor]:
        """Return the maximum over each expert's rows [V, E, D], zero if missing, and a mask of
        available experts."""
        count = len(self.experts)
        highest = rows.new_zeros(len(rows), count + 1, self.dim).scatter_reduce(
            1, expert[..., None].expand_as(rows), rows, 'amax', include_self=False
        )
        there = torch.zeros(len(rows), count + 1, dtype=torch.bool, device=rows.device)
        return highest[:, :count], there.scatter(1, expert, True)[:, :count]
