"""Text tower for precomputed word features."""

from __future__ import annotations

from torch import Tensor, nn

from mmvtr.models.layers.pooling import mean_of_units
from mmvtr.registry import MODELS


@MODELS.register_module()
class FeatureWords(nn.Module):
    """A text tower that takes stored word features as they are (RoBERTa's or CLIP's in PRVR).

    Args:
        in_dim: width of the stored features.

    Attributes:
        dim: the same, as of every text tower.
    """

    def __init__(self, in_dim: int) -> None:
        super().__init__()
        self.dim = in_dim

    def forward(self, words: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Float [T, L, in_dim] and bool [T, L] -> the words, and their mean [T, in_dim] (unit).

        Raises:
            ValueError: token ids, or features of another width.
        """
        if not words.is_floating_point() or words.shape[2:] != (self.dim,):
            raise ValueError(
                f'FeatureWords takes float features [T, L, {self.dim}], got {words.dtype} '
                f'{list(words.shape)}: in_dim must be the width of the stored word features'
            )
        return words, mean_of_units(words.masked_fill(~mask[..., None], 0), mask)
