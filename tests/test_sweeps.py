"""The papers' ablations as sweeps: each option is one that something reads, a small one runs."""

import json
import runpy
import sys

import pytest
import torch

from children import ROOT, run_tool
from mmvtr.sweeps import Run, check_sweep, read_sweep, sweep_names, table
from mmvtr.utils import load_config
from mmvtr.values import Written, read

TOOL = ROOT / 'tools/sweep.py'
SMALL = """
paper, table, section = 'nobody', 'Tab. 0', '1'
about = 'two temperatures on eight clips'
config = '{config}'
metrics = {{'retrieval/rsum': 'rsum', 'semantic/t2v_mAP': 't2v mAP'}}
runs = [
    dict(name='tau .05', options={{'model.temperature.init': 0.05}}, printed=[50.0, None]),
    dict(name='tau .07'),
    dict(name='both', of=['tau .05', 'tau .07']),
    dict(name='tau .07, Sinkhorn', of='tau .07', prefix='sinkhorn_oracle/'),
]
"""
CONFIG = """
_base_ = ['{root}/configs/c2v_planted.py']
corpus = dict(num_train=8, num_val=2, num_test=4)
train_dataloader = dict(batch_size=4, num_workers=0, dataset=corpus)
val_dataloader = val_cfg = val_evaluator = None
test_dataloader = dict(num_workers=0, dataset=corpus)
default_hooks = dict(checkpoint=dict(save_best=None))
custom_hooks = [dict(type='SinkhornHook', queries='test')]
train_cfg = dict(max_epochs=1)
"""


@pytest.mark.parametrize('name', sweep_names())
def test_options_are_read(name):
    sweep = read_sweep(name)
    assert len(sweep.runs) > 2 and sweep.table and sweep.section
    check_sweep(sweep)
    assert '|---' in table(sweep, {})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A sweep of a small config; the current folder."""
    (tmp_path / 'c.py').write_text(CONFIG.format(root=ROOT))
    (tmp_path / 's.py').write_text(SMALL.format(config='c.py'))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def main(folder, monkeypatch, capsys):
    """``main(*arguments)``: what the tool prints; its commands run in forked children."""
    tool = runpy.run_path(str(TOOL))
    commands = []

    def call(command, log):
        commands.append(command)
        code, printed = run_tool(folder, command[1].rpartition('/tools/')[2], *command[2:])
        log.write_text(printed)
        return code

    monkeypatch.setitem(tool['carry_out'].__globals__, 'call', call)

    def run(*arguments):
        monkeypatch.setattr(sys, 'argv', ['sweep.py', 's.py', '--work', 'w', *arguments])
        capsys.readouterr()
        commands.clear()
        tool['main']()
        return capsys.readouterr().out, list(commands)

    return run


def test_a_small_sweep(main, folder):
    printed, commands = main()
    assert [c[1].rpartition('/')[2] for c in commands] == ['train.py', 'train.py', 'test.py']
    rows = json.loads((folder / 'w/results.json').read_text())['rows']
    assert rows.keys() == {'tau .05', 'tau .07', 'both', 'tau .07, Sinkhorn'}
    assert all(len(found) == 1 and 'retrieval/rsum' in found[0] for found in rows.values())
    lines = printed.splitlines()
    assert '| run | rsum | rsum, printed | t2v mAP | t2v mAP, printed |' in lines
    (line,) = [line for line in lines if line.startswith('| tau .05 |')]
    assert f'| {rows["tau .05"][0]["retrieval/rsum"]:.4g} | 50 |' in line
    # The two really had different temperatures.
    for name, tau in (('tau_.05_0', 0.05), ('tau_.07_0', 0.07)):
        weights = torch.load(folder / 'w' / name / 'epoch_1.pth', weights_only=True)['state_dict']
        (value,) = [v for k, v in weights.items() if k.startswith('temperature')]
        assert 0.9 * tau < float((-value).exp()) < 1.1 * tau  # stored as log(1 / tau)
    # What is done is not done again, and what is missing is.
    assert main()[1] == []
    (folder / 'w/tau_.05_0/results.json').unlink()
    assert '| tau .05 |  | 50 |' in main('--table')[0]


def test_dry(main):
    printed, commands = main('--dry', '--only', 'both', '--seeds', '3')
    assert commands == [] and printed.count('train.py') == 2 and printed.count('test.py') == 1
    assert '--seed 3 --resume --cfg-options model.temperature.init=0.05' in printed
    assert 'best.pth' in printed


def test_bad_input(folder):
    def refused(old, new, error=ValueError):
        (folder / 's.py').write_text(SMALL.format(config='c.py').replace(old, new))
        with pytest.raises(error) as raised:
            check_sweep(read_sweep('s.py'))
        message = str(raised.value)
        assert len(message) < 600
        return message

    assert "no sweep 'none'; there are arl_tab5" in str(
        pytest.raises(ValueError, read_sweep, 'none').value
    )  # noqa: E501
    assert 'no about; expected paper' in refused('about =', '_about =')
    assert "run 0: unknown key 'option'" in refused('options=', 'option=')
    assert "of='tau .08': no run before it has that name" in refused("of='tau .07'", "of='tau .08'")
    assert 'a second run by the name' in refused("name='both'", "name='tau .07'")
    assert '1 printed numbers for 2 metrics' in refused('[50.0, None]', '[50.0]')
    typo = refused('temperature.init', 'temperature.innit', SystemExit)
    assert 'model.temperature.innit' in typo and 'init' in typo
    typo = refused('model.temperature', 'model.temperatur', SystemExit)
    assert "sweep run 'tau .05'" in typo or 'model.temperatur' in typo


@pytest.mark.parametrize('name', sweep_names())
def test_options_mean_the_same_on_a_command_line(name):
    for run in read_sweep(name).runs:
        typed = dict(word.split('=', 1) for word in run.written())
        given = load_config(run.config, run.options).to_dict()
        written = {key: Written(value) for key, value in typed.items()}
        assert load_config(run.config, written).to_dict() == given


def test_odd_options_on_a_command_line():
    words = ['My Clips', 'a,b', r'C:\new', '[x]', '2024']
    run = Run('odd', 'own_clip4clip', {'videos': 'a, b', 'test_dataloader.dataset.names': words})
    typed = dict(word.split('=', 1) for word in run.written())
    cfg = load_config(run.config, {key: Written(value) for key, value in typed.items()})
    assert cfg.test_dataloader.dataset.videos == 'a, b'
    assert read(typed['test_dataloader.dataset.names'], list[str]) == words
