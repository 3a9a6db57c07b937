"""A training beside its baseline: ``tools/train.py CONFIG --against BASELINE``."""

import os
import re
import subprocess
import sys
from ast import literal_eval
from pathlib import Path
from types import SimpleNamespace

import pytest

from children import ROOT, free_port, in_child, run_tool
from mmvtr.engine import against, before
from mmvtr.errors import AlreadyReported, UserError
from mmvtr.evaluation.results import Results, write_results
from mmvtr.storage.weights import read_checkpoint
from mmvtr.utils import load_config
from small_configs import _run, run_small, run_small_child, small_config
from toy import RETRIEVAL

PLANTED = dict(set='Planted test', ids='0a', texts=4, videos=2)


def in_small(command, env=None, **options):
    """Another tool's process, on miniatures as well."""
    os.environ.update(env or {})
    _, tool, *given = command
    number = len([*Path.cwd().glob('inner_*')])
    log = Path.cwd() / f'inner_{number}.txt'
    code = in_child(log, _run, Path.cwd(), tool, given, small_config, None)
    return subprocess.CompletedProcess(command, code, log.read_text(), log.read_text())


def use_small():
    """Called in the tool's process."""
    against.subprocess, before.run_child = SimpleNamespace(run=in_small), run_small_child


def write(folder, protocol=None, **numbers):
    (folder / 'log').mkdir(parents=True)
    write_results(Results(numbers, protocol), folder / 'log/results.json')


def trained(tested=PLANTED, **facts):
    """A protocol of a training with some facts."""
    known = dict(set='Planted train', ids='ab', batch=8, optimizer='AdamW', rates=[[0.001, 3]])
    return dict(line='protocol: x', tested=tested, training=[{**known, **facts}])


@pytest.mark.nightly
def test_both_are_trained_and_compared(tmp_path):
    names = ['dvtr_c2v_planted', 'c2v_planted']
    configs = [str(ROOT / f'configs/{name}.py') for name in names]
    command = [configs[0], '--against', configs[1], '--work-dir', 'ours', '--seed', '3']
    command += ['--cfg-options', 'model.supervision.floor=0', 'optim_wrapper.optimizer.lr=0.002']
    code, printed = run_small(tmp_path, 'train.py', *command, before=use_small)
    assert code == 0, printed[-3000:]
    theirs = against.results_of(tmp_path / 'ours/baseline').numbers
    ours = against.results_of(tmp_path / 'ours').numbers
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
    told = (
        'optim_wrapper.optimizer.lr=0.002 for both; model.supervision.floor=0 for dvtr_c2v_planted'
    )
    assert told in ' '.join(end.split()) and 'differs in' not in end
    rates = read_checkpoint(tmp_path / 'ours/baseline/best.pth')['meta']['training']['rates']
    assert [rate for rate, _ in rates] == [0.002]


def test_what_both_report_is_compared(tmp_path):
    write(tmp_path, **{'retrieval/t2v_R1': 12.0, 'retrieval/rsum': 100.0, 'eta': 1.0})
    write(tmp_path / 'baseline', **{'retrieval/t2v_R1': 13.5, 'retrieval/rsum': 90.0})
    shown = against.results_table(tmp_path, tmp_path / 'baseline', ('ours', 'theirs'))
    numbers = re.findall(r'R@1 +(.*)|rsum +(.*)', shown)
    assert [''.join(x).split() for x in numbers] == [
        ['13.5', '12.0', '-1.5'],
        ['90.0', '100.0', '+10.0'],
    ]


def test_a_training_without_results(tmp_path):
    with pytest.raises(UserError, match='written no test results'):
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


@pytest.mark.parametrize(
    ('options', 'both'),
    [
        (['train_cfg.max_epochs=4'], ['train_cfg.max_epochs']),
        (['model.supervision.floor=0', 'train_cfg.max_epochs=4'], ['train_cfg.max_epochs']),
        (['train_dataloader.dataset.num_test=24'], ['train_dataloader.dataset.num_test']),
        (['model.losses.nce.no_such=1'], []),
        (['model.temperature.init=.05'], ['model.temperature.init']),
        (['default_hooks.eta.gap=.1'], []),
    ],
)
def test_a_baseline_has_the_options_that_its_config_has(options, both):
    given = {key: literal_eval(value) for key, value in (word.split('=') for word in options)}
    file = str(ROOT / 'configs/c2v_planted.py')
    shared, alone = against.divided(given, lambda some: load_config(file, some))
    assert [*shared] == both and {**shared, **alone} == given


