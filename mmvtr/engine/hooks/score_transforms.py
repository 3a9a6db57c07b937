"""Hooks that normalise an evaluation's scores with earlier queries, and report both.

Each is derived from a row of :data:`.TRANSFORMS`; they process one direction at a time, and log
the source of their queries.
"""

from __future__ import annotations

from inspect import Parameter, Signature, signature
from types import MappingProxyType
from typing import Any, Mapping, NamedTuple, Optional, Sequence

from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch import Tensor

from mmvtr.arrays import Debiaser
from mmvtr.arrays.choice import Pairs
from mmvtr.engine.hooks.query_queue import Queries
from mmvtr.engine.hooks.stored_queries import check_source, pairs_known, stored_queries, tiles_read
from mmvtr.engine.loops.evaluation import Evaluation
from mmvtr.errors import UserError
from mmvtr.functional.similarities.tiles import Tiles, as_tiles
from mmvtr.functional.transforms.transform import MADE, Transform, checked_scores
from mmvtr.functional.transforms.transform_table import (
    OF_BANK,
    TRANSFORMS,
    checked_options,
    with_model,
)
from mmvtr.registry import HOOKS
from mmvtr.structures import Directed

SOURCES = ('train_queue', 'bank', 'test')


class Bank(NamedTuple):
    """Queries of one direction and their scores with the gallery.

    Attributes:
        scores: [K, N] in tiles.
        kind: kind of the queries, ``'text'`` or ``'video'``.
        video: int64 [K], the training video of each query; None: the test queries.
        extra_inputs: what the transform reads beside them, by name, see :func:`.tiles_read`.
        pairs: matches of these queries and the stored items; None: unknown.
    """

    scores: Tiles
    kind: str
    video: Optional[Tensor] = None
    extra_inputs: Mapping[str, Tiles] = MappingProxyType({})
    pairs: Optional[Pairs] = None


class TransformHook(Hook):
    """Base class of hooks that add scores to an evaluation; implement :meth:`transformed`.

    Results are reported beside the raw ones as ``<name>/retrieval/t2v_R1`` and so on.

    Args:
        name: name of its results, default the class's.

    Raises:
        RuntimeError: (at evaluation) the similarity ranks only a shortlist.
        ValueError: (at evaluation) a second transform of the same name.
    """

    #: Default name of the results.
    default_name: str
    #: Source of the queries; only a training fills 'train_queue'.
    source: Optional[str] = None

    def __init__(self, *, name: Optional[str] = None) -> None:
        self.name = name or self.default_name

    def transformed(self, runner: Runner, evaluation: Evaluation) -> Directed:
        """Return the transformed scores [T, V] of both directions; called on rank 0."""
        raise NotImplementedError(f'{type(self).__name__} must define transformed()')

    def reported(self, keys: set[str], runner: Runner) -> set[str]:
        """Return the keys of its results, given those of metrics that read scores alone."""
        return {f'{self.name}/{key}' for key in keys} | {f'{self.name}/transductive'}

    def after_scoring(self, runner: Runner, evaluation: Evaluation) -> None:
        """Add the transformed scores to the evaluation (called on rank 0)."""
        if not evaluation.exact:
            raise UserError(
                f'{self.name}: the similarity ranks a shortlist only; a transform needs all scores'
            )
        if self.name in evaluation.transformed:
            raise ValueError(f'two transforms are called {self.name!r}: give one of them a name=')
        scores = evaluation.matrices['scores']
        if evaluation.mode == 'val' and (scores == scores[0, 0]).all():
            # A collapsed model should be logged and not end its training.
            runner.logger.warning(f'{self.name} is left out: all scores are {scores[0, 0]:g}')
            return
        evaluation.transformed[self.name] = self.transformed(runner, evaluation)


