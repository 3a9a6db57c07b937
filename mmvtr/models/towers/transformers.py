"""Towers of transformers: text encoders (BERT, T5) and dual encoders (CLIP, SigLIP, X-CLIP)."""

from __future__ import annotations

from typing import Optional, Sequence

import torch
from torch import Tensor, nn

from mmvtr.errors import refusing_code
from mmvtr.models.towers.base import Tower, check_frames, check_text, check_transformer_text
from mmvtr.models.towers.transformers_weights import load_transformer
from mmvtr.registry import MODELS


@MODELS.register_module()
class TransformersFrames(Tower):
    """The image tower of transformers' CLIPModel or SiglipModel: one vector a frame.

    Args:
        model: name on the hub, local folder, or a dict for ``AutoConfig.for_model``, which gives
            random weights.
        frozen: no gradients, always in eval mode.
        grad_checkpointing: recompute activations in the backward pass.

    Attributes:
        dim: D.
        image_size: (height, width) of the frames, pixels.
        image_mean, image_std: 3 floats each, RGB, for values in 0-1, from the model's image
            processor; None for a dict.

    Raises:
        ValueError: a model of another type; a file that lacks weights of the tower, or has unknown
            ones.
        RuntimeError: see :func:`~mmvtr.models.towers.transformers_weights.load_transformer`.
    """

    def __init__(
        self, model: str | dict, *, frozen: bool = False, grad_checkpointing: bool = False
    ) -> None:
        super().__init__(frozen=frozen)
        dual = load_dual(
            model,
            ('clip', 'siglip'),
            used=('vision_model', 'visual_projection'),
            grad_checkpointing=grad_checkpointing,
        )
        config = dual.config.vision_config
        self.vision_model = dual.vision_model
        self.projection = getattr(dual, 'visual_projection', None) or nn.Identity()
        clips = dual.config.model_type == 'clip'
        self.dim = dual.config.projection_dim if clips else config.hidden_size
        self.image_size = (config.image_size, config.image_size)
        self.image_mean, self.image_std = _statistics(model)
        self.apply_frozen()

    def forward(self, x: Tensor) -> Tensor:
        """Map normalised frames float [N, 3, H, W] -> float [N, D], not of unit length.

        Raises:
            ValueError: the frames are not of ``image_size``.
        """
        check_frames(x, self.image_size)
        return self.projection(self.vision_model(pixel_values=x).pooler_output)


