"""Frame and text towers from open_clip, by any of its model names or a config dict."""

from __future__ import annotations

from typing import Optional

import torch
from open_clip.transformer import TextTransformer
from torch import Tensor, nn

from mmvtr.registry import MODELS

from .open_clip_weights import build_open_clip
from .tower import Tower, check_text, last_valid


@MODELS.register_module()
class OpenCLIPFrames(Tower):
    """The image tower of a CLIP model, one vector a frame.

    Args:
        model: open_clip name (``'ViT-B-16-quickgelu'``, ``'RN50-quickgelu'``; OpenAI's weights
            need a quickgelu variant) or config dict.
        pretrained: tag, local checkpoint of the whole CLIP, or None for random weights.
        frozen: no gradients, always in eval mode.
        grad_checkpointing: recompute activations in the backward pass (transformers only).

    Attributes:
        dim: D.
        image_size: (height, width) of the frames, pixels.
        image_mean, image_std: 3 floats each (RGB, values in 0-1) that the frames must be
            normalised with.
    """

    def __init__(
        self,
        model: str | dict,
        pretrained: Optional[str] = None,
        *,
        frozen: bool = False,
        grad_checkpointing: bool = False,
    ) -> None:
        super().__init__(frozen=frozen)
        clip, self.image_mean, self.image_std = build_open_clip(model, pretrained)
        self.visual = clip.visual
        self.dim = _embed_dim(clip)
        size = self.visual.image_size
        self.image_size = (size, size) if isinstance(size, int) else tuple(size)
        if grad_checkpointing:
            if isinstance(self.visual, open_clip_resnet()):
                raise ValueError('grad_checkpointing: open_clip has none for its ResNets')
            self.visual.set_grad_checkpointing(True)
        self.freeze_if_asked()

    def forward(self, x: Tensor) -> Tensor:
        """Frames float [N, 3, H, W] -> float [N, D], not normalised.

        Raises:
            ValueError: the frames are not of ``image_size``.
        """
        if x.shape[1:] != (3, *self.image_size):
            raise ValueError(
                f'the frame tower takes frames [3, {self.image_size[0]}, {self.image_size[1]}], '
                f'got {list(x.shape[1:])}; set the size in the video pipeline')
        return self.visual(x)
