"""docs/reproduce/: every command is one that the tools take, every number the metafiles'."""

import re
import runpy
import shlex
import sys

import pytest
import yaml

from children import ROOT
from mmvtr.engine.config_checks import check_config
from mmvtr.sweeps import sweep_names
from mmvtr.utils import load_config

PAGES = {path.stem: path.read_text() for path in sorted((ROOT / 'docs/reproduce').glob('*.md'))}
PAPERS = ('dvtr', 'ncl', 'uatvr', 'arl', 'causal')
BLOCK = re.compile(r'^```bash\n(.*?)^```', flags=re.DOTALL | re.MULTILINE)
ROW = re.compile(r'^\| `(\w+)\.py` \| (.+?) \| (.+?) \|$', flags=re.MULTILINE)


def commands(page):
    """Words of each command that runs a tool."""
    lines = '\n'.join(BLOCK.findall(page)).replace('\\\n', ' ').splitlines()
    found = [shlex.split(line, comments=True) for line in lines if ' tools/' in line]
    return [words for words in found if words]


COMMANDS = sorted({tuple(words) for page in PAGES.values() for words in commands(page)})
REPORTED = {
    model['Name']: [m for m in model['Results'][0]['Metrics'].values() if isinstance(m, dict)]
    for path in sorted((ROOT / 'configs/metafiles').glob('*.yml'))
    for model in yaml.safe_load(path.read_text())['Models']
}


def parsed(words, tools, monkeypatch):
    """The tool's file name and its arguments, as its own parser reads them."""
    program, file, *given = words
    assert (ROOT / file).is_file(), file
    if program == 'bash':  # tools/dist_train.sh CONFIG GPUS ...
        assert file == 'tools/dist_train.sh' and given[1].isdigit()
        file, given = 'tools/train.py', [given[0], *given[2:]]
    if file not in tools:
        tools[file] = runpy.run_path(str(ROOT / file))
    monkeypatch.setattr(sys, 'argv', [file, *given])
    return file, tools[file]['parse_args']()


@pytest.fixture(scope='module')
def tools():
    return {}


@pytest.mark.parametrize('words', COMMANDS, ids=' '.join)
def test_every_command_is_read_by_its_tool(words, tools, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file, args = parsed(words, tools, monkeypatch)
    for word in words:
        if word.startswith('configs/'):
            assert (ROOT / word).is_file(), word
    if file == 'tools/sweep.py':
        assert args.sweep in sweep_names()
    elif getattr(args, 'config', None) and getattr(args, 'cfg_options', None):
        cfg = load_config(str(ROOT / args.config), args.cfg_options)
        check_config(cfg, args.cfg_options)


def test_a_command_that_is_none_is_found(tools, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for line in ('python tools/train.py configs/x.py --nothing', 'python tools/test.py'):
        with pytest.raises(SystemExit):
            parsed(line.split(), tools, monkeypatch)
    with pytest.raises(AssertionError):
        parsed('python tools/none.py configs/x.py'.split(), tools, monkeypatch)


@pytest.mark.parametrize('name', PAPERS)
def test_numbers_are_the_metafiles(name):
    rows = ROW.findall(PAGES[name])
    assert len(rows) >= 6
    for config, reported, hours in rows:
        assert (ROOT / f'configs/{config}.py').is_file()
        pairs = [part.rpartition(' ')[::2] for part in reported.split(', ')]
        stated = {key: float(value) for key, value in pairs}
        assert any(stated.items() <= known.items() for known in REPORTED[config]), config
        assert 0 < float(hours.removeprefix('under ')) < 1000


@pytest.mark.parametrize('name', PAPERS)
def test_a_page_has_files_one_block_and_numbers(name):
    page = PAGES[name]
    assert re.findall(r'^## (.+)', page, flags=re.MULTILINE) == [
        'Files',
        'Commands',
        "The paper's numbers",
    ]
    (block,) = BLOCK.findall(page)
    assert block.startswith('git clone ') and 'tools/preflight.py' in block and '# prints' in block
    assert len(page.split()) < 900
    assert f'<{name}>' in PAGES['index']


def test_sources_say_where_and_how_sure():
    page = PAGES['sources']
    assert page.count('http') > 30 and 'none was opened here' in page
    sums = re.findall(r'`([0-9a-f]{30,})`', page)
    assert len(sums) > 15 and {len(found) for found in sums} == {40, 64}
    assert 'zenodo.org/records/11351375' in page and '11351375' in PAGES['causal']


def test_links_lead_to_headings():
    slugs = {
        heading.lower().replace(' ', '-')
        for heading in re.findall(r'^## (.+)', PAGES['sources'], flags=re.MULTILINE)
    }
    named = {link for page in PAGES.values() for link in re.findall(r'sources\.md#([\w-]+)', page)}
    assert named and named <= slugs
