"""TACo's three scores of a pair: vectors, tokens of interest, and cross-encoder fusion."""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from mmvtr.functional.similarities.token_interaction import below_shortlist, token_scores
from mmvtr.functional.values import at_least_float32, check_range, product
from mmvtr.models.layers.cross_encoder import CrossEncoder
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding, Levels, with_tokens

#: Level of a side's vectors and tokens, and level of the tokens' weights.
GLOBAL, INTEREST = 'global', 'interest'


@MODELS.register_module()
class CascadeSimilarity(nn.Module):
    """TACo's ``'global'`` + ``'token'`` + ``'fusion'`` scores, unnormalised inner products.

    - ``'global'``: the vectors of level ``'global'``;
    - ``'token'``: the best row of the video for each word, summed with the weights of level
      ``'interest'`` (0 for a text without a word of interest).  That the sum is weighted at test
      time too is our reading of TACo;
    - ``'fusion'``: the score of a :class:`~mmvtr.models.layers.cross_encoder.CrossEncoder`.

    The first two are the first stage; in training ``'scores'`` is their sum only, and a
    CascadeRetriever chooses the pairs to fuse.

    Args:
        dim: D.
        layers, heads, feedforward, dropout: settings of the fusion; ``feedforward`` default 4 D.
            The paper says two layers.
        positions: maximal number of words of a text, and of rows of a video.
        shortlist: k of a two-stage search, from texts to videos and for evaluation only: each
            text's k best videos of the first stage are fused and ranked by the sum of three scores,
            the others follow below in the order of the first stage (:func:`.below_shortlist`); such
            scores are comparable within rows only.  None: all pairs are fused, as TACo is tested.
        pairs: number of pairs fused at a time; in training their activations are recomputed in the
            backward pass.

    Attributes:
        exact: whether the last scores were the sum of three for all pairs.

    Raises:
        ValueError: ``shortlist`` or ``pairs`` below 1; see also the CrossEncoder.
    """

    needs_tokens = True
    levels = (GLOBAL, INTEREST)

    def __init__(
        self,
        *,
        dim: int = 768,
        layers: int = 2,
        heads: int = 12,
        feedforward: Optional[int] = None,
        dropout: float = 0.1,
        positions: int = 128,
        shortlist: Optional[int] = None,
        pairs: int = 1024,
    ) -> None:
        super().__init__()
        if shortlist is not None:
            check_range('[1, inf]', shortlist=shortlist)
        check_range('[1, inf]', pairs=pairs)
        self.fusion = CrossEncoder(
            dim,
            layers=layers,
            heads=heads,
            feedforward=feedforward or 4 * dim,
            dropout=dropout,
            positions=positions,
        )
        self.shortlist = shortlist
        self.pairs = pairs
        self.exact = shortlist is None

    def forward(self, texts: Levels, videos: Levels) -> dict[str, Tensor]:
        """Map levels of T texts and of V videos -> matrices [T, V], at least float32.

        In training ``'global'``, ``'token'`` and ``'scores'``, their sum; in evaluation also
        ``'fusion'``, which is then part of ``'scores'``; with a shortlist that leaves out videos
        ``'first'``, the first stage, and ``'scores'``.

        Raises:
            ValueError: a side carries no tokens, or an item has no valid one.
        """
        matrices = self.first_stage(texts, videos)
        first = matrices['global'] + matrices['token']
        if self.training:
            return {**matrices, 'scores': first}
        count = first.shape[1]
        self.exact = self.shortlist is None or self.shortlist >= count
        length = count if self.exact else self.shortlist
        columns = torch.arange(count, device=first.device).expand(first.shape)
        if not self.exact:
            columns = first.sort(dim=1, descending=True, stable=True).indices[:, :length]
        rows = torch.arange(len(first), device=first.device)[:, None].expand(columns.shape)
        fused = self.fuse(texts, videos, rows.flatten(), columns.flatten()).view(columns.shape)
        if self.exact:
            return {**matrices, 'fusion': fused, 'scores': first + fused}
        best = first.gather(1, columns) + fused
        return {'first': first, 'scores': below_shortlist(first, columns, best)}

    def first_stage(self, texts: Levels, videos: Levels) -> dict[str, Tensor]:
        """Return ``'global'`` and ``'token'``, [T, V] each, without the fusion."""
        t, v = _with_tokens(texts, 'texts'), _with_tokens(videos, 'videos')
        products = product(at_least_float32(t.mean), at_least_float32(v.mean).t())
        return {'global': products, 'token': _sum_of_best_rows(t, v, _weights(texts))}

    @torch.no_grad()
    def ranking(self, texts: Levels, videos: Levels) -> Tensor:
        """Return TACo's ranking of pairs, [T, V], by vectors and unweighted tokens of interest."""
        t, v = _with_tokens(texts, 'texts'), _with_tokens(videos, 'videos')
        products = product(at_least_float32(t.mean), at_least_float32(v.mean).t())
        return products + _sum_of_best_rows(t, v, (_weights(texts) > 0).to(products.dtype))

    def fuse(self, texts: Levels, videos: Levels, rows: Tensor, columns: Tensor) -> Tensor:
        """Score P pairs by the fusion, some at a time.

        Args:
            texts, videos: levels with tokens.
            rows, columns: int64 [P], the text and the video of each pair.

        Returns:
            float [P], at least float32; empty, with zero gradients, for no pair.
        """
        t, v = _with_tokens(texts, 'texts'), _with_tokens(videos, 'videos')
        if not len(rows):
            return self.fusion(t.tokens[:0], t.mask[:0], v.tokens[:0], v.mask[:0])
        parts = zip(rows.split(self.pairs), columns.split(self.pairs))
        return torch.cat([self._part(t, v, *part) for part in parts])

    def _part(self, t: Embedding, v: Embedding, rows: Tensor, columns: Tensor) -> Tensor:
        text, video = _cut(t.mask[rows]), _cut(v.mask[columns])

        def scores(words: Tensor, frames: Tensor) -> Tensor:
            sides = words[rows, : text.shape[1]], text, frames[columns, : video.shape[1]], video
            return self.fusion(*sides)

        if not torch.is_grad_enabled():
            return scores(t.tokens, v.tokens)
        return checkpoint(scores, t.tokens, v.tokens, use_reentrant=False)


def _cut(mask: Tensor) -> Tensor:
    """Return bool [P, L] without trailing columns that are padding in all rows, [P, L']."""
    return mask[:, : int(mask.any(0).nonzero().max()) + 1]


def _weights(texts: Levels) -> Tensor:
    """Return the weights of the words, float [T, L]."""
    return at_least_float32(texts[INTEREST].tokens).squeeze(-1)


def _sum_of_best_rows(t: Embedding, v: Embedding, weights: Tensor) -> Tensor:
    """Return the weighted sum of the best rows of the words of interest, float [T, V]."""
    if not len(t.mean) or not len(v.mean):
        return at_least_float32(t.mean).new_zeros(len(t.mean), len(v.mean))
    looked_at = weights > 0
    # A text without such a word uses its first word, with weight 0.
    nothing = ~looked_at.any(1)
    looked_at = torch.cat([looked_at[:, :1] | nothing[:, None], looked_at[:, 1:]], 1)
    words, frames = at_least_float32(t.tokens), at_least_float32(v.tokens)
    return token_scores(words, looked_at, frames, v.mask, side='words', word_weights=weights)


def _with_tokens(levels: Levels, side: str) -> Embedding:
    with_tokens(levels[INTEREST], INTEREST, side)
    return with_tokens(levels[GLOBAL], GLOBAL, side)
