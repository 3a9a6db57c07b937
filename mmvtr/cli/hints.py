"""Spelling of options in error messages, for the command line or Python, and nearest names."""

from __future__ import annotations

import difflib
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Iterable

#: Minimum similarity of two names for one to count as a typo of the other.
ALIKE = 0.75
#: Former names of components and arguments, which configs of earlier runs may have.
RENAMED = dict(
    Belief='EarlyTeacher',
    CrossFittedBelief='CrossFittedTeachers',
    belief='teacher',
    spared_by='combine',
)

#: Components of the gallery's distribution: the modules that register them.
GALLERY = dict.fromkeys(('LoadClips', 'TorchvisionClips'), 'mmvtr_gallery.clips')
GALLERY['RemoteEncoder'] = 'mmvtr_gallery.remote'
#: Folders of the command-line tools: in a wheel, and in a checkout.
TOOLS = [Path(__file__).parents[1] / '.mim/tools']
TOOLS += [Path(__file__).parents[2] / name for name in ('tools', 'projects/lab')]


def on_command_line() -> bool:
    """Return whether this process is one of the package's tools."""
    file = getattr(sys.modules.get('__main__'), '__file__', None)
    if file is None:
        return False
    gallery = find_spec('mmvtr_gallery')
    places = (gallery.submodule_search_locations if gallery else None) or ()
    folders = [*TOOLS, *(Path(place, 'commands') for place in places)]
    return any(folder in Path(file).absolute().parents for folder in folders)


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
    found = difflib.get_close_matches(name, known, n=1, cutoff=ALIKE)
    if found:
        return f'; did you mean {found[0]}?'
    listed = ', '.join(sorted(map(str, otherwise)))
    return f'; there are {short_list(listed)}' if listed else ''


def short_list(text: str, limit: int = 250) -> str:
    """Return a list of names, or its beginning."""
    return text if len(text) <= limit else f'{text[:limit].rpartition(",")[0]}, ...'


def unregistered(kind: Any, known: Iterable[str]) -> str:
    """Return the message about a ``type`` that no registry has, with the nearest names."""
    known = sorted(set(known))
    shown = repr(kind)
    shown = shown if len(shown) <= 80 else f'{shown[:80]}...'
    home = GALLERY.get(str(kind).removeprefix('mmvtr.'))
    if home:
        return (
            f'nothing is registered as {shown}; {home} has it: '
            f"custom_imports=dict(imports=['{home}'])"
        )
    near = ', '.join(difflib.get_close_matches(str(kind), known, n=3, cutoff=0.3))
    alike = nearest(str(kind), known) or (f'; the nearest are {near}' if near else '')
    return f'nothing is registered as {shown}{alike}'
