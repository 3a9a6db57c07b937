"""Frame towers from open_clip, by any of its model names or a config."""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn

from mmvtr.models.towers.base import Tower, check_frames
from mmvtr.models.towers.open_clip_weights import build_open_clip
from mmvtr.registry import MODELS


@MODELS.register_module()
class OpenCLIPFrames(Tower):
    """The image tower of a model of open_clip (CLIP, SigLIP, CoCa ...): one vector a frame.

    Args:
        model: open_clip name (OpenAI's weights need a quickgelu variant:
            ``'ViT-B-16-quickgelu'``, ``'RN50-quickgelu'``), ``local-dir:FOLDER`` or config dict,
            see :func:`~mmvtr.open_clip_configs.model_config`.
        pretrained: tag, or local checkpoint of the whole CLIP; None: those of the folder, and of
            any other model random ones; False: random ones, also of a folder.
        frozen: no gradients, always in eval mode.
        grad_checkpointing: recompute activations in the backward pass (not for ResNets, and not
            for all networks of timm).

    Raises:
        ValueError, FileNotFoundError, RuntimeError: see
            :func:`~mmvtr.models.towers.open_clip_weights.build_open_clip`.

    Attributes:
        dim: D.
        image_size: (height, width) that the frames must have, pixels.
        image_mean, image_std: 3 floats each, RGB, of values in 0-1: what the weights expect; None
            of a local file, where the tags of its model's name differ in them.
    """

    def __init__(
        self,
        model: str | dict,
        pretrained: str | Literal[False] | None = None,
        *,
        frozen: bool = False,
        grad_checkpointing: bool = False,
    ) -> None:
        super().__init__(frozen=frozen)
        clip, self.dim, self.image_mean, self.image_std = build_open_clip(model, pretrained)
        self.visual = clip.visual
        self.visual.output_tokens = False
        size = self.visual.image_size
        self.image_size = (size, size) if isinstance(size, int) else tuple(size)
        if grad_checkpointing:
            _checkpoint(self.visual)
        self.apply_frozen()

    def forward(self, x: Tensor) -> Tensor:
        """Frames float [N, 3, H, W], normalised -> float [N, D], not of unit length.

        Raises:
            ValueError: the frames are not of ``image_size``.
        """
        check_frames(x, self.image_size)
        return self.visual(x)


def _checkpoint(visual: nn.Module) -> None:
    from open_clip.modified_resnet import ModifiedResNet  # imports in seconds
    from open_clip.timm_model import TimmModel

    if isinstance(visual, ModifiedResNet):
        raise ValueError('grad_checkpointing: open_clip has none for its ResNets')
    if not isinstance(visual, TimmModel):
        visual.set_grad_checkpointing(True)
        return
    try:  # open_clip's own method goes on without, and only logs it
        visual.trunk.set_grad_checkpointing(True)
    except (AssertionError, AttributeError) as error:
        name = type(visual.trunk).__name__
        raise ValueError(f'grad_checkpointing: timm has none for its {name}') from error
