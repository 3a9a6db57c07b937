"""Frame tower for precomputed frame features."""

from __future__ import annotations

from typing import Optional

from torch import Tensor, nn

from mmvtr.registry import MODELS


@MODELS.register_module()
class FeatureFrames(nn.Module):
    """Takes frame features as they are, or projects them linearly.

    Args:
        in_dim: width of the stored features.
        dim: width D of the joint space; None keeps the features unchanged.
        identity: the projection begins as the identity, where frames and texts begin in one space.

    Raises:
        ValueError: ``identity`` between different widths.
    """

    def __init__(self, in_dim: int, dim: Optional[int] = None, *, identity: bool = False) -> None:
        super().__init__()
        self.in_dim = in_dim
        self.dim = in_dim if dim is None else dim
        self.projection = nn.Identity() if dim is None else nn.Linear(in_dim, dim)
        if identity:
            if dim != in_dim:
                raise ValueError(f'FeatureFrames: identity needs dim = in_dim, not {dim}, {in_dim}')
            nn.init.eye_(self.projection.weight)
            nn.init.zeros_(self.projection.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Features float [N, in_dim] -> float [N, D].

        Raises:
            ValueError: the features are of another width.
        """
        if x.shape[1:] != (self.in_dim,):
            raise ValueError(
                f'FeatureFrames takes features [N, {self.in_dim}], got {list(x.shape)}: in_dim '
                'must be the width of the stored features'
            )
        return self.projection(x)
