"""CMGSD's adaptive margin: the less two items are alike, the further apart their scores."""

from __future__ import annotations

from typing import NamedTuple, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvtr.functional.adaptive_margin import Standard, margins_by, standard_of_products
from mmvtr.functional.precision import at_least_float32
from mmvtr.models.strips import Pairs
from mmvtr.models.supervisions.ramp import checked_ramp, ramp_at
from mmvtr.models.target import Target
from mmvtr.registry import MODELS
from mmvtr.structures import Levels


class Begun(NamedTuple):
    """What the strips of a joint batch share; no gradient.

    Attributes:
        texts, videos: unit vectors, float [T, D] and [V, D].
        own_texts: mean unit text of each video, float [V, D], NaN where it has none.
        own_videos: mean unit video of each text, float [T, D], likewise.
        omega, tau: their mean and standard deviation over the pairs that are no match.
    """

    texts: Tensor
    videos: Tensor
    own_texts: Tensor
    own_videos: Tensor
    omega: Optional[Standard]
    tau: Optional[Standard]


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
        begun = self.begin(texts, videos, Pairs.of(target.positives))
        target, sums = self.strip(begun, slice(None), target)
        return target, self.finish(begun, sums)

    # -- in strips (models/strips.py) ------------------------------------------------------------

    @torch.no_grad()
    def begin(self, texts: Levels, videos: Levels, pairs: Pairs) -> Begun:
        """Once for a joint batch: mean unit vectors of own partners, and what is usual."""
        t, v = (
            F.normalize(at_least_float32(side[self.level].mean), dim=-1) for side in (texts, videos)
        )
        own_videos, own_texts = pairs.means(v, of='videos'), pairs.means(t, of='texts')
        with torch.autocast(t.device.type, enabled=False):
            omega = self._standard(own_videos, v, pairs.rows, pairs.columns)
            tau = self._standard(own_texts, t, pairs.columns, pairs.rows)
        return Begun(t, v, own_texts, own_videos, omega, tau)

    @staticmethod
    def _standard(own: Tensor, others: Tensor, rows: Tensor, columns: Tensor) -> Optional[Standard]:
        """Of 1 - the product of an item's own partners, NaN where it has none, with others."""
        known = ~own.isnan().any(1)
        place = known.cumsum(0) - 1  # who has no partner is in no pair
        return standard_of_products(own[known], others, (place[rows], columns))

    @torch.no_grad()
    def strip(self, begun: Begun, rows: slice, target: Target) -> tuple[Target, dict[str, Tensor]]:
        """The target of the texts ``rows`` -> the same with margins, and sums over its entries."""
        how = dict(alpha=self.alpha, beta=self.beta)
        with torch.autocast(begun.texts.device.type, enabled=False):
            omega = margins_by(begun.omega, 1 - begun.own_videos[rows] @ begun.videos.t(), **how)
            tau = margins_by(begun.tau, 1 - begun.texts[rows] @ begun.own_texts.t(), **how)
        ramp = ramp_at(self.progress, self.ramp)
        margins = torch.lerp(torch.full_like(omega, self.alpha), (omega + tau) / 2, ramp)
        others = margins.double().masked_fill(target.positives, 0.0)
        sums = dict(
            margins=others.sum(),
            squares=others.square().sum(),
            others=(~target.positives).sum().double(),
        )
        return target._replace(margins=margins), sums

    def finish(self, begun: Begun, sums: dict[str, Tensor]) -> dict[str, Tensor]:
        """Sums over all strips -> a figure for the log."""
        count = sums['others'].clamp_min(1)
        variance = sums['squares'] / count - (sums['margins'] / count).square()
        return {'margin_std': variance.clamp_min(0).sqrt().to(begun.texts.dtype)}
