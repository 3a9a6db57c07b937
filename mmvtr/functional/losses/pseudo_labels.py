"""Labels of unannotated pairs and of mixed pairs (PCME++; Chun, ICLR 2024)."""

from __future__ import annotations

import torch
from torch import Tensor

from mmvtr.functional.arrays_too import arrays_too

__all__ = ['mixed_labels', 'pseudo_positives']


@arrays_too
def pseudo_positives(scores: Tensor, labels: Tensor) -> Tensor:
    """Give each row's columns that score at least as high as its match the match's label.

    The match is the column of the largest label; of several, the first, as in the official code.  A
    column with a smaller label that scores as high (the partner in a mix) is raised, too.  Rows
    without a label above 0 stay as they are.

    Args:
        scores: float [N, M]; no gradient is taken.
        labels: bool or float [N, M] in [0, 1].

    Returns:
        same shape and dtype as ``labels``.

    Example:
        ::

            >>> labels = torch.tensor([[1.0, 0.0, 0.0]])
            >>> pseudo_positives(torch.tensor([[0.5, 0.7, 0.1]]), labels)
            tensor([[1., 1., 0.]])
    """
    if not labels.numel():
        return labels
    largest, match = labels.to(torch.uint8 if labels.dtype == torch.bool else labels.dtype).max(1)
    found = (scores >= scores.gather(1, match[:, None])) & (largest > 0)[:, None]
    return torch.where(found, largest[:, None].to(labels.dtype), labels)


@arrays_too
def mixed_labels(
    labels: Tensor, share: Tensor, partner: Tensor, *, smoothing: float = 0.0
) -> Tensor:
    """Return the labels of videos that are mixed with another video of the batch.

    ``share y + (1 - share) y[:, partner]``, with y moved by ``smoothing`` towards 1/2: 1 becomes
    1 - smoothing, and 0 smoothing.

    Args:
        labels: bool or float [T, V].
        share: float [V] in [0, 1], fraction of the video itself.
        partner: int64 [V], the column of the other video.
        smoothing: in [0, 1/2].

    Returns:
        float [T, V].

    Example:
        ::

            >>> share, partner = torch.tensor([0.75, 1.0]), torch.tensor([1, 0])
            >>> mixed_labels(torch.eye(2).bool(), share, partner)
            tensor([[0.7500, 0.0000],
                    [0.2500, 1.0000]])
    """
    y = labels.to(share.dtype)
    y = y * (1 - 2 * smoothing) + smoothing
    return share * y + (1 - share) * y[:, partner]
