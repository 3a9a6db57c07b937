"""Hooks that normalise the scores of an evaluation with queries seen before, beside the raw ones.

Each is a shell over a row of :data:`.TRANSFORMS`; all of them see
one direction at a time, and say in the log where their queries come from.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Mapping, NamedTuple, Optional

from mmengine.hooks import Hook
from mmengine.runner import Runner
from torch import Tensor

from mmvtr.engine.loop.evaluation import Evaluation
from mmvtr.engine.transforms.query_queue import Queries
from mmvtr.engine.transforms.stored_queries import check_source, stored_queries, tiles_read
from mmvtr.functional.similarities.tiles import Tiles, as_tiles
from mmvtr.functional.transforms.item_biases import fit_biases
from mmvtr.functional.transforms.score_transforms import check_local_scaling, checked_scores
from mmvtr.functional.transforms.sinkhorn import check_strictness
from mmvtr.functional.transforms.transform_table import TRANSFORMS
from mmvtr.registry import HOOKS
from mmvtr.structures import Directed

SOURCES = ('train_queue', 'bank', 'test')


class Bank(NamedTuple):
    """Queries of one direction and what they score with the gallery.

    Attributes:
        scores: [K, N] in tiles.
        kind: of the queries, ``'text'`` or ``'video'``.
        video: int64 [K], the training video that each query belongs to; None: the test queries.
        beside: what else the transform reads, by name, see :func:`.tiles_read`.
    """

    scores: Tiles
    kind: str
    video: Optional[Tensor] = None
    beside: Mapping[str, Tiles] = MappingProxyType({})


class TransformHook(Hook):
    """Base of what adds further scores to an evaluation: implement :meth:`transformed`.

    Results stand beside the raw ones as ``<name>/retrieval/t2v_R1`` and so on.

    Args:
        name: of its results, default the class's.

    Raises:
        RuntimeError: (at evaluation) the similarity ranks a shortlist only.
        ValueError: (at evaluation) a second transform of the same name.
    """

    #: Results are named so unless the config says otherwise.
    default_name: str
    #: Where its queries come from; 'train_queue' is filled by a training alone.
    source: Optional[str] = None

    def __init__(self, *, name: Optional[str] = None) -> None:
        self.name = name or self.default_name

    def transformed(self, runner: Runner, evaluation: Evaluation) -> Directed:
        """Its scores [T, V] of both directions; called on rank 0."""
        raise NotImplementedError(f'{type(self).__name__} must define transformed()')

    def reported(self, keys: set[str], runner: Runner) -> set[str]:
        """Keys of its results, of those of metrics that read scores alone."""
        return {f'{self.name}/{key}' for key in keys} | {f'{self.name}/transductive'}

    def after_scoring(self, runner: Runner, evaluation: Evaluation) -> None:
        """Add the transformed scores to the evaluation (called on rank 0)."""
        if not evaluation.exact:
            raise RuntimeError(
                f'{self.name}: the similarity ranks a shortlist only; a transform needs all scores'
            )
        if self.name in evaluation.transformed:
            raise ValueError(f'two transforms are called {self.name!r}: give one of them a name=')
        scores = evaluation.matrices['scores']
        if evaluation.mode == 'val' and (scores == scores[0, 0]).all():
            # A collapsed model is for the log to show, not a reason to end its training.
            runner.logger.warning(f'{self.name} is left out: all scores are {scores[0, 0]:g}')
            return
        evaluation.transformed[self.name] = self.transformed(runner, evaluation)


class ScoreTransformHook(TransformHook):
    """Base of the test-time transforms with queries seen before.

    Of a transform of the table ``default_name`` says which; implement :meth:`transform` of another.

    Text to video, the queries are texts and the gallery the evaluated videos; video to text the
    other way round.  ``<name>/transductive`` = 1 where the transform has read the test queries.

    Args:
        queries: ``'train_queue'`` (of a :class:`QueryQueueHook`), ``'bank'`` (a file that
            ``tools/export_bank.py`` wrote) or ``'test'``: all test queries at once, an oracle
            that no retrieval system has.  There is no default, and none replaces another.
        bank_file: for ``queries='bank'``.
        temperature: of the transform; None = the model's.
        name: of its results, default the class's.

    Raises:
        ValueError: an unknown source, a bank without a file, or a temperature that is not
            positive; as of :class:`TransformHook`.
        RuntimeError: (before a test, at a validation) no queries: nothing was ever pushed, or no
            queue hook.
    """

    def __init__(
        self,
        *,
        queries: str,
        bank_file: Optional[str] = None,
        temperature: Optional[float] = None,
        name: Optional[str] = None,
    ) -> None:
        check_source(queries, SOURCES, bank_file=bank_file)
        check_temperature(temperature)
        super().__init__(name=name or self.default_name + ('_oracle' if queries == 'test' else ''))
        self.queries = self.source = queries
        self.bank_file = bank_file
        self.temperature = temperature

    def before_test(self, runner: Runner) -> None:
        """See that its queries are there, before anything is encoded."""
        self._stored(runner)

    def transform(self, scores: Tensor, bank: Bank, temperature: float) -> Tensor:
        """One direction: scores [Q, N] of queries with the gallery -> scores [Q, N]."""
        if self.default_name not in TRANSFORMS:
            raise NotImplementedError(f'{type(self).__name__} must define transform()')
        checked_scores(scores, bank.scores)
        options = self.options(bank)
        if 'temperature' in TRANSFORMS[self.default_name].options:
            options['temperature'] = temperature
        if options.get('dynamic'):  # no bias of each item
            return TRANSFORMS[self.default_name](scores, bank.scores, **options, **bank.beside)
        fitted = fit_biases(self.default_name, bank.scores, beside=bank.beside, **options)
        return fitted.changed(scores)

    def options(self, bank: Bank) -> dict[str, Any]:
        """What the transform takes beside its temperature: what the hook has of the same names."""
        taken = TRANSFORMS[self.default_name].options.keys() - {'temperature'}
        return {name: getattr(self, name) for name in taken if hasattr(self, name)}

    def transformed(self, runner: Runner, evaluation: Evaluation) -> Directed:
        stored = self._stored(runner)
        scores = evaluation.matrices['scores'].to(evaluation.device)
        temperature = temperature_of(self.temperature, evaluation)
        t2v = self._one_direction(scores, 'text', evaluation, stored, temperature)
        v2t = self._one_direction(scores.t(), 'video', evaluation, stored, temperature).t()
        if stored is None:
            evaluation.transductive.add(self.name)
        evaluation.notes[self.name] = self._note(evaluation, stored, temperature)
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
        """``kind`` of the queries; their scores [Q, N] -> [Q, N]."""
        if stored is None:
            bank = Bank(as_tiles(scores), kind)
        else:
            reads = getattr(TRANSFORMS.get(self.default_name), 'reads', ())
            two = (evaluation.model, evaluation.device)
            read = tiles_read(reads, *two, kind, stored, evaluation.gallery(kind))
            bank = Bank(read.pop('bank'), kind, stored[kind].video, read)
        return self.transform(scores, bank, temperature)

    def _stored(self, runner: Runner) -> Optional[dict[str, Queries]]:
        """The stored queries by kind, of equal ones the first; None: the test queries are used."""
        if self.queries == 'test':
            return None
        stored = stored_queries(runner, self.queries, bank_file=self.bank_file, name=self.name)
        return {kind: queries.different() for kind, queries in stored.items()}

    def _note(
        self, evaluation: Evaluation, stored: Optional[dict[str, Queries]], temperature: float
    ) -> str:
        """What a reader must know of the numbers."""
        if stored is None:
            return f'queries: the test set itself (transductive), temperature {temperature:.4g}'
        sizes = ', '.join(
            f'{len(queries.index)} {kind}s ({queries.distinct} distinct)'
            for kind, queries in stored.items()
        )
        source = 'train queue' if self.queries == 'train_queue' else self.bank_file
        return f'queries: {source}, {sizes}; inductive, temperature {temperature:.4g}'

    def _warn_if_small(
        self, runner: Runner, evaluation: Evaluation, stored: Optional[dict[str, Queries]]
    ) -> None:
        """A bank smaller than the gallery leaves most of it without a close query."""
        galleries = dict(text=len(evaluation.videos.ids), video=len(evaluation.texts.ids))
        for kind, queries in (stored or {}).items():
            if queries.distinct < galleries[kind]:
                runner.logger.warning(
                    f'{self.name}: {queries.distinct} distinct {kind} queries are fewer than the '
                    f'{galleries[kind]} items that they normalise; this tends to hurt'
                )


def _refuse_test(hook: ScoreTransformHook) -> None:
    """Raise ValueError where a hook that reads items seen before is to read the test set."""
    if hook.queries == 'test':
        raise ValueError(
            f'{type(hook).__name__} needs items seen before beside the queries: the test set has '
            "the gallery alone; take queries='train_queue' or 'bank'"
        )


def check_temperature(temperature: Optional[float]) -> None:
    """Raise ValueError unless it is positive, or None."""
    if temperature is not None and not temperature > 0:
        raise ValueError(f'temperature must be positive or None, not {temperature}')


def temperature_of(given: Optional[float], evaluation: Evaluation) -> float:
    """The one that is given; None = the model's."""
    return float(evaluation.matrices['temperature']) if given is None else given


