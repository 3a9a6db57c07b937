"""TACo's contrast of tokens (Yang et al., ICCV 2021), and the negatives of its cascade."""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor

from mmvtr.functional.arrays_too import arrays_too
from mmvtr.functional.losses.contrastive import contrastive
from mmvtr.functional.similarities.token_interaction import token_scores

__all__ = ['hard_negatives', 'token_contrast']


@arrays_too
def token_contrast(
    words: Tensor,
    interest: Tensor,
    frames: Tensor,
    frame_mask: Tensor,
    positives: Tensor,
    *,
    temperature: float | Tensor = 1.0,
    weights: Optional[Tensor] = None,
    entries: int = 2**22,
) -> Tensor:
    """Each word of interest against the videos of the batch, a text's terms summed by weight.

        - sum_p a_p log( sum_P e^{s_pv} / (sum_P e^{s_pv} + sum_{not P} w_v e^{s_pv}) )

    over its own videos (P) and the others, where ``s_pv = max_f <w_p, f> / temperature`` over the
    valid frames f of video v: texts to videos alone, and inner products of tokens as they are.  The
    mean is over all texts that have a positive (the paper sums), so a text without a word of
    interest adds 0 and counts.

    Args:
        words: float [T, L, D]; half precision is computed in float32.
        interest: float [T, L] >= 0, a; words of 0 (padding is) are not looked at.
        frames: float [V, F, D].
        frame_mask: bool [V, F].
        positives: bool [T, V].
        temperature: divides the scores.
        weights: float [T, V] or None (= 1), how hard each negative is pushed.
        entries: similarities that exist at a time.

    Returns:
        0-dim tensor; 0 where no text has a positive, or none has a word of interest.

    Raises:
        ValueError: shapes that do not fit, or a video without a valid frame.

    Example:
        Two words of weight 1/2 against two videos of a frame each, the first one's own. ::

            >>> words, frames = torch.eye(2)[None], torch.eye(2)[:, None]
            >>> token_contrast(words, torch.full((1, 2), 0.5), frames, torch.ones(2, 1).bool(),
            ...                torch.tensor([[True, False]]))
            tensor(0.8133)
    """
    if interest.shape != words.shape[:2] or positives.shape != (len(words), len(frames)):
        raise ValueError(
            f'{len(words)} texts of {words.shape[1]} words and {len(frames)} videos need interest '
            f'{tuple(words.shape[:2])} and positives {(len(words), len(frames))}, got '
            f'{tuple(interest.shape)} and {tuple(positives.shape)}'
        )
    matched = positives.any(1)
    text, place = ((interest > 0) & matched[:, None]).nonzero(as_tuple=True)
    if not len(text):
        return (words.sum() + frames.sum() + interest.sum()) * 0.0
    words_of_pair = words[text, place][:, None]
    there = torch.ones(len(text), 1, dtype=torch.bool, device=words.device)
    scores = token_scores(words_of_pair, there, frames, frame_mask, side='words', entries=entries)
    own = positives[text]
    pushed = None if weights is None else weights[text]
    counts = interest[text, place]
    options = dict(temperature=temperature, weights=pushed, counts=counts, direction='t2v')
    return contrastive(scores, own, **options) * (counts.sum() / matched.sum())


@arrays_too
def hard_negatives(scores: Tensor, candidates: Tensor, count: int) -> Tensor:
    """The best-scored candidates of each text and of each video (TACo's cascade).

    Args:
        scores: float [T, V].
        candidates: bool [T, V], the pairs that may be chosen.
        count: K', of a text among its videos, and of a video among its texts; fewer where there
            are no more.

    Returns:
        bool [T, V], what either has chosen.  Of equal scores the first ones are taken.

    Example:
        Texts take the first or the second video; the last one takes text 1. ::

            >>> scores = torch.tensor([[9.0, 2.0, 1.0], [3.0, 9.0, 2.0], [4.0, 2.0, 9.0]])
            >>> hard_negatives(scores, ~torch.eye(3).bool(), 1).int()
            tensor([[0, 1, 0],
                    [1, 0, 1],
                    [1, 0, 0]], dtype=torch.int32)
    """
    chosen = torch.zeros_like(candidates)
    scores = scores.masked_fill(~candidates, -torch.inf)
    for dim in (1, 0):
        best = scores.sort(dim=dim, descending=True, stable=True).indices
        best = best.narrow(dim, 0, min(count, scores.shape[dim]))
        chosen = chosen.scatter(dim, best, True)
    return chosen & candidates
