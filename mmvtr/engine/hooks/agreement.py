"""Transforms that rank true items first: by words that captions imply, or by local scaling."""

from __future__ import annotations

from typing import Any, Mapping, Optional

import torch
from mmengine.runner import Runner
from torch import Tensor

from mmvtr.datasets.video_text import VideoTextDataset
from mmvtr.engine.hooks.score_transforms import Bank, ScoreTransformHook, TransformHook
from mmvtr.engine.hooks.stored_queries import (
    captions_of,
    check_source,
    read_training_set,
    stored_queries,
)
from mmvtr.engine.loops.evaluation import Evaluation
from mmvtr.functional.metrics.first_places import SHARE, expected_truth, sure_first
from mmvtr.functional.transforms.transform_table import TRANSFORMS, checked_options
from mmvtr.functional.values import check_range
from mmvtr.registry import HOOKS, TASK_UTILS
from mmvtr.structures import Directed

#: Options and their defaults.
OPTIONS = TRANSFORMS['sure_first'].options
#: Sources of the texts of which one was written for a clip.
WRITTEN = ('gallery', 'train_queue', 'bank')


@HOOKS.register_module()
class SureFirstHook(TransformHook):
    """Hook that ranks the best-scored text that surely holds first, for video queries.

    If none is sure enough, the surest text is ranked first.

    The certainty combines the model's softmax over some texts, which of them could have been
    written for the clip, and the training captions, what such a text implies
    (:func:`~mmvtr.functional.expected_truth`, :func:`~mmvtr.functional.sure_first`).  Training is
    unchanged, no test label is read, and a clip's list does not depend on other clips; t2v is
    unchanged.  Effect and cost: docs/agreement.md.

    Args:
        captions: config of the training set, or the set itself, from whose captions it learns which
            words imply which. Only its annotations are read, never a video or a feature.
        written: the texts of the softmax. ``'gallery'``: the gallery's own, of which one was
            written for the clip.  ``'train_queue'`` (of a :class:`QueryQueueHook`) or ``'bank'``:
            the captions of the training set, for a gallery that may lack such a text, e.g. a list
            of labels. Captions with the same words count separately.
        bank_file: for ``written='bank'``: a bank of that training set.
        sure: in [0, 1], minimum certainty of a first text.
        temperature: temperature of the softmax; None = for each clip a share of the distance from
            its mean score to its best (:func:`~mmvtr.functional.expected_truth`).
        places: number of texts to rank first.
        witness: config of the implication model: with ``learn(videos, texts)`` and
            ``among(captions, others, device=...)`` like those of
            :class:`~mmvtr.datasets.CaptionImplication`.
        name: name of its results.

    Raises:
        ValueError: ``sure`` outside [0, 1], ``places`` below 1, a temperature that is not positive,
            an unknown ``written``, a bank without a file; (before a run) no training clip has two
            captions; (at evaluation) stored queries of another training set, if its layout differs.
        RuntimeError: (before a test, at a validation) no stored queries: nothing was ever pushed,
            or no queue hook.
    """

    default_name = 'sure_first'

    def __init__(
        self,
        *,
        captions: Any,
        written: str = 'gallery',
        bank_file: Optional[str] = None,
        sure: float = OPTIONS['sure'],
        temperature: Optional[float] = None,
        places: int = OPTIONS['places'],
        witness: Mapping[str, Any] = dict(type='CaptionImplication'),
        name: Optional[str] = None,
    ) -> None:
        super().__init__(name=name)
        check_source(written, WRITTEN, bank_file=bank_file, name='written')
        check_range('[0, 1]', sure=sure)
        if temperature is not None:
            check_range('(0, inf)', temperature=temperature)
        check_range('[1, inf]', places=places)
        self.captions = captions
        self.written = self.source = written
        self.bank_file = bank_file
        self.sure, self.temperature, self.places = sure, temperature, places
        self.witness = TASK_UTILS.build(dict(witness))
        self._data: Optional[VideoTextDataset] = None  # set on first use

    def before_run(self, runner: Runner) -> None:
        """Build the training set in all processes, since building may synchronise them."""
        if self._data is None:
            self._data = read_training_set(self.captions)
            self.witness.learn(self._data.videos, self._data.texts)

    def before_test(self, runner: Runner) -> None:
        """Raise unless stored texts exist, before anything is encoded."""
        if self.written != 'gallery':
            stored_queries(runner, self.written, bank_file=self.bank_file, name=self.name)

    def transformed(self, runner: Runner, evaluation: Evaluation) -> Directed:
        tested = evaluation.dataset
        gallery = [tested.texts[place]['text'] for place in evaluation.texts.index.tolist()]
        scores = evaluation.matrices['scores']
        by_video = scores.t().to(evaluation.device)
        scores_written, written = by_video, None
        if self.written != 'gallery':
            scores_written, written = self._stored(runner, evaluation)
        implied = self.witness.among(written or gallery, gallery, device=evaluation.device)
        truth = expected_truth(scores_written, implied, temperature=self.temperature)
        v2t = sure_first(by_video, truth, sure=self.sure, places=self.places).t()
        share_sure = float((truth.amax(1) >= self.sure).float().mean())
        of = f'{len(written)} captions of the {self.written}' if written else 'the gallery'
        at = (
            f'{SHARE:g} of the score gap' if self.temperature is None else f'{self.temperature:.4g}'
        )
        evaluation.notes[self.name] = (
            f'v2t alone, softmax over {of}, temperature {at}; {100 * share_sure:.0f} % of '
            f'the clips have a text that holds with {self.sure:g} or more, the others begin with '
            'the surest'
        )
        test_pairs, training_pairs = caption_pairs(tested), caption_pairs(self._data)
        if (shared := len(test_pairs & training_pairs)) > len(test_pairs) / 2:
            note = f'transductive: {shared} of the {len(test_pairs)} test pairs are in captions='
            evaluation.transductive.add(self.name)
            evaluation.notes[self.name] += f'; {note}'
            runner.logger.warning(f'{self.name}: {note}')
        return Directed(scores.cpu(), v2t.cpu())

    def _stored(self, runner: Runner, evaluation: Evaluation) -> tuple[Tensor, list[str]]:
        """Return scores [V, K] of the clips with K training captions, and these captions."""
        stored = stored_queries(runner, self.written, bank_file=self.bank_file, name=self.name)
        queries = stored['text'].one_per_item()
        tiles = evaluation.bank_scores('text', queries.levels)
        scores = torch.cat([tile.t() for _, tile in tiles.parts()])
        return scores, captions_of(queries, self._data, name=self.name)


