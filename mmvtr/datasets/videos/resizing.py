"""Frames to the size that a tower wants."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn.functional import interpolate


def resize_short_side(images: list[np.ndarray], size: int) -> list[np.ndarray]:
    """Scale so that the short side is ``size``: bicubic with antialiasing, as CLIP.

    Args:
        images: uint8 [H, W, 3], all of one size.
        size: pixels, min(H', W').

    Returns:
        uint8 [H', W', 3]; what has that size already, as it is.
    """
    height, width = images[0].shape[:2]
    short = min(height, width)
    if short == size:
        return images
    frames = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2)
    target = size * height // short, size * width // short
    frames = interpolate(frames, target, mode='bicubic', antialias=True)  # uint8, as PIL
    return list(frames.permute(0, 2, 3, 1).numpy())
