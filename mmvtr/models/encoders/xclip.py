"""X-CLIP (Ni et al., arXiv:2208.02816) from transformers, whose frames attend to each other."""

from __future__ import annotations

from torch import Tensor, nn

from mmvtr.models.layers.pooling import empty_levels, masked, unit
from mmvtr.models.towers.transformers_dual import TransformersDualText, load_dual
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding, Levels


@MODELS.register_module()
class XCLIPEncoder(nn.Module):
    """Video tower and text tower of transformers' XCLIPModel, without its video-specific prompts.

    One level, ``'global'``: the normalised outputs of ``get_video_features`` and
    ``get_text_features``; its tokens are the frames before they are mixed over time, and the words.

    Args:
        model: name on the hub, local folder, or a dict for ``AutoConfig.for_model``, which gives
            random weights.

    Attributes:
        num_frames: required number of frames of a video.

    Raises:
        ValueError, RuntimeError: see
            :class:`~mmvtr.models.towers.transformers_dual.TransformersFrames`.
    """

    level_names = ('global',)

    def __init__(self, model: str | dict) -> None:
        super().__init__()
        read = ('vision_model', 'mit', 'visual_projection', 'text_model', 'text_projection')
        dual = load_dual(model, ('xclip',), used=read)
        self.num_frames = dual.config.vision_config.num_frames
        self.dim = dual.config.projection_dim
        self.vision_model, self.mit = dual.vision_model, dual.mit
        self.visual_projection = dual.visual_projection
        self.text = TransformersDualText(dual)

    def encode_video(self, video: Tensor, frame_mask: Tensor) -> Levels:
        """Encode V videos.

        Args:
            video: float [V, F, 3, H, W], normalised.
            frame_mask: bool [V, F], all True, F = ``num_frames``.

        Returns:
            level ``'global'``: mean [V, D] of unit length, tokens [V, F, D], mask [V, F].

        Raises:
            ValueError: a video of another number of frames.
        """
        if not video.shape[0]:
            return empty_levels(self, video.shape[1])
        counts = frame_mask.sum(1)
        if video.shape[1] != self.num_frames or not frame_mask.all():
            raise ValueError(
                f'XCLIPEncoder takes videos of {self.num_frames} frames, got {int(counts.min())} '
                f'to {int(counts.max())}: set num_frames in the video pipeline, and repeat or '
                'leave out shorter videos'
            )
        frames = self.vision_model(pixel_values=video.flatten(0, 1)).pooler_output
        frames = self.visual_projection(frames).unflatten(0, video.shape[:2])
        pooled = self.mit(frames).pooler_output
        return {'global': Embedding(unit(pooled), frames, frame_mask)}

    def encode_text(self, text: Tensor, text_mask: Tensor) -> Levels:
        """Encode ids int64 [T, L] with mask bool [T, L] -> level ``'global'``, as for videos.

        Raises:
            ValueError: see :func:`~mmvtr.models.towers.base.check_text`.
        """
        if not text.shape[0]:
            return empty_levels(self, text.shape[1])
        tokens, pooled = self.text(text, text_mask)
        return {'global': Embedding(unit(pooled), masked(tokens, text_mask), text_mask)}
