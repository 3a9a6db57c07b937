"""How well scores of the clips of a video find its highlights, by people's grades."""

from __future__ import annotations

from typing import Mapping, Sequence

import torch
from torch import Tensor

from mmvtr.functional.metrics.highlights import interpolated_precision


def highlight_figures(
    scores: Mapping[str, Sequence[float]], grades: Mapping[str, Sequence[Sequence[int]]]
) -> dict[str, float]:
    """mAP and HIT@1 of highlights, in percent, at each least grade (Moment-DETR's evaluation).

    Each person's highlights are those that they gave the least grade or more.  mAP is the mean of
    :func:`~mmvtr.functional.metrics.highlights.interpolated_precision` over people and queries;
    a person without highlights counts 0.  HIT@1 is the percentage of queries whose first part is a
    highlight of somebody; of parts with the highest score the earliest is first.  Papers print
    ``very_good``.

    As there, parts that have no score have 0, and scores of parts that nobody could grade do not
    count, but for HIT@1, where such a first part is wrong.

    Args:
        scores: of the parts of the query's video in their order, by query.
        grades: int [C, P] by query, as of :func:`~mmvtr.datasets.highlights.read_highlights`.

    Returns:
        ``<level>_map`` and ``<level>_hit1`` for the levels of :data:`LEVELS`.

    Raises:
        ValueError: no queries, queries of one that the other lacks, no scores, a NaN.
    """
    if not grades or scores.keys() != grades.keys():
        few = sorted(map(str, scores.keys() ^ grades.keys()))[:5]
        raise ValueError(f'scores of each graded query and of no other expected; not so: {few}')
    found: dict[str, list[Tensor]] = {}
    for query, rated in grades.items():
        given = torch.as_tensor(scores[query], dtype=torch.float64)
        if given.ndim != 1 or not len(given):
            raise ValueError(f'query {query!r}: one score a part expected')
        if given.isnan().any():
            raise ValueError(f'query {query!r}: a score is NaN')
        for name, value in _of_query(given, torch.as_tensor(rated)).items():
            found.setdefault(name, []).append(value)
    return {name: 100 * float(torch.stack(values).mean()) for name, values in found.items()}


#: Least grade that counts as a highlight, by the name that it has in the papers.
LEVELS = dict(fair=2, good=3, very_good=4)


def _of_query(given: Tensor, rated: Tensor) -> dict[str, Tensor]:
    fitted = given.new_zeros(len(rated))
    both = min(len(given), len(rated))
    fitted[:both] = given[:both]
    first, found = int(given.argmax()), {}
    for name, least in LEVELS.items():
        good = rated >= least
        each = [interpolated_precision(fitted, good[:, person]) for person in range(good.shape[1])]
        found[f'{name}_map'] = torch.stack(each).mean()
        hit = first < len(rated) and bool(good[first].any())
        found[f'{name}_hit1'] = given.new_tensor(float(hit))
    return found
