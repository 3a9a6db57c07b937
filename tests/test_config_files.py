"""Bases of configs: each is there, and those that bring the runtime have all of it."""

from __future__ import annotations

import re
from itertools import product

from mmengine.config import Config

from children import ROOT
from mmvtr.presets import PRESET, read_config
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


INDEX = [
    [re.findall('`([^`]+)`', cell) for cell in line.split('|')[2:4]]
    for line in (ROOT / 'configs/README.md').read_text().splitlines()
    if line.startswith('| ') and '`' in line
]


def spelt_out(pattern):
    """``'a_{b,c}'`` -> ``['a_b', 'a_c']``."""
    parts = [part.split(',') for part in re.split('[{}]', pattern)]
    return [''.join(choice) for choice in product(*parts)]


def test_the_index_has_each_config_once():
    assert sorted(name for row, _ in INDEX for one in row for name in spelt_out(one)) == (
        config_names()
    )


def test_the_index_has_each_preset_at_its_configs():
    """But for those of the schedule, which half of the configs have."""
    left = {'adam', 'bert_adam', 'tau01'}
    every = set()
    for row, presets in INDEX:
        found = set()
        for name in (name for one in row for name in spelt_out(one)):
            keys = Config.fromfile(ROOT / f'configs/{name}.py')
            found |= {key.removeprefix(PRESET) for key in keys if key.startswith(PRESET)}
        assert set(presets) <= found, row
        every |= found
    assert every - left == {preset for _, presets in INDEX for preset in presets}


def test_several_presets_apply_in_their_order(tmp_path):
    """The last one has the last word, and the config is called as it was asked for."""
    text = 'x = 0\npreset_one = dict(x=1, y=1)\npreset_two = dict(x=2)\n'
    (tmp_path / 'c.py').write_text(text)
    for name, x in (('c+one+two', 2), ('c+two+one', 1), ('c', 0)):
        cfg = read_config(tmp_path / f'{name}.py')
        assert cfg.x == x and cfg.get('y') == (1 if 'one' in name else None)
        assert cfg.filename == str(tmp_path / f'{name}.py')
