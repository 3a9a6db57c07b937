"""How an option is written where the user is: on the command line, or in Python."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

#: Where the command-line tools are: in a wheel, and in a checkout.
TOOLS = [Path(__file__).parent / '.mim/tools', Path(__file__).parents[1] / 'tools']


def on_command_line() -> bool:
    """Whether this process is one of the package's tools."""
    file = getattr(sys.modules.get('__main__'), '__file__', None)
    if file is None:
        return False
    gallery = find_spec('mmvtr_gallery')
    places = (gallery.submodule_search_locations if gallery else None) or ()
    folders = [*TOOLS, *(Path(place, 'commands') for place in places)]
    return any(folder in Path(file).absolute().parents for folder in folders)


def option(key: str, value: Any, *, prefix: str = '') -> str:
    """An option of a dataset with its value, to be typed as it is.

    Args:
        key: with a dot for what lies inside of another: ``'on_broken.skip'``.
        value: a name, a file or a number.
        prefix: of the key in a config, for the command line: ``'test_dataloader.dataset.'``.

    Returns:
        ``test_dataloader.dataset.on_broken.skip=FILE`` for a tool, else
        ``on_broken=dict(skip='FILE')``.
    """
    if on_command_line():
        return f'{prefix}{key}={value}'
    first, _, inner = key.partition('.')
    return f'{first}=dict({inner}={value!r})' if inner else f'{first}={value!r}'
