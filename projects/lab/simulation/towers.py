"""Towers of a rehearsal: simulated tokens, with a trained layer if the real tower is trained."""

from __future__ import annotations

from typing import Sequence

import torch
from torch import Tensor, nn

from mmvtr.models.layers.pooling import mean_of_units
from mmvtr.models.towers.base import check_text, last_valid
from mmvtr.registry import MODELS
from simulation.world import (
    COMMON,
    CONTENT,
    FIRST_VERB,
    GAP,
    GENERAL_COMMON,
    ITEM_NOISE,
    NOISES,
    TOKEN_NOISE,
    VOCABULARY,
    Basis,
)


class Adapter(nn.Module):
    """The map ``x + A x``, A = 0 at the start, trained at the rate of the tower it replaces.

    Args:
        dim: width D.
        trained: whether the real tower is trained.
    """

    def __init__(self, dim: int, *, trained: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(dim, dim), requires_grad=trained)

    def forward(self, x: Tensor) -> Tensor:
        """Return features of the same shape, float [..., D]."""
        return x + x @ self.weight


@MODELS.register_module()
class SimulatedFrames(nn.Module):
    """A frame tower that passes simulated frames through.

    Args:
        dim: width D.
        trained: whether the real tower is trained.
    """

    def __init__(self, dim: int, *, trained: bool) -> None:
        super().__init__()
        self.dim = dim
        self.adapter = Adapter(dim, trained=trained)

    def forward(self, x: Tensor) -> Tensor:
        """Return features, float [N, D]."""
        return self.adapter(x)


@MODELS.register_module()
class SimulatedText(nn.Module):
    """A text tower that knows the content of each word of :mod:`~simulation.world`.

    A word's vector is its content plus a part that all texts share; one word, CLIP's last or BERT's
    first, stands for the whole sentence.

    Args:
        dim: width D.
        trained: whether the real tower is trained.
        projected: None, or the width of the joint space of a real tower with a projection.
        aligned: whether words are in the space of the frames of this width.
        sentence: which word is the sentence, and is pooled: ``'last'``, ``'first'``, or ``'none'``,
            which pools the mean of unit words.

    Attributes:
        depth: number of layers, 1.
    """

    depth = 1

    def __init__(
        self,
        dim: int,
        *,
        trained: bool,
        projected: int | None = None,
        aligned: bool = True,
        sentence: str = 'last',
    ) -> None:
        super().__init__()
        self.dim = projected or dim
        self.sentence = sentence
        basis = Basis.of(0, dim, 'shared' if aligned else 'words')
        self.register_buffer('table', basis.words, persistent=False)
        self.register_buffer('common', COMMON * basis.common, persistent=False)
        self.register_buffer('gap', GAP * basis.gap_words, persistent=False)
        self.register_buffer('noises', basis.noises['words'], persistent=False)
        self.adapter = Adapter(dim, trained=trained)
        self.text_projection = nn.Identity() if projected is None else nn.Linear(dim, projected)

    def forward(self, ids: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return words float [T, L, D] and pooled float [T, D], for ids int64 and mask bool [T, L].

        Raises:
            ValueError: see :func:`~mmvtr.models.towers.base.check_text`.
        """
        check_text(ids, mask, positions=None, vocabulary=VOCABULARY, name='SimulatedText')
        content = self.table[ids]
        told = (ids >= FIRST_VERB).sum(1, keepdim=True).clamp(min=1)[..., None]
        general = 1 + (GENERAL_COMMON - 1) * (told == 2).to(content.dtype)
        sentence = content.sum(1, keepdim=True) / told.sqrt()
        # Scale a word so that the mean of the words has as much content as the sentence.
        share = CONTENT * mask.sum(1)[:, None, None] / told.sqrt()
        key = ids.sum(1, keepdim=True) * 7919
        place = torch.arange(ids.shape[1], device=ids.device) * 104729
        item = general * self.common + self.gap + ITEM_NOISE * self.noises[key % NOISES]
        words = item + share * content + TOKEN_NOISE * self.noises[(key + place) % NOISES]
        place = last_valid(mask) if self.sentence == 'last' else torch.zeros_like(ids[:, 0])
        chosen = torch.zeros_like(mask).scatter_(1, place[:, None], self.sentence != 'none')
        words = torch.where(chosen[..., None], item + CONTENT * sentence, words)
        tokens = self.text_projection(self.adapter(words))
        if self.sentence == 'none':
            return tokens, mean_of_units(tokens, mask)
        return tokens, tokens[torch.arange(len(ids), device=ids.device), place]

    def states(self, ids: Tensor, mask: Tensor, layers: Sequence[int]) -> list[Tensor]:
        """Return the words after some transformer layers, [T, L, D] each, which are equal here.

        Raises:
            ValueError: see :meth:`forward`.
        """
        return [self(ids, mask)[0]] * len(layers)
