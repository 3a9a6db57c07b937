"""Annotation of a joint batch: its positive pairs, and the relevance of all other pairs.

It is made from ids and classes, so it is right for any composition of the batch: two captions of
one video, a caption of many videos, processes with unequal shares.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mmvtr.dist import gather_padded, gather_rows
from mmvtr.functional.metrics.graded_relevance import class_overlap, class_relevance
from mmvtr.functional.similarities.distinct import places_in_groups
from mmvtr.functional.values import product
from mmvtr.models.blocks import Pairs
from mmvtr.models.target import Annotation, Target


class JointIds:
    """Ids and classes of the joint batch, gathered once; makes the target of any subset of texts.

    Args:
        data_samples: those of this process.
        device: device on which targets are made.

    Attributes:
        shape: (T, V) of the joint batch.
    """

    def __init__(self, data_samples: dict[str, Any], device: torch.device) -> None:
        self._video_idx = gather_rows(data_samples['video_idx'].to(device))
        self._videos_of = {
            field: gather_padded(data_samples[key].to(device), fill=-1)
            for field, key in (('positives', 'text_videos'), ('truth', 'text_true_videos'))
            if field == 'positives' or key in data_samples
        }
        self._agreement = self._classes = None
        if 'text_agreement' in data_samples:
            self._agreement = [
                gather_rows(data_samples[f'{side}_agreement'].to(device))
                for side in ('text', 'video')
            ]
        if 'text_classes' in data_samples and 'video_classes' in data_samples:
            self._classes = [
                {
                    kind: gather_padded(sets.to(device), fill=-1)
                    for kind, sets in sorted(data_samples[f'{side}_classes'].items())  # everywhere
                }
                for side in ('text', 'video')
            ]
        self.shape = len(self._videos_of['positives']), len(self._video_idx)

    def target(self, rows: slice = slice(None)) -> Target:
        """Return the target of the texts ``rows`` (default: all) against all videos."""
        matches = {
            field: _matches(videos[rows], self._video_idx)
            for field, videos in self._videos_of.items()
        }
        positives, facts = matches.pop('positives'), dict[str, Tensor](matches)
        if self._agreement is not None:
            texts, videos = self._agreement
            facts['agreement'] = product(texts[rows], videos.t())  # a sum of both signs cancels
        if self._classes is not None:
            texts, videos = self._classes
            some = {kind: sets[rows] for kind, sets in texts.items()}
            facts['relevance'] = class_relevance(some, videos)
            facts['overlap'] = class_overlap(some, videos)
        return Target(positives, known=Annotation(**facts))

    @property
    def ids(self) -> tuple[Tensor, Tensor]:
        """Video ids of the texts, int64 [T, M] padded with -1, and of the columns, int64 [V]."""
        return self._videos_of['positives'], self._video_idx

    def pairs(self) -> Pairs:
        """Return the annotated pairs, in the order of texts, without making a matrix."""
        videos = self._videos_of['positives']
        order = self._video_idx.argsort(stable=True)
        ordered = self._video_idx[order]
        first, last = (torch.searchsorted(ordered, videos, right=right) for right in (False, True))
        counts = (last - first).masked_fill(videos < 0, 0).flatten()
        # One entry per listed video and per column that shows it.
        entry = torch.arange(len(counts), device=counts.device).repeat_interleave(counts)
        columns = order[first.flatten()[entry] + places_in_groups(entry)]
        rows = entry // max(videos.shape[1], 1)
        unique = (rows * len(ordered) + columns).unique()  # a text may list a video twice
        columns = unique % max(len(ordered), 1)
        return Pairs(unique // max(len(ordered), 1), columns, self.shape)


def match(data_samples: dict[str, Any], device: torch.device, key: str = 'text_videos') -> Tensor:
    """Return positives bool [T, V] of the joint batch of all processes, from ids.

    A text matches every column whose video is one of its own, including the second copy of a video
    that two captions brought into the batch.  ``key`` names the field that lists a text's videos.
    """
    text_videos = gather_padded(data_samples[key].to(device), fill=-1)
    return _matches(text_videos, gather_rows(data_samples['video_idx'].to(device)))


def own_match(data_samples: dict[str, Any], device: torch.device) -> Tensor:
    """Return :func:`match` of this process' own texts and videos, without gathering."""
    return _matches(data_samples['text_videos'].to(device), data_samples['video_idx'].to(device))


def _matches(text_videos: Tensor, video_idx: Tensor) -> Tensor:
    """Match int64 [T, M] padded with -1 and int64 [V] -> bool [T, V]."""
    return (text_videos[:, :, None] == video_idx).any(1)
