"""The test-time transforms by name, for hooks, inferencer, galleries and tools."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Mapping, Optional, Sequence

import mmvtr.functional.transforms.dual_banks  # noqa: F401 - its transforms are in the table
import mmvtr.functional.transforms.score_transforms  # noqa: F401
from mmvtr.functional.metrics.first_places import sure_first
from mmvtr.functional.transforms.transform import (
    TRANSFORMS,
    Transform,
    count,
    setting,
    transform,
)


@transform(
    'sure_first',
    label='SureFirst',
    claim='the first text surely holds',
    source='ours',
    function=sure_first,
)
class _SureFirst(Transform):
    """:func:`.sure_first`, of the truth of items [Q, N]."""

    reads = ('row', 'truth')
    form = 'row'
    sure: float = setting(0.8, 'probability, 0 to 1', 'lie in [0, 1]', lambda x: 0 <= x <= 1)
    places: int = count(1, 'items')


class _Names(Sequence[str]):
    """Names of the transforms of one kind, of the table as it is now: others may be added to it."""

    def __init__(self, fits: Callable[[type[Transform]], bool]) -> None:
        self._fits = fits

    def _now(self) -> tuple[str, ...]:
        return tuple(name for name, kind in TRANSFORMS.items() if self._fits(kind))

    def __getitem__(self, place: Any) -> Any:
        return self._now()[place]

    def __len__(self) -> int:
        return len(self._now())

    def __repr__(self) -> str:
        return repr(self._now())


#: Names of transforms that are fitted to a bank, and of those without a required option.
OF_BANK = _Names(lambda kind: 'bank' in kind.reads)
FITTED = _Names(lambda kind: 'bank' in kind.reads and not kind.needs)
#: Names of transforms that are one number for each item, which a gallery can store, and of those
#: that read only queries, no items seen before.
ADDITIVE = _Names(lambda kind: 'bank' in kind.reads and kind.form == 'additive')
OF_QUERIES = _Names(lambda kind: kind.name in ADDITIVE and not kind.reads_items)


#: Temperature of a transform at the doors that know a model: the model's own.
MODEL = 'model'


def units() -> dict[str, str]:
    """Return the meaning of each option's numbers, of all transforms that have it.

    Example:
        ::

            >>> units()['bank_marginals']
            'weights of bank queries that sum to one; None: all alike'
    """
    meanings: dict[str, list[str]] = {}
    for kind in TRANSFORMS.values():
        for x in kind.described:
            meanings.setdefault(x.name, []).append(x.unit)
    return {name: '; '.join(dict.fromkeys(units)) for name, units in meanings.items()}


def transform_named(name: str, among: Iterable[str] = TRANSFORMS) -> type[Transform]:
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
    if name not in (names := tuple(among)):
        raise ValueError(f'transform must be one of {names}, not {str(name)[:80]!r}')
    return TRANSFORMS[name]


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
    return transform_named(transform, OF_BANK).checked(given)


def with_model(options: Mapping[str, Any], temperature: Optional[float] = None) -> dict[str, Any]:
    """Return options in which the temperature ``'model'`` is a model's own number.

    Args:
        options: of a transform.
        temperature: the model's; None = not known yet, the default for checks of the others.

    Example:
        ::

            >>> with_model(dict(temperature='model', iterations=2), 0.05)
            {'temperature': 0.05, 'iterations': 2}
    """
    replaced = dict(temperature=temperature) if options.get('temperature') == MODEL else {}
    return {**options, **replaced}
