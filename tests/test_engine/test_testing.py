"""Which checkpoints a test reads."""

from pathlib import Path

import pytest
import torch
from mmengine.config import Config

from mmvtr.engine.testing import checkpoints_of
from mmvtr.errors import UserError


def test_checkpoints_that_are_given_stand_before_that_of_the_config(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.hub, 'get_dir', lambda: str(tmp_path))
    (tmp_path / 'checkpoints').mkdir()
    (tmp_path / 'checkpoints/a.pth').touch()  # downloaded before
    assert checkpoints_of(Config(dict(load_from='a.pth')), ['b.pth', 'c.pth']) == ['b.pth', 'c.pth']
    for name, path in {
        '~/a.pth': str(Path.home() / 'a.pth'),
        'https://host/x/a.pth': str(tmp_path / 'checkpoints/a.pth'),
    }.items():
        assert checkpoints_of(Config(dict(load_from=name)), []) == [path]
    assert checkpoints_of(Config(dict(load_from=None)), []) == checkpoints_of(Config({}), []) == []


def test_a_part_of_a_checkpoint_is_not_tested():
    part = Config(dict(load_from='a.pth', load_from_prefixes=['encoder.']))
    with pytest.raises(UserError, match='give the CHECKPOINT of its training'):
        checkpoints_of(part, [])
    assert checkpoints_of(part, ['b.pth']) == ['b.pth']
