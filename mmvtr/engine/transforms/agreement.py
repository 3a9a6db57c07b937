"""Lists that begin with what is true: by the words of captions, or by strengths of scaling."""

from __future__ import annotations

from typing import Any, Mapping, Optional

import torch
from mmengine.runner import Runner
from torch import Tensor

from mmvtr.datasets.video_text import VideoTextDataset
from mmvtr.engine.loop.evaluation import Evaluation
from mmvtr.engine.transforms.score_transforms import (
    Bank,
    ScoreTransformHook,
    TransformHook,
    check_temperature,
)
from mmvtr.engine.transforms.stored_queries import (
    captions_of,
    check_source,
    read_training_set,
    stored_queries,
)
from mmvtr.functional.metrics.first_places import (
    SHARE,
    expected_truth,
    sure_first,
)
from mmvtr.functional.transforms.transform_table import (
    TRANSFORMS,
    checked_options,
)
from mmvtr.functional.values import check_range
from mmvtr.registry import HOOKS, TASK_UTILS
from mmvtr.structures import Directed

#: Options and their defaults.
OPTIONS = TRANSFORMS['sure_first'].options
#: Where the texts may come from of which one was written for a clip.
WRITTEN = ('gallery', 'train_queue', 'bank')


@HOOKS.register_module()
class SureFirstHook(TransformHook):
    """Puts the best-scored text that surely holds first, where clips ask for texts.

    Where none is that sure, it is the surest.

    How surely: the model's softmax over some texts says which of them could have been written for
    the clip, and the captions of the training set say what such a text implies
    (:func:`~mmvtr.functional.expected_truth`, :func:`~mmvtr.functional.sure_first`).  No training
    is changed, no test label is read, and a clip's list does not depend on other clips; t2v stays
    as it is.  docs/agreement.md says what it gives and what it takes.

    Args:
        captions: config of the training set, or the set itself, whose captions say which words
            imply which.  Its annotations alone are read, never a video or a feature.
        written: the texts of the softmax. ``'gallery'``: the gallery's own, of which one was
            written for the clip.  ``'train_queue'`` (of a :class:`QueryQueueHook`) or ``'bank'``:
            captions of the training set, each once, for a gallery that need not have such a text,
            as a list of labels.  What several captions say alike counts as often.
        bank_file: for ``written='bank'``, which has to be of that training set.
        sure: in [0, 1], how surely a first text has to hold.
        temperature: of the softmax; None = of each clip a share of how far its best score lies
            above its mean (:func:`~mmvtr.functional.expected_truth`).
        places: how many texts are first.
        witness: config of what reads the captions: ``learn(videos, texts)`` and
            ``among(captions, others, device=...)``, as those of
            :class:`~mmvtr.datasets.CaptionImplication`.
        name: of its results.

    Raises:
        ValueError: ``sure`` outside [0, 1], ``places`` below 1, a temperature that is not positive,
            an unknown ``written``, a bank without a file; (before a run) no training clip has two
            captions; (at evaluation) stored queries of another training set, as far as its layout
            tells.
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
        check_temperature(temperature)
        if places < 1:
            raise ValueError(f'places must be 1 or more, not {places}')
        self.captions = captions
        self.written = self.source = written
        self.bank_file = bank_file
        self.sure, self.temperature, self.places = sure, temperature, places
        self.witness = TASK_UTILS.build(dict(witness))
        self._data: Optional[VideoTextDataset] = None  # once it is read

    def before_run(self, runner: Runner) -> None:
        """Read the training captions, in all processes: building a dataset may wait for others."""
        if self._data is None:
            self._data = read_training_set(self.captions)
            self.witness.learn(self._data.videos, self._data.texts)

    def before_test(self, runner: Runner) -> None:
        """Raise unless stored texts exist, before anything is encoded."""
        if self.written != 'gallery':
            stored_queries(runner, self.written, bank_file=self.bank_file, name=self.name)

    def transformed(self, runner: Runner, evaluation: Evaluation) -> Directed:
        loop = runner.test_loop if evaluation.mode == 'test' else runner.val_loop
        tested = loop.dataloader.dataset
        gallery = [tested.texts[place]['text'] for place in evaluation.texts.index.tolist()]
        scores = evaluation.matrices['scores']
        by_video = scores.t().to(evaluation.device)
        own, written = by_video, None
        if self.written != 'gallery':
            own, written = self._stored(runner, evaluation)
        implied = self.witness.among(written or gallery, gallery, device=evaluation.device)
        truth = expected_truth(own, implied, temperature=self.temperature)
        v2t = sure_first(by_video, truth, sure=self.sure, places=self.places).t()
        found = float((truth.amax(1) >= self.sure).float().mean())
        of = f'{len(written)} captions of the {self.written}' if written else 'the gallery'
        at = f'{SHARE:g} of the reach' if self.temperature is None else f'{self.temperature:.4g}'
        evaluation.notes[self.name] = (
            f'v2t alone, softmax over {of}, temperature {at}; {100 * found:.0f} % of '
            f'the clips have a text that holds with {self.sure:g} or more, the others begin with '
            'the surest'
        )
        own, known = pairs_of(tested), pairs_of(self._data)
        if (shared := len(own & known)) > len(own) / 2:
            said = f'transductive: {shared} of the {len(own)} test pairs are in captions='
            evaluation.transductive.add(self.name)
            evaluation.notes[self.name] += f'; {said}'
            runner.logger.warning(f'{self.name}: {said}')
        return Directed(scores.cpu(), v2t.cpu())

    def _stored(self, runner: Runner, evaluation: Evaluation) -> tuple[Tensor, list[str]]:
        """Return scores [V, K] of the clips with K distinct training captions, and these."""
        stored = stored_queries(runner, self.written, bank_file=self.bank_file, name=self.name)
        queries = stored['text'].newest()
        tiles = evaluation.bank_scores('text', queries.levels)
        scores = torch.cat([tile.t() for _, tile in tiles.parts()])
        return scores, captions_of(queries, self._data, name=self.name)


def pairs_of(data: VideoTextDataset) -> set[tuple[str, str]]:
    """Return the ids of a set's videos with their captions' words."""
    return {
        (data.videos[place]['video_id'], text['text'])
        for text in data.texts
        for place in text['video_idx']
    }


@HOOKS.register_module()
class LocalScalingHook(ScoreTransformHook):
    """A part of CSLS, of either sign and apart for the directions.

    See :func:`~mmvtr.functional.local_scaling`.  After a training that down-weights general
    captions, ``v2t`` goes from what pairs ask for (above 0) to what is true (below 0),
    docs/agreement.md.

    Args:
        t2v: strength for videos as items; 0 = raw scores.
        v2t: strength for texts as items; 0 = raw scores.
        share: of the queries, those that an item is nearest to; None = the table's.
        queries, bank_file, temperature, name: see :class:`ScoreTransformHook`.

    Raises:
        ValueError: as of :class:`ScoreTransformHook`; no strength in either direction.
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
            return scores  # and the bank's scores are not made
        return super().transform(scores, bank, temperature)

    def options(self, bank: Bank) -> dict[str, Any]:
        return dict(super().options(bank), strength=self.strengths[bank.kind])


@HOOKS.register_module()
class HedgedScalingHook(ScoreTransformHook):
    """Two strengths of :class:`LocalScalingHook` in one list of texts, v2t alone.

    See :func:`~mmvtr.functional.hedged_scaling`.  After a training that down-weights general
    captions a list begins with what is true and goes on with what was written for the clip
    (docs/agreement.md).

    Args:
        first: strength that gives the first places.
        rest: strength that orders all others.
        places: how many texts are first; None = the table's.
        share: of the queries, those that a text is nearest to; None = the table's.
        queries, bank_file, temperature, name: see :class:`ScoreTransformHook`.

    Raises:
        ValueError: as of :class:`ScoreTransformHook`; (at evaluation) ``places`` above the number
            of texts.
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
            return scores  # and the bank's scores are not made
        return super().transform(scores, bank, temperature)
