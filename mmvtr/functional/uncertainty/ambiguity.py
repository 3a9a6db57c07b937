"""Detection of ambiguous pairs, neither match nor negative: ARL's label ambiguity detection.

Pair uncertainty (Eq. 5), thresholds, the sets of Eq. 6-7, and their use in a loss (Tab. 6).
Columns are videos, or the frames of the text's own video (text-frame level): the same functions
serve both.  The dataset-level part (Eq. 4) is in :mod:`.dataset_uncertainty`.
"""

from __future__ import annotations

import math
from typing import Any, Optional

import torch
from torch import Tensor

from mmvtr.functional.similarities.best_frames import highest
from mmvtr.functional.values import arrays_too, check_one_of, check_shapes

__all__ = [
    'Moments',
    'ambiguous_set',
    'apply_strategy',
    'frame_uncertainty',
    'own_positive',
    'pair_uncertainty',
]

STRATEGIES = ('ours', 'positive', 'ignore')


# -- Eq. 5 -------------------------------------------------------------------------------------


@arrays_too
def pair_uncertainty(texts: Tensor, frames: Tensor, best: Tensor) -> Tensor:
    """Return u of each text and video (Eq. 5, left): mean of U^q and of U^v at the matched frame.

    Args:
        texts: float [T], U^q.
        frames: float [V, F], U^v.
        best: int64 [T, V], the matched frame (:func:`.best_frames`).

    Returns:
        float [T, V].

    Example:
        ::

            >>> texts, frames = torch.tensor([0.2, 0.4]), torch.tensor([[0.1, 0.5]])
            >>> pair_uncertainty(texts, frames, torch.tensor([[1], [0]]))
            tensor([[0.3500],
                    [0.2500]])
    """
    return frame_uncertainty(texts, frames[torch.arange(len(frames), device=best.device), best])


@arrays_too
def frame_uncertainty(texts: Tensor, frames: Tensor) -> Tensor:
    """Return u^f of P texts and the frames each is compared with (Eq. 5, right): their means.

    Args:
        texts: float [P], U^q.
        frames: float [P, F], U^v.

    Returns:
        float [P, F].

    Example:
        ::

            >>> frame_uncertainty(torch.tensor([0.2]), torch.tensor([[0.1, 0.5]]))
            tensor([[0.1500, 0.3500]])
    """
    return (texts[:, None] + frames) / 2


# -- thresholds --------------------------------------------------------------------------------


class Moments:
    """Mean and standard deviation of numbers added in parts, for the thresholds of ARL Eq. 6-7.

    Attributes:
        totals: float64 [3]: count, sum, sum of squares.  Add those of another process
            (all-reduce) to combine both.

    Example:
        ::

            >>> moments = Moments()
            >>> moments.add(torch.tensor([1.0, 3.0]))
            >>> moments.threshold(), moments.threshold(spread=1.0)
            (2.0, 3.0)
    """

    def __init__(self, *, device: Optional[str | torch.device] = None) -> None:
        self.totals = torch.zeros(3, dtype=torch.float64, device=device)

    def add(self, values: Tensor) -> None:
        """Add float numbers of any shape [...]; summed in float64."""
        values = values.detach().double()
        sums = [values.new_tensor(values.numel()), values.sum(), values.square().sum()]
        self.totals += torch.stack(sums).to(self.totals.device)

    def threshold(self, spread: float = 0.0) -> float:
        """Return ``mean + spread * standard deviation``; ValueError if nothing was added.

        The paper's rule is the mean (``spread=0``): tau_s over s of the annotated pairs, tau_u over
        u of "the train set" (here of the annotated pairs, which is linear, or of all pairs of
        a sample).  About half of the matches are above such a tau_s, and so are many other pairs if
        ambiguity is high; ``spread=1`` is the safer choice.
        """
        count, total, squares = self.totals.tolist()
        if not count:
            raise ValueError('no pairs, so no threshold: nothing was added')
        mean = total / count
        return mean + spread * math.sqrt(max(squares / count - mean**2, 0.0))


