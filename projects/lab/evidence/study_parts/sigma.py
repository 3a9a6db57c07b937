"""Texts that a head is unsure of are pushed away less: UATVR's sigma as a weight, or as a floor."""

from __future__ import annotations

import torch
from torch import Tensor

from mmvtr.functional.uncertainty.gaussian import geometric_sigma
from mmvtr.functional.values import check_range
from mmvtr.models.supervisions.weights import Ramped, down_weight, weight_figures
from mmvtr.models.target import Target
from mmvtr.registry import MODELS
from mmvtr.structures import Levels


@MODELS.register_module()
class SigmaSupervision(Ramped):
    """Supervision that lowers the weight of a text's negatives as its sigma grows in the batch.

        r_t = (number of texts with a smaller sigma + 1/2 of the others with the same) / (T - 1)
        eta_tv = max(floor, 1 - min(1, r_t / half))

    sigma is UATVR's uncertainty, the geometric mean of a text's standard deviations (its Fig. 3).
    Where its head has learnt to, it tells texts that say little, without words (docs/uatvr.md says
    where it has, and where it points the other way), and nothing of which videos they are true of.
    So it is meant as the floor of another supervision, which knows pairs: in
    ``CombinedSupervision(combine='max')`` a negative is spared only as far as both spare it, and
    those of a text that its head is sure of are pushed in full.  How much a text counts
    (``Target.counts``) is not its matter.

    Weights carry no gradient, and there are no losses: what sigma means is learnt by the objectives
    of the head (``MultiInstanceContrast``, which reads the same weights, ``KLToUnit``).

    Args:
        level: of the texts; a head has made it (``model.heads``).
        half: the share of the batch, from the surest text on, that is held by this at all: texts
            beyond are spared as if ``half`` were all there is.
        floor: smallest eta.
        ramp: (start, end) as shares of the training: the weight goes linearly from 1 to eta.

    Raises:
        ValueError: ``half`` outside (0, 1], a floor outside [0, 1], a ramp that is not ascending
            within [0, 1]; in training: the level is missing, or is not Gaussian.
    """

    fills = 'weights'  # models/target.py: check_read

    def __init__(
        self,
        *,
        level: str = 'gaussian',
        half: float = 0.5,
        floor: float = 0.0,
        ramp: tuple[float, float] = (0.0, 0.0),
    ) -> None:
        super().__init__(ramp)
        if not 0 < half <= 1:
            raise ValueError(f'half must lie in (0, 1], not {half}')
        check_range('[0, 1]', floor=floor)
        self.level = level
        self.half = half
        self.floor = floor

    @torch.no_grad()
    def forward(
        self, texts: Levels, videos: Levels, target: Target
    ) -> tuple[Target, dict[str, Tensor]]:
        """Levels of the joint batch -> target with weights [T, V], and figures for the log."""
        found = texts.get(self.level)
        if found is None or found.log_std is None:
            raise ValueError(
                f'{type(self).__name__} needs the sigma of texts: level {self.level!r} '
                + ('is missing' if found is None else 'is not Gaussian')
                + "; give the model heads, as model.heads = dict(type='PCMEGaussianHead')"
            )
        eta = 1 - (shares_below(geometric_sigma(found.log_std)) / self.half).clamp(max=1.0)
        eta = eta[:, None].expand(target.positives.shape)
        share = self.faded_in
        target, sums = down_weight(target, eta, floor=self.floor, share=share)
        return target, weight_figures(sums)


def shares_below(values: Tensor) -> Tensor:
    """Float [N] -> [N] in [0, 1]: the share of the others that is smaller, half of what is equal.

    Example:
        ::

            >>> shares_below(torch.tensor([3.0, 1.0, 3.0]))
            tensor([0.7500, 0.0000, 0.7500])
    """
    ordered = values.sort().values
    below, upto = (torch.searchsorted(ordered, values, right=right) for right in (False, True))
    return (below + (upto - below - 1) / 2).to(values.dtype) / max(len(values) - 1, 1)
