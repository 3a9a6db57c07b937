"""Run a tool of the package by its name: ``mmvtr train own_clip4clip``.

Equivalent to ``python -m mmvtr train`` wherever the package is installed, and to ``python
tools/train.py`` in a checkout.  Other distributions add tools through the entry point group
``mmvtr.commands``, whose values are modules that run as scripts.
"""

from __future__ import annotations

import ast
import difflib
import runpy
import sys
from contextlib import suppress
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from mmvtr.utils import tool_folder

USAGE = 'mmvtr TOOL ...         mmvtr TOOL --help         mmvtr --version'


def tools() -> dict[str, Path]:
    """Return tool name -> file; tools in benchmark/ are left out, as they need a checkout."""
    folder = tool_folder()
    files = [
        p for p in (*folder.glob('*.py'), *folder.glob('*/*.py')) if p.parent.name != 'benchmark'
    ]
    added = {}
    for entry in entry_points(group='mmvtr.commands'):
        with suppress(ModuleNotFoundError):  # its package is gone
            if (spec := find_spec(entry.module)) and spec.origin:
                added[entry.name] = Path(spec.origin)
    return dict(sorted({**added, **{path.stem: path for path in files}}.items()))


def overview() -> str:
    """Return one line per tool: its name and the first line of its module docstring."""
    says = {name: ast.get_docstring(ast.parse(path.read_text())) for name, path in tools().items()}
    lines = [f'  {name:16} {(text or "").partition(chr(10))[0]}' for name, text in says.items()]
    return '\n'.join([USAGE, '', *lines])


def main() -> None:
    name = (sys.argv[1:] or ['--help'])[0]
    if name == '--version':
        print('mmvtr', import_module('mmvtr').__version__)  # the package itself imports nothing
        return
    paths = tools()
    if name in ('-h', '--help'):
        print(overview())
        return
    if name not in paths:
        near = difflib.get_close_matches(name, paths, n=3)
        hint = f'near it: {", ".join(near)}' if near else 'mmvtr alone lists those installed here'
        raise SystemExit(f'error: mmvtr has no tool {name[:80]!r}; {hint}')
    sys.argv[:2] = [str(paths[name])]
    sys.path.insert(0, str(paths[name].parent))  # as Python does for a script
    runpy.run_path(sys.argv[0], run_name='__main__')


if __name__ == '__main__':
    main()
