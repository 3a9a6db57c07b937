"""Frame-length bias metrics: does a query find videos as long as those it was trained on?

Satar et al., "Towards Debiasing Frame Length Bias in Text-Video Retrieval via Causal Intervention".
"""

from __future__ import annotations

from typing import Mapping, NamedTuple, Optional, Sequence, Union

import numpy as np
import torch
from mmengine.logging import MMLogger
from torch import Tensor

from mmvtr.datasets.record_transforms import read_annotations
from mmvtr.datasets.sampling.splits import Action, class_means, class_members
from mmvtr.datasets.video_text import VideoTextDataset
from mmvtr.evaluation.metric import Matrices, Metric, directed, known
from mmvtr.functional.metrics.length_bias import (
    chance_of_top,
    length_correlation,
    mean_of_top,
    nearer_to_train,
)
from mmvtr.functional.metrics.ranks import ranks
from mmvtr.registry import METRICS
from mmvtr.structures import Relation

#: Length gap, or one for each unit.
Gap = Union[float, Mapping[str, float]]
#: A match ranked below this rank is a failure (Appendix B).
FAILURE = 10


class ActionLengths(NamedTuple):
    """Mean clip lengths of the actions that the training and the test set share.

    Attributes:
        actions: the C actions, (verb class, noun class), in ascending order.
        train: float64 [C], their mean length in the training set.
        test: float64 [C], in the test set.
    """

    actions: list[Action]
    train: np.ndarray
    test: np.ndarray

    @property
    def gaps(self) -> np.ndarray:
        """Test minus train length, float64 [C]; positive where test videos are longer (Fig. 2)."""
        return self.test - self.train


class _Queries(NamedTuple):
    """Texts whose action has a large enough length gap: rows int64 [Q] and mean lengths [Q]."""

    rows: Tensor
    train: Tensor
    test: Tensor


