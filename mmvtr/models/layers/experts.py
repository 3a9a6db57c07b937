"""Functions shared by encoders of many experts: rows by expert, and expert weights of texts."""

from __future__ import annotations

import torch
from torch import Tensor

from mmvtr.functional.values import at_least_float32
from mmvtr.structures import Embedding

#: Smallest log weight of an expert.  A weight is stored as a norm, whose square underflows below
#: e^-43 in float32; if experts are missing, the sum of such weights may be the divisor.
LOG_FLOOR = -20.0


def weighed_experts(units: Tensor, logits: Tensor) -> Embedding:
    """Return a text's unit vector for each expert times the weight of the expert.

    Args:
        units: float [T, E, D].
        logits: float [T, E], logits of the softmax over experts.

    Returns:
        ``tokens`` [T, E, D], whose norms are the weights and sum to 1, ``mask`` [T, E], all True,
        and ``mean`` [T, D], the sum of the tokens.
    """
    weights = at_least_float32(logits).log_softmax(-1).clamp(min=LOG_FLOOR).exp()
    tokens = weights[..., None] * units
    return Embedding(tokens.sum(1), tokens, torch.ones_like(weights, dtype=torch.bool))


def check_width(video: Tensor, experts: dict[str, int], encoder: str) -> None:
    """Check that rows are as wide as the widest expert of ``experts`` (width by name).

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
    """Cut tags int64 [V, R] of rows to [V, F], with ``fill`` at padding.

    Args:
        name: name of the tags, for the message.
        tags: int64 [V, R], R >= F.
        mask: bool [V, F], True on valid rows.
        known: allowed tags of valid rows.
        fill: value at padding.
        encoder: name of the encoder, for the message.

    Raises:
        ValueError: a valid row has a tag outside ``known``.
    """
    valid = tags[:, : mask.shape[1]][mask]
    wrong = valid[(valid < known.start) | (valid >= known.stop)]
    if len(wrong):
        raise ValueError(
            f'a row of {name} {int(wrong[0])}, but {encoder} knows {known.start} to {known[-1]}: '
            'experts must be those of LoadExperts, and max_seconds the longest video'
        )
    return tags[:, : mask.shape[1]].masked_fill(~mask, fill)
