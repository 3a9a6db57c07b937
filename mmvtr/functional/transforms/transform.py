"""A test-time transform is one object: options, what it reads, formula and source.

:func:`transform` makes a function of ``mmvtr.functional`` of the class and adds it to
:data:`TRANSFORMS`, from which hooks, inferencer, galleries, tools and :func:`.fit_biases` take it.
"""

from __future__ import annotations

import math
from inspect import Parameter, Signature, formatannotation, get_annotations
from typing import Any, Callable, ClassVar, Iterator, Mapping, NamedTuple, Optional

import torch
from torch import Tensor

from mmvtr.functional.similarities.tiles import (
    Tiles,
    as_tiles,
    refuse_empty,
    refuse_non_finite,
    score_gap,
)
from mmvtr.functional.transforms.sinkhorn import MOST
from mmvtr.functional.values import arrays_too, at_least_float32

#: Value of an option that must be given.
NEEDED = Parameter.empty
#: Default temperature: a share of the bank's :func:`.score_gap`.
TEMPERATURE = '20%'
#: Inputs of items seen before.
ITEM_INPUTS = ('bank_gallery', 'item_bank')


#: Former names of options, which saved files may have.
RENAMED = dict(strictness='marginal_penalty')


def renamed(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options by their names of today.

    Example:
        ::

            >>> renamed(dict(strictness=0.8))
            {'marginal_penalty': 0.8}
    """
    return {RENAMED.get(name, name): x for name, x in options.items()}


class Option(NamedTuple):
    """One option of a transform.

    Attributes:
        name: its name.
        type: its annotation in the class.
        default: 0-dim, a number; :data:`NEEDED` if it is required.
        unit: meaning of its numbers.
        words: the allowed values, in words.
        fits: whether a value is allowed.
    """

    name: str
    type: str
    default: Any
    unit: str
    words: str
    fits: Callable[[Any], bool]

    def checked(self, value: Any) -> Any:
        """Return a value as Python's number or a tensor, after checking it.

        Raises:
            ValueError: it is not allowed.
        """
        if value is None:
            return None
        try:
            if getattr(value, 'ndim', None) == 0 and hasattr(value, 'item'):
                learned = isinstance(value, Tensor) and value.requires_grad
                value = value if learned else value.item()
            elif hasattr(value, 'ndim'):
                value = torch.as_tensor(value)
            good = isinstance(value, bool) == (self.type == 'bool') and bool(self.fits(value))
        except (TypeError, ValueError, OverflowError, RuntimeError):  # a text; int() of NaN
            good = False
        if not good:
            raise ValueError(f'{self.name} must {self.words}, not {str(value)[:80]!s}')
        return value


def setting(default: Any, unit: str, words: str, fits: Callable[[Any], bool]) -> Any:
    """Return an option for the body of a transform's class, see :class:`Option`.

    Example:
        ::

            >>> setting(0.5, 'share of the mean', 'be finite', lambda x: True).default
            0.5
    """
    return Option('', '', default, unit, words, fits)


def _share_of(temperature: Any) -> tuple[float, bool]:
    """Return a temperature as a number, and whether it is a share of the score gap.

    Args:
        temperature: 0-dim, a number, or a text that ends in ``%``.

    Raises:
        ValueError: neither, or not positive and finite.
    """
    share = isinstance(temperature, str) and temperature.endswith('%')
    try:
        value = float(temperature[:-1]) / 100 if share else float(temperature)
    except (TypeError, ValueError):
        value = -1.0
    plain = share or not isinstance(temperature, (bool, str))
    if not (plain and 0 < value < math.inf):
        raise ValueError(
            "temperature must be positive, or a positive share of the score gap such as '20%', "
            f'not {str(temperature)[:80]!r}'
        )
    return value, share


def _temperature(value: Any) -> bool:
    return bool(_share_of(value))


def count(default: Any, unit: str) -> Any:
    """Return an option that is a number of queries, items or places, 0-dim, from 1.

    Example:
        ::

            >>> count(10, 'bank queries').default
            10
    """
    return setting(default, unit, 'be 1 or more', lambda x: x >= 1 and x == int(x))


def rounds(default: int, least: int = 0) -> Any:
    """Return an option that is a number of iterations, 0-dim.

    Example:
        ::

            >>> rounds(4).default
            4
    """
    words = f'be {least} to {MOST:,}'
    return setting(default, 'rounds', words, lambda x: least <= x <= MOST and x == int(x))


def number(default: Any, unit: str) -> Any:
    """Return an option that is any finite number, 0-dim.

    Example:
        ::

            >>> number(0.75, 'share').default
            0.75
    """
    return setting(default, unit, 'be finite', math.isfinite)


def temperature() -> Any:
    """Return the option that divides scores, 0-dim; its default is :data:`TEMPERATURE`.

    Example:
        ::

            >>> temperature().default
            '20%'
    """
    unit = "units of scores, or a share of the bank's score gap such as '20%'"
    words = "be positive, or a positive share of the score gap such as '20%'"
    return setting(TEMPERATURE, unit, words, _temperature)


class Transform:
    """A test-time transform with its options as attributes: the base class.

    A subclass declares options (:func:`setting`), and defines :meth:`biases`; see ``nnn``.

    Attributes:
        name: its name at all doors.
        label: its name in front of ``Hook``.
        claim: its purpose.
        source: its publication.
        reads: further inputs: ``'bank'``, scores [K, N] of queries seen before; ``'row'``, the
            query's scores with the rest of the gallery; ``'truth'`` [Q, N], the probability that
            items are true (:func:`expected_truth`); ``'bank_gallery'``, scores [K, M] of the bank
            with items seen before, and ``'item_bank'``, scores [M, N] of these with the gallery,
            each a keyword of its name.
        form: ``'additive'``: score + b_j, the same b_j for all queries, so that one more dimension
            of a vector holds it; ``'gated'``: score + b_j for some queries, depending on their best
            item, the raw score for the others; ``'row'``: a function of the whole row.
        described: its options, with types, defaults and units.
        options: names and defaults of its options; :data:`NEEDED` for those in ``needs``.
        needs: names of options without a default.
        reads_items: whether it reads items seen before, beside queries.
        function: what :func:`transform` made of it, for arrays too.

    Example:
        ::

            >>> from mmvtr.functional.transforms.transform import TRANSFORMS
            >>> @transform('half_of_the_mean', label='HalfMean', claim='', source='ours')
            ... class half_of_the_mean(Transform):
            ...     share: float = number(0.5, 'of the mean bank score')
            ...
            ...     def biases(self, bank, **items):
            ...         return -self.share * bank.per_column(lambda tile: tile.mean(0))
            >>> half_of_the_mean(torch.eye(2), torch.tensor([[1.0, 0.0], [0.6, 0.2]]), share=1.0)
            tensor([[ 0.2000, -0.1000],
                    [-0.8000,  0.9000]])
            >>> del TRANSFORMS['half_of_the_mean']
    """

    name: ClassVar[str]
    label: ClassVar[str]
    claim: ClassVar[str]
    source: ClassVar[str]
    reads: ClassVar[tuple[str, ...]] = ('bank',)
    form: ClassVar[str] = 'additive'
    described: ClassVar[list[Option]] = []
    options: ClassVar[dict[str, Any]] = {}
    needs: ClassVar[set[str]] = set()
    reads_items: ClassVar[bool] = False
    function: ClassVar[Callable[..., Tensor]]

    def __init__(self, **options: Any) -> None:
        vars(self).update(options)

    # -- what a transform defines -------------------------------------------------------------

    def biases(self, bank: Tiles, **items: Tiles) -> Tensor:
        """Return the bias of each item, float [N], of scores [K, N]; it depends on no other item.

        Args:
            bank: scores of the bank with these items.
            **items: ``item_bank`` [M, N], if it reads it.
        """
        raise NotImplementedError(f'{self.name} must define biases()')

    def fit(self, bank: Tiles, **extra: Tiles) -> tuple[Tensor, Optional[Tensor]]:
        """Return the item biases [N], and row biases [K] from which further items get theirs."""
        return self.biases(bank, **_items(extra)), None

    def row_sums(self, shard: Tiles, log_alpha: Tensor) -> Tensor:
        """Return what a shard of the gallery adds to a round, [K]; if there are rounds."""
        raise NotImplementedError(f'{self.name} has no rounds')

    def rows_of_shards(
        self, row_sums: Callable[[Tensor], tuple[Tensor, int]], queries: int
    ) -> Optional[Tensor]:
        """Return row biases [K] of a gallery in shards; None if an item's bias reads no other.

        Args:
            row_sums: from log alpha [K] to the log-sum-exp of the shards' :meth:`row_sums` [K],
                and the number of items.
            queries: of the bank, K.
        """
        return None

    def further(self, bank: Tiles, rows: Optional[Tensor], **items: Tiles) -> Tensor:
        """Return the biases of further items, float [n], of scores [K, n]."""
        return self.biases(bank, **items)

    def active(self, bank: Tiles) -> Optional[Tensor]:
        """Return for a gated transform the items whose finders are changed, bool [N]."""
        return None

    def apply(self, raw: Tensor, items: Tensor, active: Optional[Tensor]) -> Tensor:
        """Return transformed scores [Q, N] of raw scores, item biases and active items."""
        return raw + items

    def __call__(self, scores: Tensor, bank: Tiles, **extra: Tiles) -> Tensor:
        """Return what the function of this name returns, [Q, N]."""
        items = self.fit(bank, **extra)[0].to(scores)
        return self.apply(scores, items, self.active(bank))

    def of_a_part(self, items: Tensor, share: float) -> Tensor:
        """Return biases fitted to a share of the bank, comparable with those of all of it."""
        return items

    def check_fit(self) -> None:
        """Raise ValueError if options give no bias of each item."""

    @classmethod
    def prepared(cls, bank: Tiles) -> Tiles:
        """Return the bank for several passes: each score is kept if it is read more than once."""
        return bank.kept() if 'temperature' in cls.options or cls.form == 'gated' else bank

    @classmethod
    def resolved(cls, options: Mapping[str, Any], gap: Callable[[str], float]) -> dict[str, Any]:
        """Return options whose shares are in units of scores.

        Args:
            options: all options.
            gap: the :func:`.score_gap` of an input by name, ``'bank'`` or ``'item_bank'``.
        """
        options = dict(options)
        if 'temperature' in options:
            options['temperature'] = _in_units(options['temperature'], gap)
        return options

    @classmethod
    def of_bank(
        cls, given: Mapping[str, Any], queries: int, gap: Callable[[str], float]
    ) -> dict[str, Any]:
        """Return all options as they are fitted to a bank of K queries.

        Args:
            given: options; None = the default, for ``neighbours`` at most K.
            queries: K.
            gap: see :meth:`resolved`.

        Raises:
            ValueError: see :meth:`checked`.
        """
        options = cls.resolved(cls.checked(given), gap)
        if given.get('neighbours') is None and 'neighbours' in options:
            options['neighbours'] = min(options['neighbours'], queries)
        return options

    # -- what is derived ----------------------------------------------------------------------

    @classmethod
    def checked(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return all options: the given ones, and the defaults of the others (None = the default).

        Raises:
            ValueError: an unknown option, a missing one without a default, or out of range.
        """
        unknown = sorted({*given} - {*cls.options})
        if unknown:
            now = RENAMED.get(unknown[0])
            hint = f': it is {now} now' if now in cls.options else ''
            raise ValueError(f'{cls.name} takes {sorted(cls.options)}, not {unknown[0]!r}{hint}')
        options = {}
        for option in cls.described:
            value = option.default if given.get(option.name) is None else given[option.name]
            if value is NEEDED:
                raise ValueError(f'{cls.name} needs {option.name}=')
            options[option.name] = option.checked(value)
        return options


#: All transforms by name, in the order of their definitions.
TRANSFORMS: dict[str, type[Transform]] = {}
#: What is called with each new transform: its hook is made (:mod:`mmvtr.engine.hooks`).
MADE: list[Callable[[type[Transform]], Any]] = []


def transform(
    name: str,
    *,
    label: str,
    claim: str,
    source: str,
    function: Optional[Callable] = None,
    force: bool = False,
) -> Callable[[type], Callable[..., Tensor]]:
    """Return a decorator that adds a class to :data:`TRANSFORMS` and returns its function.

    Args:
        name, label, claim, source: see :class:`Transform`.
        function: a function [Q, N] -> [Q, N] that exists already.
        force: replace a transform of this name.

    Raises:
        ValueError: a name or a label that another transform has.

    Example:
        ::

            >>> transform('mine', label='Mine', claim='', source='').__name__
            'add'
    """

    def add(kind: type[Transform]) -> Callable[..., Tensor]:
        if name in TRANSFORMS and not force:
            there = TRANSFORMS[name]
            raise ValueError(f'transform {name!r} exists, in {there.__module__}: force=True')
        if any(x.label == label and x.name != name for x in TRANSFORMS.values()):
            raise ValueError(f'transform {name!r}: another one has the label {label!r}')
        kind.name, kind.label, kind.claim, kind.source = name, label, claim, source
        kind.described = [*_described(kind)]
        kind.options = {x.name: x.default for x in kind.described}
        kind.reads_items = bool({*ITEM_INPUTS} & {*kind.reads})
        kind.needs = {x for x, default in kind.options.items() if default is NEEDED}
        kind.function = staticmethod(function or _function(kind))
        TRANSFORMS[name] = kind
        for make in MADE:
            make(kind)
        return kind.function

    return add


def _function(kind: type[Transform]) -> Callable[..., Tensor]:
    """Return the function of a transform, with a signature, for arrays too."""
    inputs = [x for x in kind.reads if x in ITEM_INPUTS]
    keyword, place = Parameter.KEYWORD_ONLY, Parameter.POSITIONAL_OR_KEYWORD
    taken = Signature(
        [
            Parameter('scores', place, annotation='Tensor'),
            Parameter('bank', place, annotation='Tensor | Tiles'),
            *(Parameter(x, keyword, annotation='Tensor | Tiles') for x in inputs),
            *(
                Parameter(x.name, keyword, default=x.default, annotation=x.type)
                for x in kind.described
            ),
        ],
        return_annotation='Tensor',
    )

    def function(*args: Any, **kwargs: Any) -> Tensor:
        try:
            bound = taken.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f'{kind.__name__}() {error}') from None
        scores, bank = checked_scores(bound.pop('scores'), bound.pop('bank'))
        extra = {x: as_tiles(bound.pop(x))._replace(name=x) for x in inputs}
        if 'item_bank' in extra:
            checked_scores(scores, extra['item_bank'], 'item_bank')
        tiles = dict(extra, bank=bank)
        options = kind.resolved(kind.checked(bound), lambda name: score_gap(tiles[name]))
        return kind(**options)(scores, bank, **extra)

    function.__name__ = function.__qualname__ = kind.__name__
    function.__module__, function.__doc__ = kind.__module__, kind.__doc__
    function.__signature__ = taken
    function.__annotations__ = {x.name: x.annotation for x in taken.parameters.values()}
    function.__annotations__['return'] = 'Tensor'
    return arrays_too(function)


