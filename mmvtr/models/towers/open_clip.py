"""Frame and text towers from open_clip, by any of its model names or a config."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor, nn

from mmvtr.models.towers.base import (
    Tower,
    check_frames,
    check_text,
    check_transformer_text,
    last_valid,
)
from mmvtr.models.towers.open_clip_weights import build_open_clip
from mmvtr.registry import MODELS

if TYPE_CHECKING:  # its import takes seconds
    from open_clip.transformer import TextTransformer


@MODELS.register_module()
class OpenCLIPFrames(Tower):
    """The image tower of an open_clip model (CLIP, SigLIP, CoCa ...): one vector a frame.

    Args:
        model: open_clip name (OpenAI's weights need a quickgelu variant:
            ``'ViT-B-16-quickgelu'``, ``'RN50-quickgelu'``), ``local-dir:FOLDER`` or config dict,
            see :func:`~mmvtr.open_clip_configs.model_config`.
        pretrained: tag, or local checkpoint of the whole CLIP; None: the folder's weights, and
            random ones for any other model; False: random ones, for a folder too.
        frozen: no gradients, always in eval mode.
        grad_checkpointing: recompute activations in the backward pass (not for ResNets, and not
            for all networks of timm).

    Raises:
        ValueError, FileNotFoundError, RuntimeError: see
            :func:`~mmvtr.models.towers.open_clip_weights.build_open_clip`.

    Attributes:
        dim: D.
        image_size: (height, width) that the frames must have, pixels.
        image_mean, image_std: 3 floats each, RGB, for values in 0-1, as the weights expect; None
            for a local file if the tags of its model's name differ in them.
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
        """Map normalised frames float [N, 3, H, W] -> float [N, D], not of unit length.

        Raises:
            ValueError: the frames are not of ``image_size``.
        """
        check_frames(x, self.image_size)
        return self.visual(x)


def _checkpoint(visual: nn.Module) -> None:
    from open_clip.modified_resnet import ModifiedResNet  # its import takes seconds
    from open_clip.timm_model import TimmModel

    if isinstance(visual, ModifiedResNet):
        raise ValueError('grad_checkpointing: open_clip has none for its ResNets')
    if not isinstance(visual, TimmModel):
        visual.set_grad_checkpointing(True)
        return
    try:  # open_clip's own method only logs the failure, and goes on without
        visual.trunk.set_grad_checkpointing(True)
    except (AssertionError, AttributeError) as error:
        name = type(visual.trunk).__name__
        raise ValueError(f'grad_checkpointing: timm has none for its {name}') from error


