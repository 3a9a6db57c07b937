"""The test-time transforms by name: what hooks, inferencer, galleries and tools offer of them.

One row a transform; hooks, inferencer, galleries and tools look names up here.
"""

from __future__ import annotations

from functools import partial
from inspect import Parameter, signature
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Optional

from torch import Tensor

from mmvtr.functional.metrics.first_places import sure_first
from mmvtr.functional.similarities.tiles import Tiles, as_tiles
from mmvtr.functional.transforms.dual_banks import db_norm, dbsn
from mmvtr.functional.transforms.score_transforms import (
    checked_scores,
    csls,
    dual_softmax,
    hedged_scaling,
    inverted_softmax,
    local_scaling,
    nnn,
    qb_norm,
    sinkhorn_scores,
    unbalanced_sinkhorn,
)
from mmvtr.functional.transforms.sinkhorn import in_own_unit, sinkhorn


class ScoreTransform(NamedTuple):
    """What is known of a test-time transform.

    Attributes:
        function: scores [Q, N] of queries with a gallery, what it reads, and options -> [Q, N].
        reads: what else it reads: ``'bank'``, scores [K, N] of queries seen before; ``'row'``, the
            query's scores with the rest of the gallery; ``'truth'`` [Q, N], how surely items hold
            (:func:`expected_truth`);
            ``'bank_gallery'``, scores [K, M] of the bank with items seen before, and
            ``'item_bank'``, scores [M, N] of these with the gallery, each a keyword of its name.
        as_sinkhorn: of one that adds a number to each item, which can be stored with it: the
            options of :func:`sinkhorn` that it fixes.  None: it is no such number, or none that
            further items can be told.
        adds: it adds a number to each item, whatever the query.

    Example:
        ::

            >>> import torch
            >>> from mmvtr.functional.transforms.transform_table import TRANSFORMS
            >>> bank, scores = torch.tensor([[0.9, 0.1], [0.8, 0.7]]), torch.tensor([[0.7, 0.6]])
            >>> TRANSFORMS['csls'](scores, bank, temperature=0.1, k=1)  # which has no temperature
            tensor([[-0.2000, -0.2000]])
            >>> TRANSFORMS['inverted_softmax'].biases(bank, temperature=0.1)
            tensor([-0.9313, -0.7002])
            >>> TRANSFORMS['unbalanced_sinkhorn'].options['strictness']
            0.8
    """

    function: Callable[..., Tensor]
    reads: tuple[str, ...]
    as_sinkhorn: Optional[Mapping[str, float]] = None
    adds: bool = False

    @property
    def options(self) -> dict[str, Any]:
        """Names and defaults of what the function takes; of :attr:`needs` Parameter.empty."""
        taken = signature(self.function).parameters.values()
        named = {x.name: x.default for x in taken if x.kind is Parameter.KEYWORD_ONLY}
        return {name: default for name, default in named.items() if name not in self.reads}

    @property
    def needs(self) -> set[str]:
        """Options without a default."""
        return {name for name, default in self.options.items() if default is Parameter.empty}

    def __call__(self, scores: Tensor, read: Tensor | Tiles, **options: Any) -> Tensor:
        """Transformed scores [Q, N].

        Args:
            scores: float [Q, N].
            read: the bank, or the truth.
            **options: those of the function, and what else it reads, by name; a ``temperature`` is
                dropped where it has none.

        Raises:
            ValueError: as of the function.
        """
        if 'temperature' not in self.options:
            options.pop('temperature', None)
        return self.function(scores, read, **options)

    def sinkhorn_options(self, **given: Optional[float]) -> dict[str, Any]:
        """The iterations and the strictness with which its biases are those of :func:`sinkhorn`.

        Args:
            **given: None = the transform's default; what the transform fixes cannot be given.
        """
        given = {name: value for name, value in given.items() if value is not None}
        named = {**self.options, **given, **self.as_sinkhorn}
        return {name: named[name] for name in ('iterations', 'strictness')}

    def biases(self, bank: Tensor | Tiles, **given: Any) -> Tensor:
        """What it adds to the score of each item, of one that :attr:`adds`.

        Those of Sinkhorn are in the unit in which a :class:`mmvtr.normaliser.Normaliser` gives
        them, strictness times those of :func:`column_biases`: the function itself normalises them
        over the gallery, and so adds less to each item the more of them there are.

        Args:
            bank: float [K, N], or its tiles.
            **given: the options of the function, ``temperature`` above all, and what else it reads
                by name; None = the default, and what the transform does not take is dropped.

        Returns:
            float [N], in score units, in float32 or better.

        Raises:
            ValueError: as of the function.
        """
        taken = {*self.options, *self.reads}
        given = {name: x for name, x in given.items() if x is not None and name in taken}
        like = as_tiles(bank).columns(slice(0, 1))
        known = like.new_zeros(1, bank.shape[1])
        known[0, 0] = 1  # scores that are all alike would be refused
        if self.function not in (sinkhorn_scores, unbalanced_sinkhorn):
            return (self(known, bank, **given) - known)[0]
        _, tiles = checked_scores(known, bank)
        options = {**self.options, **given, **self.as_sinkhorn}
        options['row_marginals'] = options.pop('bank_marginals')
        found = sinkhorn(tiles, **options)
        unit = {name: options[name] for name in ('temperature', 'strictness')}
        return in_own_unit(found.columns, tiles, found.rows, **unit)


_bank, _bank_and_row = (partial(ScoreTransform, reads=x) for x in (('bank',), ('bank', 'row')))

#: All of them.
TRANSFORMS: Mapping[str, ScoreTransform] = dict(
    sinkhorn=_bank(sinkhorn_scores, as_sinkhorn=dict(strictness=1.0), adds=True),
    unbalanced_sinkhorn=_bank(unbalanced_sinkhorn, as_sinkhorn={}, adds=True),
    inverted_softmax=_bank(
        inverted_softmax, as_sinkhorn=dict(iterations=0, strictness=1.0), adds=True
    ),
    dual_softmax=_bank(dual_softmax),
    qb_norm=_bank_and_row(qb_norm),
    csls=_bank_and_row(csls),
    local_scaling=_bank(local_scaling, adds=True),
    nnn=_bank(nnn, adds=True),
    dbsn=ScoreTransform(
        dbsn, reads=('bank', 'bank_gallery'), as_sinkhorn=dict(strictness=1.0), adds=True
    ),
    db_norm=ScoreTransform(db_norm, reads=('bank', 'row', 'item_bank')),  # the row if dynamic
    hedged_scaling=_bank_and_row(hedged_scaling),
    sure_first=ScoreTransform(sure_first, reads=('row', 'truth')),
)
#: Names of those that give a gallery biases with a temperature alone.
ADDED = tuple(name for name, x in TRANSFORMS.items() if x.adds and x.needs <= {'temperature'})
#: Names of those whose biases can be stored with the items of a gallery, and of these those that
#: read queries alone, no items seen before.
STORED = tuple(name for name, x in TRANSFORMS.items() if x.as_sinkhorn is not None)
OF_QUERIES = tuple(name for name in STORED if TRANSFORMS[name].reads == ('bank',))


def transform_named(name: str, among: Iterable[str] = tuple(TRANSFORMS)) -> ScoreTransform:
    """The transform of a name.

    Args:
        name: of it.
        among: those that are offered; default all.

    Raises:
        ValueError: it is none of these.

    Example:
        ::

            >>> transform_named('csls').reads
            ('bank', 'row')
    """
    if name not in (known := tuple(among)):
        raise ValueError(f'transform must be one of {known}, not {str(name)[:80]!r}')
    return TRANSFORMS[name]