class ScoreTransformHook(TransformHook):
    """Base class of test-time transforms with a bank of queries.

    :func:`hook_of` derives one of each transform of the table, named by ``default_name``; for any
    other, implement :meth:`transform`.  The stored queries of the other kind serve as the item bank
    of a transform that reads items, so ``queries='test'``, whose items are the gallery itself, is
    refused there; ``db_norm`` needs a model with one vector per item.

    In text-to-video retrieval the queries are texts and the gallery is the evaluated videos; in
    video-to-text the reverse.  ``<name>/transductive`` = 1 if the transform has read the test
    queries, also from a bank file.

    Args:
        queries: ``'train_queue'`` (of a :class:`QueryQueueHook`), ``'bank'`` (a file that
            ``tools/export_bank.py`` wrote) or ``'test'``: all test queries at once, an oracle that
            no retrieval system has. There is no default and no fallback.
        bank_file: for ``queries='bank'``.
        name: name of its results, default the class's.
        marginals: for a transform with ``bank_marginals``: ``'uniform'`` (paper), or
            ``'per_video'``: a query has weight 1 / (number of queries of its training video), so
            that a video with many captions counts once.
        **given: options of the transform (:data:`.TRANSFORMS`); ``temperature='model'`` is the
            model's own.

    Raises:
        ValueError: an unknown source, a bank without a file, an option of the transform that is
            unknown or out of range; ``marginals='test'``: how many queries each test item has is
            its label; or ``'per_video'`` with the test queries; see :class:`TransformHook`.
        RuntimeError: (before a test, at a validation) no queries: nothing was ever pushed, or no
            queue hook.
    """

    def __init__(
        self,
        *,
        queries: str,
        bank_file: Optional[str] = None,
        name: Optional[str] = None,
        marginals: str = 'uniform',
        **given: Any,
    ) -> None:
        check_marginals(marginals, queries)
        check_source(queries, SOURCES, bank_file=bank_file)
        super().__init__(name=name or self.default_name + ('_oracle' if queries == 'test' else ''))
        self.queries = self.source = queries
        self.bank_file = bank_file
        self.given, self.marginals = given, marginals
        takes = self._method is not None and 'bank_marginals' in self._method.options
        if marginals != 'uniform' and not takes:
            raise ValueError(f'{type(self).__name__} takes no marginals')
        if self.default_name in OF_BANK:
            checked_options(self.default_name, with_model(given))
            if queries == 'test' and self._method.reads_items:
                raise ValueError(
                    f'{type(self).__name__} needs queries and items seen before, but the test set '
                    "has only its gallery; take queries='train_queue' or 'bank'"
                )
        elif given:
            raise ValueError(
                f'{type(self).__name__} takes no {sorted(given)[0]!r}, an option of one transform: '
                'take the hook of that transform'
            )

    @property
    def _method(self) -> Optional[type[Transform]]:
        return TRANSFORMS.get(self.default_name)

    def before_test(self, runner: Runner) -> None:
        """Raise unless its queries exist, before anything is encoded."""
        self._stored(runner)

    def transform(self, scores: Tensor, bank: Bank, temperature: float) -> Tensor:
        """Return one direction's transformed scores [Q, N]; the temperature is the model's."""
        if self._method is None:
            raise NotImplementedError(f'{type(self).__name__} must define transform()')
        checked_scores(scores, bank.scores)
        options = with_model(self.options(bank), temperature)
        if options.get('dynamic'):  # without a bias per item
            return self._method.function(scores, bank.scores, **options, **bank.extra_inputs)
        fitted = Debiaser(self.default_name, **options)
        return fitted.fit_scores(bank.scores, extra_inputs=bank.extra_inputs).transform_scores(
            scores
        )

    def options(self, bank: Bank) -> dict[str, Any]:
        """Return the transform's options for one direction."""
        if self.marginals == 'uniform':
            return dict(self.given)
        _, video, count = bank.video.unique(return_inverse=True, return_counts=True)
        weights = 1.0 / (count[video].float() * len(count))
        return dict(self.given, bank_marginals=weights)

    def transformed(self, runner: Runner, evaluation: Evaluation) -> Directed:
        stored = self._stored(runner)
        scores = evaluation.matrices['scores'].to(evaluation.device)
        temperature = float(evaluation.matrices['temperature'])
        t2v = self._one_direction(scores, 'text', evaluation, stored, temperature)
        v2t = self._one_direction(scores.t(), 'video', evaluation, stored, temperature).t()
        again = [] if self.queries != 'bank' else asked_again(stored, evaluation)
        if stored is None or again:
            evaluation.transductive.add(self.name)
        for note in again:
            runner.logger.warning(f'{self.name}: {note}')
        evaluation.notes[self.name] = self._note(evaluation, stored, temperature, again)
        self._warn_if_small(runner, evaluation, stored)
        return Directed(t2v.cpu(), v2t.cpu())

    def _one_direction(
        self,
        scores: Tensor,
        kind: str,
        evaluation: Evaluation,
        stored: Optional[dict[str, Queries]],
        temperature: float,
    ) -> Tensor:
        """Return transformed scores [Q, N] of queries of ``kind``."""
        if stored is None:
            bank = Bank(as_tiles(scores), kind)
        else:
            reads = () if self._method is None else self._method.reads
            two = (evaluation.model, evaluation.device)
            read = tiles_read(reads, *two, kind, stored, evaluation.gallery(kind))
            pairs = pairs_known(*two, kind, stored)
            bank = Bank(read.pop('bank'), kind, stored[kind].video, read, pairs)
        return self.transform(scores, bank, temperature)

    def _stored(self, runner: Runner) -> Optional[dict[str, Queries]]:
        """Return the bank by kind, without repeated queries; None: the test queries are used."""
        if self.queries == 'test':
            return None
        stored = stored_queries(runner, self.queries, bank_file=self.bank_file, name=self.name)
        return {kind: queries.unique() for kind, queries in stored.items()}

    def _note(
        self,
        evaluation: Evaluation,
        stored: Optional[dict[str, Queries]],
        temperature: float,
        again: Sequence[str],
    ) -> str:
        """Return a note for readers of the numbers."""
        if stored is None:
            return f'queries: the test set itself (transductive){self._at(temperature)}'
        sizes = ', '.join(
            f'{len(queries.index)} {kind}s ({queries.item_count} distinct)'
            for kind, queries in stored.items()
        )
        source = 'train queue' if self.queries == 'train_queue' else self.bank_file
        kind = '; '.join(again) or 'inductive'
        return f'queries: {source}, {sizes}; {kind}{self._at(temperature)}'

    def _at(self, temperature: float) -> str:
        """Return the temperature of the transform in words, if it has one, given the model's."""
        if self._method is None or 'temperature' not in self._method.options:
            return ''
        stated = with_model(self.given, temperature).get('temperature')
        stated = self._method.options['temperature'] if stated is None else stated
        return (
            f', temperature {stated}' if isinstance(stated, str) else f', temperature {stated:.4g}'
        )

    def _warn_if_small(
        self, runner: Runner, evaluation: Evaluation, stored: Optional[dict[str, Queries]]
    ) -> None:
        """Warn if the bank is smaller than the gallery, most of which then has no close query."""
        galleries = dict(text=len(evaluation.videos.ids), video=len(evaluation.texts.ids))
        for kind, queries in (stored or {}).items():
            if queries.item_count < galleries[kind]:
                runner.logger.warning(
                    f'{self.name}: {queries.item_count} distinct {kind} queries are fewer than the '
                    f'{galleries[kind]} items that they normalise; this tends to hurt'
                )