@HOOKS.register_module()
class SinkhornHook(ScoreTransformHook):
    """NCL's test-time normalisation (Sec. 3.4): the bias of each gallery item from the queries.

    Args:
        iterations: of Sinkhorn-Knopp (paper: 4).
        marginals: ``'uniform'`` (paper), or ``'per_video'``: a query weighs 1 / (number of queries
            of its training video), so that a video with many captions counts once.
        queries, bank_file, temperature, name: see :class:`ScoreTransformHook`.

    Raises:
        ValueError: ``marginals='test'``: how many queries each test item has is its label; or
            ``'per_video'`` with the test queries.
    """

    default_name = 'sinkhorn'

    def __init__(self, *, iterations: int = 4, marginals: str = 'uniform', **kwargs) -> None:
        super().__init__(**kwargs)
        if marginals == 'test':
            raise ValueError(
                "marginals='test' would tell the transform how many queries each test item "
                "matches, which are labels; take 'uniform', or 'per_video' of the training set"
            )
        if marginals not in ('uniform', 'per_video'):
            raise ValueError(f"marginals must be 'uniform' or 'per_video', not {marginals!r}")
        if marginals == 'per_video' and self.queries == 'test':
            raise ValueError("marginals='per_video' weighs training queries; queries is 'test'")
        self.iterations = iterations
        self.marginals = marginals

    def options(self, bank: Bank) -> dict[str, Any]:
        weights = None
        if self.marginals == 'per_video':
            _, video, count = bank.video.unique(return_inverse=True, return_counts=True)
            weights = 1.0 / (count[video].float() * len(count))
        return dict(super().options(bank), bank_marginals=weights)


