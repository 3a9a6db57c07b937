"""Resizing of frames to the input size of a tower."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn.functional import interpolate


def resize_short_side(
    images: list[np.ndarray], size: int, *, mode: str = 'bicubic'
) -> list[np.ndarray]:
    """Return images scaled so that the short side is ``size``, with antialiasing, as in CLIP.

    Args:
        images: uint8 [H, W, 3], all of one size.
        size: pixels, min(H', W').
        mode: 'bicubic' (CLIP's) or 'bilinear'.

    Returns:
        uint8 [H', W', 3]; images that have that size are returned unchanged.
    """
    height, width = images[0].shape[:2]
    short = min(height, width)
    return resize(images, (size * height // short, size * width // short), mode=mode)


def resize(
    images: list[np.ndarray], size: tuple[int, int], *, mode: str = 'bicubic'
) -> list[np.ndarray]:
    """Return images scaled to a height and a width independently; see :func:`resize_short_side`."""
    if images[0].shape[:2] == size:
        return images
    frames = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2)
    frames = interpolate(frames, size, mode=mode, antialias=True)  # uint8 interpolation, as in PIL
    return list(frames.permute(0, 2, 3, 1).numpy())
