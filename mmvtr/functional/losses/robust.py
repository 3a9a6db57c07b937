"""RINCE, a contrastive loss that is robust to false positives (Chuang et al., 2022)."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from mmvtr.functional.losses.contrastive import (
    Sums,
    contrastive_sums,
    mean_of,
    pooled_of_sums,
)
from mmvtr.functional.values import arrays_too, check_range

__all__ = ['rince']


@arrays_too
def rince(
    scores: Tensor, positives: Tensor, *, q: float = 0.5, density: float = 0.01, **options: Any
) -> Tensor:
    """Return robust InfoNCE (Chuang et al., CVPR 2022), for data with some wrong positives.

        -e^(q s+) / q + (density (e^s+ + sum of e^s-))^q / q

    As q falls to 0 its gradient becomes InfoNCE's; at q = 1 it is linear in e^s, and pairs with low
    scores do not dominate.  Several positives are pooled, as by :func:`.contrastive` (ours); they
    may be soft, and weights and further columns count as there.

    It is not invariant to a shift of all scores: its size is that of e^(q s / T).  With
    q / T = 100, as at CLIP's temperature with q = 1, a cosine of .9 is beyond float32.

    Args:
        scores: float [T, V].
        positives: bool or soft [T, V].
        q: in (0, 1]; the default is ours.
        density: lambda, the weight of the denominator; the default is ours.
        **options: ``temperature``, ``weights``, ``counts``, ``columns``, ``direction``, see
            :func:`.contrastive`.

    Returns:
        0-dim tensor, the mean over anchors with a positive; 0 if there is none.

    Raises:
        ValueError: q outside (0, 1], a density that is not positive.

    Example:
        ::

            >>> rince(torch.eye(2), torch.eye(2).bool(), q=1.0, density=0.5)  # (1 + e) / 2 - e
            tensor(-0.8591)
    """
    check_range('(0, 1]', q=q)
    check_range('(0, inf)', density=density)
    sums = contrastive_sums(scores, positives, **options)
    return sum(rince_of_sums(terms, q, density) for terms in sums.values()) / len(sums)


def rince_of_sums(sums: Sums, q: float, density: float) -> Tensor:
    """Return the loss of one direction, 0-dim; see :func:`.loss_of_sums`.

    Example:
        ::

            >>> from mmvtr.functional.losses.contrastive import Sums
            >>> one = Sums(torch.ones(1), torch.tensor([0]), torch.zeros(1))
            >>> rince_of_sums(one, q=1.0, density=0.5)
            tensor(-0.8591)
    """
    if not len(sums.own):
        return sums.negative.sum() * 0.0
    pooled, total, matched = pooled_of_sums(sums)
    pull, push = (q * pooled[matched]).exp(), (q * (total[matched] + math.log(density))).exp()
    return mean_of((push - pull) / q, None if sums.counts is None else sums.counts[matched])
