"""Frames to the size that a tower wants."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn.functional import interpolate


def resize_short_side(
    images: list[np.ndarray], size: int, *, mode: str = 'bicubic'
) -> list[np.ndarray]:
    """Scale so that the short side is ``size``: with antialiasing, as CLIP.

    Args:
        images: uint8 [H, W, 3], all of one size.
        size: pixels, min(H', W').
        mode: 'bicubic' (CLIP's) or 'bilinear'.

    Returns:
        uint8 [H', W', 3]; what has that size already, as it is.
    """
    height, width = images[0].shape[:2]
    short = min(height, width)
    return resize(images, (size * height // short, size * width // short), mode=mode)


def resize(
    images: list[np.ndarray], size: tuple[int, int], *, mode: str = 'bicubic'
) -> list[np.ndarray]:
    """Scale to a height and a width, each by its own factor; as :func:`resize_short_side`."""
    if images[0].shape[:2] == size:
        return images
    frames = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2)
    frames = interpolate(frames, size, mode=mode, antialias=True)  # uint8, as PIL
    return list(frames.permute(0, 2, 3, 1).numpy())
