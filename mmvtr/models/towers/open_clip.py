"""Frame and text towers from open_clip, by any of its model names or a config dict."""

from __future__ import annotations

from typing import Optional

import torch
from open_clip.modified_resnet import ModifiedResNet
from open_clip.transformer import TextTransformer
from torch import Tensor, nn

from mmvtr.models.towers.base import Tower, check_text, last_valid
from mmvtr.models.towers.open_clip_weights import build_open_clip
from mmvtr.registry import MODELS


@MODELS.register_module()
class OpenCLIPFrames(Tower):
    """The image tower of a CLIP model: one vector a frame.

    Args:
        model: open_clip name or config dict (OpenAI's weights need a quickgelu variant:
            ``'ViT-B-16-quickgelu'``, ``'RN50-quickgelu'``).
        pretrained: tag, local checkpoint of the whole CLIP, or None for random weights.
        frozen: no gradients, always in eval mode.
        grad_checkpointing: recompute activations in the backward pass (not for ResNets).

    Raises:
        ValueError, FileNotFoundError, RuntimeError: see
            :func:`~mmvtr.models.towers.open_clip_weights.build_open_clip`.

    Attributes:
        dim: D.
        image_size: (height, width) that the frames must have, pixels.
        image_mean, image_std: 3 floats each, RGB, of values in 0-1: what the weights expect.
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
        clip, self.dim, self.image_mean, self.image_std = build_open_clip(model, pretrained)
        self.visual = clip.visual
        self.visual.output_tokens = False
        size = self.visual.image_size
        self.image_size = (size, size) if isinstance(size, int) else tuple(size)
        if grad_checkpointing:
            if isinstance(self.visual, ModifiedResNet):
                raise ValueError('grad_checkpointing: open_clip has none for its ResNets')
            self.visual.set_grad_checkpointing(True)
        self.freeze_if_asked()

    def forward(self, x: Tensor) -> Tensor:
        """Frames float [N, 3, H, W], normalised -> float [N, D], not of unit length.

        Raises:
            ValueError: the frames are not of ``image_size``.
        """
        if x.shape[1:] != (3, *self.image_size):
            raise ValueError(
                f'the frame tower takes [3, {self.image_size[0]}, {self.image_size[1]}] frames, '
                f'got {list(x.shape[1:])}: set the size in the video pipeline'
            )
        return self.visual(x)


@MODELS.register_module()
class OpenCLIPText(Tower):
    """The text tower of a CLIP model: all words in the joint space, and the EOT token.

    The parameters keep CLIP's names (``token_embedding``, ``transformer`` ...).

    Args:
        model, pretrained, frozen, grad_checkpointing: as in :class:`OpenCLIPFrames`.

    Attributes:
        dim: D, of the joint space.
        heads: attention heads.
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
        clip, self.dim, _, _ = build_open_clip(model, pretrained)
        text = clip.text
        causal = isinstance(text, TextTransformer) and text.attn_mask is not None
        if not causal or text.cls_emb is not None or text.text_projection is None:
            raise ValueError(f'{model!r} has no causal CLIP text tower with a projection')
        self.heads = text.heads
        self.token_embedding = text.token_embedding
        self.positional_embedding = text.positional_embedding
        self.transformer = text.transformer
        self.ln_final = text.ln_final
        self.text_projection = text.text_projection
        self.transformer.grad_checkpointing = grad_checkpointing
        self.freeze_if_asked()

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Encode T texts.

        Attention is causal, so that padding behind a text never reaches it.  EOT is the last valid
        token (CLIP takes the highest id, which is the same for its own vocabulary only).

        Args:
            ids: int64 [T, L].
            mask: bool [T, L], True on SOT ... EOT.

        Returns:
            tokens float [T, L, D], every hidden state through ``ln_final`` and the projection
            (as CLIP4Clip's ``hidden @ text_projection``), and pooled float [T, D], that of EOT.

        Raises:
            ValueError: see :func:`~mmvtr.models.towers.base.check_text`.
        """
        check_text(
            ids,
            mask,
            positions=len(self.positional_embedding),
            vocabulary=self.token_embedding.num_embeddings,
            name='OpenCLIPText',
        )
        length = ids.shape[1]
        x = self.token_embedding(ids) + self.positional_embedding[:length]
        causal = x.new_full((length, length), -torch.inf).triu(1)
        x = self.ln_final(self.transformer(x, attn_mask=causal))
        if isinstance(self.text_projection, nn.Linear):
            tokens = self.text_projection(x)
        else:
            tokens = x @ self.text_projection
        return tokens, tokens[torch.arange(len(ids), device=ids.device), last_valid(mask)]