@METRICS.register_module()
class LengthBiasMetric(Metric):
    """How far text-to-video retrieval follows the lengths of the training set.

    Queries are the texts with an action (verb class, noun class) in both sets whose mean length
    differs by at least ``min_gap`` between the sets; a text with several actions has the mean of
    their lengths. A video with several actions counts with its whole length for each. Keys:

    - ``t2v_train_correlation``: Spearman's correlation of a video's rank with its distance from the
      query's *train* mean, among the videos unrelated to the query (no match, no common action
      and, if it is known, relevance 0); the mean over queries, times 100. Positive if unrelated
      videos rank high because they are as long as the training videos. It is 0 for a random ranking
      and for perfect semantics, and about 0 for a model that ignores length, good or bad: the
      number to compare models by.
    - ``t2v_test_correlation``: the control, with the *test* mean: a model that prefers the length
      that an action really has is above 0 in both, and here more so.
    - ``t2v_train_items``: percent of the first ``top`` videos whose length is nearer to the train
      mean than to the test mean.
    - ``t2v_train_queries``: percent of the queries whose first ``top`` videos have a mean length
      nearer to the train mean (Appendix B iii).
    - ``t2v_failures``: number of these queries whose match is below rank 10: the failure cases of
      Appendix B, without its exclusion of tail classes. It has no chance level.
    - ``t2v_judged``: number of queries; ``t2v_gap``: mean absolute difference of the train and the
      test mean over all common actions. They describe the set, not the model.

    The two shares depend on the lengths in the gallery: a random ranking of EPIC-KITCHENS-100 has
    60 % and 55 %. Compare them with their chance, the expectation of a random ranking, and their
    ceiling, which scores by relevance. Bias raises them, good semantics lowers them.

    Args:
        train: config of the training set, or the set itself. Only its annotations are read, no
            video and no feature; so its pipelines may be empty lists.
        top: number of videos at the top of a ranking.
        min_gap: in the unit of the lengths: native frames, or seconds if frames are not known; a
            dict has one for each unit.  The paper's is 60 frames.

    Raises:
        ValueError: ``top`` or ``min_gap`` not positive; or (called) lengths or actions of the set
            are not known, or the two sets have lengths in different units.  If no text has an
            action with such a gap, a warning is logged and only ``t2v_judged`` is returned.

    Attributes:
        train_means: mean length by action in the training set; None until :meth:`prepare`.
        unit: of these lengths, 'frames' or 'seconds'.
    """

    prefix = 'length_bias'
    keys_vary = True  # only ``t2v_judged`` if no text has a length gap

    def __init__(
        self, *, train: Union[dict, VideoTextDataset], top: int = 20, min_gap: Gap = 60.0
    ) -> None:
        gaps = min_gap.values() if isinstance(min_gap, Mapping) else [min_gap]
        if top < 1 or min(gaps) <= 0:
            raise ValueError(f'top and min_gap must be positive, not {top} and {min_gap}')
        self.train = train
        self.top = top
        self.min_gap = min_gap
        self.train_means: Optional[dict[Action, float]] = None
        self.unit = ''

    def prepare(self) -> None:
        """Read the training set.

        If several processes evaluate, all must call it before any of them measures: building a
        dataset may wait for the others.
        """
        if self.train_means is None:
            train = read_annotations(self.train)
            lengths, self.unit = known_lengths(train)
            self.train_means = class_means(lengths, video_actions(train))

    def measure(self, matrices: Matrices, relation: Relation) -> dict[str, float]:
        common = self._common(relation)
        queries = self._queries(relation, common)
        if not len(queries.rows):
            MMLogger.get_current_instance().warning(
                'length bias: no text has an action whose mean lengths in train and test differ by '
                f'min_gap={self.least:g} {self.unit} (the largest difference of the '
                f'{len(common.actions)} common actions is {np.abs(common.gaps).max(initial=0):g})'
            )
            return dict(t2v_judged=0.0)
        scores = directed(matrices['scores']).t2v[queries.rows]
        return {
            **_correlations(scores, relation, queries),
            **self._of_top(scores, relation, queries),
            't2v_judged': float(len(queries.rows)),
            't2v_gap': float(np.abs(common.gaps).mean()),
        }

    def chance(self, relation: Relation) -> dict[str, float]:
        rows, train, test = self._queries(relation, self._common(relation))
        if not len(rows):
            return {}
        lengths = relation.video_lengths
        items = nearer_to_train(lengths, train[:, None], test[:, None])
        queries = chance_of_top(lengths, train, test, k=self.top)
        return dict(
            t2v_train_correlation=0.0,
            t2v_test_correlation=0.0,
            t2v_train_items=_percent(items),
            t2v_train_queries=_percent(queries),
        )

    def ceiling(self, relation: Relation) -> dict[str, float]:
        if relation.relevance is None:
            return {}
        queries = self._queries(relation, self._common(relation))
        if not len(queries.rows):
            return {}
        of_top = self._of_top(relation.relevance[queries.rows].float(), relation, queries)
        return dict(t2v_train_correlation=0.0, t2v_test_correlation=0.0, **of_top)

    def _of_top(self, scores: Tensor, relation: Relation, queries: _Queries) -> dict[str, float]:
        """Return shares and failures by the lengths of the ``top`` best videos; scores [Q, V]."""
        rows, train, test = queries
        lengths = relation.video_lengths
        items = nearer_to_train(lengths, train[:, None], test[:, None])
        nearer = nearer_to_train(mean_of_top(scores, lengths, k=self.top), train, test)
        failed = (ranks(scores, relation.positives[rows]) > FAILURE) & (nearer == 1)
        return dict(
            t2v_train_items=_percent(mean_of_top(scores, items, k=self.top)),
            t2v_train_queries=_percent(nearer),
            t2v_failures=float(failed.sum()),
        )

    def narrowed(self, scores: Tensor, relation: Relation) -> dict[str, Tensor]:
        """Return texts that fail, and those that length may explain (Appendix B, without tails).

        Args:
            scores: float [T, V].
            relation: of the set.

        Returns:
            int64 rows of texts, each a subset of the one before: ``'failed'``, whose match is
            below rank 10; ``'gap'``, those whose action's length differs by ``min_gap``;
            ``'nearer'``, those whose first ``top`` videos are nearer to the train mean.

        Raises:
            ValueError: see the class.
        """
        queries = self._queries(relation, self._common(relation))
        failed = ranks(scores, relation.positives) > FAILURE
        of_queries = failed[queries.rows]
        top = mean_of_top(scores[queries.rows], relation.video_lengths, k=self.top)
        nearer = nearer_to_train(top, queries.train, queries.test) == 1
        return dict(
            failed=failed.nonzero().flatten(),
            gap=queries.rows[of_queries],
            nearer=queries.rows[of_queries & nearer],
        )

    def _common(self, relation: Relation) -> ActionLengths:
        self.prepare()
        for name in ('video_lengths', 'text_actions', 'video_actions'):
            known(relation, name, 'LengthBiasMetric')
        if relation.length_unit and relation.length_unit != self.unit:
            raise ValueError(
                f'LengthBiasMetric: lengths are in {self.unit} in the training set, but in '
                f'{relation.length_unit} in this one'
            )
        test = class_means(relation.video_lengths.numpy(), relation.video_actions)
        return common_actions(self.train_means, test)

    @property
    def least(self) -> float:
        """The smallest length gap that counts, in ``unit``; known after :meth:`prepare`."""
        return self.min_gap[self.unit] if isinstance(self.min_gap, Mapping) else self.min_gap

    def _queries(self, relation: Relation, common: ActionLengths) -> _Queries:
        means = torch.from_numpy(_text_means(relation.text_actions, common))
        gaps = (means[:, 0] - means[:, 1]).abs()
        rows = (gaps >= self.least).nonzero().flatten()  # NaN is not
        return _Queries(rows, *means[rows].unbind(1))


