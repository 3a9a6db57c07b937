"""The Collaborative Experts network (CE, Liu et al., BMVC 2019) and its predecessor, MoEE.

A video is one vector per expert, each gated by the other experts.  A text is one vector per expert
too, and a weight for each expert.
"""

from __future__ import annotations

from typing import ClassVar, Mapping, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mmvtr.functional.values import at_least_float32
from mmvtr.models.layers.collaborative import CollaborativeGating
from mmvtr.models.layers.experts import (
    GatedEmbedding,
    NetVLAD,
    check_width,
    row_tags,
    weighed_experts,
)
from mmvtr.models.layers.pooling import check_mask, masked, unit
from mmvtr.registry import MODELS, build
from mmvtr.structures import Embedding, Levels

#: Key of the words in ``padded``, whose other keys are names of experts.
TEXT = 'text'


@MODELS.register_module()
class CEEncoder(nn.Module):
    """Encoder of Collaborative Experts, video and text side, for rows of ``LoadExperts``.

    Video: the rows of an expert in ``clusters`` are pooled by a NetVLAD, those of any other by
    their mean; each vector is projected to D, as a unit vector; then
    :class:`~mmvtr.models.layers.collaborative.CollaborativeGating`.  Text: all words through a
    NetVLAD, then a gated embedding for each expert, and a softmax over experts as weights.  MoEE
    (``gating=None, dim=None``) has gated embeddings of each expert's own width instead of
    projection and gating; narrower ones are padded with zeros, which changes no inner product.

    One level, ``'global'``, like MMTEncoder: tokens are the experts, by name in alphabetical order.
    Tokens of a video are unit vectors, zero where the mask says that the expert is missing; those
    of a text are unit vectors times the text's weights, as
    :class:`~mmvtr.models.similarities.mmt.ExpertSimilarity` expects them.

    In training, batch normalisation makes a text depend on the other texts of the joint batch, and
    a video on the other videos (:class:`~mmvtr.models.layers.joint_batch_norm.JointBatchNorm1d`):
    ``model.micro_batch`` is refused.

    Padding and missing experts are never read, and count in no statistics.  In the released code
    they do: rows are padded with zeros to a fixed number, and NetVLAD's mask has no effect, so that
    zeros are assigned to clusters and counted in its batch normalisation; so are missing experts,
    which are left out only of the means of the gating and of the score.  ``padded`` reproduces
    this, and ``sequential`` reproduces gating by experts that are already gated: weights of the
    released code need both.

    Args:
        text: text tower: (words [T, L, ..], mask [T, L]) -> (words [T, L, D_t], pooled), attribute
            ``dim`` = D_t; only the words are read.  ``FeatureWords`` for stored vectors.
        experts: width of the features of each expert, by name.
        clusters: clusters of a NetVLAD, by the name of those experts that have one.
        text_clusters, text_ghosts: numbers of clusters and ghost clusters of the text's NetVLAD.
        dim: D; None with MoEE, whose D is the largest width.
        gating: mode of CollaborativeGating, or None: MoEE.
        g_layers, h_layers, include_self, sequential: see CollaborativeGating; unused by MoEE.
        padded: numbers of rows that the released code pads to, for each expert in ``clusters`` and
            ``'text'``; padding then counts as in that code.  None: padding does not count.

    Raises:
        ValueError: no experts, names in ``clusters`` or ``padded`` that do not fit them, or only
            one of ``gating`` and ``dim``.
    """

    level_names: ClassVar[tuple[str, ...]] = ('global',)

    def __init__(
        self,
        text: dict | nn.Module,
        *,
        experts: Mapping[str, int],
        clusters: Mapping[str, int],
        text_clusters: int,
        text_ghosts: int = 0,
        dim: Optional[int] = 768,
        gating: Optional[str] = 'pairwise',
        g_layers: int = 3,
        h_layers: int = 0,
        include_self: bool = True,
        sequential: bool = False,
        padded: Optional[Mapping[str, int]] = None,
    ) -> None:
        super().__init__()
        _check(experts, clusters, padded, gating, dim)
        self.experts = dict(sorted(experts.items()))
        self.padded = None if padded is None else dict(padded)
        self.pools = nn.ModuleList(
            NetVLAD(width, clusters[name]) if name in clusters else MeanRow(width)
            for name, width in self.experts.items()
        )
        self.text = build(text)
        self.text_pool = NetVLAD(self.text.dim, text_clusters, ghosts=text_ghosts)
        if gating is None:
            widths = list(self.experts.values())
            self.project = nn.ModuleList(
                GatedEmbedding(pool.dim, width, norm=True)
                for pool, width in zip(self.pools, widths)
            )
            self.gating = None
        else:
            widths = [dim] * len(self.experts)
            self.project = nn.ModuleList(UnitLinear(pool.dim, dim) for pool in self.pools)
            self.gating = CollaborativeGating(
                len(self.experts),
                dim,
                mode=gating,
                g_layers=g_layers,
                h_layers=h_layers,
                include_self=include_self,
                sequential=sequential,
            )
        self.dim = max(widths)
        width = self.text_pool.dim
        self.phrases = nn.ModuleList(GatedEmbedding(width, w, norm=True) for w in widths)
        self.weigh = nn.Linear(width, len(self.experts))

    def encode_video(
        self, video: Tensor, frame_mask: Tensor, *, expert: Tensor, second: Optional[Tensor] = None
    ) -> Levels:
        """Encode V videos.

        Args:
            video: float [V, F, W], rows of all experts, those of each expert in order; of a row of
                an expert of width w the first w values are read, and W is the largest width.
            frame_mask: bool [V, F], True on valid rows.
            expert: int64 [V, R] with R >= F, the number of the expert of each row.
            second: seconds from ``LoadExperts``, which CE does not use.

        Returns:
            level ``'global'``: ``tokens`` [V, E, D], ``mask`` [V, E], True for available experts,
            and ``mean`` [V, D] over those.

        Raises:
            ValueError: another width, an unknown expert, a video without a valid row (its index is
                named), or more rows of an expert than ``padded`` allows.
        """
        check_mask(frame_mask, 'frame_mask')
        check_width(video, self.experts, 'CEEncoder')
        number = range(len(self.experts))
        expert = row_tags('expert', expert, frame_mask, number, fill=-1, encoder='CEEncoder')
        available = torch.stack([(expert == n).any(1) for n in number])
        counted = available if self.padded is None else torch.ones_like(available)
        vectors = []
        for n, name in enumerate(self.experts):
            pooled = self.pools[n](*self._rows(name, video, expert == n))
            vectors.append(self.project[n](pooled, counted[n]))
        if self.gating is None:
            gated = torch.stack([F.pad(x, (0, self.dim - x.shape[1])) for x in vectors])
        else:
            gated = self.gating(torch.stack(vectors), available, counted)
        available = available.t()
        tokens = masked(gated.transpose(0, 1), available)
        mean = tokens.sum(1) / available.sum(1, keepdim=True)
        return {'global': Embedding(mean, tokens, available)}

    def encode_text(self, text: Tensor, text_mask: Tensor) -> Levels:
        """Encode T texts.

        Args:
            text: float [T, L, D_t] word vectors, or other input of the text tower.
            text_mask: bool [T, L].

        Returns:
            level ``'global'``: see :func:`~mmvtr.models.layers.experts.weighed_experts`.

        Raises:
            ValueError: raised by the tower; a text without a word, or more words than ``padded``
                allows.
        """
        check_mask(text_mask, 'text_mask')
        return self._of_words(self.text(text, text_mask)[0], text_mask)

    def encode_nothing(self, side: str) -> Levels:
        """Return levels of zero items of a side, ``'video'`` or ``'text'``.

        The process still takes part in the joint batch's statistics, for which the others wait.
        """
        weight = self.weigh.weight
        mask = torch.zeros(0, 1, dtype=torch.bool, device=weight.device)
        if side == 'video':
            rows = weight.new_zeros(0, 1, max(self.experts.values()))
            return self.encode_video(rows, mask, expert=mask.long())
        # Parameters of the tower get zero gradients, like those of the later layers.
        anchor = sum((p.sum() for p in self.text.parameters() if p.requires_grad), weight.sum() * 0)
        return self._of_words(anchor.expand(0, 1, self.text.dim), mask)

    def _of_words(self, words: Tensor, mask: Tensor) -> Levels:
        """Turn words float [T, L, D_t] and their mask bool [T, L] into levels."""
        if self.padded is not None:
            words, mask = _zeros_behind(masked(words, mask), mask, self.padded[TEXT], 'words')
        pooled = self.text_pool(words, mask)
        phrases = [phrase(pooled) for phrase in self.phrases]
        units = torch.stack([F.pad(x, (0, self.dim - x.shape[1])) for x in phrases], 1)
        return {'global': weighed_experts(units, self.weigh(pooled))}

    def _rows(self, name: str, video: Tensor, of_expert: Tensor) -> tuple[Tensor, Tensor]:
        """Return an expert's rows (bool ``of_expert`` [V, F]), left-aligned: float [V, N, w], and
        their mask bool [V, N]."""
        counts, width = of_expert.sum(1), self.experts[name]
        longest = max([1, *counts.tolist()])
        mask = torch.arange(longest, device=of_expert.device) < counts[:, None]
        rows = video.new_zeros(*mask.shape, width)
        rows[mask] = video[of_expert][:, :width]
        if self.padded is not None and name in self.padded:
            return _zeros_behind(rows, mask, self.padded[name], f'rows of expert {name!r}')
        return rows, mask


