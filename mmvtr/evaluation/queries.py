"""Values of single queries in a file, for intervals over other queries."""

from __future__ import annotations

from pathlib import Path
from typing import Mapping, NamedTuple, Sequence, Union

import numpy as np
import torch
from torch import Tensor

from mmvtr.evaluation.metric import ByQuery, Metric, reads_scores_alone
from mmvtr.storage.arrays import read_arrays, write_arrays
from mmvtr.structures import Directed, Relation

#: Between the key of a number and the direction of its queries, in names of arrays.
OF = ' of '
#: Key of the groups of queries.
GROUPS = 'groups'


class QueryValues(NamedTuple):
    """What a test knows of single queries.

    Attributes:
        values: by key of the results, such as ``retrieval/rsum``, and by direction.
        groups: by direction int64 [T] and [V]: texts and videos that belong together.
    """

    values: dict[str, ByQuery]
    groups: ByQuery

    def parts(self, key: str) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return the arrays of a key, float64 [Q], and the groups of each; none if not known."""
        of_key = self.values.get(key, {})
        return (
            [np.asarray(values, dtype=np.float64) for values in of_key.values()],
            [np.asarray(self.groups[side]) for side in of_key],
        )


def queries_of(
    metrics: Sequence[Metric],
    scores: Union[Tensor, Directed],
    relation: Relation,
    transformed: Mapping[str, Directed] = {},
) -> QueryValues:
    """Return the values of single queries of all metrics that have some.

    Args:
        metrics: of the test.
        scores: float [T, V].
        relation: annotations of the set.
        transformed: scores by the name of a transform, which is their keys' prefix.
    """
    values: dict[str, ByQuery] = {}
    for prefix, these in {'': scores, **transformed}.items():
        for metric in metrics:
            if prefix and not reads_scores_alone(metric):
                continue
            start = f'{prefix}/{metric.prefix}' if prefix else metric.prefix
            of_metric = metric.by_query(these, relation)
            values.update({f'{start}/{key}': of_key for key, of_key in of_metric.items()})
    texts, videos = groups(relation.positives)
    return QueryValues(values, dict(t2v=texts, v2t=videos))


def groups(positives: Tensor) -> tuple[Tensor, Tensor]:
    """Return group numbers, int64 [T] and [V], of texts and videos that annotated pairs connect.

    Args:
        positives: bool [T, V].
    """
    count_t, count_v = positives.shape
    text, video = positives.nonzero(as_tuple=True)
    of_text = count_v + torch.arange(count_t, device=text.device)
    of_video = torch.arange(count_v, device=text.device)
    while True:
        of_text = of_text.scatter_reduce(0, text, of_video[video], 'amin')
        joined = of_video.scatter_reduce(0, video, of_text[text], 'amin')
        if torch.equal(joined, of_video):
            return of_text.cpu(), of_video.cpu()
        of_video = joined


def write_queries(path: Union[str, Path], queries: QueryValues) -> None:
    """Write values of queries as npz, float32."""
    arrays = {
        f'{key}{OF}{side}': values.float().numpy()
        for key, of_key in queries.values.items()
        for side, values in of_key.items()
    }
    of_groups = {f'{GROUPS}{OF}{side}': values.numpy() for side, values in queries.groups.items()}
    write_arrays(str(path), **arrays, **of_groups)


def read_queries(path: Union[str, Path]) -> QueryValues:
    """Read what :func:`write_queries` wrote.

    Raises:
        OSError, ValueError: no such file, or a damaged one.
    """
    values: dict[str, ByQuery] = {}
    for name, array in read_arrays(path).items():
        key, _, side = name.rpartition(OF)
        values.setdefault(key, {})[side] = torch.from_numpy(array)
    return QueryValues(values, values.pop(GROUPS, {}))
