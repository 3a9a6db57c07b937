"""Similarity of a sentence and the best part of a video, for videos with known parts."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mmvtr.functional.similarities.best_frames import best_frames
from mmvtr.models.layers.pooling import mean_of_units
from mmvtr.registry import MODELS
from mmvtr.structures import Levels


@MODELS.register_module()
class BestPartSimilarity(nn.Module):
    """Cosine of a text with the best of a video's parts, each the mean of its unit frames.

    An upper reference for token-wise matching on synthetic clips: it knows that each clip has
    ``parts`` moments of about equal length, and so which frames belong together.

    Args:
        parts: of equal length; frame i of F valid ones is of part ``parts * i // F``.
        level: level whose tokens are the frames, and whose vector is the text.

    Raises:
        ValueError: fewer than one part; (called) videos without tokens, or with fewer valid frames
            than parts.
    """

    needs_tokens = True

    def __init__(self, *, parts: int, level: str = 'global') -> None:
        super().__init__()
        if parts < 1:
            raise ValueError(f'parts must be at least 1, not {parts}')
        self.parts = parts
        self.level = level

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels that it reads."""
        return (self.level,)

    def forward(self, texts: Levels, videos: Levels) -> dict[str, Tensor]:
        """Return ``'part'`` and ``'scores'`` [T, V], the same matrix, of T texts and V videos."""
        frames, mask = videos[self.level].tokens, videos[self.level].mask
        if frames is None:
            raise ValueError(f'level {self.level!r} of the videos carries no tokens')
        count = mask.sum(1, keepdim=True)
        if len(count) and count.min() < self.parts:
            raise ValueError(f'a video of {int(count.min())} frames has no {self.parts} parts')
        part = self.parts * (mask.cumsum(1) - 1) // count.clamp_min(1)
        of_parts = [mask & (part == number) for number in range(self.parts)]
        means = torch.stack([mean_of_units(frames, own) for own in of_parts], 1)
        known = torch.ones(means.shape[:2], dtype=torch.bool, device=means.device)
        scores = best_frames(texts[self.level].mean, means, known).scores
        return {'part': scores, 'scores': scores}
