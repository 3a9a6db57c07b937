"""docs/tutorials/: blocks run in the order of their page, and print what stands below them.

Of the quick pages the Python blocks run by default; with their commands, and the others, at night.
"""

import contextlib
import io
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from children import ROOT
from mmvtr.functional.transforms.transform import TRANSFORMS
from mmvtr.registry import HOOKS, METRICS, MODELS
from mmvtr.utils import register_all_modules

FOLDER = ROOT / 'docs/tutorials'
#: Name -> file.
PAGES = {path.stem: path for path in FOLDER.glob('*.md') if path.stem != 'index'}
PAGES['serve_a_gallery'] = ROOT / 'projects/gallery/docs/serve_a_gallery.md'
#: Kind, text, and how far printed numbers may lie (in what stands before the block).
BLOCK = re.compile(
    r'(?:<!-- numbers within (?P<slack>[\d.]+) -->\n)?'
    r'```(?P<kind>python|bash|text)\n(?P<text>.*?)```\n',
    flags=re.DOTALL,
)
#: First line of a Python block that is a file.
FILE = re.compile(r'# (\S+\.py)\n')
ASSIGNED = re.compile(r'^\w+=(?:"[^"]*"|\S+)$', flags=re.MULTILINE)
NUMBER = re.compile(r'[-+]?\d+(?:\.\d+)?')
QUICK = ('add_a_part', 'plain_pytorch')
LONG = ('first_training', 'many_gpus', 'own_clips', 'serve_a_gallery')


def run_page(name, folder, *, commands):
    """Run the blocks of a page in ``folder``; ``commands``: those of bash, too.

    Returns:
        how many outputs were compared.
    """
    names, shell, printed, compared = {'__name__': name}, '', None, 0
    for block in BLOCK.finditer(PAGES[name].read_text()):
        kind, text = block['kind'], block['text']
        if kind == 'text':
            if printed is not None:
                compare(printed, text, float(block['slack'] or 0))
                compared += 1
            printed = None
        elif kind == 'bash':
            printed = run_command(shell + text, folder) if commands else None
            shell += ''.join(f'{line}\n' for line in ASSIGNED.findall(text))  # as in one terminal
        elif FILE.match(text):
            path = folder / FILE.match(text)[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        else:
            stream = io.StringIO()
            with contextlib.redirect_stdout(stream):
                exec(compile(text, f'docs/tutorials/{name}.md', 'exec'), names)
            printed = stream.getvalue()
    return compared


def run_command(text, folder):
    """What the lines of a block print to stdout, in the environment of this Python."""
    path = f'{Path(sys.executable).parent}{os.pathsep}{os.environ["PATH"]}'
    done = subprocess.run(
        ['bash', '-euo', 'pipefail', '-c', text],
        cwd=folder,
        env={**os.environ, 'PATH': path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f'{text}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}'
    return done.stdout


def compare(printed, shown, slack):
    """Equal but for white space, and for numbers that lie within ``slack``.

    ``...`` stands for what else was printed, before or behind.
    """
    lines, found = shown.strip().splitlines(), printed.strip().splitlines()
    before, after = (lines[x] == '...' for x in (0, -1))
    lines = lines[before : len(lines) - after]
    assert lines, 'nothing is shown'
    more = len(found) - len(lines)
    assert more == 0 or (more > 0 and (before or after)), f'printed:\n{printed}'
    places = range(more + 1) if before and after else [more if before else 0]
    matches = (alike(found[x : x + len(lines)], lines, slack) for x in places)
    assert any(matches), f'printed:\n{printed}\nshown:\n{shown}'


def alike(found, lines, slack):
    """Whether lines are those that are shown."""
    for here, there in zip(found, lines):
        if not slack and here.split() != there.split():
            return False
        if NUMBER.sub('#', here).split() != NUMBER.sub('#', there).split():
            return False
        pairs = zip(NUMBER.findall(here), NUMBER.findall(there))
        if not all(math.isclose(float(a), float(b), abs_tol=slack) for a, b in pairs):
            return False
    return True


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    register_all_modules()
    transforms = dict(TRANSFORMS)
    for registry in (HOOKS, METRICS, MODELS):  # what a page registers is gone with it
        monkeypatch.setattr(registry, '_module_dict', dict(registry.module_dict))
    yield tmp_path
    for name in TRANSFORMS.keys() - transforms.keys():
        del TRANSFORMS[name]
    for name in [name for name in sys.modules if name.split('.')[0] == 'my_project']:
        del sys.modules[name]


def test_every_tutorial_is_run():
    assert PAGES.keys() == {*QUICK, *LONG}


@pytest.mark.parametrize('name', QUICK)
def test_quick_pages(name, folder):
    assert run_page(name, folder, commands=False)


@pytest.mark.nightly
@pytest.mark.parametrize('name', QUICK + LONG)
def test_pages_with_their_commands(name, folder):
    assert run_page(name, folder, commands=True)


@pytest.mark.parametrize(
    'printed, shown, slack',
    [
        ('R@1 50.0', 'R@1 49.0', 0.5),
        ('R@1 50.0', 'R@1 50.1', 0),
        ('R@1 50', 'R@5 50', 1),
        ('a\nb', 'a', 0),
        ('a\nb', '...\na', 0),
    ],
)
def test_what_differs_is_found(printed, shown, slack):
    with pytest.raises(AssertionError):
        compare(printed, shown, slack)


def test_the_readme_ends_as_the_tutorial():
    """Its sample output is lines of the tutorial's, in their order, which is what is printed."""
    (shown,) = re.findall(
        r'(?s)```text\n( +text to video\n +raw sinkhorn.*?)```', (ROOT / 'README.md').read_text()
    )
    tutorial = iter((FOLDER / 'first_training.md').read_text().splitlines())
    assert all(line in tutorial for line in shown.splitlines())
