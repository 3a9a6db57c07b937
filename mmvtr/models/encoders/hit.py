"""HiT's two encoders (Liu et al., ICCV 2021): transformers read at a low and at a high layer.

There is no public code of HiT.  Choices that a docstring marks as ours are our reading of the
paper's Fig. 3 and of DVTR (Sec. IV-B, V), which builds on it.
"""

from __future__ import annotations

from typing import Any, ClassVar, Optional

from torch import Tensor, nn

from mmvtr.models.layers.experts import ExpertTransformer, init_as_bert
from mmvtr.models.layers.pooling import empty_levels, masked, unit
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding, Levels

#: Levels of a video and of a text: from a low layer (word level for a text), and from the last one.
FEATURE, SEMANTIC = 'feature', 'semantic'


@MODELS.register_module()
class HiTEncoder(ExpertTransformer):
    """Encoder with two levels of a video, from rows of ``LoadExperts``, and of a text, from BERT.

    From HiT: lower layers give feature-level vectors of a video and word-level ones of a text,
    upper layers semantic-level ones.  From DVTR: the semantic-level vector is a mean over outputs,
    and its heads read the outputs of the lower layer as local features.  Ours: MMT's transformer
    without aggregated rows; the first layer is the lower one and the last the upper one, also of
    BERT; a vector is the mean over valid rows (words) of a linear layer for each level and side,
    normalised to unit length.

    Level ``'feature'`` is a vector only.  Level ``'semantic'`` has as tokens the lower layer's
    outputs, through the linear layer of level ``'feature'``: it combines DVTR's global and local
    features in one level, as its heads need (``head_reads='semantic'``).

    Args:
        text: text tower with ``states(ids, mask, layers)``: words [T, L, D_t] after each of these
            layers (``TransformersText``), attributes ``dim`` = D_t and ``depth``, its number of
            layers.
        experts: width of the features of each expert, by name.
        dim: D.
        layers, heads, feedforward, dropout: settings of the video's transformer.
        max_seconds: rows of the time embedding table.
        feature_layer: the lower layer of both sides, counted from 1.

    Raises:
        ValueError: no experts, a ``dim`` that is not a multiple of ``heads``, a text tower without
            ``states``, or a ``feature_layer`` that a side does not have.
    """

    level_names: ClassVar[tuple[str, ...]] = (FEATURE, SEMANTIC)
    token_levels: ClassVar[tuple[str, ...]] = (SEMANTIC,)

    def __init__(self, text: dict | nn.Module, *, feature_layer: int = 1, **kwargs: Any) -> None:
        super().__init__(text, **kwargs)
        if not hasattr(self.text, 'states'):
            raise ValueError(
                f'HiTEncoder reads the layers of its text tower, and {type(self.text).__name__} '
                'does not show them: take TransformersText, or a tower with states()'
            )
        for side, depth in dict(video=len(self.blocks), text=self.text.depth).items():
            if not 1 <= feature_layer <= depth:
                raise ValueError(
                    f'feature_layer must lie between 1 and the {depth} layers of the {side} side, '
                    f'not {feature_layer}'
                )
        self.feature_layer = feature_layer
        self.of_video = _linears(self.dim, self.dim)
        self.of_text = _linears(self.text.dim, self.dim)

    def encode_video(
        self, video: Tensor, frame_mask: Tensor, *, expert: Tensor, second: Tensor
    ) -> Levels:
        """Encode V videos.

        Args:
            video, frame_mask, expert, second: see
                :meth:`~mmvtr.models.layers.experts.ExpertTransformer.rows`.

        Returns:
            levels ``'feature'`` and ``'semantic'``: ``mean`` [V, D] of unit length; at
            ``'semantic'`` also ``tokens`` [V, F, D] (not normalised, zero at padding), ``mask``.

        Raises:
            ValueError: see ``ExpertTransformer.rows``.
        """
        if not len(video):
            return empty_levels(self, video.shape[1])
        rows, tags, _ = self.rows(video, frame_mask, expert, second)
        x = self.dropout(self.norm(rows + tags))
        low: Optional[Tensor] = None
        for number, block in enumerate(self.blocks, 1):
            x = block(x, src_key_padding_mask=~frame_mask)
            low = x if number == self.feature_layer else low
        return _levels(self.of_video, low, x, frame_mask)

    def encode_text(self, text: Tensor, text_mask: Tensor) -> Levels:
        """Encode T texts.

        Args:
            text: int64 [T, L] token ids.
            text_mask: bool [T, L].

        Returns:
            the levels of :meth:`encode_video`, with words as tokens.

        Raises:
            ValueError: see :func:`~mmvtr.models.towers.base.check_text`.
        """
        if not len(text):
            return empty_levels(self, text.shape[1])
        low, high = self.text.states(text, text_mask, (self.feature_layer, self.text.depth))
        return _levels(self.of_text, low, high, text_mask)


def _linears(in_dim: int, dim: int) -> nn.ModuleDict:
    """Make one linear layer per level."""
    return nn.ModuleDict({name: nn.Linear(in_dim, dim) for name in (FEATURE, SEMANTIC)}).apply(
        init_as_bert
    )


def _levels(linears: nn.ModuleDict, low: Tensor, high: Tensor, mask: Tensor) -> Levels:
    """Turn outputs of both layers, float [N, L, D_in], and mask [N, L] into levels."""
    tokens = masked(linears[FEATURE](low), mask)
    outputs = masked(linears[SEMANTIC](high), mask)
    return {
        FEATURE: Embedding(unit(_mean(tokens, mask))),
        SEMANTIC: Embedding(unit(_mean(outputs, mask)), tokens, mask),
    }


def _mean(tokens: Tensor, mask: Tensor) -> Tensor:
    """Average tokens [N, L, D] that are zero at padding -> [N, D]."""
    return tokens.sum(1) / mask.sum(1, keepdim=True)