@pytest.mark.parametrize(
    ('facts', 'words'),
    [
        (dict(batch=4), 'differs in batch: 8 in ours, 4 in theirs'),
        (dict(ids='cd'), 'differs in trained on: Planted train (ids ab) in ours'),
        (dict(epochs=1), 'differs in trained for: unknown in ours, 1 epochs in theirs'),
        (
            dict(rates=[[0.002, 3]]),
            'differs in optimizer: AdamW, lr 0.001 in ours, AdamW, lr 0.002',
        ),
        (dict(precision='bf16'), 'differs in trained in: unknown in ours, bf16 in theirs'),
        (dict(seed=4), 'differs in seed'),
    ],
)
def test_the_heading_says_in_what_trainings_differ(tmp_path, facts, words):
    write(tmp_path, trained(), **{'retrieval/rsum': 90.0})
    write(tmp_path / 'baseline', trained(**facts), **{'retrieval/rsum': 80.0})
    shown = against.results_table(tmp_path, tmp_path / 'baseline', ('ours', 'theirs'))
    assert words in ' '.join(shown.split()) and '+10.0' in shown


def test_rates_of_parameters_that_one_alone_has_are_no_difference(tmp_path):
    more = trained(processes=2, rates=[[0.001, 3], [0.01, 2]])
    write(tmp_path, more, **{'retrieval/rsum': 90.0})
    write(tmp_path / 'baseline', trained(done=3), **{'retrieval/rsum': 80.0})
    shown = against.results_table(tmp_path, tmp_path / 'baseline', ('ours', 'theirs'))
    assert 'differs' not in shown
    write(tmp_path / 'unknown', **{'retrieval/rsum': 80.0})
    shown = against.results_table(tmp_path, tmp_path / 'unknown', ('ours', 'theirs'))
    assert 'how theirs was trained is unknown' in shown


@pytest.mark.parametrize('key', ['set', 'ids', 'texts', 'videos'])
def test_other_test_sets_are_refused(tmp_path, key):
    write(tmp_path, trained(), **{'retrieval/rsum': 90.0})
    other = trained(tested={**PLANTED, key: 'other'})
    write(tmp_path / 'baseline', other, **{'retrieval/rsum': 80.0})
    with pytest.raises(ValueError, match=f'different test sets are not compared .{key} differs'):
        against.results_table(tmp_path, tmp_path / 'baseline', ('ours', 'theirs'))


def test_other_test_sets_are_refused_before_a_training(tmp_path):
    small = "_base_ = ['{}/configs/c2v_planted.py']\ntest_dataloader = dict(dataset=dict({}))\n"
    for name, clips in (('more', 5), ('less', 4)):
        knobs = f'num_test={clips}, num_train=3, num_val=2'
        (tmp_path / f'{name}.py').write_text(small.format(ROOT, knobs))
    code, printed = run_tool(tmp_path, 'train.py', 'more.py', '--against', 'less.py')
    assert code and 'different test sets' in printed and 'first the baseline' not in printed


@pytest.mark.nightly
def test_two_processes_each(tmp_path, write_video):
    """torchrun's own port is taken: the baseline's processes meet at another one."""
    (tmp_path / 'r.py').write_text(RETRIEVAL)
    for number, name in enumerate('abcd'):
        write_video(tmp_path / f'{name}.mp4', [60 * number] * 3)
    command = [sys.executable, '-m', 'torch.distributed.run', '--nproc_per_node=2']
    command += [f'--master_port={free_port()}', str(ROOT / 'tools/train.py'), 'r.py']
    command += ['--launcher', 'pytorch', '--against', 'r.py', '--work-dir', 'w']
    command += ['--cfg-options', 'train_cfg.max_epochs=4']
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    assert done.stdout.count('first the baseline') == 1
    end = done.stdout[done.stdout.index('r beside its baseline r') :]
    assert 'train_cfg.max_epochs=4 for both' in end and 'differs' not in end
    for folder in ('w', 'w/baseline'):
        facts = read_checkpoint(tmp_path / folder / 'best.pth')['meta']['training']
        assert (facts['processes'], facts['batch'], facts['epochs']) == (2, 4, 4)


def test_a_baseline_that_fails_ends_the_training(tmp_path):
    with pytest.raises(AlreadyReported) as ended:
        before.Start().call(str(tmp_path / 'none.py'))
    assert ended.value.status == subprocess.run([sys.executable, tmp_path / 'none.py']).returncode
