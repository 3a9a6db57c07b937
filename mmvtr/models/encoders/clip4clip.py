"""CLIP4Clip (Luo et al., arXiv:2104.08860): pooled CLIP frames compared with CLIP's sentence."""

from __future__ import annotations

from typing import Optional

from torch import Tensor, nn

from mmvtr.models.encoders.dual import CLIPDualEncoder
from mmvtr.models.encoders.temporal import FramePositions, TemporalTransformer
from mmvtr.models.layers.pooling import masked, mean_of_units
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding, Levels


@MODELS.register_module()
class CLIP4Clip(CLIPDualEncoder):
    """CLIP4Clip with a parameter-free or a transformer aggregator.

    Video: frames of unit length, their masked mean, unit length again.  Text: the EOT token.
    One level, ``'global'``; its tokens are the frames before normalisation, and the words.

    Args:
        frames, text: towers, see :class:`~mmvtr.models.encoders.dual.CLIPDualEncoder`.
        aggregator: ``'mean'`` (the paper's meanP), or ``'transformer'`` (seqTransf): before the
            mean, frames plus positions go through a transformer, whose output is added to them.
        temporal_layers: blocks of that transformer; it starts from the first layers of CLIP's
            text tower, and its positions from CLIP's, if the widths agree.
        max_frames: rows of its position table; None: as many as the text tower's (77).
    """

    def __init__(
        self,
        frames: dict | nn.Module,
        text: dict | nn.Module,
        *,
        aggregator: str = 'mean',
        temporal_layers: int = 4,
        max_frames: Optional[int] = None,
    ) -> None:
        super().__init__(frames, text)
        if aggregator not in ('mean', 'transformer'):
            raise ValueError(f"aggregator must be 'mean' or 'transformer', not {aggregator!r}")
        self.position = self.temporal = None
        if aggregator == 'transformer':
            self.position = FramePositions.like(self.text, self.dim, rows=max_frames)
            self.temporal = TemporalTransformer.like(self.text, self.dim, layers=temporal_layers)

    def _pool_frames(self, frames: Tensor, mask: Tensor) -> Levels:
        if self.temporal is not None:
            x = frames + self.position(frames.shape[1])
            frames = masked(frames + self.temporal(x, mask), mask)
        return {'global': Embedding(mean_of_units(frames, mask), frames, mask)}
