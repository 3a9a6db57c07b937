"""Retrieval in both directions: R@K and ranks of annotated pairs, P@K, mAP, nDCG of true ones."""

from __future__ import annotations

import math
from typing import Callable, Iterator, Mapping, Sequence, Union

import torch
from torch import Tensor

from mmvtr import functional as fn
from mmvtr.evaluation.metric import ByQuery, Matrices, Metric, constant, directed, known
from mmvtr.functional.metrics.ranks import RankCounts
from mmvtr.functional.metrics.relevance import average_precision, ndcg_at_k, precision_at_1
from mmvtr.registry import METRICS
from mmvtr.structures import Directed, Relation

#: Video-to-text protocols and the names of their keys.
V2T_PROTOCOLS = dict(max_over_captions='v2t', best_caption='v2t_caption')


@METRICS.register_module()
class RetrievalMetric(Metric):
    """R@K and ranks of the annotated matches; ties count at their mean rank.

    Text to video, each text is a query among all videos (``t2v_*``). Video to text, the literature
    has two tasks of different difficulty if videos have several captions:

    - ``max_over_captions`` (CLIP4Clip, X-Pool; MSVD: 670 candidates): a candidate is a video,
      with the best score of its captions. Keys ``v2t_*`` and ``rsum``, what CLIP papers report.
    - ``best_caption`` (Collaborative Experts; MSVD: 27,763 candidates): a candidate is a caption,
      and the best own caption counts. Keys ``v2t_caption_*`` and ``rsum_caption``.

    With one caption a video they are the same task, shown once as ``v2t_*``. With neither, only
    texts are queries, and ``t2v_SumR`` is the sum of their R@K, which papers on partially relevant
    video retrieval report at 1, 5, 10 and 100.

    Keys: ``R1``, ``R5`` ... in percent, ``MdR`` and ``MnR`` (median and mean rank), ``gmean`` (the
    geometric mean of the R@K, as Collaborative Experts); ``rsum`` = all R@K of both directions.
    Queries without a match are left out. Chance, alike and ceiling are expectations over random
    ties: of a constant matrix; of the truth as the score, equal for all true pairs, which debiasing
    aims at; and of the best paired scorer, which knows the truth and ranks specific true captions
    above general ones. If captions are general, alike is far below the ceiling: a method that finds
    more true pairs then loses paired recall.

    Args:
        recall_at: the K of R@K.
        also_recall_at: further K that are only shown: they are not in ``rsum`` and ``gmean``, so
            that these stay comparable between datasets (papers on ActivityNet add R@50).
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
            raise ValueError(
                f'v2t_protocols must be some of {list(V2T_PROTOCOLS)}, not {v2t_protocols}'
            )
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
        # Among captions that hold for a video, one that holds for fewer others is more likely its
        # own: a text true of n videos was written for each of them with probability 1/n.
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
            own_video = torch.diag(positives.any(0))
            yield 'v2t', fn.rank_counts(fn.caption_max(scores.v2t, positives), own_video, dim=0)
        if 'best_caption' in self.v2t_protocols and not (grouped and one_to_one(positives)):
            yield 'v2t_caption', fn.rank_counts(scores.v2t, positives, dim=0)

    def by_query(self, scores: Union[Tensor, Directed], relation: Relation) -> dict[str, ByQuery]:
        """See :class:`Metric`: R@K (0 or 100 a query), mean rank, and the sums of R@K."""
        by_key: dict[str, ByQuery] = {}
        sums: dict[str, Tensor] = {}
        for direction, count in self._counts(directed(scores), relation.positives):
            ranks, side = count.mean_ranks().double().cpu(), direction[:3]
            hits = {
                k: (100.0 * (ranks <= k)).double().where(~ranks.isnan(), torch.nan)
                for k in self.shown
            }
            by_key.update({f'{direction}_R{k}': {side: hit} for k, hit in hits.items()})
            by_key[f'{direction}_MnR'] = {side: ranks}
            sums[direction] = sum(hits[k] for k in self.recall_at)
        t2v = sums.pop('t2v')
        for v2t, values in sums.items():
            by_key['rsum' + v2t.removeprefix('v2t')] = dict(t2v=t2v, v2t=values)
        return by_key if sums else {**by_key, 't2v_SumR': dict(t2v=t2v)}

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


#: Measure -> the field of the relation that it needs.
NEEDS = dict(P1='truth', mAP='truth', nDCG='relevance')


@METRICS.register_module()
class SemanticMetric(Metric):
    """Precision@1, mAP and nDCG@K against the full known truth, in both directions.

    Keys ``t2v_P1``, ``t2v_mAP``, ``t2v_nDCG50`` and the same for v2t, in percent. Queries without a
    true match are left out; ties get their expected value. Chance is the value of a constant
    matrix, the ceiling that of the truth (for nDCG, the relevance) as the score.

    Args:
        measures: some of ``'P1'`` and ``'mAP'``, which need ``Relation.truth``, and ``'nDCG'``,
            which needs ``Relation.relevance``.
        k: depth of nDCG.

    Raises:
        ValueError: an unknown measure, or (called) the relation lacks what a measure needs.

    Example:
        Text 1 holds for both videos, so its first one is right. ::

            >>> truth = torch.tensor([[1, 0], [1, 1]]).bool()
            >>> relation = Relation(torch.eye(2).bool(), truth=truth)
            >>> metric = SemanticMetric(measures=('P1',))
            >>> metric({'scores': torch.tensor([[.9, .1], [.8, .2]])}, relation)
            {'t2v_P1': 100.0, 'v2t_P1': 100.0}
    """

    prefix = 'semantic'

    def __init__(self, *, measures: Sequence[str] = ('P1', 'mAP', 'nDCG'), k: int = 50) -> None:
        unknown = set(measures) - NEEDS.keys()
        if unknown or not measures:
            raise ValueError(f'measures must be some of {list(NEEDS)}, not {measures}')
        self.measures = tuple(measures)
        self.k = k

    def measure(self, matrices: Matrices, relation: Relation) -> dict[str, float]:
        return self._numbers(dict.fromkeys(NEEDS.values(), matrices['scores']), relation)

    def chance(self, relation: Relation) -> dict[str, float]:
        return self._numbers(dict.fromkeys(NEEDS.values(), constant(relation)), relation)

    def ceiling(self, relation: Relation) -> dict[str, float]:
        targets = {name: getattr(relation, name) for name in NEEDS.values()}
        scores = {name: target.float() for name, target in targets.items() if target is not None}
        return self._numbers(scores, relation)

    def _numbers(
        self, scores: Mapping[str, Union[Tensor, Directed]], relation: Relation
    ) -> dict[str, float]:
        """Return the measures; ``scores`` by the field of the relation they are compared with."""
        values = self._values(scores, relation)
        return {
            key: 100 * float(x.nanmean()) for key, sides in values.items() for x in sides.values()
        }

    def by_query(self, scores: Union[Tensor, Directed], relation: Relation) -> dict[str, ByQuery]:
        values = self._values(dict.fromkeys(NEEDS.values(), scores), relation)
        return {
            key: {side: 100 * x.double().cpu() for side, x in sides.items()}
            for key, sides in values.items()
        }

    def _values(
        self, scores: Mapping[str, Union[Tensor, Directed]], relation: Relation
    ) -> dict[str, ByQuery]:
        functions = dict(P1=precision_at_1, mAP=average_precision, nDCG=self._ndcg)
        by_key = {}
        for direction, dim in (('t2v', 1), ('v2t', 0)):
            for name in self.measures:
                target = known(relation, NEEDS[name], name)
                matrix = getattr(directed(scores[NEEDS[name]]), direction)
                key = f'{direction}_{name}' + (str(self.k) if name == 'nDCG' else '')
                by_key[key] = {direction: functions[name](matrix, target, dim=dim)}
        return by_key

    def _ndcg(self, scores: Tensor, relevance: Tensor, *, dim: int) -> Tensor:
        return ndcg_at_k(scores, relevance, k=self.k, dim=dim)
