"""NeighborRetr's losses on two matrices (Lin et al., CVPR 2025)."""

from __future__ import annotations

from typing import Mapping, Optional

import torch
from torch import Tensor

from mmvtr.functional.losses.contrastive import WAYS, contrastive
from mmvtr.functional.losses.neighbours import neighbour_loss, score_divergence, uniform_loss
from mmvtr.models.losses.matrix import MatrixLoss
from mmvtr.models.target import Matrices, Scalar, Target, Targets
from mmvtr.registry import MODELS

#: Names of the parts of the loss.
PARTS = ('contrast', 'neighbours', 'uniform', 'divergence')


@MODELS.register_module()
class NeighborRetrLoss(MatrixLoss):
    """NeighborRetr's loss: centrality weights, a neighbour term and a uniform retrieval term.


        contrast + neighbours + uniform + KL, with weights of 1 as in the official code

    The contrast (each anchor weighted by its count) and :func:`.neighbour_loss` read the first
    matrix (local); :func:`.uniform_loss` and :func:`.score_divergence` (from the first matrix) read
    the second (global).  Each is the mean of both directions.  Counts and hubness come from a
    HubSupervision.  The contrast is the mean of count x term, not divided by the mean count, as in
    the official code.

    Args:
        neighbours, sharpness, share, iterations: see the functions.
        uniform_temperature: temperature of the scores in the uniform part; 1 / 3 in the official
            code, which uses its neighbours' ``temperature`` of 3 as a factor; None: the model's.
        reads: the local and the global matrix.
        loss_weight: factor of the sum.

    Raises:
        ValueError: not exactly two matrices; in training: a target without counts and hubness of
            both directions.
    """

    slots = ('counts', 'hubness')

    def __init__(
        self,
        *,
        neighbours: int = 20,
        sharpness: float = 3.0,
        share: float = 0.7,
        uniform_temperature: Optional[float] = 1 / 3,
        iterations: int = 50,
        reads: tuple[str, str] = ('token', 'global'),
        loss_weight: float = 1.0,
    ) -> None:
        super().__init__(reads=reads, loss_weight=loss_weight)
        if len(self.reads) != 2:
            raise ValueError(f'reads must be a local and a global matrix, not {self.reads}')
        self.near = dict(neighbours=neighbours, sharpness=sharpness)
        self.uniform = dict(share=share, iterations=iterations)
        self.uniform_temperature = uniform_temperature

    def forward(self, matrices: Matrices, target: Targets, temperature: Scalar) -> Tensor:
        """Return the 0-dim loss of two matrices [T, V], their target and the temperature."""
        parts = self.parts(matrices, target, temperature)
        return self.loss_weight * sum(parts.values())

    def parts(self, matrices: Matrices, target: Targets, temperature: Scalar) -> dict[str, Tensor]:
        """Return each part by name, 0-dim, unweighted; all NaN if an input is not finite, so that
        the retriever's error names the batch."""
        local, whole = (matrices[name] for name in self.existing(matrices))
        single = self.target(target, self.reads[0])
        hubness = single.extras.get('hubness', {})
        counts = single.counts if isinstance(single.counts, Mapping) else {}
        missing = [way for way in WAYS if way not in hubness or way not in counts]
        if missing:
            raise ValueError(
                f'{type(self).__name__} reads counts by direction and the hubness beside the '
                f'target, and there are none of {" and ".join(missing)}: set '
                "model.supervision=dict(type='HubSupervision', ...)"
            )
        read = (local, whole, *counts.values(), *hubness.values())
        if not torch.stack([x.isfinite().all() for x in read]).all():
            return dict.fromkeys(PARTS, local.sum() * torch.nan)
        straight = self._direction('t2v', local, whole, single.positives, single, temperature)
        turned = (x.t() for x in (local, whole, single.positives))
        back = self._direction('v2t', *turned, single, temperature)
        return {name: (value + back[name]) / 2 for name, value in straight.items()}

    def _direction(
        self,
        way: str,
        local: Tensor,
        whole: Tensor,
        positives: Tensor,
        target: Target,
        temperature: Scalar,
    ) -> dict[str, Tensor]:
        counts, matched = target.counts[way], positives.any(1)
        contrast = contrastive(
            local, positives, temperature=temperature, counts=counts, direction='t2v'
        )
        mean = counts[matched].mean() if matched.any() else 1.0
        bend = temperature if self.uniform_temperature is None else self.uniform_temperature
        return dict(
            contrast=contrast * mean,
            neighbours=neighbour_loss(local, positives, target.extras['hubness'][way], **self.near),
            uniform=uniform_loss(whole, positives, temperature=bend, **self.uniform),
            divergence=score_divergence(whole, local),
        )
