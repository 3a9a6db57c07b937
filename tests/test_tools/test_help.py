"""``--help`` of every tool: what it does, an example, and words on each argument."""

import ast
import io
import re
import runpy
import sys
from contextlib import redirect_stdout

import pytest

from children import ROOT, in_child

TOOLS = [p for folder in ('', '*/') for p in (ROOT / 'tools').glob(f'{folder}*.py')]
TOOLS = sorted(p for p in TOOLS if 'benchmark' not in p.parts)
TOOLS += [p for p in sorted((ROOT / 'projects/lab').glob('*.py')) if '@tool\n' in p.read_text()]


def ask_all() -> None:
    """Ask every tool for help; the first that says too little ends this."""
    for path in TOOLS:
        sys.argv = [str(path), '--help']
        printed = io.StringIO()
        with redirect_stdout(printed):
            try:
                runpy.run_path(str(path), run_name='__main__')
                raise AssertionError(f'{path}: --help went on')
            except SystemExit as end:
                assert not end.code, f'{path}: status {end.code}'
        usage, _, words = printed.getvalue().partition('\n\n')
        does = ast.get_docstring(ast.parse(path.read_text())).splitlines()[0]
        assert usage.startswith(f'usage: {path.name} '), f'{path}: {usage}'
        assert words.startswith(does + '\n'), f'{path}: {words[:200]}'
        example = rf'\n *python {path.relative_to(ROOT)} '
        assert re.search(example, words), f'{path}: no example'
        print(path.stem)


def test_every_tool_answers(tmp_path):
    log = tmp_path / 'log.txt'
    assert in_child(log, ask_all) == 0, log.read_text()
    assert log.read_text().split() == [path.stem for path in TOOLS]


def arguments(path):
    """``option, keywords`` of each argument of a tool, read from its source."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ('add', 'parser.add_argument'):
            yield node.args[0].value, {one.arg: one.value for one in node.keywords}


def faults(path) -> list[str]:
    wrong = []
    for option, given in arguments(path):
        words = ast.unparse(given['help']) if 'help' in given else ''
        default = ast.unparse(given['default']) if 'default' in given else 'None'
        optional = option.startswith('--') and option != '--local_rank'
        if not words:
            wrong.append(f'{option}: no help')
        elif optional and default not in ('None', '[]', '{}') and 'default' not in words:
            wrong.append(f'{option}: a default, {default}, of which its help is silent')
    return wrong


@pytest.mark.parametrize(
    'path', [path for path in TOOLS if path.stem != 'launch'], ids=lambda path: path.stem
)  # launch.py's are torchrun's
def test_each_argument_is_explained(path):
    assert not faults(path) and list(arguments(path))


def test_what_is_not_explained_is_found(tmp_path):
    path = tmp_path / 'tool.py'
    path.write_text(
        "add('x')\nadd('--k', default=5, help='videos')\nadd('--c', default={}, help='y')"
    )
    assert [re.sub(':.*', '', fault) for fault in faults(path)] == ['x', '--k']