def _described(kind: type[Transform]) -> Iterator[Option]:
    """Yield the options of a class, with names and types; those of its bases come first."""
    classes = kind.__mro__
    names = (x for of in reversed(classes) for x, y in vars(of).items() if type(y) is Option)
    for name in dict.fromkeys(names):
        option = getattr(kind, name)
        if isinstance(option, Option):  # a subclass may fix it
            hints = (get_annotations(of).get(name) for of in classes)
            yield option._replace(name=name, type=_written(next(filter(None, hints), Any)))


def _written(annotation: Any) -> str:
    """Return an annotation as it is written."""
    if isinstance(annotation, str):
        return annotation
    return formatannotation(annotation).replace('torch.', '')


def _items(extra: Mapping[str, Tiles]) -> dict[str, Tiles]:
    return {x: y for x, y in extra.items() if x == 'item_bank'}


def _in_units(value: Any, gap: Callable[[str], float]) -> Any:
    """Return a temperature in units of scores; a share such as '20%' is of the bank's score gap.

    Raises:
        ValueError: a share, although all items score alike.
    """
    share, relative = _share_of(value)
    if not relative:
        return value
    temperature = share * gap('bank')
    if not temperature > 0:
        raise ValueError('all items score alike with the bank, so the score gap is 0')
    return temperature


