"""How a supervision fades in (embeddings say little before they have learnt something), and the
weights that it then gives."""

from __future__ import annotations

from torch import Tensor, nn

from mmvtr.models.target import Target


class Ramped(nn.Module):
    """What fades in over a training.

    Args:
        ramp: (start, end) as shares of the training.

    Attributes:
        progress: share of the training done; ProgressHook sets it, 1 without the hook.

    Raises:
        ValueError: a ramp that is not ascending within [0, 1].
    """

    def __init__(self, ramp: tuple[float, float]) -> None:
        super().__init__()
        start, end = ramp
        if not 0 <= start <= end <= 1:
            raise ValueError(f'ramp must be (start, end) with 0 <= start <= end <= 1, not {ramp}')
        self.ramp = (start, end)
        self.progress = 1.0

    @property
    def faded_in(self) -> float:
        """The share faded in: 0 before the start, 1 after the end, linear in between."""
        start, end = self.ramp
        if self.progress >= end:
            return 1.0
        return max(0.0, (self.progress - start) / (end - start))


def check_floor(floor: float) -> None:
    """ValueError for a smallest weight outside [0, 1]."""
    if not 0 <= floor <= 1:
        raise ValueError(f'floor must lie in [0, 1], not {floor}')


def spare(
    target: Target, eta: Tensor, *, floor: float, share: float
) -> tuple[Target, dict[str, Tensor]]:
    """Some texts' target with weights, and sums over its entries.

    Args:
        target: of R texts and V videos.
        eta: float [R, V] in [0, 1], 0 = surely no negative.
        floor: smallest eta.
        share: of the way from weights of 1 to those.

    Returns:
        The target with weights [R, V], and sums for :func:`spared`.
    """
    eta = eta.clamp_min(floor)
    negatives = ~target.positives
    sums = dict(
        eta=eta.masked_fill(target.positives, 0.0).sum(),
        negatives=negatives.sum().to(eta.dtype),
        spared=((eta < 0.5) & negatives).sum().to(eta.dtype),
        texts=eta.new_tensor(len(eta)),
    )
    return target._replace(weights=1 - share * (1 - eta)), sums


def spared(sums: dict[str, Tensor]) -> dict[str, Tensor]:
    """Sums over all entries -> the mean eta of a negative, and how many a text has below 1/2."""
    return {
        'eta_negative': sums['eta'] / sums['negatives'].clamp_min(1),
        'spared_per_text': sums['spared'] / sums['texts'].clamp_min(1),
    }
