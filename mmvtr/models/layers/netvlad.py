"""NetVLAD: pooling of rows by residuals to learnt centres (Arandjelovic et al., 2016)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mmvtr.functional.values import at_least_float32
from mmvtr.models.layers.joint_batch_norm import JointBatchNorm1d
from mmvtr.models.layers.pooling import masked, unit


class NetVLAD(nn.Module):
    """Soft assignment of rows to clusters, and the sum of residuals of each cluster (as in CE).

        a_n = softmax(BN(x_n C)),    v_k = sum_n a_nk (x_n - c_k),    k = 1 .. K

    Ghost clusters take part in the softmax and are then dropped.  The centres c are separate
    parameters, not C.  Each v_k is normalised, then their concatenation.

    Args:
        in_dim: D, width of a row.
        clusters: K.
        ghosts: G.

    Attributes:
        dim: K D, width of the output.

    Raises:
        ValueError: fewer than one cluster, or a negative number of ghosts.
    """

    def __init__(self, in_dim: int, clusters: int, *, ghosts: int = 0) -> None:
        super().__init__()
        if clusters < 1 or ghosts < 0:
            raise ValueError(
                f'NetVLAD needs a cluster and no negative ghosts, got {clusters} and {ghosts}'
            )
        self.dim = in_dim * clusters
        self.clusters = nn.Parameter(torch.randn(in_dim, clusters + ghosts) / in_dim**0.5)
        self.centres = nn.Parameter(torch.randn(1, in_dim, clusters) / in_dim**0.5)
        self.norm = JointBatchNorm1d(clusters + ghosts)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Pool the rows of each of N items.

        Args:
            x: float [N, L, D]; values where the mask is False are never read.
            mask: bool [N, L]; all True lets rows of zeros be assigned and counted.

        Returns:
            float [N, D K], at least float32, entry ``d K + k`` being dimension d of v_k; zero for
            an item without a row.
        """
        x = masked(x, mask)
        shares = self.norm(x[mask] @ self.clusters).softmax(-1)[:, : self.centres.shape[-1]]
        assigned = x.new_zeros(*mask.shape, shares.shape[-1])
        assigned[mask] = at_least_float32(shares)
        with torch.autocast(x.device.type, enabled=False):
            residuals = x.transpose(1, 2) @ assigned - self.centres * assigned.sum(1, keepdim=True)
        # Normalise over D, separately for each cluster.
        return unit(unit(residuals.transpose(1, 2)).transpose(1, 2).flatten(1))
