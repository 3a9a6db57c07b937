"""HGR's encoder: sentence, verbs and nouns of a text, and three views of a video's frames."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from mmvtr.functional.values import at_least_float32
from mmvtr.models.encoders.prvr import run_words
from mmvtr.models.layers.graph_attention import GraphAttention
from mmvtr.models.layers.pooling import empty_levels, encode_frames, masked
from mmvtr.models.layers.prvr import LearntPooling
from mmvtr.registry import MODELS, build
from mmvtr.structures import Embedding, Levels


@MODELS.register_module()
class HGREncoder(nn.Module):
    """Hierarchical graph reasoning (Chen et al., CVPR 2020, arXiv:2003.00392), after its code.

    Levels, none of unit length:

    - ``'sentence'``: one vector.  For a video: frames, mapped and pooled by learnt attention.
    - ``'verb'``, ``'noun'``: tokens.  For a video: its frames, through one linear map per level.
      For a text: its verbs, and its noun phrases; a text may have none.

    Words go through a bidirectional GRU whose directions are averaged.  They are pooled by learnt
    attention to the sentence, and by their maximum to a verb or noun, which is multiplied by a
    vector of its role.  These nodes then attend to each other along the edges of the role graph
    (:class:`~mmvtr.models.layers.graph_attention.GraphAttention`).

    Args:
        frames: frame tower (config or module): float [N, ...] -> [N, D_v], attribute ``dim`` = D_v;
            ``FeatureFrames`` for stored features.
        text: text tower: (text [T, L, ...], mask [T, L]) -> (words [T, L, D_t], pooled), attribute
            ``dim`` = D_t; for instance ``WordVectors``.  Only its words are read.
        dim: D.
        roles: number of roles (``len(mmvtr.datasets.words.role_graphs.ROLES)``).
        dropout: dropout of the mapped frames, and of the words before the GRU.
        graph_dropout: dropout of the messages that a node receives.
    """

    level_names: ClassVar[tuple[str, ...]] = ('sentence', 'verb', 'noun')
    token_levels: ClassVar[tuple[str, ...]] = ('verb', 'noun')

    def __init__(
        self,
        frames: dict | nn.Module,
        text: dict | nn.Module,
        *,
        dim: int = 1024,
        roles: int = 16,
        dropout: float = 0.2,
        graph_dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.frames = build(frames)
        self.text = build(text)
        self.dim = dim
        self.maps = nn.ModuleDict(
            {name: nn.Linear(self.frames.dim, dim) for name in self.level_names}
        )
        self.dropout = nn.Dropout(dropout)
        self.frame_pooling, self.word_pooling = LearntPooling(dim), LearntPooling(dim)
        self.rnn = nn.GRU(self.text.dim, dim, batch_first=True, bidirectional=True)
        for parameter in self.rnn.parameters():  # as the code: orthogonal, biases 0
            nn.init.orthogonal_(parameter) if parameter.ndim == 2 else nn.init.zeros_(parameter)
        self.roles = nn.Embedding(roles, dim)
        self.graph = GraphAttention(dim, dropout=graph_dropout)

    def encode_video(self, video: Tensor, frame_mask: Tensor) -> Levels:
        """Encode V videos.

        Args:
            video: float [V, F, D_in] features, or [V, F, 3, H, W] normalised frames.
            frame_mask: bool [V, F].

        Returns:
            ``'sentence'`` with ``mean`` [V, D]; ``'verb'`` and ``'noun'`` with ``tokens``
            [V, F, D], zero at padding, their ``mask``, and their mean over valid frames.

        Raises:
            ValueError: features of another width, or a video without a valid frame.
        """
        if not len(video):
            return empty_levels(self, video.shape[1])
        frames = encode_frames(self.frames, video, frame_mask)
        views = {name: self.dropout(linear(frames)) for name, linear in self.maps.items()}
        levels = {'sentence': Embedding(self.frame_pooling(views['sentence'], frame_mask))}
        for name in self.token_levels:
            levels[name] = _tokens(views[name], frame_mask)
        return levels

    def encode_text(
        self,
        text: Tensor,
        text_mask: Tensor,
        *,
        verbs: Tensor,
        nouns: Tensor,
        roles: Tensor,
        edges: Tensor,
    ) -> Levels:
        """Encode T texts with role graphs (:func:`mmvtr.datasets.words.role_graphs.pack_graph`).

        Args:
            text: int64 [T, L] ids of words: the input of the text tower.
            text_mask: bool [T, L], valid words come first.
            verbs: bool [T, N, W], the words of each verb, W >= L; all False: no such verb.
            nouns: bool [T, M, W], the words of each noun phrase.
            roles: int64 [T, N + M], roles of verbs and nouns.
            edges: bool [T, K, K], K = 1 + N + M (sentence, verbs, nouns): row i says from which
                nodes node i receives.

        Returns:
            ``'sentence'`` with ``mean`` [T, D]; ``'verb'`` and ``'noun'`` with ``tokens``
            [T, N, D] and [T, M, D], zero for missing ones, their ``mask``, and their mean (zero
            without any).

        Raises:
            ValueError: texts of more words than W; raised by the text tower.
        """
        length = text.shape[1]
        if length > verbs.shape[2]:
            raise ValueError(
                f'texts have {length} words, but role graphs {verbs.shape[2]}: max_words of the '
                'transform that makes both must be the same'
            )
        if not len(text):
            return empty_levels(self, 1)
        words = self.dropout(run_words(self.text, text, text_mask))
        words = self._contextual(words, text_mask)
        sentence = self.word_pooling(words, text_mask)
        members = torch.cat([verbs, nouns], 1)[:, :, :length]
        phrases = max_pool(words, members) * self.roles(roles)
        nodes = self.graph(torch.cat([sentence[:, None], phrases], 1), edges)
        counts = [1, verbs.shape[1], nouns.shape[1]]
        sentence, *phrases = nodes.split(counts, 1)
        masks = members.any(2).split(counts[1:], 1)
        levels = {'sentence': Embedding(at_least_float32(sentence[:, 0]))}
        for name, tokens, mask in zip(self.token_levels, phrases, masks):
            levels[name] = _tokens(tokens, mask)
        return levels

    def _contextual(self, words: Tensor, mask: Tensor) -> Tensor:
        """Run the GRU: float [T, L, D_t] -> float [T, L, D], the mean of both directions."""
        # Under autocast, cuDNN's RNNs run in float16 whatever the chosen precision.
        with torch.autocast(words.device.type, enabled=False):
            packed = pack_padded_sequence(
                words, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False
            )
            hidden, _ = self.rnn(packed)
        hidden, _ = pad_packed_sequence(hidden, batch_first=True, total_length=words.shape[1])
        return hidden.unflatten(-1, (2, self.dim)).mean(2)


def max_pool(words: Tensor, members: Tensor) -> Tensor:
    """Take maxima over members: float [T, L, D], bool [T, M, L] -> float [T, M, D]; 0 if none."""
    low = torch.finfo(words.dtype).min
    pooled = words[:, None].masked_fill(~members[..., None], low).max(2).values
    return pooled.masked_fill(~members.any(2, keepdim=True), 0.0)


def _tokens(tokens: Tensor, mask: Tensor) -> Embedding:
    tokens = masked(tokens, mask)
    count = mask.sum(1, keepdim=True).clamp(min=1)
    return Embedding(tokens.sum(1) / count, tokens, mask)
