"""The site: no warning, and its reference lacks no module that a user may import."""

import re
import runpy
import subprocess
import sys
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from children import ROOT
from mmvtr import functional

#: What the reference leaves out: what only other rooms use, and what only tools do.
INSIDE = {
    *(
        '__init__',
        '__main__',
        'adafactor',
        'command_line',
        'dist',
        'hints',
        'hub',
        'moved',
        'open_clip_configs',
    ),
    *('progress', 'reasons', 'registry', 'rehearsal', 'signals', 'storage', 'structures', 'sweeps'),
    *('values', 'video_models', 'visualization'),
}


def test_the_reference_is_whole(monkeypatch):
    """Each room has a page of the reference, or is named here; a page lists its rooms by itself."""
    extras = dict(docutils=dict(nodes=None), math_core=dict(LatexToMathML=MagicMock()))
    for name, content in extras.items():  # which only the site needs
        monkeypatch.setitem(sys.modules, name, SimpleNamespace(**content))
    conf = runpy.run_path(str(ROOT / 'docs/conf.py'))
    shown = []
    for path in (ROOT / 'docs/api').glob('*.md'):
        source = [path.read_text()]
        assert 'automodule' not in source[0]
        conf['set_reference'](None, f'api/{path.stem}', source)
        shown += re.findall(r'automodule:: (\S+)', source[0])
    rooms = {path.stem for path in (ROOT / 'mmvtr').glob('[a-z_]*') if path.suffix in ('', '.py')}
    assert len({*shown}) == len(shown) > 150
    assert {name.split('.')[1] for name in shown} == rooms - INSIDE - {'__pycache__'}
    folder = ROOT / 'mmvtr/functional'
    assert {f'mmvtr.functional.{x.parent.name}.{x.stem}' for x in folder.glob('*/[a-z]*.py')} <= {
        *shown
    }


def test_every_page_is_in_the_menu():
    inner = {'tutorials/index', 'api/index', 'reproduce/index'}
    folders = {'docs': inner, 'docs/tutorials': set(), 'docs/reproduce': set()}
    for folder, further in folders.items():
        menu = (ROOT / folder / 'index.md').read_text()
        pages = {path.stem for path in (ROOT / folder).glob('*.md')} - {'index'}
        trees = re.findall(r'```{toctree}\n(.*?)```', menu, flags=re.DOTALL)
        listed = re.findall(r'^(?:.* <)?([\w/]+)>?$', '\n'.join(trees), flags=re.MULTILINE)
        assert sorted(listed) == sorted(pages | further)


def test_every_function_has_its_equation():
    """But for records, and what makes no number."""
    page = (ROOT / 'docs/equations.md').read_text()
    found = re.findall(
        r'^### (\w+)\n\n(\S[^\n]*)\n\n\$\$\n.+?\n\$\$$', page, flags=re.DOTALL | re.M
    )
    named = {name: getattr(functional, name) for name in functional.__all__}
    records = {n for n, x in named.items() if isinstance(x, type) and issubclass(x, tuple)}
    assert sorted(name for name, _ in found) == sorted(named.keys() - records - {'as_tiles'})
    for name, source in found:
        kind = 'class' if isinstance(named[name], type) else 'func'
        assert source.endswith(f'{{py:{kind}}}`mmvtr.functional.{name}`'), name


@pytest.mark.nightly
def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip('sphinx', reason="the site is an extra: pip install -e '.[docs]'")
    command = [sys.executable, '-m', 'sphinx', '-W', '--keep-going', '-q', 'docs', str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr[-3000:]
    assert 'What to use when' in (tmp_path / 'index.html').read_text()
    for page in tmp_path.rglob('*.html'):
        text = page.read_text()
        assert not re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(?:https?:)?//', text), page
        assert not broken_links(tmp_path, page, text)
    reference = (tmp_path / 'api/functional.html').read_text()
    assert reference.count('<div class="equation"') > 100 and '<math' in reference


def broken_links(site, page, text):
    """Links of a page to pages, files or places of the site that are not there."""
    wrong = []
    for link in re.findall(r'href="([^"]*)"', text):
        target, _, place = link.partition('#')
        if re.match(r'[a-z]+:', target):
            continue
        file = (page.parent / target.split('?')[0]).resolve() if target else page
        if file.is_dir():
            file = file / 'index.html'
        if not file.is_file():
            wrong.append(link)
        elif place and file.suffix == '.html' and f'id="{place}"' not in file.read_text():
            wrong.append(link)
    return wrong
