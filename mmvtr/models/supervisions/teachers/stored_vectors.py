"""Levels of a supervision's own, from vectors that the dataset has read beside the items."""

from __future__ import annotations

from typing import Any, Optional, Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

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


def read_level(name: str, vectors: Optional[Tensor], device: torch.device) -> Levels:
    """Vectors that were read otherwise, float [T, D] or None of no texts, as a level of a name."""
    width = _joint_width(0 if vectors is None else vectors.shape[1], device)
    found = torch.zeros(0, width) if vectors is None else vectors
    return {f'{PREFIX}{name}': Embedding(found.to(device, torch.float32))}


def stored_frames(
    inputs: dict[str, Tensor],
    data_samples: dict[str, Any],
    name: str,
    device: torch.device,
    reader: str,
) -> Levels:
    """Stored vectors of the frames of this process' own videos, to be gathered.

    Args:
        inputs: of the student: ``frame_mask`` bool [V, F] where there are videos.
        data_samples: of this process.
        name: which.
        device: where they go.
        reader: who reads them, for the error.

    Returns:
        ``'vectors.<name>'`` -> Embedding of tokens float32 [V, F, D], mask bool [V, F] and their
        means [V, D].

    Raises:
        ValueError: the batch has no such vectors, or other frames than the student (the video is
            named).
    """
    known, ids = data_samples.get('video_frame_vectors', {}), data_samples['video_ids']
    rows = known.get(name)
    if rows is None and ids:
        raise ValueError(
            f'{reader} reads the vectors {name!r} of frames, which the training set has not '
            f'({sorted(known)}): add dict(type="LoadFrameVectors", stores=dict({name}=...)) to its '
            'video_pipeline'
        )
    rows = rows if ids else []
    for video, row, mask in zip(ids, rows, inputs.get('frame_mask', ())):
        if len(row) != int(mask.sum()):
            raise ValueError(
                f'{reader}: video {str(video)[:80]!r} has {len(row)} frames of teacher {name!r} '
                f'and {int(mask.sum())} of the student: LoadFrameVectors has to be the last step '
                'that knows of frames'
            )
    width = _joint_width(rows[0].shape[-1] if rows else 0, device)
    if not rows:
        tokens, mask = torch.zeros(0, 1, width), torch.zeros(0, 1, dtype=torch.bool)
    else:
        tokens = pad_sequence([row.float() for row in rows], batch_first=True)
        lengths = torch.tensor([len(row) for row in rows], device=tokens.device)
        mask = torch.arange(tokens.shape[1], device=tokens.device) < lengths[:, None]
    means = tokens.sum(1) / mask.sum(1, keepdim=True).clamp_min(1)
    return {f'{PREFIX}{name}': Embedding(means, tokens, mask).map(lambda x: x.to(device))}


def _width(vectors: Optional[Tensor], device: torch.device) -> int:
    """E D; of a process without items that of the others."""
    own = 0 if vectors is None else vectors[0].numel() if len(vectors) else 0
    return _joint_width(own, device)


def _joint_width(own: int, device: torch.device) -> int:
    """The largest of all processes."""
    if world_size() == 1:
        return own
    return int(gather_rows(torch.tensor([own], device=device)).max())
