"""Collaborative gating (CE, Liu et al., BMVC 2019): each expert is gated by the other experts."""

from __future__ import annotations

from itertools import permutations, product
from typing import Optional, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvtr.functional.values import at_least_float32
from mmvtr.models.layers.joint_batch_norm import JointBatchNorm1d
from mmvtr.models.layers.pooling import unit

#: Input of g beside e_i: another expert, two of them, or the mean of all available ones.
MODES = ('pairwise', 'triplet', 'pairwise-star', 'pairwise-star-specific', 'pairwise-star-tensor')

#: Width of each of the two factors of the outer product of ``'pairwise-star-tensor'``.
FACTOR = 64


class CollaborativeGating(nn.Module):
    """Gating of each expert of a video by the video's other experts.

        T_i = mean over the available j of g(e_i, e_j),
        out_i = unit(e_i * sigmoid(BN(h(T_i)) + BN(F_i e_i + f_i)))

    g and h are shared by all experts.  g is a linear map and ``g_layers - 1`` times BN, Mish and a
    linear map; h is ``h_layers`` times these three, by default the identity.  Missing experts are
    excluded from all means.

    The released code overwrites e_i by out_i before it gates the next expert, so that an expert is
    gated by gated experts before it in alphabetical order and by raw ones after it
    (``sequential=True``).  Here, by default, all are gated by the same inputs.  On random weights
    (golden modules: three experts, D = 8) scores differ by up to 7.1e-4 with ``'pairwise'``, 3.4e-3
    with ``'triplet'`` and 6.6e-3 with ``'pairwise'`` without self and with an h; in training, with
    batch statistics, by .03, .05 and .11; with a star not at all.

    Args:
        experts: E.
        dim: D.
        mode: ``'pairwise'``: g([e_i; e_j]) (the released configs); ``'triplet'``:
            g([e_i; e_j; e_k]); ``'pairwise-star'``: g([e_i; m]), m being the mean of the available
            experts before any gating; ``'pairwise-star-specific'``: ``'pairwise-star'`` with two
            linear maps per expert, Mish between them, instead of g's first map;
            ``'pairwise-star-tensor'``: g's first map reads the outer product of e_i and m, both
            reduced to 64.
        g_layers: layers of g, at least 1.
        h_layers: layers of h, 0 or more.
        include_self: include j = i, with ``'triplet'`` all j and k; else j, k and i differ.
        sequential: see above.

    Raises:
        ValueError: an unknown mode, or too few layers.
    """

    def __init__(
        self,
        experts: int,
        dim: int,
        *,
        mode: str = 'pairwise',
        g_layers: int = 3,
        h_layers: int = 0,
        include_self: bool = True,
        sequential: bool = False,
    ) -> None:
        super().__init__()
        if mode not in MODES:
            raise ValueError(f'gating must be one of {MODES}, or None for MoEE, not {mode!r}')
        if g_layers < 1 or h_layers < 0:
            raise ValueError(
                f'gating needs g_layers >= 1 and h_layers >= 0, got {g_layers} and {h_layers}'
            )
        self.mode = mode
        self.include_self = include_self
        self.sequential = sequential
        self.experts = experts
        if mode == 'pairwise-star-specific':
            self.own = nn.ModuleList(
                nn.Sequential(nn.Linear(2 * dim, dim), nn.Mish(), nn.Linear(dim, dim))
                for _ in range(experts)
            )
        elif mode == 'pairwise-star-tensor':
            self.reduce = nn.Linear(dim, FACTOR)
            self.first = nn.Linear(FACTOR**2, dim)
        else:
            self.first = nn.Linear((3 if mode == 'triplet' else 2) * dim, dim)
        self.deeper = NormedLayers(dim, g_layers - 1)
        self.after = NormedLayers(dim, h_layers)
        self.gates = nn.ModuleList(CollaborativeGate(dim) for _ in range(experts))

    def forward(
        self, vectors: Tensor, available: Tensor, counted: Optional[Tensor] = None
    ) -> Tensor:
        """Gate the experts of V videos.

        Args:
            vectors: float [E, V, D], the e_i; any finite values for missing experts.
            available: bool [E, V].
            counted: bool [E, V], the vectors that count in batch statistics; by default those of
                the available experts.

        Returns:
            float [E, V, D], unit vectors; undefined for missing experts.
        """
        counted = available if counted is None else counted
        shares = available[..., None].to(vectors.dtype)
        star = (vectors * shares).sum(0) / shares.sum(0).clamp_min(1)
        if not self.sequential:
            every = list(range(self.experts))
            return self._gated(every, vectors, star, available, counted)
        for i in range(self.experts):
            gated = self._gated([i], vectors, star, available, counted)
            vectors = torch.cat([vectors[:i], gated, vectors[i + 1 :]])
        return vectors

    def _gated(
        self, which: list[int], vectors: Tensor, star: Tensor, available: Tensor, counted: Tensor
    ) -> Tensor:
        """Return the experts ``which`` gated by ``vectors``, [W, V, D]."""
        if self.mode in ('pairwise', 'triplet'):
            opinions = self._of_others(which, vectors, available, counted)
        else:
            opinions = self._of_star(which, vectors, star, counted)
            opinions = opinions.masked_fill(~available[which][..., None], 0)
        opinions = self.after(opinions, counted[which])
        gates = [
            self.gates[i](vectors[i], opinion, counted[i]) for i, opinion in zip(which, opinions)
        ]
        return torch.stack(gates)

    def _of_others(
        self, which: list[int], vectors: Tensor, available: Tensor, counted: Tensor
    ) -> Tensor:
        """Return T_i [W, V, D] from other experts, one or two at a time."""
        groups = self._groups(which, vectors.device)  # [W, P, 2 or 3]
        # The linear map of a concatenation is a sum of maps, each computed once per expert.
        parts = self.first.weight.chunk(groups.shape[-1], 1)
        mapped = [F.linear(vectors, part)[groups[..., n]] for n, part in enumerate(parts)]
        x = sum(mapped) + self.first.bias
        together, count = (mask[groups].all(2) for mask in (available, counted))
        x = self.deeper(x.flatten(0, 1), count.flatten(0, 1)).view(x.shape)
        total = at_least_float32(x).masked_fill(~together[..., None], 0).sum(1)
        return total / together.sum(1).clamp_min(1)[..., None]

    def _groups(self, which: Sequence[int], device: torch.device) -> Tensor:
        """Return int64 [W, P, 2 or 3], i and its partners, in the released code's loop order."""
        number = 2 if self.mode == 'triplet' else 1
        chosen = []
        for i in which:
            if self.include_self:
                others = product(range(self.experts), repeat=number)
            else:
                others = permutations([j for j in range(self.experts) if j != i], number)
            chosen.append([(i, *group) for group in others])
        flat = torch.tensor(chosen, dtype=torch.long, device=device)
        return flat.view(len(which), len(chosen[0]), 1 + number)

    def _of_star(self, which: list[int], vectors: Tensor, star: Tensor, counted: Tensor) -> Tensor:
        """Return g(e_i, m) [W, V, D]."""
        if self.mode == 'pairwise-star-specific':
            x = torch.stack([self.own[i](torch.cat([vectors[i], star], -1)) for i in which])
        elif self.mode == 'pairwise-star-tensor':
            mine, all_of_it = self.reduce(vectors[which]), self.reduce(star)
            x = self.first((mine[..., None] * all_of_it[:, None]).flatten(-2))
        else:
            mine = vectors[which]
            x = self.first(torch.cat([mine, star.expand_as(mine)], -1))
        return self.deeper(x, counted[which])


class NormedLayers(nn.Module):
    """A stack of ``layers`` times BN over the rows of each group, Mish and a linear map."""

    def __init__(self, dim: int, layers: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(JointBatchNorm1d(dim) for _ in range(layers))
        self.linears = nn.ModuleList(nn.Linear(dim, dim) for _ in range(layers))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Map float [G, N, D] with bool [G, N], the rows that count -> float [G, N, D]."""
        for norm, linear in zip(self.norms, self.linears):
            x = linear(F.mish(norm(x, mask)))
        return x


class CollaborativeGate(nn.Module):
    """``unit(e * sigmoid(BN1(t) + BN2(F e + f)))``."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.linear = nn.Linear(dim, dim)
        self.norm_opinion, self.norm_own = JointBatchNorm1d(dim), JointBatchNorm1d(dim)

    def forward(self, e: Tensor, opinion: Tensor, mask: Optional[Tensor] = None) -> Tensor:
        """Gate float [N, D] by float [N, D]; ``mask`` bool [N]: rows that count -> units [N, D]."""
        gate = self.norm_opinion(opinion, mask) + self.norm_own(self.linear(e), mask)
        return unit(e * gate.sigmoid())
