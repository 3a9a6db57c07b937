"""Levels of a supervision's own, from vectors that the dataset has read beside the items."""

from __future__ import annotations

from typing import Any, Optional, Sequence

import torch
from torch import Tensor

from mmvtr.dist import gather_rows, world_size
from mmvtr.structures import Embedding, Levels

#: What ``LoadVectors`` has read under a name is, flat, the level of this and the name.
PREFIX = 'vectors.'


def stored_levels(
    data_samples: dict[str, Any],
    side: str,
    names: Sequence[str],
    device: torch.device,
    reader: str,
) -> Levels:
    """Stored vectors of this process' own items, to be gathered.

    Args:
        data_samples: of this process.
        side: ``'text'`` or ``'video'``.
        names: those that are read.
        device: where they go.
        reader: who reads them, for the error.

    Returns:
        ``'vectors.<name>'`` -> Embedding of float32 [N, E D], E rows of D numbers each.

    Raises:
        ValueError: the batch has no such vectors.
    """
    known = data_samples.get(f'{side}_vectors', {})
    count = len(data_samples[f'{side}_ids'])
    levels = {}
    for name in names:
        found = known.get(name)
        if found is None and count:
            raise ValueError(
                f'{reader} reads the vectors {name!r} of {side}s, which the training set has not '
                f'({sorted(known)}): add dict(type="LoadVectors", side={side!r}, '
                f'stores=dict({name}=...)) to its {side}_pipeline'
            )
        width = _width(found, device)
        flat = torch.zeros(0, width) if found is None or not count else found.flatten(1)
        levels[f'{PREFIX}{name}'] = Embedding(flat.to(device, torch.float32))  # everywhere
    return levels


def _width(vectors: Optional[Tensor], device: torch.device) -> int:
    """E D; of a process without items that of the others."""
    own = 0 if vectors is None else vectors[0].numel() if len(vectors) else 0
    if world_size() == 1:
        return own
    return int(gather_rows(torch.tensor([own], device=device)).max())
