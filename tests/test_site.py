"""The site: no warning, and its reference lacks no module that a user may import."""

import re
import subprocess
import sys

import pytest

from children import ROOT

#: What the reference leaves out: set-up, tools by name, work that other rooms offer.
INSIDE = {'__init__', '__main__'}
ROOMS = dict(
    functional=['functional'],
    models=['models'],
    datasets=['datasets'],
    evaluation=['evaluation'],
    engine=['engine'],
    users=[
        'apis', 'extraction', 'figures', 'index', 'inferencer', 'mteb_model', 'onnx_export',
        'pretrained', 'store', 'utils',
    ],
)  # fmt: skip


@pytest.mark.parametrize('page', ROOMS)
def test_the_reference_is_whole(page):
    found = re.findall(r'automodule:: (\S+)', (ROOT / f'docs/api/{page}.md').read_text())
    expected = []
    for room in ROOMS[page]:
        place = ROOT / 'mmvtr' / room
        files = place.rglob('*.py') if place.is_dir() else [place.with_suffix('.py')]
        names = [file.relative_to(ROOT).with_suffix('') for file in files]
        expected += ['.'.join(name.parts) for name in names if name.name not in INSIDE]
    assert sorted(found) == sorted(expected)


def test_every_page_is_in_the_menu():
    menu = (ROOT / 'docs/index.md').read_text()
    pages = {path.stem for path in (ROOT / 'docs').glob('*.md')} - {'index'}
    listed = {line for line in menu.splitlines() if re.fullmatch(r'\w+', line)}
    assert listed == pages


@pytest.mark.nightly
def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip('sphinx', reason="the site is an extra: pip install -e '.[docs]'")
    command = [sys.executable, '-m', 'sphinx', '-W', '--keep-going', '-q', 'docs', str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr[-3000:]
    assert 'Does debiasing debias' in (tmp_path / 'index.html').read_text()
