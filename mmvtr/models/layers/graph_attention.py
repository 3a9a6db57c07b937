"""One layer of attention over the edges of a graph (HGR's GCN)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mmvtr.functional.values import at_least_float32


class GraphAttention(nn.Module):
    """``LN(x_i + dropout(W sum_j a_ij x_j))`` over the nodes j that i receives from.

    a_i is the softmax over these j of <Q x_i, K x_j> / sqrt(D / 2); a node that receives from none
    becomes LN(x_i).  All edges share one W: in HGR (Chen et al., CVPR 2020) and its code, a node is
    multiplied by its role before the layer.

    Args:
        dim: D, even.
        dropout: dropout of the messages added to a node.
    """

    def __init__(self, dim: int, *, dropout: float = 0.5) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(dim, dim // 2), nn.Linear(dim, dim // 2)
        self.context = nn.Linear(dim, dim, bias=False)
        self.dropout = nn.Dropout(dropout)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        """Map float [N, M, D], bool [N, M, M] (row i: senders to node i) -> float [N, M, D]."""
        query, key = self.query(x), self.key(x)
        logits = at_least_float32(query @ key.mT) / query.shape[-1] ** 0.5
        logits = logits.masked_fill(~edges, torch.finfo(logits.dtype).min)
        weights = logits.softmax(-1).masked_fill(~edges, 0.0).to(x.dtype)
        return self.norm(x + self.dropout(self.context(weights @ x)))
