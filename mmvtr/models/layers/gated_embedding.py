"""A linear map with a gate on its output."""

from __future__ import annotations

from typing import Optional

from torch import Tensor, nn

from mmvtr.models.layers.joint_batch_norm import JointBatchNorm1d
from mmvtr.models.layers.pooling import unit


class GatedEmbedding(nn.Module):
    """``z = W1 h + b1``, then ``z * sigmoid(W2 z + b2)`` as a unit vector (Miech et al., 2018).

    Args:
        in_dim: width of h.
        dim: D.
        norm: normalise ``W2 z + b2`` over the batch, as public codes do (MoEE, CE).  An item then
            depends on the rest of its batch in training; without it only on itself (MMT here).
    """

    def __init__(self, in_dim: int, dim: int, *, norm: bool = False) -> None:
        super().__init__()
        self.linear, self.gate = nn.Linear(in_dim, dim), nn.Linear(dim, dim)
        self.norm = JointBatchNorm1d(dim) if norm else None

    def forward(self, h: Tensor, mask: Optional[Tensor] = None) -> Tensor:
        """Map float [N, in_dim] -> float [N, D], at least float32.


        ``mask`` bool [N] says which rows count in the statistics of a batch; None: all.
        """
        z = self.linear(h)
        gate = self.gate(z)
        if self.norm is not None:
            gate = self.norm(gate, mask)
        return unit(z * gate.sigmoid())
