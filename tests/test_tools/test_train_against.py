"""A training beside its baseline: ``tools/train.py CONFIG --against BASELINE``."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from children import ROOT, in_child
from mmvtr.engine.launch import against
from small_configs import _run, run_small, small_config


def in_small(command, **options):
    """Another tool's process, on miniatures as well."""
    _, tool, *given = command
    number = len([*Path.cwd().glob('inner_*')])
    log = Path.cwd() / f'inner_{number}.txt'
    code = in_child(log, _run, Path.cwd(), tool, given, small_config, None)
    return subprocess.CompletedProcess(command, code, log.read_text(), log.read_text())


def use_small():
    """Called in the tool's process."""
    against.subprocess.run = in_small


def write(folder, **results):
    (folder / 'log').mkdir(parents=True)
    (folder / 'log/log.json').write_text(json.dumps(results))


def test_both_are_trained_and_compared(tmp_path):
    names = ['dvtr_c2v_planted', 'c2v_planted']
    configs = [str(ROOT / f'configs/{name}.py') for name in names]
    command = [configs[0], '--against', configs[1], '--work-dir', 'ours', '--seed', '3']
    command += ['--cfg-options', 'model.supervision.floor=0']
    code, printed = run_small(tmp_path, 'train.py', *command, before=use_small)
    assert code == 0, printed[-3000:]
    theirs = against.results_of(tmp_path / 'ours/baseline')
    ours = against.results_of(tmp_path / 'ours')
    end = printed[printed.index('dvtr_c2v_planted beside its baseline c2v_planted') :]
    row = re.search(r'semantic +P@1 +(.*)', end)[1].split()
    keys = ('semantic/t2v_P1', 'semantic/v2t_P1')
    told = [[theirs[k], ours[k], ours[k] - theirs[k]] for k in keys]
    assert [float(x) for x in row] == pytest.approx([x for three in told for x in three], abs=0.051)
    picture = re.search(r'^picture: (\S+)', end, flags=re.MULTILINE)[1]
    assert (tmp_path / picture).stat().st_size > 1000
    assert 'trained: ours/' in end and max(map(len, end.splitlines())) <= 100
    seed = re.search(r'seed (\d+)', (tmp_path / 'inner_0.txt').read_text())[1]
    assert seed == '3'


def test_what_both_report_is_compared(tmp_path):
    write(tmp_path, **{'retrieval/t2v_R1': 12.0, 'retrieval/rsum': 100.0, 'eta': 1.0})
    write(tmp_path / 'baseline', **{'retrieval/t2v_R1': 13.5, 'retrieval/rsum': 90.0})
    shown = against.beside(tmp_path, tmp_path / 'baseline', ('ours', 'theirs'))
    numbers = re.findall(r'R@1 +(.*)|rsum +(.*)', shown)
    assert [''.join(x).split() for x in numbers] == [
        ['13.5', '12.0', '-1.5'],
        ['90.0', '100.0', '+10.0'],
    ]


def test_a_training_without_results(tmp_path):
    with pytest.raises(SystemExit, match='left no results of a test'):
        against.results_of(tmp_path)


def test_no_picture_costs_no_table(tmp_path):
    draw = tmp_path / 'draw.py'
    draw.write_text('raise SystemExit("error: no frames")')
    told = against.picture(draw, 'config', 'best.pth', tmp_path / 'pictures')
    assert told == 'none was drawn: error: no frames'


def test_a_config_with_a_fault_trains_no_baseline(tmp_path):
    config = str(ROOT / 'configs/c2v_planted.py')
    command = [config, '--against', config, '--cfg-options', 'model.no_such_key=1']
    code, printed = run_small(tmp_path, 'train.py', *command, before=use_small)
    assert code and 'no_such_key' in printed and 'first the baseline' not in printed


def test_several_processes_are_refused(tmp_path):
    config = str(ROOT / 'configs/dvtr_c2v_planted.py')
    command = [config, '--against', config, '--launcher', 'pytorch']
    code, printed = run_small(tmp_path, 'train.py', *command)
    assert code and 'two trainings of one process each' in printed


def test_a_baseline_that_fails_ends_the_training(tmp_path):
    with pytest.raises(SystemExit) as ended:
        against.call(tmp_path / 'none.py')
    assert ended.value.code == subprocess.run([sys.executable, tmp_path / 'none.py']).returncode
