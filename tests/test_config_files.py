"""How many files one must read to know a config: each limit is what it is today, or less."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from statistics import median

from mmengine.config import Config

from children import ROOT

CONFIGS = sorted((ROOT / 'configs').glob('*.py'))


@cache
def bases(path: Path) -> tuple[Path, ...]:
    """Files that a config names as its bases."""
    found = re.search(r'^_base_ = (\[.*?\])', path.read_text(), flags=re.DOTALL | re.MULTILINE)
    names = re.findall(r"'([^']+)'", found[1]) if found else []
    return tuple((path.parent / name).resolve() for name in names)


@cache
def read(path: Path) -> frozenset[Path]:
    """A config and all files behind it."""
    return frozenset({path}.union(*map(read, bases(path))))


@cache
def levels(path: Path) -> int:
    """Of the longest chain of bases, the config itself counted."""
    return 1 + max(map(levels, bases(path)), default=0)


def test_few_files_are_read():
    counts = [len(read(path)) for path in CONFIGS]
    assert median(counts) <= 4 and max(counts) <= 9


def test_chains_are_short():
    assert max(map(levels, CONFIGS)) <= 3


def test_few_files_take_away_what_their_bases_say():
    files = [path for path in (ROOT / 'configs').rglob('*.py') if '_delete_' in path.read_text()]
    assert len(files) <= 42


def test_bases_that_bring_the_runtime_have_all_of_it():
    """A schedule with the runtime in it is a file less to read; what it says of it is the same."""
    runtime = Config.fromfile(ROOT / 'configs/_base_/default_runtime.py')
    for name in ('schedule_planted', 'schedule_clip_5e', 'prvr'):
        schedule = Config.fromfile(ROOT / f'configs/_base_/{name}.py')
        assert {key: schedule[key] for key in runtime} == runtime.to_dict(), name
        assert {'train_cfg', 'optim_wrapper', 'param_scheduler'} <= set(schedule)


def test_every_base_is_somebodys():
    """And all of them are there."""
    used = frozenset().union(*(read(path) for path in CONFIGS))
    assert set((ROOT / 'configs/_base_').glob('*.py')) <= used
    assert all(path.is_file() for path in used)


def test_of_a_chain_by_hand(tmp_path):
    (tmp_path / 'a.py').write_text('x = 1\n')
    (tmp_path / 'b.py').write_text("_base_ = ['a.py']\n")
    (tmp_path / 'c.py').write_text("# c\n_base_ = [\n    'b.py',\n    'a.py',\n]\n")
    assert len(read(tmp_path / 'c.py')) == 3 and levels(tmp_path / 'c.py') == 3
