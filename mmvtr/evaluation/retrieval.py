"""Retrieval of annotated pairs: R@K, median and mean rank, rsum, in both directions."""

from __future__ import annotations

import math
from typing import Callable, Iterator, Sequence, Union

import torch
from torch import Tensor

from mmvtr import functional as fn
from mmvtr.evaluation.metric import Matrices, Metric, constant, directed
from mmvtr.functional.metrics.ranks import RankCounts
from mmvtr.registry import METRICS
from mmvtr.structures import Directed, Relation

#: Video-to-text protocols and the names of their keys.
V2T_PROTOCOLS = dict(max_over_captions='v2t', best_caption='v2t_caption')


@METRICS.register_module()
class RetrievalMetric(Metric):
    """R@K and ranks of the annotated matches; ties count at their mean rank.

    Text to video, each text is a query among all videos (``t2v_*``). Video to text, the literature
    has two tasks of different difficulty where videos have several captions:

    - ``max_over_captions`` (CLIP4Clip, X-Pool; MSVD: 670 candidates): a candidate is a video,
      with the best score of its captions. Keys ``v2t_*`` and ``rsum``, what CLIP papers report.
    - ``best_caption`` (Collaborative Experts; MSVD: 27,763 candidates): a candidate is a caption,
      and the best own one counts. Keys ``v2t_caption_*`` and ``rsum_caption``.

    With one caption a video they are the same task, shown once as ``v2t_*``. With neither, only
    texts ask, and ``t2v_SumR`` is the sum of their R@K: what papers on partially relevant video
    retrieval report, at 1, 5, 10 and 100.

    Keys: ``R1``, ``R5`` ... in percent, ``MdR`` and ``MnR`` (median and mean rank), ``gmean`` (the
    geometric mean of the R@K, as Collaborative Experts); ``rsum`` = all R@K of both directions.
    Queries without a match are left out. Chance and limits are expectations over random ties: of a
    constant matrix; of the truth as the score, all true pairs alike, at which debiasing aims; and
    of the best paired scorer, the ceiling, who knows the truth and ranks true captions that say
    more first. Where captions are general the second is far below the third: a method that finds
    more of what is true then loses paired recall.

    Args:
        recall_at: the K of R@K.
        also_recall_at: further K that are shown only: no part of ``rsum`` and ``gmean``, which
            so compare between datasets (papers on ActivityNet add R@50).
        v2t_protocols: any of the two above, or none.

    Raises:
        ValueError: an unknown protocol, or (called) no text has an annotated video.

    Example:
        Text 0 finds its video first, text 1 second; so does video 1. ::

            >>> metric = RetrievalMetric(recall_at=(1, 2))
            >>> scores = torch.tensor([[.9, .1], [.8, .2]])
            >>> metric({'scores': scores}, Relation(torch.eye(2).bool()))['t2v_R1']
            50.0
    """

    def __init__(
        self,
        *,
        recall_at: Sequence[int] = (1, 5, 10),
        also_recall_at: Sequence[int] = (),
        v2t_protocols: Sequence[str] = ('max_over_captions', 'best_caption'),
    ) -> None:
        if set(v2t_protocols) - V2T_PROTOCOLS.keys():
            raise ValueError(f'v2t_protocols: some of {list(V2T_PROTOCOLS)}, not {v2t_protocols}')
        self.recall_at = tuple(recall_at)
        self.shown = (*recall_at, *also_recall_at)
        self.v2t_protocols = tuple(v2t_protocols)

    def measure(self, matrices: Matrices, relation: Relation) -> dict[str, float]:
        return self._numbers(matrices['scores'], relation.positives, self._of_mean_ranks)

    def chance(self, relation: Relation) -> dict[str, float]:
        return self._numbers(constant(relation), relation.positives, self._of_random_ties)

    def ceiling(self, relation: Relation) -> dict[str, float]:
        if relation.truth is None:
            return {}
        # Of captions that hold for a video, the likelier is the one that holds for fewer others:
        # a text true of n videos was written for each of them with probability 1/n.
        odds = relation.truth / relation.truth.sum(1, keepdim=True).clamp(min=1)
        return self._numbers(odds, relation.positives, self._of_random_ties)

    def alike(self, relation: Relation) -> dict[str, float]:
        if relation.truth is None:
            return {}
        return self._numbers(relation.truth.float(), relation.positives, self._of_random_ties)

    def _numbers(
        self,
        scores: Union[Tensor, Directed],
        positives: Tensor,
        summarise: Callable[[RankCounts], dict[str, float]],
    ) -> dict[str, float]:
        counts = dict(self._counts(directed(scores), positives))
        if not counts['t2v'].twins.any():
            raise ValueError('no text has an annotated video: nothing to rank')
        numbers, rsum = {}, {}
        for direction, count in counts.items():
            named = summarise(count)
            numbers.update({f'{direction}_{name}': value for name, value in named.items()})
            rsum[direction] = sum(named[f'R{k}'] for k in self.recall_at)
        t2v = rsum.pop('t2v')
        sums = {'rsum' + v2t.removeprefix('v2t'): t2v + value for v2t, value in rsum.items()}
        return {**numbers, **(sums or {'t2v_SumR': t2v})}

    def _counts(self, scores: Directed, positives: Tensor) -> Iterator[tuple[str, RankCounts]]:
        yield 't2v', fn.rank_counts(scores.t2v, positives)
        grouped = 'max_over_captions' in self.v2t_protocols
        if grouped:
            own = torch.diag(positives.any(0))
            yield 'v2t', fn.rank_counts(fn.caption_max(scores.v2t, positives), own, dim=0)
        if 'best_caption' in self.v2t_protocols and not (grouped and one_to_one(positives)):
            yield 'v2t_caption', fn.rank_counts(scores.v2t, positives, dim=0)

    def by_query(self, scores: Union[Tensor, Directed], relation: Relation) -> dict[str, Tensor]:
        """Return, in percent, whether each query finds a match among its first k.

        Returns:
            float64 [T] or [V] by key, ``t2v_R1`` ...: 0 or 100, ties at their mean rank; NaN where
            a query has no match.
        """
        found = {}
        for direction, count in self._counts(directed(scores), relation.positives):
            ranks = count.mean_ranks()
            for k in self.shown:
                hits = 100.0 * (ranks <= k)
                found[f'{direction}_R{k}'] = hits.where(~ranks.isnan(), torch.nan).double()
        return found

    def _of_mean_ranks(self, counts: RankCounts) -> dict[str, float]:
        ranks = counts.mean_ranks()
        recalls = {k: float(100 * fn.recall_at(ranks, k)) for k in self.shown}
        return self._named(recalls, fn.median_rank(ranks), fn.mean_rank(ranks))

    def _of_random_ties(self, counts: RankCounts) -> dict[str, float]:
        recalls = {k: float(100 * fn.expected_recall_at(counts, k)) for k in self.shown}
        return self._named(recalls, fn.expected_median_rank(counts), fn.expected_mean_rank(counts))

    def _named(self, recalls: dict[int, float], median: Tensor, mean: Tensor) -> dict[str, float]:
        gmean = math.prod(recalls[k] for k in self.recall_at) ** (1 / len(self.recall_at))
        named = {f'R{k}': recall for k, recall in recalls.items()}
        return {**named, 'MdR': float(median), 'MnR': float(mean), 'gmean': gmean}


def one_to_one(positives: Tensor) -> bool:
    """Return whether every text has one video and no video has two texts."""
    texts, videos = positives.nonzero(as_tuple=True)
    everywhere = torch.arange(len(positives), device=texts.device)
    return torch.equal(texts, everywhere) and len(videos.unique()) == len(videos)