def checked_scores(
    scores: Tensor, bank: Tensor | Tiles, name: str = 'bank'
) -> tuple[Tensor, Tiles]:
    """Return scores in float32 or better and tiles of the bank; raise ValueError unless they fit.

    Args:
        scores: float [Q, N].
        bank: float [K, N], or its tiles.
        name: name of the bank in errors.

    Raises:
        ValueError: a score that is not finite, a constant bank, an empty bank or gallery, a bank
            of another gallery; scores of the bank are checked when they are used.

    Example:
        ::

            >>> checked_scores(torch.eye(2), torch.ones(3, 4))
            Traceback (most recent call last):
            ValueError: bank covers 4 gallery items, but the scores cover 2
    """
    bank, items = as_tiles(bank)._replace(name=name), as_tiles(scores).shape[1]
    refuse_empty(bank)
    if items != bank.shape[1]:
        raise ValueError(
            f'{name} covers {bank.shape[1]} gallery items, but the scores cover {items}'
        )
    refuse_non_finite(scores)
    _refuse_constant(bank)
    return at_least_float32(scores), bank


def _refuse_constant(tiles: Tiles) -> None:
    """Raise ValueError if all scores are equal; mostly one tile is read."""
    if tiles.shape[0] * tiles.shape[1] < 2:
        return
    value = tiles.columns(slice(0, 1))[0, 0]
    if all((tile == value).all() for _, tile in tiles.parts()):
        raise ValueError(
            f'{tiles.name} {list(tiles.shape)} is all one value ({value.item():g}): nothing to rank'
        )
