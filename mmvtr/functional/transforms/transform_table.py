"""The test-time transforms by name, for hooks, inferencer, galleries and tools.

One row per transform; hooks, inferencer, galleries and tools look names up here.
"""

from __future__ import annotations

import math
from inspect import Parameter, signature
from typing import Any, Callable, Iterable, Mapping, NamedTuple, Optional

import torch
from torch import Tensor

from mmvtr.functional.metrics.first_places import sure_first
from mmvtr.functional.similarities.tiles import Tiles
from mmvtr.functional.transforms.dual_banks import db_norm, dbsn
from mmvtr.functional.transforms.score_transforms import (
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
from mmvtr.functional.transforms.sinkhorn import MOST


class _Option(NamedTuple):
    """One option of a transform.

    Attributes:
        name: its name.
        type: its annotation in the function's signature.
        default: Parameter.empty if it is required.
        unit: meaning of its numbers.
    """

    name: str
    type: str
    default: Any
    unit: str


class TransformSpec(NamedTuple):
    """Facts about a test-time transform: the only place with its name, defaults and form.

    Attributes:
        function: (scores [Q, N] of queries with a gallery, further inputs, options) -> [Q, N].
        reads: further inputs: ``'bank'``, scores [K, N] of queries seen before; ``'row'``, the
            query's scores with the rest of the gallery; ``'truth'`` [Q, N], the probability that
            items are true (:func:`expected_truth`); ``'bank_gallery'``, scores [K, M] of the bank
            with items seen before, and ``'item_bank'``, scores [M, N] of these with the gallery,
            each a keyword of its name.
        form: ``'additive'``: score + b_j, the same b_j for all queries, so that one more dimension
            of a vector holds it; ``'gated'``: score + b_j for some queries, depending on their best
            item, the raw score for the others; ``'row'``: a function of the whole row.
        claim: its purpose.
        source: its publication.
        as_sinkhorn: if its biases are :func:`sinkhorn`'s, the options of :func:`sinkhorn` that it
            fixes; else None.

    Example:
        ::

            >>> import torch
            >>> from mmvtr.functional.transforms.transform_table import TRANSFORMS
            >>> bank, scores = torch.tensor([[0.9, 0.1], [0.8, 0.7]]), torch.tensor([[0.7, 0.6]])
            >>> TRANSFORMS['csls'](scores, bank, temperature=0.1, neighbours=1)  # no temperature
            tensor([[-0.2000, -0.2000]])
            >>> TRANSFORMS['unbalanced_sinkhorn'].options['strictness']
            0.8
    """

    function: Callable[..., Tensor]
    reads: tuple[str, ...]
    form: str
    claim: str
    source: str
    as_sinkhorn: Optional[Mapping[str, float]] = None

    @property
    def described(self) -> list[_Option]:
        """Return its options, with types, defaults and units."""
        taken = signature(self.function).parameters.values()
        return [
            _Option(x.name, str(x.annotation), self._default(x), UNITS.get(x.name, 'number'))
            for x in taken
            if x.kind is Parameter.KEYWORD_ONLY and x.name not in self.reads
        ]

    def _default(self, x: Parameter) -> Any:
        return TEMPERATURE if x.name == 'temperature' and 'bank' in self.reads else x.default

    @property
    def options(self) -> dict[str, Any]:
        """Names and defaults of its options; Parameter.empty for those in :attr:`needs`."""
        return {option.name: option.default for option in self.described}

    @property
    def reads_items(self) -> bool:
        """Whether it reads items seen before, beside queries."""
        return bool({'bank_gallery', 'item_bank'} & {*self.reads})

    @property
    def needs(self) -> set[str]:
        """Names of options without a default."""
        return {name for name, default in self.options.items() if default is Parameter.empty}

    def __call__(self, scores: Tensor, read: Tensor | Tiles, **options: Any) -> Tensor:
        """Return transformed scores [Q, N].

        Args:
            scores: float [Q, N].
            read: the bank, or the truth.
            **options: options of the function, and its further inputs, by name; a ``temperature``
                is dropped if the function has none.

        Raises:
            ValueError: see the function.
        """
        if 'temperature' not in self.options:
            options.pop('temperature', None)
        return self.function(scores, read, **options)


#: Default temperature of a transform: a share of the bank's :func:`.reach`.
TEMPERATURE = '20%'
#: Meaning of the numbers of options.
UNITS = dict(
    temperature="units of scores, or a share of the bank's reach such as '20%'",
    item_temperature="units of scores; None: 16 times the share of the items' reach",
    iterations='rounds',
    tolerance='relative error of the row marginals; None: all rounds',
    bank_marginals='weights of bank queries that sum to one; None: all alike',
    strictness='0 (raw) to 1 (Sinkhorn)',
    neighbours='bank queries; of qb_norm and db_norm items of a bank query',
    alpha='share of the mean of the nearest bank scores',
    strength='share of the mean of the nearest bank scores, of either sign',
    first='as strength, of the first places',
    places='items',
    share='of the bank queries, in (0, 1]',
    dynamic='bool',
    sure='probability, 0 to 1',
)

_EVEN = 'every item is found equally often by the bank'
_ROW = ('bank', 'row')

#: All transforms.
TRANSFORMS: Mapping[str, TransformSpec] = dict(
    sinkhorn=TransformSpec(
        sinkhorn_scores, ('bank',), 'additive', _EVEN, 'NCL, Park et al. 2022', dict(strictness=1.0)
    ),
    unbalanced_sinkhorn=TransformSpec(
        unbalanced_sinkhorn,
        ('bank',),
        'additive',
        'items that are found too often pay for it in part',
        'ours, of Chizat et al. 2018',
        {},
    ),
    inverted_softmax=TransformSpec(
        inverted_softmax,
        ('bank',),
        'additive',
        'the bank asks for every item equally often',
        'Smith et al. 2017',
        dict(iterations=0, strictness=1.0),
    ),
    dual_softmax=TransformSpec(
        dual_softmax, ('bank',), 'row', 'a match is the best of both directions', 'CAMoE 2021'
    ),
    qb_norm=TransformSpec(
        qb_norm, _ROW, 'gated', 'inverted softmax where a hub would be found', 'Bogolin et al. 2022'
    ),
    csls=TransformSpec(
        csls, _ROW, 'additive', 'items near to many queries fall', 'Conneau et al. 2018'
    ),
    local_scaling=TransformSpec(
        local_scaling, ('bank',), 'additive', 'CSLS with a share of the bank', 'ours, of CSLS'
    ),
    nnn=TransformSpec(
        nnn, ('bank',), 'additive', 'items near to many queries fall', 'Chowdhury et al. 2024'
    ),
    dbsn=TransformSpec(
        dbsn,
        ('bank', 'bank_gallery'),
        'additive',
        'Sinkhorn in which queries also have their own items',
        'Pan et al. 2025',
        dict(strictness=1.0),
    ),
    db_norm=TransformSpec(  # of form 'row' if dynamic
        db_norm,
        ('bank', 'row', 'item_bank'),
        'additive',
        'items near to many queries or many items fall',
        'Wang et al. 2023',
    ),
    hedged_scaling=TransformSpec(
        hedged_scaling, _ROW, 'row', 'what is true of many first, then what is specific', 'ours'
    ),
    sure_first=TransformSpec(
        sure_first, ('row', 'truth'), 'row', 'the first text surely holds', 'ours'
    ),
)
#: Names of transforms that are fitted to a bank, and of those without a required option.
OF_BANK = tuple(name for name, x in TRANSFORMS.items() if 'bank' in x.reads)
FITTED = tuple(name for name in OF_BANK if not TRANSFORMS[name].needs)
#: Names of transforms that are one number for each item, which a gallery can store, and of those
#: that read only queries, no items seen before.
ADDITIVE = tuple(name for name in OF_BANK if TRANSFORMS[name].form == 'additive')
OF_QUERIES = tuple(name for name in ADDITIVE if not TRANSFORMS[name].reads_items)


def transform_named(name: str, among: Iterable[str] = tuple(TRANSFORMS)) -> TransformSpec:
    """Return the transform with a name.

    Args:
        name: its name.
        among: the names to choose from; default all.

    Raises:
        ValueError: the name is not among them.

    Example:
        ::

            >>> transform_named('csls').reads
            ('bank', 'row')
    """
    if name not in (known := tuple(among)):
        raise ValueError(f'transform must be one of {known}, not {str(name)[:80]!r}')
    return TRANSFORMS[name]


def share_of(temperature: Any, name: str = 'temperature') -> tuple[float, bool]:
    """Return a temperature as a number, and whether it is a share of the reach, such as ``'20%'``.

    Args:
        temperature: a number, or a text that ends in ``%``.
        name: its name in the message.

    Raises:
        ValueError: neither, or not positive and finite.

    Example:
        ::

            >>> share_of('20%'), share_of(0.05)
            ((0.2, True), (0.05, False))
    """
    share = isinstance(temperature, str) and temperature.endswith('%')
    try:
        value = float(temperature[:-1]) / 100 if share else float(temperature)
    except (TypeError, ValueError):
        value = -1.0
    if isinstance(temperature, (bool, str)) and not share:
        value = -1.0
    if not 0 < value < math.inf:
        raise ValueError(
            f"{name} must be positive, or a positive share of the reach such as '20%', not "
            f'{str(temperature)[:80]!r}'
        )
    return value, share


#: Allowed values of options; for the temperatures see :func:`share_of`.
_RANGES: Mapping[str, tuple[str, Callable[[Any], bool]]] = dict(
    strictness=('be 0 to 1', lambda x: 0 <= x <= 1),
    share=('lie in (0, 1]', lambda x: 0 < x <= 1),
    iterations=(f'be 0 to {MOST:,}', lambda x: 0 <= x <= MOST and x == int(x)),
    dynamic=('be True or False', lambda x: x in (True, False)),
    neighbours=('be 1 or more', lambda x: x >= 1 and x == int(x)),
    places=('be 1 or more', lambda x: x >= 1 and x == int(x)),
    tolerance=('be positive', lambda x: x > 0),
    **dict.fromkeys(('alpha', 'strength', 'first'), ('be finite', math.isfinite)),
)


def checked_options(transform: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return all options of a transform: the given ones, and the defaults of the others.

    Args:
        transform: its name.
        given: options by name; None = the default.

    Raises:
        ValueError: an unknown transform or option, a missing one without a default, or out of
            range.

    Example:
        ::

            >>> checked_options('nnn', dict(alpha=0.5))
            {'neighbours': 16, 'alpha': 0.5}
    """
    spec = transform_named(transform, OF_BANK)
    unknown = sorted({*given} - {*spec.options})
    if unknown:
        raise ValueError(f'{transform} takes {sorted(spec.options)}, not {unknown[0]!r}')
    found = {**spec.options, **{name: _plain(x) for name, x in given.items() if x is not None}}
    missing = sorted(name for name in spec.needs if found[name] is Parameter.empty)
    if missing:
        raise ValueError(f'{transform} needs {missing[0]}=')
    for name, value in found.items():
        if name.endswith('temperature') and value is not None:
            if share_of(value, name)[1] and name != 'temperature':
                raise ValueError(f'{name} must be a number in units of scores, not {value!r}')
        elif name in _RANGES and value is not None:
            _check_range(name, value)
    if transform == 'dbsn' and found['iterations'] < 1:  # a round begins with the rows
        raise ValueError(f'iterations must be 1 or more, not {found["iterations"]}')
    return found


def _plain(value: Any) -> Any:
    """Return numbers of numpy or torch as Python's, and arrays as tensors."""
    if getattr(value, 'ndim', None) == 0 and hasattr(value, 'item'):
        return value.item()
    return torch.as_tensor(value) if hasattr(value, 'ndim') else value


def _check_range(name: str, value: Any) -> None:
    words, fits = _RANGES[name]
    try:
        good = isinstance(value, bool) == (name == 'dynamic') and fits(value)
    except (TypeError, ValueError, OverflowError):  # a text; int() of NaN or infinity
        good = False
    if not good:
        raise ValueError(f'{name} must {words}, not {str(value)[:80]}')
