"""Faults that are planted in the code turn the default tests red."""

from __future__ import annotations

import pytest

from campaign.planted import ROOT, copy_code, planted
from campaign.planted_code import FAULTS, run_tests


@pytest.mark.parametrize('name', FAULTS)
def test_every_fault_can_be_planted(name):
    edit, tests = FAULTS[name]
    assert planted((ROOT / edit.file).read_text(), edit, name)
    assert all((ROOT / test).exists() for test in tests)


@pytest.fixture(scope='module')
def copy(tmp_path_factory):
    """Of the code, with what its tests ask of the files beside it."""
    folder = copy_code(tmp_path_factory.mktemp('copy'))
    for name in (
        'setup.cfg',
        'README.md',
        'conftest.py',
        'docs',
        'model-index.yml',
    ):
        (folder / name).symlink_to(ROOT / name)
    return folder


@pytest.mark.nightly
@pytest.mark.parametrize('name', FAULTS)
def test_a_planted_fault_is_seen(copy, name):
    path = copy / FAULTS[name].edit.file
    before = path.read_text()
    try:
        path.write_text(planted(before, FAULTS[name].edit, name))
        assert run_tests(copy, name).returncode == 1
    finally:
        path.write_text(before)
