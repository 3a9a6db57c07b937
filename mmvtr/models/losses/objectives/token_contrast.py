"""TACo's contrast of the tokens of interest, as an objective."""

from __future__ import annotations

from torch import Tensor, nn

from mmvtr.functional.losses.set_contrast import token_contrast
from mmvtr.models.target import LocalBatch, Target
from mmvtr.registry import MODELS
from mmvtr.structures import Levels


@MODELS.register_module()
class TokenContrast(nn.Module):
    """Contrast of words of interest with the batch's videos (TACo, Yang et al., ICCV 2021).

    See :func:`.token_contrast`: from texts to videos only, averaged over texts, where the paper
    sums.  Reads level ``'global'`` and the weights of level ``'interest'``; a supervision's weights
    apply to the negatives.

    Args:
        temperature: tau_2 of the paper (there 1).
        loss_weight: factor of the loss (paper: .5).

    Raises:
        ValueError: a temperature that is not positive; (called) levels without tokens.
    """

    def __init__(self, *, temperature: float = 1.0, loss_weight: float = 1.0) -> None:
        super().__init__()
        if not temperature > 0:
            raise ValueError(f'temperature must be positive, not {temperature}')
        self.temperature = temperature
        self.loss_weight = loss_weight

    def forward(
        self, texts: Levels, videos: Levels, target: Target, batch: LocalBatch | None = None
    ) -> dict[str, Tensor]:
        """Return ``{'loss': 0-dim}`` of the joint batch."""
        sides = dict(text=texts, video=videos)
        for side, levels in sides.items():
            if 'interest' not in levels or levels['interest'].tokens is None:
                raise ValueError(
                    f"TokenContrast reads tokens of levels 'global' and 'interest', the {side}s "
                    f'have {sorted(levels)}: it needs a TACoEncoder and a CascadeSimilarity'
                )
        loss = token_contrast(
            texts['global'].tokens,
            texts['interest'].tokens.squeeze(-1),
            videos['global'].tokens,
            videos['global'].mask,
            target.positives,
            temperature=self.temperature,
            weights=target.weights,
        )
        return {'loss': self.loss_weight * loss}
