"""Base of all towers: freezing that survives ``.train()``, and checks of their input."""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor, nn


class Tower(nn.Module):
    """A pretrained network that may be frozen.

    A frozen backbone gets no gradients and stays in eval mode (fixed BatchNorm statistics, no
    dropout) whatever the model around it does.

    Attributes:
        dim: D, width of the output of ``forward``.
        frozen: whether the backbone is fixed.
    """

    dim: int

    def __init__(self, *, frozen: bool) -> None:
        super().__init__()
        self.frozen = frozen

    @property
    def backbone(self) -> nn.Module:
        """The part that ``frozen`` fixes; by default all of it."""
        return self

    def apply_frozen(self) -> None:
        """Freeze the backbone; call it once the backbone exists."""
        if self.frozen:
            self.backbone.requires_grad_(False)
            self.train(self.training)

    def train(self, mode: bool = True) -> 'Tower':
        super().train(mode)
        if self.frozen:
            nn.Module.train(self.backbone, False)
        return self


def check_frames(x: Tensor, size: tuple[int, int]) -> None:
    """Raise ValueError for frames that a frame tower was not made for.

    Args:
        x: [N, 3, H, W].
        size: (H, W) of the tower.

    Raises:
        ValueError: another shape.
    """
    if x.shape[1:] != (3, *size):
        raise ValueError(
            f'the frame tower takes [3, {size[0]}, {size[1]}] frames, got {list(x.shape[1:])}: set '
            'the size in the video pipeline'
        )


def check_text(
    ids: Tensor, mask: Tensor, *, positions: Optional[int], vocabulary: int, name: str
) -> None:
    """Raise ValueError for texts that a tower would misread; in an export, only for too long ones.

    Args:
        ids: int64 [T, L].
        mask: bool [T, L].
        positions: rows of the tower's position table, None if positions are relative.
        vocabulary: rows of its token table.
        name: name of the tower, for the message.

    Raises:
        ValueError: the mask is not bool, L > positions, an id outside the vocabulary, a text
            without a valid token, or padding in front of a valid token; the text's index in the
            batch is named.
    """
    if mask.dtype != torch.bool:
        raise ValueError(f'{name}: text_mask must be bool (True = valid), got {mask.dtype}')
    if positions is not None and ids.shape[1] > positions:
        raise ValueError(
            f'{name}: texts of {ids.shape[1]} tokens, but its position table has {positions} '
            f'rows; shorten them in the text pipeline'
        )
    if torch.compiler.is_compiling() or not ids.numel():
        return
    if ids.max() >= vocabulary:
        raise ValueError(
            f'{name}: token id {int(ids.max())} in text {int(ids.amax(1).argmax())} of the batch, '
            f'but its vocabulary has {vocabulary}; the tokenizer belongs to another text tower'
        )
    prefix = mask[:, 0] & ~(mask[:, 1:] & ~mask[:, :-1]).any(1)
    if not prefix.all():
        raise ValueError(
            f'{name}: text {int(prefix.int().argmin())} of the batch has no valid token, or '
            f'padding in front of one (text_mask must be True, ..., True, False, ...)'
        )


def check_transformer_text(ids: Tensor, mask: Tensor, config: Any, tower: nn.Module) -> None:
    """Run :func:`check_text` with a transformers config, on int64 and bool [T, L]."""
    check_text(
        ids,
        mask,
        positions=getattr(config, 'max_position_embeddings', None),  # T5's are relative
        vocabulary=config.vocab_size,
        name=f'{type(tower).__name__} ({config.model_type})',
    )


def last_valid(mask: Tensor) -> Tensor:
    """Return the index of the last True in each row of ``mask`` bool [N, L]: int64 [N]."""
    return mask.shape[1] - 1 - mask.flip(1).int().argmax(1)
