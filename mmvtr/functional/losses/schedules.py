"""Weights that decrease over the epochs."""

from __future__ import annotations

import math

from mmvtr.functional.values import check_one_of

__all__ = ['epoch_at', 'falling']

#: Known schedules, see :func:`falling`.
FALLS = ('constant', 'exp', 'linear', 'sigmoid')


def falling(
    epoch: float, *, fall: str, start: float = 1.0, rate: float, floor: float = 0.0
) -> float:
    """Return a weight that decreases from ``start`` over the epochs, at least ``floor`` (DL-DKD).

    ::

        constant   start
        exp        start rate^epoch
        linear     start (1 - rate epoch)
        sigmoid    start rate / (rate + e^(100 epoch / rate))

    DL-DKD's weight of distillation decreases exponentially with rate .95, the alpha and beta of
    DL-DKD++ as a sigmoid with rate 800.

    Args:
        epoch: from 0.
        fall: one of :data:`FALLS`.
        start: value at epoch 0 (for a sigmoid, start rate / (rate + 1)).
        rate: see above; unused by a constant.
        floor: smallest value.

    Raises:
        ValueError: an unknown schedule, or a rate that does not fit it.

    Example:
        ::

            >>> round(falling(2, fall='exp', start=0.1, rate=0.95), 5)
            0.09025
            >>> falling(100, fall='sigmoid', start=0.8, rate=800, floor=0.5)
            0.5
    """
    check_fall(fall, rate)
    if fall == 'constant':
        value = start
    elif fall == 'exp':
        value = start * rate**epoch
    elif fall == 'linear':
        value = start * (1 - rate * epoch)
    else:
        # 700: e^x overflows beyond it, and the weight is 0 there anyway.
        value = start * rate / (rate + math.exp(min(100 * epoch / rate, 700.0)))
    return max(value, floor)


def check_fall(fall: str, rate: float) -> None:
    """Raise ValueError for an unknown schedule, or a rate that does not fit it.

    Example:
        ::

            >>> check_fall('exp', 0.95)
    """
    check_one_of(FALLS, fall=fall)
    if not rate > 0 or (fall in ('exp', 'linear') and rate > 1):
        raise ValueError(
            f'rate {rate} does not fit fall {fall!r}: exp and linear need (0, 1], sigmoid > 0'
        )


def epoch_at(progress: float, epochs: int) -> int:
    """Return the epoch, from 0, that a share of a training of ``epochs`` epochs falls into.

    Example:
        ::

            >>> [epoch_at(share, 4) for share in (0.0, 0.25, 0.99, 1.0)]
            [0, 1, 3, 3]
    """
    return min(int(progress * epochs + 1e-6), epochs - 1)
