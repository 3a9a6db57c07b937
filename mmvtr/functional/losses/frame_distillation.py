"""Distillation of a teacher's attention over a video's frames (DL-DKD; Dong et al., 2023)."""

from __future__ import annotations

import torch
from torch import Tensor

from mmvtr.functional.arrays_too import arrays_too
from mmvtr.functional.precision import at_least_float32

__all__ = ['frame_divergence']


@arrays_too
def frame_divergence(
    student: Tensor, teacher: Tensor, mask: Tensor, *, temperature: float = 0.2
) -> Tensor:
    """Return the divergence of the student's distribution over a pair's frames from the teacher's.

        KL( softmax_k(teacher_k / temperature) || softmax_k(student_k / temperature) )

    Args:
        student, teacher: float [P, F], scores of a text with the frames of a video, P pairs.
        mask: bool [P, F]; frames that are False are ignored.
        temperature: > 0.

    Returns:
        float [P].

    Raises:
        ValueError: shapes that differ, or a pair without a valid frame.

    Example:
        ::

            >>> student, teacher = torch.tensor([[0.2, 0.2, 9.0]]), torch.tensor([[0.4, 0.2, -9.0]])
            >>> frame_divergence(student, teacher, torch.tensor([[True, True, False]]))
            tensor([0.1109])
    """
    if not student.shape == teacher.shape == mask.shape:
        raise ValueError(
            f"the student's scores {list(student.shape)}, the teacher's {list(teacher.shape)} and "
            f'the mask {list(mask.shape)} differ'
        )
    empty = (~mask.any(1)).nonzero().flatten().tolist()
    if empty:
        raise ValueError(f'pair {empty[0]} has no valid frame: its mask is all False')
    low = torch.finfo(torch.float32).min  # finite, so that low - low is 0, not NaN
    ours, theirs = (
        (at_least_float32(x) / temperature).masked_fill(~mask, low).log_softmax(1)
        for x in (student, teacher)
    )
    terms = theirs.exp() * (theirs - ours)
    return terms.masked_fill(~mask, 0.0).sum(1)