@HOOKS.register_module()
class UnbalancedSinkhornHook(SinkhornHook):
    """Sinkhorn whose gallery need not be found evenly.

    See :func:`~mmvtr.functional.unbalanced_sinkhorn`.

    Args:
        strictness: 1 = Sinkhorn, 0 = raw scores.
        iterations: each leaves at most a share ``strictness`` of the error.
        marginals, queries, bank_file, temperature, name: see :class:`SinkhornHook`.

    Raises:
        ValueError: as of :class:`SinkhornHook`, or a strictness out of range.
    """

    default_name = 'unbalanced_sinkhorn'

    def __init__(self, *, strictness: float = 0.8, iterations: int = 10, **kwargs) -> None:
        super().__init__(iterations=iterations, **kwargs)
        check_strictness(strictness)
        self.strictness = strictness


@HOOKS.register_module()
class InvertedSoftmaxHook(ScoreTransformHook):
    """Inverted softmax (Smith et al., ICLR 2017): Sinkhorn with zero iterations."""

    default_name = 'inverted_softmax'


@HOOKS.register_module()
class DualSoftmaxHook(ScoreTransformHook):
    """Dual softmax (CAMoE): scores times their softmax over the queries."""

    default_name = 'dual_softmax'


@HOOKS.register_module()
class QBNormHook(ScoreTransformHook):
    """Querybank normalisation with the dynamic inverted softmax (Bogolin et al., CVPR 2022).

    Args:
        k: a gallery item is active if it is among the k nearest of any bank query.
        queries, bank_file, temperature, name: see :class:`ScoreTransformHook`.
    """

    default_name = 'qb_norm'

    def __init__(self, *, k: int = 1, **kwargs) -> None:
        super().__init__(**kwargs)
        self.neighbours = k


@HOOKS.register_module()
class CSLSHook(ScoreTransformHook):
    """Cross-domain similarity local scaling (Conneau et al., ICLR 2018).

    Args:
        k: neighbours.
        queries, bank_file, temperature, name: see :class:`ScoreTransformHook`.
    """

    default_name = 'csls'

    def __init__(self, *, k: int = 10, **kwargs) -> None:
        super().__init__(**kwargs)
        self.neighbours = k


@HOOKS.register_module()
class NNNHook(ScoreTransformHook):
    """Nearest neighbour normalisation (Chowdhury et al., EMNLP 2024).

    See :func:`~mmvtr.functional.nnn`.

    Args:
        k: queries that an item is nearest to.
        alpha: strength.
        queries, bank_file, temperature, name: see :class:`ScoreTransformHook`.
    """

    default_name = 'nnn'

    def __init__(self, *, k: int = 16, alpha: float = 0.75, **kwargs) -> None:
        super().__init__(**kwargs)
        self.neighbours, self.alpha = k, alpha


