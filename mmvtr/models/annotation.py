"""What the annotation says of a joint batch: who belongs to whom, and how relevant the others are.

Made from ids and classes, so it holds whatever the composition of the batch: two captions of one
video, a caption of many videos, processes with unequal shares.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mmvtr.dist import gather_padded, gather_rows
from mmvtr.functional.class_relevance import class_overlap, class_relevance
from mmvtr.models.target import Target


def annotated_target(data_samples: dict[str, Any], device: torch.device) -> Target:
    """Positives of the joint batch.

    Relevance and overlap where the dataset has classes, agreement where it has that, truth where it
    is an oracle's.
    """
    known = Target(match(data_samples, device))
    if 'text_true_videos' in data_samples:
        known = known._replace(truth=match(data_samples, device, 'text_true_videos'))
    if 'text_agreement' in data_samples:
        texts, videos = (
            gather_rows(data_samples[f'{side}_agreement'].to(device)) for side in ('text', 'video')
        )
        with torch.autocast(device.type, enabled=False):  # a sum of both signs cancels
            known = known._replace(agreement=texts @ videos.t())
    if 'text_classes' not in data_samples or 'video_classes' not in data_samples:
        return known
    text_classes, video_classes = (
        {
            kind: gather_padded(sets.to(device), fill=-1)
            for kind, sets in sorted(data_samples[f'{side}_classes'].items())  # on all processes
        }
        for side in ('text', 'video')
    )
    return known._replace(
        relevance=class_relevance(text_classes, video_classes),
        overlap=class_overlap(text_classes, video_classes),
    )


def match(data_samples: dict[str, Any], device: torch.device, key: str = 'text_videos') -> Tensor:
    """positives bool [T, V] of the joint batch of all processes, from ids.

    A text matches every column whose video is one of its own: also the second copy of a video
    that two captions brought into the batch.  ``key`` says where its own are listed.
    """
    text_videos = gather_padded(data_samples[key].to(device), fill=-1)
    return _matches(text_videos, gather_rows(data_samples['video_idx'].to(device)))


def own_match(data_samples: dict[str, Any], device: torch.device) -> Tensor:
    """As :func:`match`, among this process' own texts and videos."""
    return _matches(data_samples['text_videos'].to(device), data_samples['video_idx'].to(device))


def _matches(text_videos: Tensor, video_idx: Tensor) -> Tensor:
    """int64 [T, M] padded with -1 and int64 [V] -> bool [T, V]."""
    return (text_videos[:, :, None] == video_idx).any(1)
