"""Run a tool of the package by its name: ``mmvtr train own_clip4clip``.

The same as ``python -m mmvtr train``, and as ``python tools/train.py`` in a checkout, wherever the
package is installed.
"""

from __future__ import annotations

import ast
import difflib
import runpy
import sys
from importlib import import_module
from pathlib import Path

from mmvtr.command_line import tool
from mmvtr.utils import tool_folder

USAGE = 'mmvtr TOOL ...         mmvtr TOOL --help         mmvtr --version'


def tools() -> dict[str, Path]:
    """Name -> file, but for benchmark/, whose tools belong to a checkout."""
    folder = tool_folder()
    files = sorted(folder.rglob('*.py'))
    return {p.stem: p for p in files if p.relative_to(folder).parts[0] != 'benchmark'}


def overview() -> str:
    """A line for each tool: its name, and the first one of what its file says of itself."""
    says = {name: ast.get_docstring(ast.parse(path.read_text())) for name, path in tools().items()}
    lines = [f'  {name:16} {text.partition(chr(10))[0]}' for name, text in sorted(says.items())]
    return '\n'.join([USAGE, '', *lines])


@tool
def main() -> None:
    name = (sys.argv[1:] or ['--help'])[0]
    if name == '--version':
        print('mmvtr', import_module('mmvtr').__version__)  # the package itself has no floor
        return
    known = tools()
    if name in ('-h', '--help'):
        print(overview())
        return
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3)
        hint = f'near it: {", ".join(near)}' if near else 'mmvtr alone lists them'
        raise SystemExit(f'error: mmvtr has no tool {name[:80]!r}; {hint}')
    sys.argv[:2] = [str(known[name])]
    runpy.run_path(sys.argv[0], run_name='__main__')


if __name__ == '__main__':
    main()
