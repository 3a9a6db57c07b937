"""Texts against the frames of their own video, as matrices for ``contrastive`` and margin ranking.

ARL applies its Eq. 8-12 to texts and frames "for each video".  A pair's best frame k-hat is its
positive.  In a matrix of all pairs x the frames of all videos, entries outside a pair's own video
would have weight 0: nearly all of them, so that matrix is never made.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Optional

import torch
from torch import Tensor

from mmvtr.functional.similarities.distinct import places_in_groups
from mmvtr.functional.values import arrays_too, check_shapes, check_valid

__all__ = ['Side', 'TextFrame', 'matched_frames', 'text_frame']


class Side(NamedTuple):
    """Keyword arguments of :func:`contrastive` and :func:`margin_ranking`.

    Attributes:
        scores: float [N, C].
        positives: bool [N, C].
        weights: float [N, C], 0 where there is nothing to compare.
        ambiguous: bool [N, C] or None.
    """

    scores: Tensor
    positives: Tensor
    weights: Tensor
    ambiguous: Optional[Tensor] = None


class TextFrame(NamedTuple):
    """The matrices of both directions.

    Attributes:
        frames: [P, F], rows are pairs, columns the frames of a pair's own video: Eq. 8, and the
            second halves of Eq. 11-12.  Read it with ``direction='t2v'``.
        texts: [M, C], columns are the C matched frames, rows the at most M texts of a frame's own
            video: Eq. 9, and the first halves of Eq. 11-12.  Read it with ``direction='v2t'``.
    """

    frames: Side
    texts: Side


@arrays_too
def text_frame(
    scores: Tensor, mask: Tensor, videos: Tensor, *, ambiguous: Optional[Tensor] = None
) -> TextFrame:
    """Return matrices of P annotated pairs, each a text with the frames of its own video.

    The paper does not say what a frame is compared with.  Here it is all texts of its video (in
    this batch): q_a of Eq. 9 are those for which the frame is ambiguous, q_n the rest.  A frame
    that is no text's best has no positive and no term, and two texts with the same best frame are
    both positives of it, like the captions of a video.

    Example:
        Two texts of one video of two frames, and the contrast of Eq. 10. ::

            >>> from mmvtr.functional import contrastive, text_frame
            >>> scores, mask = torch.tensor([[0.9, 0.2], [0.1, 0.6]]), torch.ones(2, 2).bool()
            >>> frames, texts = text_frame(scores, mask, torch.tensor([0, 0]))
            >>> options = dict(form='own_pair', temperature=0.5)
            >>> loss = contrastive(**frames._asdict(), **options, direction='t2v')
            >>> loss + contrastive(**texts._asdict(), **options, direction='v2t')
            tensor(0.5443)

    Args:
        scores: float [P, F], of a text with the frames of its video.
        mask: bool [P, F], the valid frames.
        videos: int64 [P], the video of each pair: pairs of one video share its frames.
        ambiguous: bool [P, F] or None, A^f (:func:`.ambiguous_set`).

    Returns:
        Matrices [P, F] and [M, C], with C the frames that are some text's best and M the most texts
        of a video.

    Raises:
        ValueError: shapes that differ, or a pair without a valid frame.
    """
    best = matched_frames(scores, mask)
    positives = torch.zeros_like(mask).scatter_(1, best[:, None], True)
    frames = Side(scores, positives, mask.to(scores.dtype), ambiguous)
    keys, column = (videos * max(scores.shape[1], 1) + best).unique(return_inverse=True)
    frame, video = keys % max(scores.shape[1], 1), keys // max(scores.shape[1], 1)
    pairs = _pairs_of(videos, video)
    together = pairs >= 0
    pairs = pairs.clamp_min(0)
    texts = Side(
        scores[pairs, frame],
        (column[pairs] == torch.arange(len(keys), device=keys.device)) & together,
        together.to(scores.dtype),
        None if ambiguous is None else ambiguous[pairs, frame] & together,
    )
    return TextFrame(frames, texts)


def _pairs_of(videos: Tensor, chosen: Tensor) -> Tensor:
    """Return which pairs belong to each of C videos, int64 [M, C], -1 after the last one;
    ``videos`` are those of the pairs, int64 [P]."""
    order = videos.argsort(stable=True)
    distinct, group = videos[order].unique(return_inverse=True)
    place = places_in_groups(group)
    most = int(place.max()) + 1 if len(place) else 0
    table = order.new_full((most, len(distinct)), -1)
    table[place, group] = order
    return table[:, torch.searchsorted(distinct, chosen)]


@arrays_too
def matched_frames(scores: Tensor, mask: Tensor) -> Tensor:
    """Return k-hat: the best valid frame of each row, int64 [P]; ties go to the first frame.

    Args:
        scores: float [P, F].
        mask: bool [P, F].

    Raises:
        ValueError: shapes that differ, or a row without a valid frame.

    Example:
        ::

            >>> mask = torch.tensor([[1, 1, 0]]).bool()
            >>> matched_frames(torch.tensor([[0.2, 0.5, 0.9]]), mask)
            tensor([1])
    """
    check_shapes(scores=scores, mask=mask)
    check_valid(mask, 'pair', 'frame')
    if not len(scores):
        return torch.zeros(0, dtype=torch.long, device=scores.device)
    return scores.detach().masked_fill(~mask, -math.inf).argmax(1)
