"""Metrics of truncated run files, which list only the first places of each query."""

from __future__ import annotations

from typing import NamedTuple, Optional, Sequence

import torch
from torch import Tensor

from mmvtr import functional as fn


class CutRun(NamedTuple):
    """Metrics of a truncated run file, which lists only the first places of each query.

    Attributes:
        values: by key, in percent: ``t2v_R1`` ... and, for judged texts, ``t2v_P1``,
            ``t2v_share1``.
        depth: length of the shortest non-empty list of a text.
        missing: number of texts without a list; they count as not found.
        left_out: metrics that need more places than ``depth``.
    """

    values: dict[str, float]
    depth: int
    missing: int
    left_out: list[str]


def measure_cut_run(
    table: Tensor,
    positives: Tensor,
    grades: Optional[Tensor] = None,
    *,
    at_least: float = 1.0,
    k: Sequence[int] = (1, 5, 10),
) -> CutRun:
    """Measure text-to-video metrics to the depth of the run; ties count at their mean rank.

    Args:
        table: float [T, V], NaN = the run does not list the video.
        positives: bool [T, V].
        grades: float [T, V] of judged pairs, NaN = not judged; None = no judgments.
        at_least: the lowest relevant grade; an annotated pair without a judgment is relevant.
        k: cut-offs.

    Raises:
        ValueError: no text has a list, or no text a match.

    Example:
        Text 0 finds its video first; the second place of text 1 is not known. ::

            >>> table = torch.tensor([[.9, torch.nan], [.8, torch.nan]])
            >>> run = measure_cut_run(table, torch.eye(2).bool(), k=(1, 2))
            >>> run.values, run.left_out
            ({'t2v_R1': 50.0}, ['R2', 'MdR', 'MnR', 'video to text', 'hubness'])
    """
    listed = ~table.isnan()
    lengths = listed.sum(1)
    if not lengths.any() or not positives.any():
        raise ValueError('the run has no line, or no text has a match: nothing to measure')
    depth = int(lengths[lengths > 0].min())
    scores = table.where(listed, -torch.inf)
    found = (positives & listed).any(1)
    ranks = fn.ranks(scores, positives).where(found | ~positives.any(1), torch.inf)
    right = answerable = judged = None
    if grades is not None:
        judged = ~grades.isnan()
        answerable = judged.any(1)
        right = ((grades >= at_least) | (positives & ~judged)) & listed
        judged = (judged | positives) & listed
    values, left_out = {}, []
    for places in k:
        if places > depth:
            left_out.append(f'R{places}')
            continue
        values[f't2v_R{places}'] = 100 * float(fn.recall_at(ranks, places))
        if answerable is not None:
            for name, matrix in (('P', right), ('share', judged)):
                value = fn.precision_at(scores[answerable], matrix[answerable], places).mean()
                values[f't2v_{name}{places}'] = 100 * float(value)
    if grades is not None:
        left_out += [f'P{places}' for places in k if places > depth]
        left_out += ['bpref', 'AP', 'mAP_R', 'R_precision']
    middle = ranks[~ranks.isnan()].sort().values
    median = (middle[(len(middle) - 1) // 2] + middle[len(middle) // 2]) / 2
    if median <= depth:
        values['t2v_MdR'] = float(median)
    else:
        left_out.append('MdR')
    left_out += ['MnR', 'video to text', 'hubness']
    return CutRun(values, depth, int((lengths == 0).sum()), left_out)