@HOOKS.register_module()
class DBSNHook(ScoreTransformHook):
    """Dual bank Sinkhorn normalisation (Pan et al., 2025).

    See :func:`~mmvtr.functional.dbsn`: of the stored queries those of the other kind are the items
    that were seen before.

    Args:
        iterations: rounds of Sinkhorn-Knopp.
        queries, bank_file, temperature, name: see :class:`ScoreTransformHook`.

    Raises:
        ValueError: as of :class:`ScoreTransformHook`; ``queries='test'``, whose items are the
            gallery itself, or iterations below 1.
    """

    default_name = 'dbsn'

    def __init__(self, *, queries: str, iterations: int = 10, **kwargs) -> None:
        super().__init__(queries=queries, **kwargs)
        _refuse_test(self)
        if iterations < 1:
            raise ValueError(f'iterations must be 1 or more, not {iterations}')
        self.iterations = iterations


@HOOKS.register_module()
class DBNormHook(ScoreTransformHook):
    """Dual bank normalisation (Wang et al., 2023), static or dynamic.

    See :func:`~mmvtr.functional.db_norm`: of the stored queries those of the other kind are the
    items that were seen before.  Their similarities with the gallery are inner products, so the
    model needs one vector an item.

    Args:
        item_temperature: of these similarities; None = the share of their own reach that
            ``temperature`` is of the queries'.
        dynamic: each factor for the queries whose best item its bank finds.
        k: how many best items of a row of a bank are active; read if ``dynamic``.
        queries, bank_file, temperature, name: see :class:`ScoreTransformHook`.

    Raises:
        ValueError: as of :class:`ScoreTransformHook`; ``queries='test'``, whose items are the
            gallery itself; a temperature that is not positive; (at evaluation) a similarity that
            is no inner product.
    """

    default_name = 'db_norm'

    def __init__(
        self,
        *,
        item_temperature: Optional[float] = None,
        dynamic: bool = False,
        k: int = 1,
        **kwargs,
    ) -> None:
        super().__init__(**kwargs)
        _refuse_test(self)
        check_temperature(item_temperature)
        self.item_temperature, self.dynamic = item_temperature, dynamic
        self.neighbours = k


@HOOKS.register_module()
class LocalScalingHook(ScoreTransformHook):
    """A part of CSLS, of either sign and apart for the directions.

    See :func:`~mmvtr.functional.local_scaling`.  After a training that down-weights general
    captions, ``v2t`` goes from what pairs ask for (above 0) to what is true (below 0),
    docs/agreement.md.

    Args:
        t2v: strength for videos as items; 0 = raw scores.
        v2t: strength for texts as items; 0 = raw scores.
        share: of the queries, those that an item is nearest to.
        queries, bank_file, temperature, name: see :class:`ScoreTransformHook`.

    Raises:
        ValueError: as of :class:`ScoreTransformHook`; a share outside (0, 1], a strength that is
            not finite, or none in either direction.
    """

    default_name = 'local_scaling'

    def __init__(
        self, *, t2v: float = 0.0, v2t: float = 0.0, share: float = 0.05, **kwargs
    ) -> None:
        super().__init__(**kwargs)
        for strength in (t2v, v2t):
            check_local_scaling(strength, share)
        if t2v == v2t == 0:
            raise ValueError('LocalScalingHook: t2v and v2t are 0, so that nothing would change')
        self.strengths = dict(text=t2v, video=v2t)
        self.share = share

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
        places: how many texts are first.
        share: of the queries, those that a text is nearest to.
        queries, bank_file, temperature, name: see :class:`ScoreTransformHook`.

    Raises:
        ValueError: as of :class:`ScoreTransformHook`; a share outside (0, 1], a strength that is
            not finite, ``places`` below 1, or (at evaluation) above the number of texts.
    """

    default_name = 'hedged_scaling'

    def __init__(
        self, *, first: float, rest: float, places: int = 1, share: float = 0.05, **kwargs
    ) -> None:
        super().__init__(**kwargs)
        for strength in (first, rest):
            check_local_scaling(strength, share)
        if places < 1:
            raise ValueError(f'places must be 1 or more, not {places}')
        self.first, self.strength, self.places, self.share = first, rest, places, share

    def transform(self, scores: Tensor, bank: Bank, temperature: float) -> Tensor:
        if bank.kind == 'text':
            return scores  # and the bank's scores are not made
        return super().transform(scores, bank, temperature)
