"""Files of configs: their bases and their tables, and that any OpenMMLab tool reads them."""

from __future__ import annotations

import re
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
import yaml
from mmengine.config import Config

from children import ROOT
from mmvtr.utils import config_names


def test_every_base_is_there():
    for path in (ROOT / 'configs').rglob('*.py'):
        found = re.search(r'^_base_ = (\[.*?\])', path.read_text(), flags=re.DOTALL | re.MULTILINE)
        for name in re.findall(r"'([^']+)'", found[1]) if found else ():
            assert name.startswith('mmvtr::') or (path.parent / name).is_file(), f'{path}: {name}'


def test_bases_that_bring_the_runtime_have_all_of_it():
    """A schedule with the runtime in it is a file less to read; what it says of it is the same."""
    runtime = Config.fromfile(ROOT / 'configs/_base_/default_runtime.py')
    for name in ('schedule_planted', 'schedule_clip_5e', 'prvr'):
        schedule = Config.fromfile(ROOT / f'configs/_base_/{name}.py')
        assert schedule.keys() >= runtime.keys(), name
        hooks = {part: hook['type'] for part, hook in schedule['default_hooks'].items()}
        assert hooks == {part: hook['type'] for part, hook in runtime['default_hooks'].items()}
        assert {'train_cfg', 'optim_wrapper', 'param_scheduler'} <= set(schedule)


def spelt_out(pattern):
    """``'a_{b,c}'`` -> ``['a_b', 'a_c']``."""
    parts = [part.split(',') for part in re.split('[{}]', pattern)]
    return [''.join(choice) for choice in product(*parts)]


def test_the_index_has_each_config_once():
    """Of configs/README.md, those that no folder has."""
    rows = (ROOT / 'configs/README.md').read_text().split('\n|---')[1].splitlines()[1:]
    cells = [re.findall('`([^`]+)`', row.split('|')[2]) for row in rows]
    names = sorted(name for cell in cells for one in cell for name in spelt_out(one))
    found = sorted(path.stem for path in (ROOT / 'configs').glob('*.py'))
    missing, gone = sorted({*found} - {*names}), sorted({*names} - {*found})
    assert not missing, f'add {", ".join(missing)} to configs/README.md'
    assert not gone, f'configs/README.md names {", ".join(gone)}, which configs/ does not have'
    assert names == found, 'configs/README.md has a config twice'


FOLDERS = sorted(path.parent for path in (ROOT / 'configs').glob('*/metafile.yml'))


@pytest.mark.parametrize('folder', FOLDERS, ids=lambda path: path.name)
def test_the_table_of_a_folder_has_its_variants_and_the_rows_of_its_metafile(folder):
    text = (folder / 'README.md').read_text()
    listed = re.findall(r'^\| \[`(\w+)`\]\((\S+)\)', text, flags=re.MULTILINE)
    models = yaml.safe_load((folder / 'metafile.yml').read_text())['Models']
    rows = {model['Name'] for model in models} | {path.stem for path in folder.glob('*.py')}
    names = {name for name, _ in listed}
    assert not rows - names, f'add {sorted(rows - names)} to {folder.name}/README.md'
    assert not names - rows, f'{folder.name}/README.md names {sorted(names - rows)}: no such config'
    assert len(names) == len(listed), f'{folder.name}/README.md has a config twice'
    for name, file in listed:
        assert Path(file).stem == name and (folder / file).is_file(), f'{folder}: {file}'


def test_every_folder_of_variants_has_a_metafile_and_each_name_is_one_file():
    files = [path for path in (ROOT / 'configs').rglob('*.py')]
    files = [path for path in files if path.parent.name not in ('_base_', 'studies')]
    assert sorted(path.stem for path in files) == config_names()
    folders = {path.parent for path in files} - {ROOT / 'configs'}
    assert folders <= set(FOLDERS)


def test_plain_mmengine_reads_every_config():
    """Before mmvtr is imported, and without a trace of it."""
    code = """
import sys
from pathlib import Path
from mmengine.config import Config
for path in map(Path, sys.argv[1:]):
    Config.fromfile(path, import_custom_modules=False)
assert not [name for name in sys.modules if name.split('.')[0] == 'mmvtr']
"""
    files = sorted((ROOT / 'configs').rglob('*.py'))
    subprocess.run([sys.executable, '-c', code, *map(str, files)], check=True)
