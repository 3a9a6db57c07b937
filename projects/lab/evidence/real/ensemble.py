"""Several models as one, whose similarity is the mean of theirs."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import torch
from torch import nn

from mmvtr.models.similarities.cosine import CosineSimilarity
from mmvtr.structures import Embedding, Levels


class Ensemble(nn.Module):
    """Models of one vector an item each: the cosine of all vectors in a row is the mean cosine.

    Args:
        members: retrievers whose scores are inner products of unit vectors.
    """

    def __init__(self, members: Sequence[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.similarity = CosineSimilarity()

    @classmethod
    def of(cls, members: Sequence[nn.Module]) -> nn.Module:
        """The only model itself, or all of them together."""
        return cls(members) if len(members) > 1 else members[0]

    def encode_text(self, inputs: Mapping[str, Any]) -> Levels:
        return self._joined([member.encode_text(inputs) for member in self.members])

    def encode_video(self, inputs: Mapping[str, Any]) -> Levels:
        return self._joined([member.encode_video(inputs) for member in self.members])

    def _joined(self, each: Sequence[Levels]) -> Levels:
        units = [member.similarity.flat(levels) for member, levels in zip(self.members, each)]
        return {'global': Embedding(torch.cat(units, -1))}
