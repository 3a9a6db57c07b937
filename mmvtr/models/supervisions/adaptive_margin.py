"""CMGSD's adaptive margin: the less two items are alike, the further apart their scores."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvtr.functional.adaptive_margin import adaptive_margin, dissimilarities
from mmvtr.models.supervisions.ramp import checked_ramp, ramp_at
from mmvtr.models.target import Target
from mmvtr.registry import MODELS
from mmvtr.structures import Levels


@MODELS.register_module()
class AdaptiveMarginSupervision(nn.Module):
    """Margins that grow with dissimilarity (CMGSD; He et al., SIGIR 2021), for a RankingLoss.

    For text t and another video n, whose own texts are t_n, and t's own video p:

        omega_tn = 1 - cos(video_p, video_n)        tau_tn = 1 - cos(text_t, text_{t_n})
        m = [alpha + beta (x - mean x) / std x]_+   for x = omega and x = tau

    on the model's own embeddings (the paper's dynamic supervision), standardised over the joint
    batch's pairs that are no match.  No gradient passes through a margin: it would let the loss
    fall by making everything alike.

    What differs: the slot of margins holds one a pair, the mean of both, where CMGSD adds a hinge
    for each; and its static supervision, tau of a frozen sentence encoder, is left out
    (CMGSDSupervision has both).  CMGSD starts with the latter and fades the dynamic one in from
    epoch 20 to 50: before, embeddings say little.  ``ramp`` fades margins in from alpha.

    Logs ``margin_std``, the standard deviation of the margins over the pairs that are no match.

    Args:
        level: of the embeddings compared.
        alpha: margin of an average pair.
        beta: how far one standard deviation moves it.
        ramp: (start, end) as shares of the training: margins go linearly from alpha to m.

    Attributes:
        progress: share of the training done; ProgressHook sets it, 1 without the hook.

    Raises:
        ValueError: an alpha that is not positive, a beta below 0, a ramp that is not ascending
            within [0, 1].
    """

    def __init__(
        self,
        *,
        level: str = 'global',
        alpha: float = 0.2,
        beta: float = 0.1,
        ramp: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        super().__init__()
        if not alpha > 0:
            raise ValueError(f'alpha must be positive, not {alpha}')
        if not beta >= 0:
            raise ValueError(f'beta must be at least 0, not {beta}')
        self.level = level
        self.alpha = alpha
        self.beta = beta
        self.ramp = checked_ramp(ramp)
        self.progress = 1.0

    def forward(
        self, texts: Levels, videos: Levels, target: Target
    ) -> tuple[Target, dict[str, Tensor]]:
        """Levels of the joint batch -> target with margins [T, V], and a figure for the log."""
        t, v = (F.normalize(side[self.level].mean.detach(), dim=-1) for side in (texts, videos))
        others = ~target.positives
        margins = [
            adaptive_margin(x, others, alpha=self.alpha, beta=self.beta)
            for x in dissimilarities(t @ t.t(), v @ v.t(), target.positives)
        ]
        margins = torch.lerp(
            torch.full_like(margins[0], self.alpha),
            (margins[0] + margins[1]) / 2,
            ramp_at(self.progress, self.ramp),
        )
        spread = margins[others].std(correction=0) if others.any() else margins.new_zeros(())
        return target._replace(margins=margins), {'margin_std': spread}
