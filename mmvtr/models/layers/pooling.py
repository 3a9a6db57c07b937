"""Masked encoding of frames and pooling of tokens."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvtr.functional.values import at_least_float32
from mmvtr.structures import Embedding, Levels


def encode_frames(tower: nn.Module, video: Tensor, frame_mask: Tensor) -> Tensor:
    """Encode the valid frames; the tower never reads padding.

    Args:
        tower: frame tower, [N, ...] -> [N, D].
        video: float [V, F, 3, H, W] frames or [V, F, D_in] features.
        frame_mask: bool [V, F].

    Returns:
        float [V, F, D], at least float32, zero where the mask is False.

    Raises:
        ValueError: a video has no valid frame (its index is named).
    """
    check_mask(frame_mask, 'frame_mask')
    # A graph has a fixed shape for all masks.
    if torch.compiler.is_compiling() or nothing_to_mask(frame_mask):
        features = at_least_float32(tower(video.flatten(0, 1)))
        return masked(features.unflatten(0, frame_mask.shape), frame_mask)
    features = at_least_float32(tower(video[frame_mask]))
    frames = features.new_zeros(*frame_mask.shape, features.shape[-1])
    frames[frame_mask] = features
    return frames


def check_mask(mask: Tensor, name: str) -> None:
    """Check that each row of ``mask`` bool [N, L] has a True.  Exported graphs skip this check.


    Raises:
        ValueError: another dtype, or a row that is all False (its index is named).
    """
    if mask.dtype != torch.bool:
        raise ValueError(f'{name} must be bool (True = valid), got {mask.dtype}')
    if torch.compiler.is_compiling():
        return
    some = mask.any(1)
    if not some.all():
        raise ValueError(f'{name} of item {int(some.int().argmin())} of the batch is all False')


def nothing_to_mask(mask: Tensor) -> bool:
    """Return whether a bool mask is known to be all True; False on a GPU, where reading it would
    cost more than the copies that this saves."""
    return not torch.compiler.is_compiling() and mask.device.type == 'cpu' and bool(mask.all())


def unit(x: Tensor) -> Tensor:
    """L2-normalise the last dimension, at least in float32."""
    return F.normalize(at_least_float32(x), dim=-1)


def mean_of_units(tokens: Tensor, mask: Tensor) -> Tensor:
    """Pool as CLIP4Clip: normalise tokens, average the valid ones, normalise again.

    Args:
        tokens: float [N, L, D].
        mask: bool [N, L].

    Returns:
        float [N, D].
    """
    if nothing_to_mask(mask):
        return unit(unit(tokens).sum(1) / mask.shape[1])
    weights = mask[..., None].to(tokens.dtype)
    return unit((unit(tokens) * weights).sum(1) / weights.sum(1))


def masked(tokens: Tensor, mask: Tensor) -> Tensor:
    """Return ``tokens`` [N, L, D] with 0 where ``mask`` [N, L] is False; uncopied if all True."""
    tokens = at_least_float32(tokens)
    return tokens if nothing_to_mask(mask) else tokens.masked_fill(~mask[..., None], 0)


def empty_levels(encoder: nn.Module, length: int) -> Levels:
    """Return levels of zero items that depend on the parameters of ``encoder``.

    A process whose share of the batch is empty then has zero gradients instead of missing ones, for
    which DistributedDataParallel would wait.

    Args:
        encoder: has ``dim`` and ``level_names``, and ``token_levels`` if other levels than
            ``'global'`` have tokens.
        length: L of the tokens.
    """
    parameters = list(encoder.parameters())
    zero = torch.zeros((), device=parameters[0].device, dtype=parameters[0].dtype)
    anchor = sum((p.sum() for p in parameters if p.requires_grad), zero)
    mask = torch.zeros(0, length, dtype=torch.bool, device=zero.device)
    tokens = anchor.expand(0, length, encoder.dim)
    embedding = Embedding(anchor.expand(0, encoder.dim), tokens, mask)
    with_tokens = getattr(encoder, 'token_levels', ('global',))
    return {
        name: embedding if name in with_tokens else embedding.global_only()
        for name in encoder.level_names
    }
