"""Spelling of options in error messages, for the command line or Python, and nearest names."""

from __future__ import annotations

import difflib
import sys
from importlib.metadata import entry_points
from typing import Any, Iterable

#: Minimum similarity of two names for one to count as a typo of the other.
ALIKE = 0.75
#: Former names of components and arguments, which configs of earlier runs may have.
RENAMED = dict(
    Belief='EarlyTeacher',
    CrossFittedBelief='CrossFittedTeachers',
    belief='teacher',
    spared_by='combine',
    heart='memorised',
    low_precision='min_lift',
    start='init_from',
)

#: Entry points of components that a config must import first, by their names.
COMPONENTS = 'mmvtr.components'


def on_command_line() -> bool:
    """Return whether this process runs a tool, a script whose ``main`` :func:`.tool` has made."""
    return hasattr(getattr(sys.modules.get('__main__'), 'main', None), 'is_tool')


def option(key: str, value: Any, *, prefix: str = '') -> str:
    """Return a dataset option with its value, as a user would type it.

    Args:
        key: dotted if it is nested: ``'on_broken.skip'``.
        value: a name, a file or a number.
        prefix: prefix of the key in a config, for the command line: ``'test_dataloader.dataset.'``.

    Returns:
        ``test_dataloader.dataset.on_broken.skip=FILE`` for a tool, else
        ``on_broken=dict(skip='FILE')``.
    """
    if on_command_line():
        return f'{prefix}{key}={value}'
    first, _, inner = key.partition('.')
    return f'{first}=dict({inner}={value!r})' if inner else f'{first}={value!r}'


def nearest(name: str, known: Iterable[str], *, otherwise: Iterable[str] = ()) -> str:
    """Return '; did you mean X?', or '; there are A, B' of ``otherwise``; '' without either."""
    known = sorted(set(known))
    if RENAMED.get(name) in known:
        return f'; it is {RENAMED[name]} now'
    close = difflib.get_close_matches(name, known, n=1, cutoff=ALIKE)
    if close:
        return f'; did you mean {close[0]}?'
    listed = ', '.join(sorted(map(str, otherwise)))
    return f'; there are {short_list(listed)}' if listed else ''


def short_list(text: str, limit: int = 250) -> str:
    """Return a list of names, or its beginning."""
    return text if len(text) <= limit else f'{text[:limit].rpartition(",")[0]}, ...'


def short(value: Any, limit: int = 80) -> str:
    """Return a value's repr, shortened."""
    shown = repr(value)
    return shown if len(shown) <= limit else f'{shown[:limit]}...'


def unregistered(kind: Any, known: Iterable[str]) -> str:
    """Return the message about a ``type`` that no registry has, with the nearest names."""
    known, shown = sorted(set(known)), short(kind)
    for entry in entry_points(group=COMPONENTS, name=str(kind).removeprefix('mmvtr.')):
        home = f"{entry.module} has it: custom_imports=dict(imports=['{entry.module}'])"
        return f'nothing is registered as {shown}; {home}'
    near = ', '.join(difflib.get_close_matches(str(kind), known, n=3, cutoff=0.3))
    advice = "a part of your own needs custom_imports=dict(imports=['its.module'])"
    far = f'; the nearest are {near}; {advice}' if near else f'; {advice}'
    alike = nearest(str(kind), known) or far
    return f'nothing is registered as {shown}{alike}'
