"""The project from a wheel: its files, its configs by name, and docs/downstream.md."""

import re
import subprocess
import sys
import tarfile
import zipfile

import pytest
from mmengine.config import Config
from mmengine.hub import get_config

from children import ROOT
from installation import build_wheel, copy_sources
from mmvtr import registry  # noqa: F401 - now mmengine knows mmvtr::

#: The project with a scope; before it test_downstream.py, after it test_integrations.py.
PAGE = (ROOT / 'docs/downstream.md').read_text().split('## A scope of your own')[1]
PAGE = PAGE.split('## Our loss in your model')[0]

NAMES = """
import sys
from mmengine.hub import get_config

try:
    get_config('mmvtr::_base_/c2v_tiny.py')
except AssertionError as error:
    print('before:', error)
import mmvtr.registry

print(mmvtr.__file__)
for name in sys.argv[1:]:
    cfg = get_config(f'mmvtr::{name}.py')
    print(cfg.filename, cfg.model.type)
"""


def test_files_of_the_wheel(installed):
    """Configs, users' tools and the index, as OpenMMLab's packages have them; nothing beside."""
    for folder in ('configs', 'tools'):
        suffixes = {'.py', '.sh', '.yml'}
        files = {p.relative_to(ROOT) for p in (ROOT / folder).rglob('*') if p.suffix in suffixes}
        found = {p.relative_to(installed.mim) for p in (installed.mim / folder).rglob('*.*')}
        assert found == {path for path in files if path.parts[:2] != ('tools', 'benchmark')}
    assert (installed.mim / 'model-index.yml').read_text() == (ROOT / 'model-index.yml').read_text()
    assert not [path for path in installed.site.rglob('*') if path.is_symlink()]
    assert {p.name for p in installed.site.iterdir()} <= {'mmvtr', 'bin'} | {
        p.name for p in installed.site.glob('mmvtr-*.dist-info')
    }


def test_the_command(installed, tmp_path):
    """`mmvtr` beside `python`, which needs no torch to tell its version."""
    script = installed.site / 'bin' / 'mmvtr'
    assert script.is_file()
    assert installed.run(tmp_path, sys.executable, script, '--version').split()[0] == 'mmvtr'
    assert 'train ' in installed.run(tmp_path, sys.executable, script)


def test_links_of_a_checkout():
    for name in ('configs', 'tools', 'model-index.yml'):
        link = ROOT / 'mmvtr' / '.mim' / name
        assert link.is_symlink() and not link.readlink().is_absolute()
        assert link.samefile(ROOT / name)


@pytest.mark.nightly
def test_a_source_distribution_gives_the_same_wheel(installed, tmp_path):
    sources = copy_sources(tmp_path / 'sources')
    code = f'import setuptools.build_meta as b; b.build_sdist({str(tmp_path)!r})'
    subprocess.run([sys.executable, '-c', code], cwd=sources, check=True, capture_output=True)
    (archive,) = tmp_path.glob('*.tar.gz')
    with tarfile.open(archive) as file:
        file.extractall(tmp_path, filter='data')
    unpacked = tmp_path / archive.name.removesuffix('.tar.gz')
    wheels = installed.wheel, build_wheel(unpacked, tmp_path / 'wheel')
    first, second = (set(zipfile.ZipFile(wheel).namelist()) for wheel in wheels)
    assert first == second


def test_names_of_mmengines_hub(installed, tmp_path):
    """From a wheel: real, planted and base configs, by mmengine's own way, which has to know us."""
    names = (
        *('_base_/../dvtr_c2v_planted', 'dvtr/dvtr_c2v_msrvtt_triplet', '_base_/c2v_tiny'),
        'causal/causal_hgr_epic_ran',
    )
    printed = installed.run(tmp_path, 'python', '-c', NAMES, *names).splitlines()
    told = ('before', str(installed.site))
    before, module, *found = [line for line in printed if line.startswith(told)]
    assert before == 'before: mmengine does not support to load mmvtr config.'
    assert module == str(installed.site / 'mmvtr' / '__init__.py')
    kinds = ('VideoTextRetriever',) * 3 + ('BackdoorRetriever',)
    assert found == [
        f'{installed.mim}/configs/{name}.py mmvtr.{kind}' for name, kind in zip(names, kinds)
    ]


def test_names_in_a_checkout(tmp_path):
    """As of an editable install: by way of the links, also with values of the base."""
    own = get_config('mmvtr::_base_/../dvtr_c2v_planted.py')
    assert own.to_dict() == Config.fromfile(ROOT / 'configs/dvtr_c2v_planted.py').to_dict()
    path = tmp_path / 'mine.py'
    path.write_text(
        "_base_ = ['mmvtr::_base_/causal.py', 'mmvtr::_base_/../c2v_planted.py']\n"
        "model = dict(_delete_=True, type='mmvtr.BackdoorRetriever', member=_base_.model)\n"
        'batch = {{_base_.train_dataloader.batch_size}}\n'
    )
    cfg = Config.fromfile(path)
    assert cfg.model.member.encoder.type == 'CLIP2Video' and cfg.batch == 64
    with pytest.raises(FileNotFoundError, match=r'configs/_base_/nothing\.py'):
        get_config('mmvtr::_base_/nothing.py')
    with pytest.raises(AssertionError, match='does not support to load mmnone config'):
        get_config('mmnone::_base_/nothing.py')


@pytest.mark.nightly
def test_the_project_of_the_page_trains(installed, tmp_path):
    """A scope, a base config and a loss of its own: two processes, then our tool."""
    blocks = dict(re.findall(r'```python\n# (\S+\.py)\n(.*?)```', PAGE, flags=re.DOTALL))
    assert len(blocks) == PAGE.count('```python') == 5
    for name, source in blocks.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(source)
    lines = ''.join(re.findall(r'```bash\n(.*?)```', PAGE, flags=re.DOTALL)).splitlines()
    plain, tool = (installed.run(tmp_path, 'bash', '-c', line) for line in lines)
    for printed, folder in ((plain, 'mine'), (tool, 'squared')):
        assert 'loss_squared' in printed and 'rsum' in printed
        assert 'batch 24 (2 x 12)' in plain or printed is tool
        assert (tmp_path / 'work_dirs' / folder / 'best.pth').is_file()
    assert 'Testing the weights of' in tool
    # What was dumped is read again, without the wheel's configs.
    dumped = Config.fromfile(tmp_path / 'work_dirs/mine/squared.py')
    assert dumped.default_scope == 'mine' and dumped.model.losses.squared.type == 'SquaredLoss'
