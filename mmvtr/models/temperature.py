"""The temperature, which divides the scores before a softmax."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from mmvtr.functional.uncertainty.gaussian import bounded
from mmvtr.registry import MODELS


@MODELS.register_module()
class Temperature(nn.Module):
    """The divisor of the scores: fixed or learnt, clamped.

    Stored as ``log_scale`` = log(1 / temperature), CLIP's ``logit_scale``.  At the minimum, where
    CLIP ends and fine-tuning begins, a gradient passes only if it leads back into the range: a
    plain clamp has no gradient there, and the temperature could never leave the minimum.

    Args:
        init: initial temperature (DVTR: 0.07; CLIP at its end: 0.01).
        learnable: train it.
        minimum: smallest temperature used (CLIP: 0.01).
    """

    def __init__(
        self, *, init: float = 0.07, learnable: bool = False, minimum: float = 0.01
    ) -> None:
        super().__init__()
        if not init >= minimum > 0:
            raise ValueError(f'need init >= minimum > 0, got init={init}, minimum={minimum}')
        self.log_scale = nn.Parameter(torch.tensor(-math.log(init)), requires_grad=learnable)
        self.max_log_scale = -math.log(minimum)

    def forward(self) -> Tensor:
        """Return the temperature, a 0-dim tensor."""
        return (-bounded(self.log_scale, -math.inf, self.max_log_scale)).exp()