def common_actions(train: Mapping[Action, float], test: Mapping[Action, float]) -> ActionLengths:
    """Return the actions that both sets have, given the mean lengths of each (``class_means``).

    Example:
        ::

            >>> common = common_actions({(0, 1): 10.0, (0, 2): 5.0}, {(0, 1): 30.0, (3, 1): 8.0})
            >>> common.actions, common.gaps
            ([(0, 1)], array([20.]))
    """
    actions = sorted(train.keys() & test.keys())
    means = (np.array([of[action] for action in actions], dtype=float) for of in (train, test))
    return ActionLengths(actions, *means)


def known_lengths(dataset: VideoTextDataset) -> tuple[np.ndarray, str]:
    """Return lengths, float64 [V], and their unit: 'frames' if all videos have them, or 'seconds'.

    Raises:
        ValueError: names a video that has neither.
    """
    frames = all('num_frames' in video for video in dataset.videos)
    unit = 'frames' if frames else 'seconds'
    return dataset.lengths(unit), unit


def video_actions(dataset: VideoTextDataset) -> list[list[Action]]:
    """Return the actions of each video.

    Raises:
        ValueError: names a video without actions.
    """
    for video in dataset.videos:
        if 'actions' not in video:
            raise ValueError(
                f'{type(dataset).__name__}: video {video["video_id"]!r} has no actions (verb and '
                f'noun classes), so nothing is known of its length bias'
            )
    return [[tuple(action) for action in video['actions']] for video in dataset.videos]


def unrelated(relation: Relation, rows: Tensor) -> Tensor:
    """Return which videos share no match, action or relevance with some texts.

    Args:
        relation: of the set; its relevance may be None.
        rows: int64 [Q], the texts.

    Returns:
        bool [Q, V].
    """
    strange = ~relation.positives[rows]
    if relation.relevance is not None:
        strange &= relation.relevance[rows] == 0
    videos = class_members(relation.video_actions)
    for row, t in enumerate(rows.tolist()):
        for action in relation.text_actions[t]:
            if action in videos:
                strange[row, videos[action]] = False
    return strange


def _correlations(scores: Tensor, relation: Relation, queries: _Queries) -> dict[str, float]:
    """Return the rank correlations of unrelated videos with the queries' lengths [Q, V]."""
    strange = unrelated(relation, queries.rows)
    return {
        f't2v_{name}_correlation': _percent(
            length_correlation(scores, relation.video_lengths, centre, strange)
        )
        for name, centre in (('train', queries.train), ('test', queries.test))
    }


def _text_means(text_actions: Sequence[Sequence[Action]], common: ActionLengths) -> np.ndarray:
    """Return the mean train and test length of each text's actions, float64 [T, 2]; NaN = none."""
    of_action = dict(zip(common.actions, zip(common.train, common.test)))
    nothing = [(np.nan, np.nan)]
    return np.array(
        [
            np.mean([of_action[a] for a in set(actions) if a in of_action] or nothing, axis=0)
            for actions in text_actions
        ]
    )


def _percent(values: Tensor) -> float:
    return 100 * float(values.mean())
