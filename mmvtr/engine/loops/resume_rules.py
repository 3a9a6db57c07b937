"""Rules for config values that differ when a training is resumed.

``resume_rules.tsv`` is their only table; ``docs/training.md`` shows it (:func:`table`).
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Iterator, Mapping, NamedTuple

from mmvtr.functional.values import check_one_of
from mmvtr.registry import bare_name

RESCALED = 'rescaled and said'
APPLIED = 'applied and said'
CONTINUED = 'continued and said'
REFUSED = 'refused'
SILENT = 'applied'
ACTIONS = (RESCALED, APPLIED, CONTINUED, REFUSED, SILENT)
#: Placeholder for a value that is not set.
UNSET = type('Unset', (), {'__repr__': lambda self: 'not set'})()


class Rule(NamedTuple):
    """A rule for some config values on resume.

    Attributes:
        what: description of the values.
        keys: patterns of their dotted keys; the first rule with a matching one applies.
        action: one of :data:`ACTIONS`.
        happens: effect, as the end of a line or of an error.
    """

    what: str
    keys: tuple[str, ...]
    action: str
    happens: str


class Change(NamedTuple):
    """A config value that differs from the checkpoint's."""

    key: str
    before: Any
    now: Any
    rule: Rule

    def __str__(self) -> str:
        return f'{self.key} was {_short(self.before)}, is {_short(self.now)}: {self.rule.happens}'


_TABLE = Path(__file__).with_suffix('.tsv').read_text(encoding='utf-8').splitlines()
_ROWS = [line.split('\t') for line in _TABLE[1:]]
RULES = tuple(Rule(what, tuple(keys.split()), *rest) for what, keys, *rest in _ROWS)
check_one_of(ACTIONS, **{rule.what: rule.action for rule in RULES})


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Change]:
    """Return the values in which two configs differ, each with its rule, without silent ones."""
    found = []
    for key, old, new in _different(before, now, ''):
        rule = next(rule for rule in RULES if any(fnmatchcase(key, p) for p in rule.keys))
        if rule.action != SILENT:
            found.append(Change(key, old, new, rule))
    return found


def _different(before: Any, now: Any, key: str) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for name in dict.fromkeys([*before, *now]):
            place = f'{key}.{name}' if key else str(name)
            yield from _different(before.get(name, UNSET), now.get(name, UNSET), place)
    elif _listed(before) and _listed(now) and len(before) == len(now):
        for number, pair in enumerate(zip(before, now)):
            yield from _different(*pair, f'{key}.{number}')
    elif not _same(before, now, key):
        yield key, before, now


def _listed(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and any(isinstance(one, Mapping) for one in value)


def _same(before: Any, now: Any, key: str) -> bool:
    if all(value is None or value is UNSET for value in (before, now)):
        return True
    if key.rpartition('.')[2] == 'type' and isinstance(before, str) and isinstance(now, str):
        return bare_name(dict(type=before)) == bare_name(dict(type=now))
    return before == now or (before != before and now != now)  # NaN


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f'{text[:57]}...'


def table() -> str:
    """Return the table of docs/training.md, in Markdown."""
    by_action: dict[str, list[str]] = {}
    for rule in RULES:
        by_action.setdefault(rule.action, []).append(rule.what)
    rows = [f'| {action} | {"; ".join(values)} |' for action, values in by_action.items()]
    return '\n'.join(['| what happens | values |', '|---|---|', *rows])


def values_of(value: Any) -> Any:
    """Return a config's values in types of a plain checkpoint, else their ``repr``."""
    if isinstance(value, Mapping):
        return {str(name): values_of(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [values_of(one) for one in value]
    return value if value is None or type(value) in (bool, int, float, str) else repr(value)
