"""Several models as one, whose similarity is the mean of theirs."""

from __future__ import annotations

from typing import Any, Mapping, Sequence

import torch
from torch import nn

from mmvtr.structures import Embedding, Levels


class Ensemble(nn.Module):
    """Models of one embedding each: the cosine of all unit vectors in a row is the mean cosine.

    Args:
        members: retrievers that compare by the cosine of ``'global'``.
    """

    def __init__(self, members: Sequence[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        self.similarity = members[0].similarity

    @classmethod
    def of(cls, members: Sequence[nn.Module]) -> nn.Module:
        """The only model itself, or all of them together."""
        return cls(members) if len(members) > 1 else members[0]

    def encode_text(self, inputs: Mapping[str, Any]) -> Levels:
        return _joined([member.encode_text(inputs) for member in self.members])

    def encode_video(self, inputs: Mapping[str, Any]) -> Levels:
        return _joined([member.encode_video(inputs) for member in self.members])


def _joined(each: Sequence[Levels]) -> Levels:
    units = [nn.functional.normalize(levels['global'].mean, dim=-1) for levels in each]
    return {'global': Embedding(torch.cat(units, -1))}
