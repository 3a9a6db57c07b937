"""The last texts of a training, and how many of them say the same as a text of the batch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvtr.functional.precision import at_least_float32


class TextMemory(nn.Module):
    """Unit vectors of the last ``size`` texts of the joint batches, in the checkpoint.

    What it holds are the embeddings that training made anyway, with the weights of their step; the
    same on all processes.

    Args:
        size: K.
        dim: D.

    Raises:
        ValueError: a size below 1.
    """

    def __init__(self, *, size: int, dim: int) -> None:
        super().__init__()
        if size < 1:
            raise ValueError(f'a memory of texts needs size >= 1, got {size}')
        self.register_buffer('vectors', torch.zeros(size, dim))
        self.register_buffer('seen', torch.zeros((), dtype=torch.long))

    def __len__(self) -> int:
        """Texts that it holds."""
        return min(int(self.seen), len(self.vectors))

    @torch.no_grad()
    def push(self, texts: Tensor) -> None:
        """Add texts, float [T, D] of any length; the oldest ones leave."""
        units = F.normalize(at_least_float32(texts), dim=-1).to(self.vectors)
        size = len(self.vectors)
        places = (self.seen + torch.arange(len(units), device=units.device)) % size
        self.vectors[places[-size:]] = units[-size:]
        self.seen += len(units)

    @torch.no_grad()
    def share_alike(self, texts: Tensor, *, alike: float) -> Tensor:
        """Share of the texts in memory whose cosine with each text [T, D] exceeds ``alike``.

        Returns:
            float [T] in [0, 1]; 0 while the memory is empty.
        """
        if not len(self):
            return texts.new_zeros(len(texts))
        units = F.normalize(at_least_float32(texts), dim=-1).to(self.vectors)
        cosines = units @ self.vectors[: len(self)].t()
        return (cosines > alike).to(cosines.dtype).mean(1)
