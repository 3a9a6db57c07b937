"""Layers of encoders of many experts (CE, MMT, HiT, TACo): gates, NetVLAD, a transformer."""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor, nn

from mmvtr.functional.values import at_least_float32
from mmvtr.models.layers.joint_batch_norm import JointBatchNorm1d
from mmvtr.models.layers.pooling import check_mask, masked, unit
from mmvtr.registry import build
from mmvtr.structures import Embedding

#: Smallest log weight of an expert.  A weight is stored as a norm, whose square underflows below
#: e^-43 in float32; if experts are missing, the sum of such weights may be the divisor.
LOG_FLOOR = -20.0


def weighed_experts(units: Tensor, logits: Tensor) -> Embedding:
    """Return a text's unit vector for each expert times the weight of the expert.

    Args:
        units: float [T, E, D].
        logits: float [T, E], logits of the softmax over experts.

    Returns:
        ``tokens`` [T, E, D], whose norms are the weights and sum to 1, ``mask`` [T, E], all True,
        and ``mean`` [T, D], the sum of the tokens.
    """
    weights = at_least_float32(logits).log_softmax(-1).clamp(min=LOG_FLOOR).exp()
    tokens = weights[..., None] * units
    return Embedding(tokens.sum(1), tokens, torch.ones_like(weights, dtype=torch.bool))


def check_width(video: Tensor, experts: dict[str, int], encoder: str) -> None:
    """Check that rows are as wide as the widest expert of ``experts`` (width by name).

    Raises:
        ValueError: they are not.
    """
    widest = max(experts.values())
    if video.shape[2:] != (widest,):
        raise ValueError(
            f'{encoder} takes rows [V, F, {widest}], as wide as the widest of its experts '
            f'{str(experts)[:300]}, got {list(video.shape)}: those of LoadExperts must be the same'
        )


def row_tags(
    name: str, tags: Tensor, mask: Tensor, known: range, *, fill: int, encoder: str
) -> Tensor:
    """Cut tags int64 [V, R] of rows to [V, F], with ``fill`` at padding.

    Args:
        name: name of the tags, for the message.
        tags: int64 [V, R], R >= F.
        mask: bool [V, F], True on valid rows.
        known: allowed tags of valid rows.
        fill: value at padding.
        encoder: name of the encoder, for the message.

    Raises:
        ValueError: a valid row has a tag outside ``known``.
    """
    valid = tags[:, : mask.shape[1]][mask]
    wrong = valid[(valid < known.start) | (valid >= known.stop)]
    if len(wrong):
        raise ValueError(
            f'a row has {name} {int(wrong[0])}, but {encoder} knows {known.start} to {known[-1]}: '
            'experts must be those of LoadExperts, and max_seconds the longest video'
        )
    return tags[:, : mask.shape[1]].masked_fill(~mask, fill)


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


#: Rows of the time embedding table before those of the seconds.
AGGREGATED, UNKNOWN = 0, 1


class ExpertTransformer(nn.Module):
    """Base class: rows of experts projected to D, with expert and time embeddings, and BERT blocks.

    A subclass runs the blocks on chosen rows, and encodes the text.

    Args:
        text: text tower, kept as ``text``.
        experts: width of the features of each expert, by name.
        dim: D.
        layers, heads, feedforward, dropout: settings of the transformer.
        max_seconds: rows of the time embedding table for seconds.

    Raises:
        ValueError: no experts, or a ``dim`` that is not a multiple of ``heads``.
    """

    def __init__(
        self,
        text: dict | nn.Module,
        *,
        experts: dict[str, int],
        dim: int = 512,
        layers: int = 4,
        heads: int = 4,
        feedforward: int = 3072,
        dropout: float = 0.1,
        max_seconds: int = 32,
    ) -> None:
        super().__init__()
        if not experts or dim % heads:
            raise ValueError(
                f'{type(self).__name__} needs an expert and a dim that is a multiple of heads, got '
                f'experts {sorted(experts)}, dim {dim} and heads {heads}'
            )
        self.experts = dict(sorted(experts.items()))
        self.dim = dim
        self.project = nn.ModuleDict({e: nn.Linear(w, dim) for e, w in self.experts.items()})
        self.expert_embedding = nn.Embedding(len(experts), dim)
        self.time_embedding = nn.Embedding(UNKNOWN + 1 + max_seconds, dim)
        self.norm, self.dropout = nn.LayerNorm(dim, eps=1e-12), nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(
                dim, heads, feedforward, dropout, 'gelu', layer_norm_eps=1e-12, batch_first=True
            )
            for _ in range(layers)
        )
        self.apply(init_as_bert)
        self.text = build(text)

    def rows(
        self, video: Tensor, frame_mask: Tensor, expert: Tensor, second: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Prepare the rows of V videos for the blocks.

        Args:
            video: float [V, F, W], rows of all experts in any order; of a row of an expert of width
                w the first w values are read, and W is the largest width.
            frame_mask: bool [V, F], True on valid rows.
            expert: int64 [V, R] with R >= F, the number of the expert of each row.
            second: int64 [V, R], the time of each row, -1 if unknown.

        Returns:
            projected rows float [V, F, D], zero at padding; embeddings of their tags, float
            [V, F, D], to be added; and the expert of each row, int64 [V, F], ``len(experts)`` at
            padding.

        Raises:
            ValueError: another width, an unknown expert or a second outside the table, or a video
                without a valid row (its index is named).
        """
        check_mask(frame_mask, 'frame_mask')
        # Padding gets the number after the last expert.
        count, who = len(self.experts), dict(encoder=type(self).__name__)
        expert = row_tags('expert', expert, frame_mask, range(count), fill=count, **who)
        times = range(-1, self.time_embedding.num_embeddings - UNKNOWN - 1)
        second = row_tags('second', second, frame_mask, times, fill=-1, **who)
        rows = self._project(at_least_float32(video), expert)
        tags = self.expert_embedding(expert.clamp(max=len(self.experts) - 1))
        return rows, tags + self.time_embedding(second + UNKNOWN + 1), expert

    def _project(self, video: Tensor, expert: Tensor) -> Tensor:
        """Project float [V, F, W] by expert int64 [V, F] -> float [V, F, D], zero at padding."""
        check_width(video, self.experts, type(self).__name__)
        rows = video.new_zeros(*expert.shape, self.dim)
        for number, (linear, width) in enumerate(zip(self.project.values(), self.experts.values())):
            of_expert = expert == number
            rows[of_expert] = at_least_float32(linear(video[of_expert][:, :width]))
        return rows


def init_as_bert(module: nn.Module) -> None:
    """Initialise all matrices and embedding tables by N(0, .02), biases by 0."""
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.MultiheadAttention):
        nn.init.normal_(module.in_proj_weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