class MeanRow(nn.Module):
    """Mean over the rows of an item; zero if it has none."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Average float [N, L, D] with mask bool [N, L] -> [N, D], at least float32."""
        return masked(x, mask).sum(1) / mask.sum(1, keepdim=True).clamp_min(1)


class UnitLinear(nn.Linear):
    """Linear layer with outputs of unit length."""

    def forward(self, x: Tensor, mask: Optional[Tensor] = None) -> Tensor:
        """Map float [N, in] -> [N, out], at least float32; ``mask`` is for GatedEmbedding's
        signature and not used."""
        return unit(super().forward(x))


def _zeros_behind(x: Tensor, mask: Tensor, length: int, what: str) -> tuple[Tensor, Tensor]:
    """Pad [N, L, D] with zeros to ``length`` rows, with an all-True mask; padding is already 0."""
    longest = max([0, *mask.sum(1).tolist()])
    if longest > length:
        raise ValueError(
            f'CEEncoder: {longest} {what}, but padded says {length}: cut them in the pipeline'
        )
    x = F.pad(at_least_float32(x)[:, :length], (0, 0, 0, max(0, length - x.shape[1])))
    return x, torch.ones(x.shape[:2], dtype=torch.bool, device=x.device)


def _check(
    experts: Mapping[str, int],
    clusters: Mapping[str, int],
    padded: Optional[Mapping[str, int]],
    gating: Optional[str],
    dim: Optional[int],
) -> None:
    if not experts:
        raise ValueError('CEEncoder needs an expert')
    unknown = sorted(clusters.keys() - experts.keys())
    if unknown:
        raise ValueError(
            f'CEEncoder: clusters of {str(unknown)[:80]}, which are none of the experts '
            f'{str(sorted(experts))[:300]}'
        )
    expected = sorted([TEXT, *clusters])
    if padded is not None and (sorted(padded) != expected or min(padded.values()) < 1):
        raise ValueError(
            f'CEEncoder: padded must have rows, at least 1, for {str(expected)[:200]}, the experts '
            f'in clusters and the words, got {str(dict(padded))[:80]}'
        )
    if (gating is None) != (dim is None):
        raise ValueError(
            f'CEEncoder: MoEE has neither gating nor dim, CE has both; got gating={gating!r} and '
            f'dim={dim!r}'
        )
