"""Bases of configs: each is there, and those that bring the runtime have all of it."""

from __future__ import annotations

import re

from mmengine.config import Config

from children import ROOT


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
