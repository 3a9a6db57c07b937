"""The gallery's commands are found by ``mmvtr NAME``, and its components by a hint."""

import configparser
import importlib

from children import ROOT
from mmvtr.__main__ import tools


def entries(group):
    config = configparser.ConfigParser()
    config.optionxform = str
    config.read(ROOT / 'projects/gallery/setup.cfg')
    lines = config['options.entry_points'][group].strip().splitlines()
    return dict(line.split(' = ') for line in lines)


def test_entry_points_are_the_files():
    named = entries('mmvtr.commands')
    folder = ROOT / 'projects/gallery/mmvtr_gallery/commands'
    files = {path.stem for path in folder.glob('*.py')} - {'__init__'}
    assert sorted(named) == sorted(files)
    assert all(importlib.import_module(module) for module in named.values())
    assert {*named} <= tools().keys()


def test_entry_points_are_the_registered_components():
    named = entries('mmvtr.components')
    folder = ROOT / 'projects/gallery/mmvtr_gallery'
    registering = [p for p in folder.rglob('*.py') if '.register_module(' in p.read_text()]
    assert registering
    for path in registering:
        module = '.'.join(path.relative_to(folder.parent).with_suffix('').parts)
        assert module in named.values(), path
    for name, module in named.items():
        assert getattr(importlib.import_module(module), name).__module__ == module