def caption_pairs(data: VideoTextDataset) -> set[tuple[str, str]]:
    """Return pairs of a set's video ids and the words of their captions."""
    return {
        (data.videos[place]['video_id'], text['text'])
        for text in data.texts
        for place in text['video_idx']
    }


@HOOKS.register_module()
class LocalScalingHook(ScoreTransformHook):
    """CSLS with one term only, of either sign, separately for each direction.

    See :func:`~mmvtr.functional.local_scaling`.  After a training that down-weights general
    captions, ``v2t`` trades annotated matches (above 0) for true ones (below 0), docs/agreement.md.

    Args:
        t2v: strength for videos as items; 0 = raw scores.
        v2t: strength for texts as items; 0 = raw scores.
        share: share of the queries nearest to an item; None = the table's.
        queries, bank_file, name: see :class:`ScoreTransformHook`.

    Raises:
        ValueError: see :class:`ScoreTransformHook`; no strength in either direction.
    """

    default_name = 'local_scaling'

    def __init__(
        self, *, t2v: float = 0.0, v2t: float = 0.0, share: Optional[float] = None, **kwargs: Any
    ) -> None:
        super().__init__(share=share, **kwargs)
        for strength in (t2v, v2t):
            checked_options(self.default_name, dict(strength=strength))
        if t2v == v2t == 0:
            raise ValueError('LocalScalingHook: t2v and v2t are 0, so that nothing would change')
        self.strengths = dict(text=t2v, video=v2t)

    def transform(self, scores: Tensor, bank: Bank, temperature: float) -> Tensor:
        if not self.strengths[bank.kind]:
            return scores  # without computing the bank's scores
        return super().transform(scores, bank, temperature)

    def options(self, bank: Bank) -> dict[str, Any]:
        return dict(super().options(bank), strength=self.strengths[bank.kind])


@HOOKS.register_module()
class HedgedScalingHook(ScoreTransformHook):
    """Two strengths of :class:`LocalScalingHook` combined in one list of texts, v2t only.

    See :func:`~mmvtr.functional.hedged_scaling`.  After a training that down-weights general
    captions a list begins with true texts and continues with those written for the clip
    (docs/agreement.md).

    Args:
        first: strength that determines the first places.
        rest: strength that orders all others.
        places: number of texts ranked by ``first``; None = the table's.
        share: share of the queries nearest to a text; None = the table's.
        queries, bank_file, name: see :class:`ScoreTransformHook`.

    Raises:
        ValueError: see :class:`ScoreTransformHook`; (at evaluation) ``places`` above the number of
            texts.
    """

    default_name = 'hedged_scaling'

    def __init__(
        self,
        *,
        first: float,
        rest: float,
        places: Optional[int] = None,
        share: Optional[float] = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(first=first, strength=rest, places=places, share=share, **kwargs)

    def transform(self, scores: Tensor, bank: Bank, temperature: float) -> Tensor:
        if bank.kind == 'text':
            return scores  # without computing the bank's scores
        return super().transform(scores, bank, temperature)
