"""A Hugging Face text tower: BERT and its kin (DVTR), or the encoder of a T5 (SSB)."""

from __future__ import annotations

from typing import Optional, Sequence

import torch
from torch import Tensor, nn

from mmvtr.models.towers.base import Tower, check_transformer_text
from mmvtr.models.towers.transformers_weights import load_transformer
from mmvtr.registry import MODELS


@MODELS.register_module()
class TransformersText(Tower):
    """Hidden states of a transformers encoder and their maximum, projected to the joint space.

    DVTR (Sec. IV-B.2) takes "the hidden state of BERT" as local features and "the highest number
    in each hidden state" as the global one.  Read here as the maximum of each dimension over the
    valid tokens.  (In CLIP's code the same words describe the EOT token, which has the highest
    id; BERT has no such token.)

    Args:
        model: name on the hub, local folder, or a dict for ``AutoConfig.for_model`` (``model_type``
            and its settings), which gives random weights.  Of an encoder-decoder (T5) the encoder.
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
                f'{str(model)[:80]} is a model of type {self.transformer.config.model_type!r}, no '
                'text encoder: of a dual encoder take TransformersDualText'
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
        """Layers of the transformer."""
        return self.transformer.config.num_hidden_layers

    def states(self, ids: Tensor, mask: Tensor, layers: Sequence[int]) -> list[Tensor]:
        """Tokens behind some of its layers, each projected as those of :meth:`forward` are.

        Args:
            ids, mask: see :meth:`forward`.
            layers: their numbers, counted from 1; 0 is what the first one reads.

        Returns:
            float [T, L, D] of each.

        Raises:
            ValueError: see :func:`~mmvtr.models.towers.base.check_text`.
        """
        check_transformer_text(ids, mask, self.transformer.config, self)
        found = self.transformer(
            input_ids=ids, attention_mask=mask.long(), output_hidden_states=True
        )
        return [self.text_projection(found.hidden_states[layer]) for layer in layers]


def _encoder(transformer: nn.Module) -> nn.Module:
    # Of a folder of the encoder alone (T5EncoderModel) the config says that there is no decoder.
    if transformer.config.is_encoder_decoder or hasattr(transformer, 'decoder'):
        transformer = transformer.get_encoder()
    # The pooler reads the first token only; we pool ourselves, and unused parameters break DDP.
    if hasattr(transformer, 'pooler'):
        transformer.pooler = None
    return transformer
