"""Metrics of a model's own uncertainty: sigma of each text and each video against the truth.

Beside the matrices [T, V] these metrics read vectors: ``'text_sigma'`` [T] and ``'video_sigma'``
[V], the geometric mean of an item's sigma over its dimensions.
"""

from __future__ import annotations

from torch import Tensor

from mmvtr.errors import UnknownKey
from mmvtr.evaluation.metric import Matrices, Metric, directed, known
from mmvtr.functional.metrics.ranks import ranks
from mmvtr.functional.metrics.relevance import auc
from mmvtr.functional.uncertainty.reliability import rejection_ratio, risk_coverage, spearman
from mmvtr.functional.values import check_range
from mmvtr.registry import METRICS
from mmvtr.structures import Relation

#: Percentages of the queries that are dropped, the most uncertain first.
DROPPED = (0, 10, 20, 30, 40, 50)


@METRICS.register_module()
class UncertaintyMetric(Metric):
    """AUC of sigma as a detector of failing queries.

    Keys, for texts (``t2v_``) and videos (``v2t_``) as queries:

    - ``R1_drop0``, ``R1_drop10`` ... ``R1_drop50``: R@1 without the 0, 10 ... 50 % most uncertain
      queries; ``R1_area``: its mean over all shares dropped. By chance they equal ``R1_drop0``.
    - ``rejection``: share of the possible gain in area that sigma reaches (rejection ratio);
      ``rejection_scores``: the same with the query's best score as its certainty. A sigma that
      does not beat the score adds nothing.
    - ``calibration``: Spearman's correlation of sigma with the rank of the match: only the order of
      sigma has a meaning for retrieval, not its scale.

    And ``sigma_mean_text``, ``sigma_mean_video``. All but these two are in percent. Any own caption
    of a video is a match.

    Raises:
        KeyError: (called) the model has no ``text_sigma`` or ``video_sigma``.
        ValueError: (called) one of them is not a finite vector of the set's length, or no query
            has a match.

    Example:
        Text 1 fails, and is the more uncertain one. ::

            >>> relation = Relation(torch.eye(2).bool())
            >>> sigma = dict(text_sigma=torch.tensor([.1, .4]), video_sigma=torch.ones(2))
            >>> scores = torch.tensor([[.9, .1], [.8, .2]])
            >>> numbers = UncertaintyMetric()({'scores': scores, **sigma}, relation)
            >>> numbers['t2v_R1_drop0'], numbers['t2v_R1_drop50'], numbers['t2v_rejection']
            (50.0, 100.0, 100.0)
    """

    prefix = 'uncertainty'

    def measure(self, matrices: Matrices, relation: Relation) -> dict[str, float]:
        texts, videos = relation.positives.shape
        text_sigma = sigma(matrices, 'text_sigma', texts)
        video_sigma = sigma(matrices, 'video_sigma', videos)
        scores = directed(matrices['scores'])
        return {
            **_of_queries('t2v', text_sigma, scores.t2v, relation.positives, dim=1),
            **_of_queries('v2t', video_sigma, scores.v2t, relation.positives, dim=0),
            'sigma_mean_text': float(text_sigma.mean()),
            'sigma_mean_video': float(video_sigma.mean()),
        }

    def chance(self, relation: Relation) -> dict[str, float]:
        names = ('rejection', 'rejection_scores', 'calibration')
        return {f'{direction}_{name}': 0.0 for direction in ('t2v', 'v2t') for name in names}


@METRICS.register_module()
class GeneralCaptionMetric(Metric):
    """AUC of the text's sigma as a detector of general captions.

    A caption is *general* if it truly holds for more than ``share`` of the videos. With the
    default these are exactly the planted corpus' captions of level 'general' (test and val).

    Keys, in percent: ``general_auc``, the area under the ROC curve of text sigma; and
    ``general_auc_scores``, that of minus the text's best score, which a useful sigma beats.

    Args:
        share: in (0, 1).

    Raises:
        ValueError: share out of range; or (called) the truth is not known, no text or every text
            is general; or see :class:`UncertaintyMetric`.
        KeyError: (called) see :class:`UncertaintyMetric`.

    Example:
        Text 0 holds for both videos. ::

            >>> relation = Relation(torch.eye(2).bool(), torch.tensor([[1, 1], [0, 1]]).bool())
            >>> matrices = dict(scores=torch.eye(2), text_sigma=torch.tensor([.4, .1]))
            >>> GeneralCaptionMetric(share=0.5)(matrices, relation)['general_auc']
            100.0
    """

    prefix = 'uncertainty'

    def __init__(self, *, share: float = 0.02) -> None:
        check_range('(0, 1)', share=share)
        self.share = share

    def measure(self, matrices: Matrices, relation: Relation) -> dict[str, float]:
        general = self._general(relation)
        detectors = dict(
            general_auc=sigma(matrices, 'text_sigma', len(general)),
            general_auc_scores=-directed(matrices['scores']).t2v.amax(1),
        )
        return {name: 100 * float(auc(x[general], x[~general])) for name, x in detectors.items()}

    def chance(self, relation: Relation) -> dict[str, float]:
        return dict(general_auc=50.0, general_auc_scores=50.0)

    def ceiling(self, relation: Relation) -> dict[str, float]:
        return dict(general_auc=100.0, general_auc_scores=100.0)

    def _general(self, relation: Relation) -> Tensor:
        """Return which texts are general, bool [T]."""
        truth = known(relation, 'truth', 'GeneralCaptionMetric')
        general = truth.sum(1) > self.share * truth.shape[1]
        if general.all() or not general.any():
            raise ValueError(
                f'{int(general.sum())} of {len(general)} texts hold for more than {self.share:.0%} '
                f'of the videos: nothing to tell apart, leave GeneralCaptionMetric out'
            )
        return general


def sigma(matrices: Matrices, name: str, length: int) -> Tensor:
    """Return one vector of the matrices as float [length].

    Raises:
        KeyError, ValueError: see :class:`UncertaintyMetric`.
    """
    if name not in matrices:
        raise UnknownKey(
            f'{name!r} is missing, the model gives {sorted(matrices)}: it has no heads'
        )
    vector = matrices[name]
    if vector.shape != (length,):
        raise ValueError(f'{name!r} is {list(vector.shape)}, expected [{length}]')
    if not vector.isfinite().all():
        raise ValueError(
            f'{name!r} is not finite for item {int((~vector.isfinite()).nonzero()[0])}'
        )
    return vector


def _of_queries(
    direction: str, uncertainty: Tensor, scores: Tensor, positives: Tensor, *, dim: int
) -> dict[str, float]:
    rank = ranks(scores, positives, dim=dim)
    answerable = ~rank.isnan()
    if not answerable.any():
        raise ValueError(f'{direction}: no query has a match')
    rank, uncertainty = rank[answerable], uncertainty[answerable]
    wrong = (rank > 1).double()
    accuracy = 100 * (1 - risk_coverage(uncertainty, wrong))
    numbers = {
        f'R1_drop{percent}': accuracy[len(rank) - 1 - len(rank) * percent // 100]
        for percent in DROPPED
    }
    numbers['R1_area'] = accuracy.mean()
    numbers['rejection'] = 100 * rejection_ratio(uncertainty, wrong)
    numbers['rejection_scores'] = 100 * rejection_ratio(-scores.amax(dim)[answerable], wrong)
    numbers['calibration'] = 100 * spearman(uncertainty, rank)
    return {f'{direction}_{name}': float(value) for name, value in numbers.items()}
