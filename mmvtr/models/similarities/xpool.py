"""X-Pool (Gorti et al., CVPR 2022): each text pools the frames of each video separately."""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor, nn

from mmvtr.functional.values import at_least_float32, check_range, recomputed
from mmvtr.models.layers.pooling import check_mask, unit
from mmvtr.models.similarities.shortlist import ShortlistSimilarity
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding, with_tokens


@MODELS.register_module()
class XPoolSimilarity(ShortlistSimilarity):
    """Cosine of a text with a video's frames, pooled by the text's cross-attention.

        a_tv = softmax over frames of <Q n(t), K n(f)> / sqrt(D / heads)
        o    = n'(O sum_k a_tvk V n(f_k)),    z_tv = n''(o + dropout(L o)),    s_tv = cos(t, z_tv)

    with layer norms n, n' and n'', the first one shared by both sides.  The maps start as
    identities, to keep CLIP's features at the start.  There is a vector z for each *pair*: the
    score is not an inner product of per-item vectors, so no nearest-neighbour index can search it.
    Use a shortlist for a gallery.

    Args:
        dim: D.
        level: level whose ``mean`` (of texts), ``tokens`` and ``mask`` (of videos) are read.
        heads: attention heads (official: 1).
        dropout: dropout of L's output (official: .3), drawn from the number of the training step:
            the same on all processes and after a resume.
        shortlist: k of a two-stage search, from texts to videos and for evaluation only: each
            text's k best videos by the cosine of the level's vectors, which the encoder has
            mean-pooled, are ranked by z, the others follow below in the order of that cosine.
        entries: largest number of entries of z in memory, at least those of one text and one video.

    Attributes:
        exact: whether all of the last scores were X-Pool's (no shortlist, or one with all videos).
            Normalisation of scores over a gallery requires this.

    Raises:
        ValueError: ``dim`` is not a multiple of ``heads``, a dropout outside [0, 1), a shortlist
            below 1.
    """

    def __init__(
        self,
        *,
        dim: int,
        level: str = 'global',
        heads: int = 1,
        dropout: float = 0.3,
        shortlist: Optional[int] = None,
        entries: int = 2**24,
    ) -> None:
        super().__init__(level=level, shortlist=shortlist)
        if heads < 1 or dim % heads:
            raise ValueError(f'dim must be a multiple of heads, not {dim} of {heads}')
        check_range('[0, 1)', dropout=dropout)
        self.heads = heads
        self.dropout = dropout
        self.entries = entries
        maps = [nn.Linear(dim, dim) for _ in range(5)]
        for linear in maps:
            nn.init.eye_(linear.weight)
            nn.init.zeros_(linear.bias)
        self.query, self.key, self.value, self.output, self.linear = maps
        self.norm_in, self.norm_pooled, self.norm_out = (nn.LayerNorm(dim) for _ in range(3))
        self.register_buffer('step', torch.zeros((), dtype=torch.long))

    def whole(self, t: Embedding, v: Embedding) -> dict[str, Tensor]:
        """Return ``'pooled'`` and ``'scores'``, the same matrix."""
        everything = torch.arange(len(v.mean), device=t.mean.device)
        scores = self.of_some(t, v, everything.expand(len(t.mean), -1))
        self.step += self.training
        return {'pooled': scores, 'scores': scores}

    def of_some(self, t: Embedding, v: Embedding, columns: Tensor) -> Tensor:
        """Score text i with the videos ``columns[i]``, int64 [T, C] -> float [T, C]."""
        check_mask(with_tokens(v, self.level, 'videos').mask, 'mask of frames')
        texts = at_least_float32(t.mean)
        frames = self.norm_in(at_least_float32(v.tokens).masked_fill(~v.mask[..., None], 0.0))
        queries = self.query(self.norm_in(texts))
        state = (texts, queries, self.key(frames), self.value(frames))
        step = int(self.step)  # its value now, also when a tile is recomputed
        count = columns.numel()
        # Memory of a pair: its vector, and copies of the keys and values of its video.
        size = max(1, self.entries // (texts.shape[-1] * (1 + 2 * frames.shape[1])))
        rows = torch.arange(len(texts), device=columns.device)[:, None].expand_as(columns)
        parts = []
        for first in range(0, count, size):
            part = slice(first, first + size)
            pairs = rows.reshape(-1)[part], columns.reshape(-1)[part]
            # Checkpointed: the vectors of a tile are recomputed in the backward pass.
            parts.append(recomputed(self._pairs, *state, v.mask, *pairs, (step, first)))
        scores = torch.cat(parts) if parts else queries.sum() * 0.0 + texts.new_zeros(0)
        return scores.view(columns.shape)

    def _pairs(
        self,
        texts: Tensor,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor,
        row: Tensor,
        column: Tensor,
        draw: tuple[int, int],
    ) -> Tensor:
        """Return the scores of pairs, float [P]; ``draw``: the step, the first pair's place."""
        q, k, v = (
            x.unflatten(-1, (self.heads, -1)) for x in (queries[row], keys[column], values[column])
        )
        logits = torch.einsum('phd,pkhd->phk', q, k) / q.shape[-1] ** 0.5
        logits = logits.masked_fill(~mask[column][:, None], torch.finfo(logits.dtype).min)
        pooled = torch.einsum('phk,pkhd->phd', logits.softmax(-1), v).flatten(1)
        pooled = self.norm_pooled(self.output(pooled))
        z = self.norm_out(pooled + self._dropped(self.linear(pooled), draw))
        return (unit(texts[row]) * unit(z)).sum(-1)

    def _dropped(self, x: Tensor, draw: tuple[int, int]) -> Tensor:
        if not self.training or not self.dropout:
            return x
        generator = torch.Generator().manual_seed(1_000_003 * draw[0] + draw[1])
        keep = torch.rand(x.shape, generator=generator) >= self.dropout
        return x * keep.to(x.device, x.dtype) / (1 - self.dropout)
