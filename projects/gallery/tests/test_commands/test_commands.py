"""The gallery's commands are found by ``mmvtr NAME``, and named where it is not installed."""

import configparser
import importlib

from children import ROOT
from mmvtr.__main__ import OF_GALLERY, tools


def test_entry_points_are_those_that_mmvtr_names():
    """Both lists, and the files, have the same names."""
    config = configparser.ConfigParser()
    config.read(ROOT / 'projects/gallery/setup.cfg')
    lines = config['options.entry_points']['mmvtr.commands'].strip().splitlines()
    entries = dict(line.split(' = ') for line in lines)
    folder = ROOT / 'projects/gallery/mmvtr_gallery/commands'
    files = {path.stem for path in folder.glob('*.py')} - {'__init__'}
    assert sorted(entries) == sorted(OF_GALLERY) == sorted(files)
    assert all(importlib.import_module(entries[name]) for name in entries)
    assert {*entries} <= tools().keys()


def test_without_the_gallery_a_command_says_what_to_install(monkeypatch, capsys):
    import mmvtr.__main__ as command

    monkeypatch.setattr(command, 'entry_points', lambda group: [])
    monkeypatch.setattr('sys.argv', ['mmvtr', 'serve'])
    try:
        command.main()
    except SystemExit as end:
        said = str(end.code) + capsys.readouterr().err
    assert 'mmvtr-gallery' in said and 'pip install -e projects/gallery' in said