@MODELS.register_module()
class OpenCLIPText(Tower):
    """The text tower of an open_clip model: all words, and the text, in the joint space.

    There are three kinds.  The parameters keep open_clip's names (``token_embedding``,
    ``transformer`` ...).

    - ``'causal'`` (CLIP, PE, EVA): no word attends to later ones, so padding has no effect.
    - ``'padded'`` (SigLIP, CLIPA, MobileCLIP, CoCa): the tower was trained on texts of one length
      and reads their padding.  It requires all of it, as from
      :class:`~mmvtr.datasets.words.tokenizers.OpenCLIPTokenize`.
    - ``'masked'`` (RoBERTa, mT5, NLLB): an encoder of transformers, which masks the padding.

    Args:
        model, pretrained, frozen, grad_checkpointing: see
            :class:`~mmvtr.models.towers.open_clip.OpenCLIPFrames`.

    Attributes:
        dim: D, of the joint space.
        kind: see above.
        heads: attention heads (missing for kind ``'masked'``).

    Raises:
        ValueError: a text tower without a pooled vector; see also
            :func:`~mmvtr.models.towers.open_clip_weights.build_open_clip`.
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
        clip, self.dim, _, _ = build_open_clip(model, pretrained)
        self.kind = kind_of(clip.text)
        if self.kind == 'masked':
            text = clip.text
            self.transformer, self.pooler, self.proj = text.transformer, text.pooler, text.proj
            if grad_checkpointing:
                self.transformer.gradient_checkpointing_enable()
        else:
            self._take_clips(clip.text)
            self.transformer.grad_checkpointing = grad_checkpointing
        self.apply_frozen()

    def _take_clips(self, text: TextTransformer) -> None:
        if text.pool_type == 'none' and text.cls_emb is None:
            raise ValueError("a text tower of pool_type='none' gives no vector for a text")
        self.heads = text.heads
        self.token_embedding = text.token_embedding
        self.positional_embedding = text.positional_embedding
        self.transformer = text.transformer
        self.ln_final = text.ln_final
        self.text_projection = text.text_projection
        if self.kind == 'causal':
            return
        self.context_length, self.pool_type = text.context_length, text.pool_type
        self.pad_id, self.eos_id = text.pad_id, text.eos_id
        self.causal = text.attn_mask is not None
        if text.cls_emb is not None:
            self.cls_emb = text.cls_emb

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Encode T texts.

        Args:
            ids: int64 [T, L].  For kind ``'padded'`` L is the model's context length, with its
                tokenizer's padding; otherwise values at padding are ignored.
            mask: bool [T, L], True on the words (SOT ... EOT).

        Returns:
            tokens float [T, L, D], every hidden state through the tower's last norm and projection
            (as CLIP4Clip's ``hidden @ text_projection``), and pooled float [T, D], the text: the
            output of open_clip's ``encode_text``.  A causal tower pools the last valid token, EOT
            (CLIP takes the highest id, which is EOT only in its own vocabulary).

        Raises:
            ValueError: a text without its padding, or see
                :func:`~mmvtr.models.towers.base.check_text`.
        """
        return dict(causal=self._causal, padded=self._padded, masked=self._masked)[self.kind](
            ids, mask
        )

    def _causal(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        self._check(ids, mask, len(self.positional_embedding))
        length = ids.shape[1]
        x = self.token_embedding(ids) + self.positional_embedding[:length]
        x = self.ln_final(self.transformer(x, attn_mask=_causal_mask(x)))
        tokens = self._project(x)
        # shape[0]: len() would be a constant in an exported graph.
        return tokens, tokens[torch.arange(ids.shape[0], device=ids.device), last_valid(mask)]

    def _padded(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        self._check(ids, mask, self.context_length)
        if ids.shape[1] != self.context_length:
            raise ValueError(
                f'OpenCLIPText reads texts with their padding, {self.context_length} tokens, and '
                f'got {ids.shape[1]}: take OpenCLIPTokenize(model=...) of the same model'
            )
        if hasattr(self, 'cls_emb'):
            return self._with_class_token(ids)
        from open_clip.transformer import text_global_pool

        x = self.token_embedding(ids) + self.positional_embedding
        attention = _causal_mask(x) if self.causal else None
        tokens = self._project(self.ln_final(self.transformer(x, attn_mask=attention)))
        return tokens, text_global_pool(tokens, ids, self.pool_type, eos_token_id=self.eos_id)

    def _with_class_token(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Encode for CoCa, whose learnt token after the padding is the text.

        Its weights were trained with a padding mask that is shifted by one position: the first key
        is never masked, and key i + 1 is masked if token i is padding.
        """
        last = self.cls_emb.expand(ids.shape[0], 1, -1)
        x = torch.cat([self.token_embedding(ids), last], 1) + self.positional_embedding
        hidden = nn.functional.pad(ids == self.pad_id, (1, 0))[:, None]
        attention = x.new_zeros(ids.shape[0], x.shape[1], x.shape[1]).masked_fill(
            hidden, -torch.inf
        )
        if self.causal:
            attention = attention + _causal_mask(x)
        x = self.transformer(x, attn_mask=attention.repeat_interleave(self.heads, 0))
        x = self._project(self.ln_final(x))
        return x[:, :-1], x[:, -1]

    def _masked(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        config = self.transformer.config
        check_transformer_text(ids, mask, config, self)
        ids = ids.masked_fill(~mask, config.pad_token_id)  # RoBERTa counts positions from it
        attention = (ids != config.pad_token_id).long()
        hidden = self.transformer(input_ids=ids, attention_mask=attention)
        pooled = self.pooler(hidden, attention)
        return self.proj(hidden.last_hidden_state), self.proj(pooled)

    def _project(self, x: Tensor) -> Tensor:
        if self.text_projection is None:
            return x
        if isinstance(self.text_projection, nn.Linear):
            return self.text_projection(x)
        return x @ self.text_projection

    def _check(self, ids: Tensor, mask: Tensor, positions: int) -> None:
        check_text(
            ids,
            mask,
            positions=positions,
            vocabulary=self.token_embedding.num_embeddings,
            name='OpenCLIPText',
        )


def kind_of(text: nn.Module) -> str:
    """Return 'causal', 'padded' or 'masked': how an open_clip text tower treats padding."""
    from open_clip.hf_model import HFTextEncoder

    if isinstance(text, HFTextEncoder):
        return 'masked'
    causal = text.attn_mask is not None and text.cls_emb is None
    return 'causal' if causal and text.pool_type in ('argmax', 'eos') else 'padded'


def _causal_mask(x: Tensor) -> Tensor:
    """Return the additive attention mask for [T, L, W]: float [L, L], -inf above the diagonal."""
    return x.new_full((x.shape[1], x.shape[1]), -torch.inf).triu(1)