@arrays_too
def own_positive(scores: Tensor, positives: Tensor, *, slack: float = 0.0) -> Tensor:
    """Return tau_s of each text: its best positive score less ``slack``, float [T, 1].

    A relative rule, ours: with ``slack=0`` only videos that outrank the text's own are ambiguous,
    whatever the level of its scores.  At text-frame level the positive is the best frame, and
    needs a slack > 0.  Infinite for a text without a positive: nothing is ambiguous for it.

    Args:
        scores: float [T, V].
        positives: bool [T, V].
        slack: in score units.

    Example:
        Text 1 has no positive. ::

            >>> scores = torch.tensor([[0.9, 0.2], [0.7, 0.8]])
            >>> own_positive(scores, torch.tensor([[1, 0], [0, 0]]).bool(), slack=0.1)
            tensor([[0.8000],
                    [   inf]])
    """
    if not scores.shape[1]:
        return scores.new_full((len(scores), 1), math.inf)
    best = scores.detach().masked_fill(~positives, -math.inf).amax(1, keepdim=True)
    return torch.where(positives.any(1, keepdim=True), best - slack, math.inf)


# -- Eq. 6-7 -----------------------------------------------------------------------------------


@torch.no_grad()
@arrays_too
def ambiguous_set(
    scores: Tensor,
    uncertainty: Tensor,
    positives: Tensor,
    *,
    tau_s: float | Tensor,
    tau_u: float | Tensor,
    mask: Optional[Tensor] = None,
    cap: Optional[int] = None,
) -> Tensor:
    """Return ``s > tau_s and u > tau_u`` (ARL Eq. 6 by rows, Eq. 7 by columns), without positives.

    Args:
        scores: float [T, V], s of Eq. 3; at text-frame level [P, F], s^f of Eq. 2.
        uncertainty: float, same shape, u or u^f of Eq. 5.
        positives: bool, same shape: every annotated match of the batch, so that neither a text's
            own video nor a sibling caption of a video gets in; at text-frame level none, as the
            branch that learns from the set may have another best frame.
        tau_s, tau_u: thresholds that broadcast to the scores.
        mask: bool, same shape, or None: False at padded frames.
        cap: largest number of entries a row, the best-scored ones (ties: the leftmost); None = all.

    Returns:
        bool, same shape.

    Raises:
        ValueError: shapes that differ, or a cap below 1.

    Example:
        Video 0 is the text's own, 1 is certain, 3 scores low. ::

            >>> scores = torch.tensor([[0.9, 0.8, 0.7, 0.1]])
            >>> uncertainty = torch.tensor([[0.6, 0.2, 0.6, 0.6]])
            >>> own = torch.tensor([[1, 0, 0, 0]]).bool()
            >>> ambiguous_set(scores, uncertainty, own, tau_s=0.5, tau_u=0.5)
            tensor([[False, False,  True, False]])
    """
    masks = {} if mask is None else dict(mask=mask)
    check_shapes(scores=scores, uncertainty=uncertainty, positives=positives, **masks)
    ambiguous = (scores > tau_s) & (uncertainty > tau_u) & ~positives
    if mask is not None:
        ambiguous &= mask
    return ambiguous if cap is None else highest(scores, ambiguous, cap)


# -- Tab. 6 ------------------------------------------------------------------------------------


@arrays_too
def apply_strategy(
    strategy: str, positives: Tensor, ambiguous: Tensor, weights: Optional[Tensor] = None
) -> dict[str, Any]:
    """Return the inputs of a loss that treats ambiguous pairs by a strategy (ARL Tab. 6).

    Args:
        strategy: ``'ours'``: they stay ambiguous (in numerator and denominator of the contrast,
            with a smaller margin); ``'positive'``: they are matches (the paper's contrast then is
            SupCon, ``form='outer_sum'``); ``'ignore'``: they have weight 0.
        positives: bool [T, V].
        ambiguous: bool [T, V].
        weights: float [T, V] or None (= 1).

    Returns:
        ``positives``, ``weights`` and ``ambiguous`` of a target, each [T, V] or None.

    Raises:
        ValueError: an unknown strategy.

    Example:
        ::

            >>> positives, ambiguous = torch.tensor([[1, 0]]).bool(), torch.tensor([[0, 1]]).bool()
            >>> apply_strategy('ignore', positives, ambiguous)['weights']
            tensor([[1., 0.]])
    """
    check_one_of(STRATEGIES, strategy=strategy)
    if strategy == 'ours':
        return dict(positives=positives, weights=weights, ambiguous=ambiguous)
    if strategy == 'positive':
        return dict(positives=positives | ambiguous, weights=weights, ambiguous=None)
    weights = torch.ones(positives.shape, device=positives.device) if weights is None else weights
    return dict(positives=positives, weights=weights.masked_fill(ambiguous, 0.0), ambiguous=None)
