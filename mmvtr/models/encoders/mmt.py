"""MMT's two encoders (Gabeur et al., ECCV 2020): a transformer over the features of many experts.

A video is one vector an expert, and so is a text, which also says how much each expert matters to
it.  An expert that has nothing to say of a video (no speech, no face) is not there.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from mmvtr.models.layers.expert_transformer import AGGREGATED, ExpertTransformer
from mmvtr.models.layers.experts import weighed_experts
from mmvtr.models.layers.gated_embedding import GatedEmbedding
from mmvtr.models.layers.pooling import empty_levels, masked, unit
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding, Levels


@MODELS.register_module()
class MMTEncoder(ExpertTransformer):
    """The multi-modal transformer and its text side, for rows of ``LoadExperts``.

    Video: each row of an expert is projected to D, and each expert has one more, aggregated row
    that starts as the maximum of its projected ones.  To all of them an embedding of the expert and
    one of the time is added; a transformer as BERT's mixes them, across experts and time; what
    becomes of the aggregated rows is the video.  Text: the word that comes first (BERT's CLS)
    through a :class:`GatedEmbedding` for each expert, and its softmax over experts as weights.

    One level, ``'global'``, whose tokens are the experts, by name in alphabetical order (as
    ``LoadExperts`` numbers them).  Those of a video are unit vectors, zero where the mask says that
    the expert is missing.  Those of a text are unit vectors times the text's weights, which
    :class:`~mmvtr.models.similarities.mmt.ExpertSimilarity` reads back as lengths.  Ours, not the
    paper's: unit vectors also of videos, LayerNorm and dropout in front of the transformer as in
    BERT, and no experts but those with features in the transformer.

    Args:
        text: text tower: (ids [T, L], mask [T, L]) -> (words [T, L, D_t], pooled), attribute
            ``dim`` = D_t; only its first word is read.
        experts: width of the features of each expert, by name.
        dim: D.
        layers, heads, feedforward, dropout: of the transformer.
        max_seconds: rows of the table of seconds.

    Raises:
        ValueError: no experts, or a ``dim`` that is no multiple of ``heads``.
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
                :meth:`~mmvtr.models.layers.expert_transformer.ExpertTransformer.rows`.

        Returns:
            level ``'global'``: ``tokens`` [V, E, D], ``mask`` [V, E], which experts there are, and
            ``mean`` [V, D] of those.

        Raises:
            ValueError: likewise.
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
            text: int64 [T, L] token ids, or what else the text tower reads.
            text_mask: bool [T, L].

        Returns:
            level ``'global'``: ``tokens`` [T, E, D], whose lengths are the weights of the experts
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
        """Maximum over the rows of each expert [V, E, D], zero if missing; and who is there."""
        count = len(self.experts)
        highest = rows.new_zeros(len(rows), count + 1, self.dim).scatter_reduce(
            1, expert[..., None].expand_as(rows), rows, 'amax', include_self=False
        )
        there = torch.zeros(len(rows), count + 1, dtype=torch.bool, device=rows.device)
        return highest[:, :count], there.scatter(1, expert, True)[:, :count]
