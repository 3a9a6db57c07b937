"""A share of the writers that are killed, and that torn files are seen."""

from __future__ import annotations

import pickle

import pytest
import torch

from campaign import kills, writes
from campaign.trial import BAD


def test_a_file_is_the_old_one_or_the_new_one(tmp_path):
    trials = writes.run(3, 1, tmp_path)
    assert {trial.row for trial in trials} == set(writes.WRITERS)
    assert [trial for trial in trials if trial.verdict in BAD] == []


@pytest.mark.parametrize('row', writes.WRITERS)
def test_torn_files_are_seen(tmp_path, row):
    writer, path = writes.WRITERS[row], tmp_path / 'file'
    writer.write(path, 3)
    assert writer.read(path) == 3
    whole = path.read_bytes()
    for size in (0, 1, len(whole) // 2, len(whole) - 200):
        path.write_bytes(whole[:size])
        with pytest.raises((RuntimeError, ValueError, EOFError, pickle.UnpicklingError)):
            writer.read(path)


def test_a_mixture_is_seen(tmp_path):
    content = writes._content(1)
    content['filling'][writes.SIZE // 2 :] = 2
    torch.save(content, tmp_path / 'file')
    with pytest.raises(ValueError, match='unpack'):
        writes._tensor(tmp_path / 'file')


def test_torn_checkpoints_of_a_training(tmp_path):
    assert kills.torn_files(tmp_path) == []
    torch.save(dict(a=torch.zeros(9)), tmp_path / 'epoch_1.pth')
    (tmp_path / 'last_checkpoint').write_text(str(tmp_path / 'epoch_1.pth'))
    assert kills.torn_files(tmp_path) == []
    whole = (tmp_path / 'epoch_1.pth').read_bytes()
    (tmp_path / 'epoch_2.pth').write_bytes(whole[:-100])
    (tmp_path / 'epoch_3.pth').write_bytes(b'')
    (tmp_path / 'last_checkpoint').write_text(str(tmp_path / 'epoch_4.pth'))
    found = ['epoch_2.pth', 'epoch_3.pth', 'last_checkpoint']
    assert sorted(kills.torn_files(tmp_path)) == found
