"""CMGSD's adaptive margin: less similar items get a larger margin."""

from __future__ import annotations

import torch
from torch import Tensor

from mmvtr.models.layers.pooling import unit
from mmvtr.models.pairs import Pairs
from mmvtr.models.supervisions.cmgsd import margins_by_own
from mmvtr.models.supervisions.ramp import Ramped
from mmvtr.models.target import Target
from mmvtr.registry import MODELS
from mmvtr.structures import Levels


@MODELS.register_module()
class AdaptiveMarginSupervision(Ramped):
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

    Raises:
        ValueError: an alpha that is not positive, a beta below 0, a ramp that is not ascending
            within [0, 1].
    """

    #: The slot that is there for certain losses alone (models/target.py: check_read).
    fills = 'margins'

    def __init__(
        self,
        *,
        level: str = 'global',
        alpha: float = 0.2,
        beta: float = 0.1,
        ramp: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        super().__init__(ramp)
        if not alpha > 0:
            raise ValueError(f'alpha must be positive, not {alpha}')
        if not beta >= 0:
            raise ValueError(f'beta must be at least 0, not {beta}')
        self.level = level
        self.alpha = alpha
        self.beta = beta

    def forward(
        self, texts: Levels, videos: Levels, target: Target
    ) -> tuple[Target, dict[str, Tensor]]:
        """Levels of the joint batch -> target with margins [T, V], and a figure for the log."""
        with torch.no_grad():
            margins = self._margins(texts, videos, Pairs.of(target.positives))
            others = margins[~target.positives].double()
        std = others.std(correction=0) if len(others) else others.sum()
        return target._replace(margins=margins), {'margin_std': std.to(margins.dtype)}

    def _margins(self, texts: Levels, videos: Levels, pairs: Pairs) -> Tensor:
        """alpha, on the way to the mean of m(omega) and m(tau): float [T, V]."""
        t, v = (unit(side[self.level].mean) for side in (texts, videos))
        options = dict(alpha=self.alpha, beta=self.beta)
        omega = margins_by_own(v, pairs, of='videos', **options)
        tau = margins_by_own(t, pairs, of='texts', **options)
        return torch.lerp(torch.full_like(omega, self.alpha), (omega + tau) / 2, self.faded_in)
