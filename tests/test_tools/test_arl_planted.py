"""configs/arl_planted.py on a tiny corpus: trained, killed, resumed, tested, asked for moments."""

import json
import re
import runpy
import signal
import sys
from pathlib import Path

import pytest
import torch

from children import ROOT, run_tool, tool_file
from mmvtr.datasets.planted_corpus.world import FPS
from mmvtr.storage.weights import read_checkpoint
from tiny_sets import of_planted

CONFIG = of_planted('arl_planted', (6, 2, 4), batch=3, max_epochs=4, val_interval=2)
#: In the last of the four epochs, the second one with sets.
KILL = """
custom_hooks = [
    dict(type='AmbiguityHook'), dict(type='MomentsHook'), dict(type='KillHook', at=75)
]
"""
TEXT = 'a small red star spins'


def results(printed):
    """Test numbers by name in the log file of a tool."""
    log = Path(re.findall(r'log, environment and hooks: (\S+)', printed)[-1]).read_text()
    line = re.findall(r'Epoch\(test\) \[\d+/\d+\](.*)', log)[-1]
    numbers = dict(re.findall(r'(\S+): (\S+)', line))
    return {name: numbers[name] for name in numbers if '/' in name}


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    """A folder with a training that was killed in its last epoch and resumed; what it printed."""
    folder = tmp_path_factory.mktemp('arl')
    (folder / 'arl.py').write_text(CONFIG + KILL)
    code, killed = run_tool(folder, 'train.py', 'arl.py')
    assert code == -signal.SIGKILL, killed
    (folder / 'arl.py').write_text(CONFIG)
    code, resumed = run_tool(folder, 'train.py', 'arl.py', '--resume')
    assert code == 0, resumed
    return folder, killed, resumed


@pytest.fixture
def tool(trained, monkeypatch, capsys):
    """Runs mmvtr find_moments in this process; returns what it printed."""
    monkeypatch.chdir(trained[0])

    def run(*arguments, checkpoint='work_dirs/arl/epoch_4.pth', config='arl.py'):
        monkeypatch.setattr(sys, 'argv', ['find_moments.py', config, checkpoint, *arguments])
        runpy.run_path(str(tool_file('find_moments.py')), run_name='__main__')
        return capsys.readouterr().out

    return run


def test_killed_and_resumed_ends_as_if_nothing_had_happened(trained, tmp_path):
    folder, killed, resumed = trained
    assert 'Saving checkpoint at 3 epochs' in killed and 'at 4 epochs' not in killed
    assert 'Saving checkpoint at 3 epochs' not in resumed
    assert "ambiguity, branch 'a': tau_s" in resumed and 'loss_frame: ' in resumed
    (tmp_path / 'arl.py').write_text(CONFIG)
    (tmp_path / 'data').symlink_to(folder / 'data')
    code, whole = run_tool(tmp_path, 'train.py', 'arl.py')
    assert code == 0, whole
    assert results(whole) == results(resumed) != {}
    expected, found = (
        read_checkpoint(path / 'work_dirs/arl/epoch_4.pth')['state_dict']
        for path in (tmp_path, folder)
    )
    assert expected['supervision.ready'] and expected['supervision.branches.a.tau_s'] != 0
    assert all(torch.equal(found[name], value) for name, value in expected.items())


def test_tested_again_it_says_the_same(trained):
    folder, _, resumed = trained
    best = folder / 'work_dirs/arl' / 'best.pth'
    path = folder / 'work_dirs/arl/moments.json'
    written = path.read_text()
    path.unlink()
    code, printed = run_tool(folder, 'test.py', 'arl.py', best)
    assert code == 0, printed
    numbers = results(printed)
    assert numbers == results(resumed) and path.read_text() == written
    assert 32 < float(numbers['moment/t2v_pointing_chance']) < 34.7  # 20 to 24 of 60 to 72 frames
    assert 'moment     pointing' in printed
    entries = json.loads(written)
    assert len(entries) == 12 and all(len(entry['videos']) == 4 for entry in entries)
    for hit in (hit for entry in entries for hit in entry['videos']):
        length = hit['end_seconds'] - hit['begin_seconds']  # one of 18 frames of 7.5 to 9 s
        assert 60 / FPS / 18 < length < 72 / FPS / 18 + 1e-3
        assert hit['frame'] == round(hit['begin_seconds'] / length) <= 17


def test_two_checkpoints_point_together(trained, tmp_path):
    folder = trained[0]
    checkpoints = [next((folder / 'work_dirs/arl').glob(f'{name}*')) for name in ('best', 'epoch')]
    code, printed = run_tool(folder, 'test.py', 'arl.py', *checkpoints, '--work-dir', tmp_path)
    assert code == 0, printed
    assert 'moment/t2v_pointing' in results(printed) and (tmp_path / 'moments.json').is_file()


def test_moments_of_free_texts(tool, trained):
    entry = json.loads((trained[0] / 'work_dirs/arl/moments.json').read_text())[5]
    best = str(trained[0] / 'work_dirs/arl' / 'best.pth')
    printed = tool(TEXT, entry['text'], '--k', '2', checkpoint=best)
    lines = printed[printed.index(TEXT) :].splitlines()
    assert [lines[0], lines[3]] == [TEXT, entry['text']] and len(lines) == 6
    for rank, (line, hit) in enumerate(zip(lines[4:], entry['videos']), 1):
        begin, end = hit['begin_seconds'], hit['end_seconds']
        start = f'{rank:6d}  {hit["video_id"]}  {hit["score"]:.4f}  {begin:.1f}-{end:.1f} s  '
        assert line.startswith(start) and line.endswith(f'{hit["video_id"]}.mp4')
    assert 'train_0000' in tool(TEXT, '--k', '9', '--split', 'train')
    spoken = runpy.run_path(str(tool_file('find_moments.py')))['spoken']
    assert spoken((0.25, 0.5), {}) == '0.250-0.500 of it'  # of unknown length
    assert spoken((0.25, 0.5), dict(duration=4.0)) == '1.0-2.0 s'
    assert spoken((0.25, 0.5), dict(duration=4.0, start=9.0)) == '10.0-11.0 s'


def test_what_find_moments_refuses(tool, trained, capsys):
    def error(*arguments, **kwargs):
        with pytest.raises(SystemExit) as raised:
            tool(*arguments, **kwargs)
        message = raised.value.code
        assert message.startswith('error: ') and len(message.splitlines()) == 1
        return message

    assert 'gone.pth does not exist' in error(TEXT, checkpoint='gone.pth')
    assert "'zebra'" in error('a small zebra spins')
    message = error(TEXT, '--cfg-options', 'model.similarity.type=CosineSimilarity')
    assert 'CosineSimilarity has no matched frames' in message
    message = error(TEXT, config=str(ROOT / 'configs/arl_tvr_clip.py'))
    assert 'arl_tvr_clip.py reads stored word features, which free texts do not have' in message
    with pytest.raises(SystemExit):
        tool(TEXT, '--k', '0')
    assert '--k must be at least 1, not 0' in capsys.readouterr().err
