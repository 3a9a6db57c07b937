"""Importing mmvtr costs nothing, and functional/ depends on torch alone."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mmvtr
from children import ROOT, tool_file
from mmvtr.__main__ import tools
from tiny_sets import of_videos

PACKAGE = Path(mmvtr.__file__).parent
FUNCTIONAL = sorted((PACKAGE / 'functional').rglob('*.py'))


def modules_after(statement: str) -> set[str]:
    """Top-level modules that a fresh interpreter holds after a statement."""
    code = f'import sys; {statement}; print(*sorted({{m.split(".")[0] for m in sys.modules}}))'
    done = subprocess.run(
        [sys.executable, '-c', code], cwd=PACKAGE.parent, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


def test_import_is_free():
    assert not modules_after('import mmvtr') & {'torch', 'mmengine', 'mmcv', 'numpy'}


#: What only some models and tools use, and mmengine does not import anyway.
LARGE = {'open_clip', 'timm', 'scipy', 'sklearn'}
COMMANDS = """
import runpy, sys


def tool(name, *arguments):
    sys.argv = [name, *arguments]
    runpy.run_path(TOOLS[name], run_name='__main__')
    print(name, *(x for x in LARGE if x in sys.modules), file=sys.stderr)


tool('test.py', 'config.py', '--random-weights')
from mmvtr.apis import load_retriever
from mmvtr.storage import write_plain

model, _ = load_retriever('config.py', None, random_weights=True, device='cpu')
write_plain(dict(state_dict=model.state_dict()), 'bare.pth')
tool('export_index.py', 'config.py', 'bare.pth', '--out', 'gallery')
tool('search.py', 'gallery', 'a cat', '--config', 'config.py')
import mmvtr.apis.inferencer
import mmvtr_gallery.serving.app
print('all', *(x for x in LARGE if x in sys.modules), file=sys.stderr)
"""


def test_commands_import_no_large_library_that_they_do_not_use(tmp_path, write_video):
    """A test, an export, a search and a service of a model of our own towers."""
    loop = "test_cfg = dict(type='mmvtr.RetrievalLoop')\n"
    metric = "test_evaluator = dict(type='mmvtr.RetrievalMetric')\n"
    (tmp_path / 'config.py').write_text(of_videos('gh') + loop + metric)
    for grey, name in enumerate('gh'):
        write_video(tmp_path / f'{name}.mp4', [100 * grey, 9])
    pytest.importorskip('mmvtr_gallery', reason='pip install -e projects/gallery')
    files = {name: str(tool_file(name)) for name in ('test.py', 'export_index.py', 'search.py')}
    code = f'LARGE, TOOLS = {sorted(LARGE)}, {files}\n' + COMMANDS
    here = Path(__file__).parent
    folders = os.pathsep.join(map(str, (PACKAGE.parent, here, ROOT / 'projects/gallery')))
    done = subprocess.run(
        [sys.executable, '-c', code],
        cwd=tmp_path,
        env={**os.environ, 'PYTHONPATH': folders},
        capture_output=True,
        text=True,
    )
    assert not done.returncode, done.stderr
    said = [line.split() for line in done.stderr.splitlines()]
    said = {words[0]: words[1:] for words in said if words}
    for command in ('test.py', 'export_index.py', 'search.py', 'all'):
        assert said[command] == [], command


def test_no_torch_before_a_tool_begins():
    for module in ('mmvtr.utils', 'mmvtr.__main__', 'mmvtr.cli.start'):
        assert 'torch' not in modules_after(f'import {module}'), module


TOOLS = [
    path
    for folder in ('tools', 'projects')
    for path in sorted((ROOT / folder).rglob('*.py'))
    if '\n@tool\n' in path.read_text()
]
STARTS = """
import contextlib, io, os, runpy, sys


class BeforeTorch:
    def find_spec(self, name, path=None, target=None):
        if name == 'torch':
            raise KeyboardInterrupt(os.environ.get('GOMP_SPINCOUNT'))


sys.meta_path.insert(0, BeforeTorch())
for path in PATHS:
    sys.argv, sys.path[0] = [path, '--help'], os.path.dirname(path)
    sys.modules.pop('mmvtr.cli.start', None)
    os.environ.pop('GOMP_SPINCOUNT', None)
    os.environ.update(GIVEN)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            runpy.run_path(path, run_name='__main__')
    except KeyboardInterrupt as stopped:
        print(path, *stopped.args, 'torch')
    except SystemExit:
        print(path, os.environ.get('GOMP_SPINCOUNT'))
"""


@pytest.mark.parametrize('given, spins', [({}, '2000'), ({'GOMP_SPINCOUNT': '7'}, '7')])
def test_torch_starts_with_threads_that_soon_sleep(given, spins):
    """In each tool and command; torch reads the variable when it is loaded."""
    commands = {path.resolve() for path in tools().values()}
    assert {path for path in commands if ROOT in path.parents} <= {*TOOLS}
    code = f'PATHS, GIVEN = {[*map(str, TOOLS)]}, {given}\n' + STARTS
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    told = dict(line.split(' ', 1) for line in done.stdout.splitlines())
    assert [path for path in map(str, TOOLS) if told.get(path, '').split()[:1] != [spins]] == []
    assert sum(words.endswith('torch') for words in told.values()) > 10  # that load it at once


@pytest.mark.parametrize('path', FUNCTIONAL, ids=lambda path: path.name)
def test_functional_knows_only_torch_and_numpy(path):
    allowed = {'torch', 'numpy', 'mmvtr', *sys.stdlib_module_names}
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module]
        for name in names:
            assert name.split('.')[0] in allowed, f'{path.name} imports {name}'
            assert not name.startswith('mmvtr') or name.startswith('mmvtr.functional')


def test_version():
    """The same wherever it is told."""
    root = PACKAGE.parent
    assert mmvtr.__version__.count('.') == 2
    assert f'\nversion: {mmvtr.__version__}\n' in (root / 'CITATION.cff').read_text()
    latest = re.search(r'^## (\S+)', (root / 'CHANGELOG.md').read_text(), flags=re.MULTILINE)
    assert latest[1] == mmvtr.__version__
