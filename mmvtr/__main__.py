"""Run a tool of the package by its name: ``mmvtr train own_clip4clip``.

The same as ``python -m mmvtr train``, and as ``python tools/train.py`` in a checkout, wherever the
package is installed.  Other distributions add tools by the entry points ``mmvtr.commands``, whose
values are modules that run as scripts.
"""

from __future__ import annotations

import ast
import difflib
import runpy
import sys
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from mmvtr.command_line import tool
from mmvtr.utils import tool_folder

USAGE = 'mmvtr TOOL ...         mmvtr TOOL --help         mmvtr --version'
#: Tools of the distribution mmvtr-gallery.
OF_GALLERY = ('export_index', 'export_onnx', 'extract_features', 'find_moments', 'search', 'serve')


def tools() -> dict[str, Path]:
    """Name -> file, but for benchmark/, whose tools belong to a checkout."""
    folder = tool_folder()
    files = [p for p in folder.rglob('*.py') if p.relative_to(folder).parts[0] != 'benchmark']
    specs = {entry.name: find_spec(entry.module) for entry in entry_points(group='mmvtr.commands')}
    added = {name: Path(spec.origin) for name, spec in specs.items() if spec and spec.origin}
    return dict(sorted({**added, **{path.stem: path for path in files}}.items()))


def overview() -> str:
    """A line for each tool: its name, and the first one of what its file says of itself."""
    says = {name: ast.get_docstring(ast.parse(path.read_text())) for name, path in tools().items()}
    lines = [f'  {name:16} {text.partition(chr(10))[0]}' for name, text in says.items()]
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
    if name not in known and name in OF_GALLERY:
        raise SystemExit(
            f'error: mmvtr {name} comes with mmvtr-gallery; in a checkout of mmvtr: '
            'pip install -e projects/gallery'
        )
    if name not in known:
        near = difflib.get_close_matches(name, known, n=3)
        hint = f'near it: {", ".join(near)}' if near else 'mmvtr alone lists them'
        raise SystemExit(f'error: mmvtr has no tool {name[:80]!r}; {hint}')
    sys.argv[:2] = [str(known[name])]
    runpy.run_path(sys.argv[0], run_name='__main__')


if __name__ == '__main__':
    main()
