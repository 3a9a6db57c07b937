"""How a supervision fades in: embeddings say little before they have learnt something."""

from __future__ import annotations


def checked_ramp(ramp: tuple[float, float]) -> tuple[float, float]:
    """(start, end) as it is.

    Raises:
        ValueError: it is not ascending within [0, 1].
    """
    start, end = ramp
    if not 0 <= start <= end <= 1:
        raise ValueError(f'ramp must be (start, end) with 0 <= start <= end <= 1, not {ramp}')
    return start, end


def ramp_at(progress: float, ramp: tuple[float, float]) -> float:
    """0 before the start, 1 from the end on, linear between; all as shares of the training."""
    start, end = ramp
    if progress >= end:
        return 1.0
    return max(0.0, (progress - start) / (end - start))
