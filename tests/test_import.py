"""Importing mmvtr costs nothing, and functional/ depends on torch alone."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mmvtr

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


@pytest.mark.parametrize('room', ['utils; mmvtr.utils.register_all_modules()', 'apis'])
def test_large_libraries_wait_for_a_model_that_needs_them(room):
    loaded = modules_after(f'import mmvtr.{room}')
    assert 'torch' in loaded and not loaded & {'open_clip', 'transformers', 'timm'}


def test_adafactor_is_transformers_own():
    build = 'OPTIMIZERS.build(dict(type="Adafactor", params=[torch.nn.Parameter(torch.ones(2))]))'
    code = (
        'import torch, mmvtr.engine; from mmengine.registry import OPTIMIZERS; import sys;'
        f'assert "transformers" not in sys.modules; made = {build}; import transformers;'
        'assert isinstance(made, transformers.Adafactor)'
    )
    assert 'transformers' in modules_after(code)


def test_tools_read_a_config_without_torch():
    assert 'torch' not in modules_after('import mmvtr.utils')


@pytest.mark.parametrize('path', FUNCTIONAL, ids=lambda path: path.name)
def test_functional_knows_only_torch(path):
    allowed = {'torch', 'mmvtr', *sys.stdlib_module_names}
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
