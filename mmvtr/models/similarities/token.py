"""Token-wise similarity of the words of T texts and the frames of V videos."""

from __future__ import annotations

from typing import Any, Optional

import torch
from torch import Tensor, nn

from mmvtr.functional.similarities.best_frames import sentence_frame_scores
from mmvtr.functional.similarities.token_interaction import (
    SIDES,
    paired_token_scores,
    token_scores,
    token_weights,
)
from mmvtr.functional.similarities.token_matches import Partners, token_matches
from mmvtr.functional.values import at_least_float32, check_one_of
from mmvtr.models.heads import start_linears
from mmvtr.models.layers.pooling import unit
from mmvtr.models.similarities.cosine import CosineSimilarity
from mmvtr.models.similarities.shortlist import ShortlistSimilarity
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding, Levels, with_tokens


@MODELS.register_module()
class TokenSimilarity(ShortlistSimilarity):
    """Cosines of words and frames, pooled to one score a pair.

    Without ``weights`` the means of UATVR Eq. 7 (Eq. 8 if the encoder adds tokens), with them DRL's
    weighted token-wise interaction.  Weights are computed once per item, not per pair, at a small
    share of the cost of a tile's cosines.

    Args:
        level: level whose ``tokens`` and ``mask`` are read.
        mode: ``'both'``, ``'words'`` (each word's best frame), ``'frames'`` (each frame's best
            word), see :func:`.token_scores`; ``'sentence'``: the level's vector against frames,
            pooled by a softmax (X-CLIP).
        weights: None (means), or weights learnt by Linear-ReLU-Linear and a softmax over valid
            tokens: ``'drl'`` from the tokens as given, ``'uatvr'`` from unit tokens.
        dim: D, needed for weights.
        hidden: width of the weights' MLPs, default ``dim``.
        init_std: their weights begin N(0, init_std), biases 0 (codes of DRL and UATVR: .02); None:
            as torch's.
        official_mask: padded tokens have cosine 0 and take part in each max, as in the code of
            DRL and UATVR (needed for its weights); by default padding is ignored.
        frame_temperature: temperature of the softmax in mode ``'sentence'``; 0 takes the best
            frame.
        shortlist: k of a two-stage search, from texts to videos and for evaluation only: each
            text's k best videos by the cosine of the level's vectors are ranked by tokens, the
            others follow below in the order of that cosine; scores are comparable within rows only.
        entries: largest number of cosines in memory, see ``token_scores``.

    Attributes:
        exact: whether all of the last scores were token-wise (no shortlist, or one with all
            videos).  Normalisation of scores over a gallery requires this.
    """

    def __init__(
        self,
        *,
        level: str = 'global',
        mode: str = 'both',
        weights: Optional[str] = None,
        dim: Optional[int] = None,
        hidden: Optional[int] = None,
        init_std: Optional[float] = None,
        official_mask: bool = False,
        frame_temperature: float = 0.01,
        shortlist: Optional[int] = None,
        entries: int = 2**22,
    ) -> None:
        super().__init__(level=level, shortlist=shortlist)
        check_one_of((*SIDES, 'sentence'), mode=mode)
        check_one_of((None, 'drl', 'uatvr'), weights=weights)
        if weights is not None and not dim:
            raise ValueError(f'weights={weights!r} needs dim, the width of the tokens')
        if mode == 'sentence' and (weights or official_mask or shortlist):
            raise ValueError(
                "mode 'sentence' has no weights, official_mask or shortlist: "
                f'got {weights!r}, {official_mask}, {shortlist}'
            )
        self.mode = mode
        self.official_mask = official_mask
        self.frame_temperature = frame_temperature
        self.entries = entries
        self.weights = weights
        self.weighers = nn.ModuleDict()
        if weights is not None:
            # No parameters that the mode does not use: distributed training refuses them.
            for side in dict(words=['text'], frames=['video'], both=['text', 'video'])[mode]:
                self.weighers[side] = _mlp(dim, hidden or dim)
        start_linears(self.weighers, init_std)

    def whole(self, t: Embedding, v: Embedding) -> dict[str, Tensor]:
        """Return ``'token'`` and ``'scores'``, the same matrix."""
        if self.mode == 'sentence':
            scores = self._sentence_scores(t, v)
        else:
            scores = token_scores(**self._arguments(t, v), entries=self.entries)
        return {'token': scores, 'scores': scores}

    def of_some(self, t: Embedding, v: Embedding, columns: Tensor) -> Tensor:
        """Score some videos of each text, float [T, C]."""
        arguments = self._arguments(t, v)
        return paired_token_scores(columns=columns, **arguments, entries=self.entries)

    def matches(self, texts: Levels, videos: Levels) -> dict[str, Partners]:
        """Return the matches behind the scores of a few texts and videos, by word and by frame.


        See :func:`~mmvtr.functional.similarities.token_matches.token_matches`.

        Raises:
            ValueError: mode ``'sentence'``, whose words are not matched.
        """
        if self.mode == 'sentence':
            raise ValueError("mode 'sentence' compares whole texts and matches no words")
        t, v = texts[self.level], videos[self.level]
        with torch.autocast(t.mean.device.type, enabled=False):
            return token_matches(**self._arguments(t, v))

    def _sentence_scores(self, t: Embedding, v: Embedding) -> Tensor:
        return sentence_frame_scores(
            unit(t.mean),
            unit(self._tokens('videos', v)),
            v.mask,
            temperature=self.frame_temperature,
            entries=self.entries,
        )

    def _arguments(self, t: Embedding, v: Embedding) -> dict[str, Any]:
        """Return the arguments of ``token_scores`` and related functions."""
        words, frames = self._tokens('texts', t), self._tokens('videos', v)
        return dict(
            words=unit(words),
            word_mask=t.mask,
            frames=unit(frames),
            frame_mask=v.mask,
            side=self.mode,
            word_weights=self._weigh('text', words, t.mask),
            frame_weights=self._weigh('video', frames, v.mask),
            official_mask=self.official_mask,
        )

    def _tokens(self, side: str, embedding: Embedding) -> Tensor:
        return at_least_float32(with_tokens(embedding, self.level, side).tokens)

    def _weigh(self, side: str, tokens: Tensor, mask: Tensor) -> Optional[Tensor]:
        """Return weights of tokens, float [N, L, D] -> [N, L]; None: equal weights, or not used."""
        if side not in self.weighers:
            return None
        tokens = unit(tokens) if self.weights == 'uatvr' else tokens
        return token_weights(self.weighers[side](tokens).squeeze(-1), mask)


def _mlp(dim: int, hidden: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, 1))


@MODELS.register_module()
class TokenVectorSimilarity(TokenSimilarity):
    """A :class:`TokenSimilarity` combined with the cosine of the level's vectors.

    NeighborRetr's two matrices: tokens are its local level, vectors its global one.

    Args:
        **kwargs: see :class:`TokenSimilarity`; no ``shortlist``.

    Raises:
        ValueError: a shortlist.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if self.shortlist is not None:
            raise ValueError('TokenVectorSimilarity has no shortlist: leave it out')
        self.vectors = CosineSimilarity(levels=(self.level,))

    @property
    def cosines(self) -> dict[str, tuple[str, ...]]:
        """Names of the matrices that are cosines -> the levels of each."""
        return {'global': (self.level,)}

    def forward(self, texts: Levels, videos: Levels) -> dict[str, Tensor]:
        """Map levels of T texts, V videos -> ``'token'``, ``'global'`` and ``'scores'``, their
        mean, [T, V] each, in float32."""
        token = super().forward(texts, videos)['token']
        whole = self.vectors(texts, videos)['scores']
        return {'token': token, 'global': whole, 'scores': (token + whole) / 2}