def asked_again(stored: Mapping[str, Queries], evaluation: Evaluation) -> list[str]:
    """Return a sentence for each kind of stored queries that contains most of the test's own."""
    tested = dict(text=evaluation.texts, video=evaluation.videos)
    notes = (stored[kind].asked_before(tested[kind].levels, f'test {kind}s') for kind in stored)
    return [note for note in notes if note]


def check_marginals(marginals: str, queries: str) -> None:
    """Raise ValueError unless queries of this source can have such weights."""
    if marginals == 'test':
        raise ValueError(
            "marginals='test' would tell the transform how many queries each test item "
            "matches, which are labels; take 'uniform', or 'per_video' of the training set"
        )
    if marginals not in ('uniform', 'per_video'):
        raise ValueError(f"marginals must be 'uniform' or 'per_video', not {marginals!r}")
    if marginals == 'per_video' and queries == 'test':
        raise ValueError("marginals='per_video' weighs training queries, but queries is 'test'")


@HOOKS.register_module()
class AutoHook(ScoreTransformHook):
    """Transform chosen from the table by the stored pairs, for each direction (docs/arrays.md).

    Args:
        queries, bank_file, name: see :class:`ScoreTransformHook`; with ``'test'``, whose pairs are
            labels, the setting is that of a bank without pairs.

    Raises:
        ValueError: an option, which only a named transform has; see :class:`ScoreTransformHook`.
    """

    default_name = 'auto'

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._why: dict[str, str] = {}

    def transform(self, scores: Tensor, bank: Bank, temperature: float) -> Tensor:
        checked_scores(scores, bank.scores)
        fitted = Debiaser('auto').fit_scores(bank.scores, pairs=bank.pairs)
        self._why[bank.kind] = fitted.why_
        return fitted.transform_scores(scores)

    def _note(self, *given: Any) -> str:
        return f'{super()._note(*given)}; t2v {self._why["text"]}; v2t {self._why["video"]}'


def hook_of(kind: type[Transform]) -> type[ScoreTransformHook]:
    """Return the registered hook of a transform, ``<label>Hook``, with its options."""
    base = signature(ScoreTransformHook.__init__).parameters.values()
    shared = [x for x in base if x.kind is not Parameter.VAR_KEYWORD and x.name != 'marginals']
    taken = [
        Parameter(x.name, Parameter.KEYWORD_ONLY, default=x.default, annotation=x.type)
        for x in kind.described
        if x.name != 'bank_marginals'
    ]
    if 'bank_marginals' in kind.options:
        taken.append(
            Parameter('marginals', Parameter.KEYWORD_ONLY, default='uniform', annotation='str')
        )
    name = f'{kind.label}Hook'

    def __init__(self: ScoreTransformHook, **given: Any) -> None:
        ScoreTransformHook.__init__(self, **given)

    __init__.__signature__ = Signature([*shared, *taken])
    doc = f'Hook of :func:`.{kind.function.__name__}` ({kind.source}): {kind.claim}.'
    parts = dict(default_name=kind.name, __init__=__init__, __doc__=doc, __module__=__name__)
    there = HOOKS.module_dict.get(name)
    again = getattr(there, 'default_name', None) == kind.name  # made anew, with force
    return HOOKS.register_module(force=again)(type(name, (ScoreTransformHook,), parts))


#: Transforms whose hooks take further arguments (:mod:`.agreement`).
OWN = ('local_scaling', 'hedged_scaling')
globals().update(
    (f'{TRANSFORMS[name].label}Hook', hook_of(TRANSFORMS[name]))
    for name in OF_BANK
    if name not in OWN
)
# Those of other projects come later.
MADE.append(lambda kind: hook_of(kind) if 'bank' in kind.reads else None)