@MODELS.register_module()
class TransformersDualText(Tower):
    """The text tower of transformers' CLIPModel, XCLIPModel or SiglipModel.

    SigLIP's reads the padding of a text, as in its training: it requires texts from
    ``HFTokenize(model, max_length=64, padded=True)``.

    Args:
        model: see :class:`TransformersFrames`; or the whole model, built.
        frozen, grad_checkpointing: see :class:`TransformersFrames`.

    Attributes:
        dim: D, of the joint space.

    Raises:
        ValueError, RuntimeError: see :class:`TransformersFrames`.
    """

    def __init__(
        self,
        model: str | dict | nn.Module,
        *,
        frozen: bool = False,
        grad_checkpointing: bool = False,
    ) -> None:
        super().__init__(frozen=frozen)
        dual = load_dual(
            model,
            ('clip', 'siglip', 'xclip'),
            used=('text_model', 'text_projection'),
            grad_checkpointing=grad_checkpointing,
        )
        self.config = dual.config.text_config
        self.text_model = dual.text_model
        self.padded = dual.config.model_type == 'siglip'
        self.projection = nn.Identity() if self.padded else dual.text_projection
        # SigLIP's projection is called head, and is part of its text_model.
        self.dim = self.text_model.head.out_features if self.padded else dual.config.projection_dim
        self.apply_frozen()

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Encode T texts.

        Args:
            ids: int64 [T, L]; for SigLIP L is its number of positions.
            mask: bool [T, L], True on the words.

        Returns:
            tokens float [T, L, D], every hidden state through the projection, and pooled float
            [T, D], the output of ``get_text_features``.

        Raises:
            ValueError: a text without its padding, or see
                :func:`~mmvtr.models.towers.base.check_text`.
        """
        positions = self.config.max_position_embeddings
        name = f'TransformersDualText ({self.config.model_type})'
        check_text(ids, mask, positions=positions, vocabulary=self.config.vocab_size, name=name)
        if not self.padded:
            out = self.text_model(input_ids=ids, attention_mask=mask.long())
            return self.projection(out.last_hidden_state), self.projection(out.pooler_output)
        if ids.shape[1] != positions:
            raise ValueError(
                f'{name} reads texts with their padding, {positions} tokens, and got '
                f'{ids.shape[1]}: take HFTokenize(..., max_length={positions}, padded=True)'
            )
        out = self.text_model(input_ids=ids)
        return self.text_model.head(out.last_hidden_state), out.pooler_output


def load_dual(
    model: str | dict | nn.Module,
    types: Sequence[str],
    *,
    used: Sequence[str],
    grad_checkpointing: bool = False,
) -> nn.Module:
    """Return a transformers dual encoder of one of ``types``; a built one is returned unchanged.

    Args:
        model: see :class:`TransformersDualText`.
        types: allowed model types.
        used: names of the parts that are read, if it has them; others need no weights.
        grad_checkpointing: recompute activations in the backward pass.

    Raises:
        ValueError: a model of another type; see also below.
        RuntimeError: see :func:`~mmvtr.models.towers.transformers_weights.load_transformer`.
    """

    def parts(whole: nn.Module) -> list[nn.Module]:
        return [getattr(whole, name) for name in used if hasattr(whole, name)]

    dual = model if isinstance(model, nn.Module) else load_transformer(model, used=parts)
    if dual.config.model_type not in types:
        raise ValueError(
            f'{str(model)[:80]} is a model of type {dual.config.model_type!r}, not of '
            f'{", ".join(types)}'
        )
    if grad_checkpointing:
        dual.gradient_checkpointing_enable()
    return dual


def _statistics(
    model: str | dict,
) -> tuple[Optional[tuple[float, ...]], Optional[tuple[float, ...]]]:
    if not isinstance(model, str):
        return None, None
    from transformers import AutoImageProcessor  # imported only for configs with such a model

    try:
        with refusing_code(model):
            processor = AutoImageProcessor.from_pretrained(model, trust_remote_code=False)
    except OSError:  # a folder with weights only: the preprocessor asks for mean and std
        return None, None
    return tuple(processor.image_mean), tuple(processor.image_std)


@MODELS.register_module()
class TransformersText(Tower):
    """Hidden states of a transformers encoder and their maximum, projected to the joint space.

    DVTR (Sec. IV-B.2) takes "the hidden state of BERT" as local features and "the highest number in
    each hidden state" as the global one; here that is the maximum of each dimension over the valid
    tokens.  (In CLIP's code the same words describe the EOT token, which has the highest id; BERT
    has no such token.)

    Args:
        model: name on the hub, local folder, or a dict for ``AutoConfig.for_model`` (``model_type``
            and its settings), which gives random weights.  For an encoder-decoder (T5), its
            encoder.
        dim: D, width of the joint space; a linear layer projects to it.  None keeps the model's
            own width, without a projection.
        frozen: fix the transformer (the projection still trains).
        grad_checkpointing: recompute activations in the backward pass.

    Raises:
        RuntimeError, ValueError: the model cannot be found, or its file lacks weights of the
            encoder, see :func:`~mmvtr.models.towers.transformers_weights.load_transformer`.
    """

    def __init__(
        self,
        model: str | dict,
        *,
        dim: Optional[int],
        frozen: bool = False,
        grad_checkpointing: bool = False,
    ) -> None:
        super().__init__(frozen=frozen)
        self.transformer = _encoder(load_transformer(model, used=lambda whole: [_encoder(whole)]))
        if grad_checkpointing:
            self.transformer.gradient_checkpointing_enable()
        width = getattr(self.transformer.config, 'hidden_size', None)
        if width is None:
            raise ValueError(
                f'{str(model)[:80]} is a model of type {self.transformer.config.model_type!r}, '
                'not a text encoder: for a dual encoder take TransformersDualText'
            )
        self.dim = width if dim is None else dim
        self.text_projection = nn.Identity() if dim is None else nn.Linear(width, dim)
        self.apply_frozen()

    @property
    def backbone(self) -> nn.Module:
        return self.transformer

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Encode T texts.

        Args:
            ids: int64 [T, L].
            mask: bool [T, L], True on valid tokens.

        Returns:
            tokens float [T, L, D] and pooled float [T, D].

        Raises:
            ValueError: see :func:`~mmvtr.models.towers.base.check_text`.
        """
        check_transformer_text(ids, mask, self.transformer.config, self)
        hidden = self.transformer(input_ids=ids, attention_mask=mask.long()).last_hidden_state
        pooled = hidden.masked_fill(~mask[..., None], -torch.inf).amax(1)
        return self.text_projection(hidden), self.text_projection(pooled)

    @property
    def depth(self) -> int:
        """Number of layers of the transformer."""
        return self.transformer.config.num_hidden_layers

    def states(self, ids: Tensor, mask: Tensor, layers: Sequence[int]) -> list[Tensor]:
        """Return tokens after some of its layers, each projected like those of :meth:`forward`.

        Args:
            ids, mask: see :meth:`forward`.
            layers: numbers of the layers, counted from 1; 0 is the input of the first one.

        Returns:
            float [T, L, D] of each.

        Raises:
            ValueError: see :func:`~mmvtr.models.towers.base.check_text`.
        """
        check_transformer_text(ids, mask, self.transformer.config, self)
        output = self.transformer(
            input_ids=ids, attention_mask=mask.long(), output_hidden_states=True
        )
        return [self.text_projection(output.hidden_states[layer]) for layer in layers]


def _encoder(transformer: nn.Module) -> nn.Module:
    # The config of a folder with the encoder alone (T5EncoderModel) says that there is no decoder.
    if transformer.config.is_encoder_decoder or hasattr(transformer, 'decoder'):
        transformer = transformer.get_encoder()
    # The pooler reads the first token only; we pool ourselves, and unused parameters break DDP.
    if hasattr(transformer, 'pooler'):
        transformer.pooler = None
    return transformer
