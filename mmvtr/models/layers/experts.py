"""What encoders of many experts share: rows by expert, and texts that weigh the experts."""

from __future__ import annotations

import torch
from torch import Tensor

from mmvtr.functional.precision import at_least_float32
from mmvtr.structures import Embedding

#: Smallest log weight of an expert.  A weight is stored as a length, and squares vanish below e^-43
#: in float32; yet where experts are missing, such weights may be all that is left to divide by.
LOG_FLOOR = -20.0


def weighed_experts(units: Tensor, logits: Tensor) -> Embedding:
    """A text's unit vector for each expert times the weight of the expert.

    Args:
        units: float [T, E, D].
        logits: float [T, E], of the softmax over experts.

    Returns:
        ``tokens`` [T, E, D], whose lengths are the weights and sum to 1, ``mask`` [T, E], all True,
        and ``mean`` [T, D], the sum of the tokens.
    """
    weights = at_least_float32(logits).log_softmax(-1).clamp(min=LOG_FLOOR).exp()
    tokens = weights[..., None] * units
    return Embedding(tokens.sum(1), tokens, torch.ones_like(weights, dtype=torch.bool))


def check_width(video: Tensor, experts: dict[str, int], encoder: str) -> None:
    """Rows must be as wide as the widest expert of ``experts`` (width by name).

    Raises:
        ValueError: they are not.
    """
    widest = max(experts.values())
    if video.shape[2:] != (widest,):
        raise ValueError(
            f'{encoder} takes rows [V, F, {widest}], as wide as the widest of its experts '
            f'{str(experts)[:300]}, got {list(video.shape)}: those of LoadExperts must be the same'
        )


def row_tags(
    name: str, tags: Tensor, mask: Tensor, known: range, *, fill: int, encoder: str
) -> Tensor:
    """int64 [V, R] of the rows -> [V, F], ``fill`` at padding.

    Args:
        name: of the tags, for the message.
        tags: R >= F.
        mask: bool [V, F], True on valid rows.
        known: the tags of valid rows.
        fill: stands at padding.
        encoder: who asks, for the message.

    Raises:
        ValueError: another tag.
    """
    valid = tags[:, : mask.shape[1]][mask]
    wrong = valid[(valid < known.start) | (valid >= known.stop)]
    if len(wrong):
        raise ValueError(
            f'a row of {name} {int(wrong[0])}, but {encoder} knows {known.start} to {known[-1]}: '
            'experts must be those of LoadExperts, and max_seconds the longest video'
        )
    return tags[:, : mask.shape[1]].masked_fill(~mask, fill)
