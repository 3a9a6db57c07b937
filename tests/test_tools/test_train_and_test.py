"""tools/train.py and tools/test.py: from a config to a table, through kills and bad input."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import toy
from children import ROOT, free_port, run_tool
from mmvtr.engine.loops.facts import choice_of
from mmvtr.storage import FolderLock
from mmvtr.storage.weights import read_checkpoint

KILL = "custom_hooks = [dict(type='KillHook', at=70)]\n"  # in the third epoch


def numbers(printed: str) -> str:
    """The test's numbers in the log of a tool."""
    return re.findall(r'Epoch\(test\).*?(retrieval/rsum: \S+)', printed)[-1]


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    """A folder with a finished training, and what it printed."""
    folder = tmp_path_factory.mktemp('trained')
    toy.write_config(folder)
    code, printed = run_tool(folder, 'train.py', 'toy_config.py', '--seed', 3)
    assert code == 0, printed
    return folder, printed


def test_training_ends_with_the_test_of_the_best(trained):
    folder, printed = trained
    work_dir = folder / 'work_dirs' / 'toy_config'
    best = work_dir / 'best.pth'
    assert printed.index(f'Testing the weights of {best}') < printed.index('Epoch(test)')
    assert read_checkpoint(best)['meta']['seed'] == 3


def test_test_tool_repeats_the_table(trained):
    folder, printed = trained
    best = folder / 'work_dirs' / 'toy_config' / 'best.pth'
    code, again = run_tool(folder, 'test.py', 'toy_config.py', best, '--out', 'metrics.json')
    assert code == 0, again
    assert numbers(again) == numbers(printed)
    metrics = json.loads((folder / 'metrics.json').read_text())
    assert f'retrieval/rsum: {metrics["retrieval/rsum"]:.4f}' == numbers(printed)


def test_the_last_words_are_commands(trained):
    folder, printed = trained
    words = printed[printed.index('trained: ') :].replace('\\\n', ' ').splitlines()
    assert words[0] == 'trained: work_dirs/toy_config/best.pth. Next:'
    tools = [line.split()[3] for line in words[1:]]
    assert tools == ['test', 'draw']  # the toy has no vectors to search
    code, again = run_tool(folder, 'test.py', *words[1].split()[4:])
    assert code == 0 and numbers(again) == numbers(printed)


def test_a_second_training_keeps_what_the_first_has_left(tmp_path):
    """As bytes, whatever the second one makes of it."""
    toy.write_config(tmp_path)
    work = tmp_path / 'work_dirs' / 'toy_config'
    once = '--cfg-options', 'train_cfg.max_epochs=1'
    code, printed = run_tool(tmp_path, 'train.py', 'toy_config.py', *once)
    assert code == 0 and 'of another training' not in printed
    kept = {path.name: path.read_bytes() for path in work.glob('*.pth')}
    assert set(kept) == {'best.pth', 'epoch_1.pth'}
    code, printed = run_tool(tmp_path, 'train.py', 'toy_config.py', '--seed', 5, *once)
    assert code == 0 and printed.count('of another training') == 1, printed
    assert {path.name: path.read_bytes() for path in (work / 'earlier_1').glob('*.pth')} == kept
    assert choice_of(read_checkpoint(work / 'best.pth')).by == 'retrieval/rsum'
    assert read_checkpoint(work / 'best.pth')['meta']['seed'] == 5
    code, printed = run_tool(
        tmp_path, 'train.py', 'toy_config.py', '--resume', work / 'earlier_1' / 'epoch_1.pth', *once
    )
    assert code == 0 and read_checkpoint(work / 'best.pth')['meta']['seed'] == 0, printed
    assert read_checkpoint(work / 'earlier_2' / 'best.pth')['meta']['seed'] == 5


def test_what_is_refused_moves_nothing(trained):
    folder, _ = trained
    work = folder / 'work_dirs' / 'toy_config'
    before = {path.name for path in work.glob('*.pth')}
    fails(folder, 'train.py', 'toy_config.py', '--cfg-options', 'model.widht=3')
    assert {path.name for path in work.glob('*.pth')} == before
    assert not (work / 'earlier_1').exists()


def test_killed_and_resumed(trained, tmp_path):
    folder, printed = trained
    toy.write_config(tmp_path, KILL)
    code, _ = run_tool(tmp_path, 'train.py', 'toy_config.py', '--seed', 3)
    assert code == -signal.SIGKILL
    toy.write_config(tmp_path)
    code, resumed = run_tool(tmp_path, 'train.py', 'toy_config.py', '--resume')  # seed: its own
    assert code == 0, resumed
    assert numbers(resumed) == numbers(printed)
    last, expected = (
        read_checkpoint(path / 'work_dirs' / 'toy_config' / 'epoch_4.pth')['state_dict']
        for path in (tmp_path, folder)
    )
    assert all(torch.equal(last[name], expected[name]) for name in expected)


def test_averaged_weights_are_tested_alike(tmp_path):
    ema = "custom_hooks = [dict(type='EMAHook', momentum=0.2), dict(type='KillHook', at={})]\n"
    tables = []
    for name, kills in (('whole', [-1]), ('killed', [75, -1])):
        (tmp_path / name).mkdir()
        for at in kills:
            toy.write_config(tmp_path / name, ema.format(at))
            _, printed = run_tool(tmp_path / name, 'train.py', 'toy_config.py', '--resume')
        tables.append(numbers(printed))
    best = tmp_path / 'whole' / 'work_dirs' / 'toy_config' / 'best.pth'
    _, printed = run_tool(tmp_path / 'whole', 'test.py', 'toy_config.py', best)
    assert [numbers(printed)] * 2 == tables


def test_resume_of_nothing_starts(tmp_path):
    toy.write_config(tmp_path)
    code, printed = run_tool(
        tmp_path, 'train.py', 'toy_config.py', '--resume', '--no-validate', '--amp',
        '--cfg-options', 'train_cfg.max_epochs=1',
    )  # fmt: skip
    assert code == 0, printed
    assert 'Epoch(train) [1]' in printed and 'Epoch(val)' not in printed
    assert 'Testing the last epoch' in printed and numbers(printed)


def on_two_processes(folder, *arguments) -> tuple[int, str]:
    """tools/dist_train.sh of the toy. Returns the exit code and all that it printed."""
    env = dict(os.environ, PATH=f'{Path(sys.executable).parent}:{os.environ["PATH"]}')
    env.update(PORT=free_port(), OMP_NUM_THREADS='1')
    done = subprocess.run(
        ['bash', str(ROOT / 'tools' / 'dist_train.sh'), 'toy_config.py', '2', *arguments],
        cwd=folder, env=env, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.mark.nightly
def test_two_processes_on_a_cpu(tmp_path):
    extra = "train_cfg = dict(type='AlternatingTrainLoop', max_epochs=1)\n"
    toy.write_config(tmp_path, extra)
    code, printed = on_two_processes(tmp_path)
    assert code == 0, printed
    assert numbers(printed)
    assert (tmp_path / 'work_dirs' / 'toy_config' / 'epoch_1.pth').is_file()
    # 12 texts over 2 processes in batches of 4: 2 steps a stage.
    assert 'Epoch(train) [1][4/4]' in printed


@pytest.mark.nightly
def test_another_number_of_processes_is_said(tmp_path):
    toy.write_config(tmp_path)
    code, printed = on_two_processes(tmp_path, '--cfg-options', 'train_cfg.max_epochs=1')
    assert code == 0, printed
    options = '--resume', '--cfg-options', 'train_cfg.max_epochs=2', 'train_dataloader.batch_size=8'
    code, printed = run_tool(tmp_path, 'train.py', 'toy_config.py', *options)
    said = ' '.join(printed.split())
    assert code == 0 and 'was trained by 2 processes, this run has 1 process: ' in said, printed
    code, printed = run_tool(tmp_path, 'train.py', 'toy_config.py', *options)
    assert code == 0 and 'was trained by' not in printed


@pytest.mark.nightly
def test_two_processes_are_refused_together(tmp_path):
    toy.write_config(tmp_path)
    work = tmp_path / 'work_dirs' / 'toy_config'
    with FolderLock(work) as lock:
        lock.take()
        code, printed = on_two_processes(tmp_path)  # both end, or this takes too long
        assert code != 0 and f'is in use by process {os.getpid()} of ' in printed
        assert [path.name for path in work.iterdir()] == ['.lock']


@pytest.mark.nightly
def test_two_processes_need_the_batch_that_the_rate_is_for(tmp_path):
    toy.write_config(tmp_path, 'auto_scale_lr = dict(base_batch_size=4)\n')
    code, printed = on_two_processes(tmp_path)
    assert code != 0 and not (tmp_path / 'work_dirs' / 'toy_config' / 'epoch_1.pth').exists()
    assert '2 processes x train_dataloader.batch_size 4 = 8 items' in printed
    assert 'is for 4' in printed and 'train_dataloader.batch_size=2 ' in printed
    code, printed = on_two_processes(
        tmp_path, '--auto-scale-lr', '--cfg-options', 'train_cfg.max_epochs=1',
        'optim_wrapper.accumulative_counts=2',
    )  # fmt: skip
    assert code == 0, printed
    assert 'Scaling the original LR by 4.0' in printed


@pytest.fixture
def retrieval(tmp_path, write_video):
    """A folder with the config of a retriever, whose val and test sets differ."""
    (tmp_path / 'r.py').write_text(toy.RETRIEVAL)
    for number, name in enumerate('abcd'):
        write_video(tmp_path / f'{name}.mp4', [60 * number] * 3)
    return tmp_path


def protocols(printed):
    """Protocol lines in the log of a tool, each on one line."""
    found = re.findall(r'^protocol: .*(?:\n {10}.*)*', printed, flags=re.MULTILINE)
    return [re.sub(r'\n +', ' ', lines) for lines in found]


def test_the_result_says_on_what_it_was_chosen(retrieval):
    code, printed = run_tool(retrieval, 'train.py', 'r.py', '--work-dir', 'w')
    assert code == 0, printed
    on_val, on_test = protocols(printed)
    assert 'chosen' not in on_val and 'checkpoint chosen on val' in on_test
    assert not (retrieval / 'w' / 'epoch_2.pth').exists()
    code, printed = run_tool(retrieval, 'train.py', 'r.py', '--work-dir', 'w2', '--no-validate')
    assert code == 0 and 'chosen' not in protocols(printed)[-1]  # the last epoch


def test_best_on_test(retrieval):
    code, printed = run_tool(retrieval, 'train.py', 'r.py', '--work-dir', 'w', '--best-on-test')
    assert code == 0, printed
    *epochs, end = protocols(printed)
    assert len(epochs) == 3 and 'checkpoint chosen on test' in end
    ids = re.findall(r'\| ids (\w+)', ' '.join([*epochs, end]))  # of the test set
    assert len(ids) == 4 and len(set(ids)) == 1
    best = retrieval / 'w' / 'best.pth'
    for epoch in (1, 2, 3):  # all are kept, none of them is marked
        path = retrieval / 'w' / f'epoch_{epoch}.pth'
        assert choice_of(read_checkpoint(path)) is None
    for paths, chosen in (([best], True), ([path], False), ([path, best], True)):
        code, printed = run_tool(retrieval, 'test.py', 'r.py', *paths)
        assert code == 0, printed
        assert ('checkpoint chosen on test' in protocols(printed)[-1]) == chosen


def test_best_on_test_where_texts_alone_ask(retrieval):
    metric = "[dict(type='RetrievalMetric', v2t_protocols=())]\n"
    (retrieval / 'r.py').write_text(toy.RETRIEVAL + f'val_evaluator = test_evaluator = {metric}')
    code, printed = run_tool(retrieval, 'train.py', 'r.py', '--work-dir', 'w', '--best-on-test')
    assert code == 0, printed
    chosen = choice_of(read_checkpoint(retrieval / 'w' / 'best.pth'))
    assert chosen.by == 'retrieval/t2v_SumR' and chosen.on == 'test'


# -- bad input ---------------------------------------------------------------------------------


def fails(folder, tool, *arguments) -> str:
    """Run a tool that must fail with a message instead of a traceback."""
    code, printed = run_tool(folder, tool, *arguments)
    assert code == 1, printed
    assert 'Traceback' not in printed
    assert len(printed.splitlines()) < 25
    return printed


def test_no_config(tmp_path):
    assert 'config none.py does not exist' in fails(tmp_path, 'train.py', 'none.py')


def test_config_that_is_no_python(tmp_path):
    (tmp_path / 'bad.py').write_text('model = dict(')
    assert 'config bad.py: SyntaxError' in fails(tmp_path, 'train.py', 'bad.py')


@pytest.mark.parametrize('loader', ['train', 'val', 'test'])
def test_missing_data_stop_before_the_model_is_built(tmp_path, loader):
    toy.write_config(tmp_path, "model = dict(type='ToyRetriever', width=-1)\n")
    printed = fails(
        tmp_path, 'train.py', 'toy_config.py',
        '--cfg-options', f'{loader}_dataloader.dataset.file=data/gone.json',
    )  # fmt: skip
    assert f'{loader}_dataloader.dataset of ' in printed and 'data/gone.json is missing' in printed
    assert not (tmp_path / 'work_dirs' / 'toy_config').exists()


def test_best_on_test_needs_a_test_and_validates(tmp_path):
    toy.write_config(tmp_path)
    printed = fails(tmp_path, 'train.py', 'toy_config.py', '--best-on-test', '--no-validate')
    assert '--best-on-test validates' in printed
    toy.write_config(tmp_path, 'test_dataloader = test_evaluator = test_cfg = None\n')
    printed = fails(tmp_path, 'train.py', 'toy_config.py', '--best-on-test')
    assert 'has no test_dataloader' in printed
    toy.write_config(tmp_path, "train_cfg = dict(type='IterBasedTrainLoop', max_iters=4)\n")
    printed = fails(tmp_path, 'train.py', 'toy_config.py', '--best-on-test')
    assert 'counts its training in steps, not epochs' in printed
    printed = fails(tmp_path, 'train.py', 'toy_config.py', '--devices', '0')
    assert 'has no trainings that come before it' in printed


def test_fewer_epochs_than_the_warmup_has(tmp_path):
    """Said at once; and what is advised works."""
    extra = """
param_scheduler = [
    dict(type='LinearLR', start_factor=0.1, end=2, convert_to_iter_based=True),
    dict(type='CosineAnnealingLR', begin=2, convert_to_iter_based=True),
]
train_dataloader['batch_size'] = 1
"""
    (tmp_path / 'toy_config.py').write_text(toy.CONFIG.format(root=toy.ROOT) + extra)
    options = ['--cfg-options', 'train_cfg.max_epochs=1']
    printed = fails(tmp_path, 'train.py', 'toy_config.py', *options)
    assert 'train_cfg.max_epochs is 1' in printed
    advised = printed.rpartition('--cfg-options ')[2].split()
    assert advised == ['param_scheduler.0.end=0.1', 'param_scheduler.1.begin=0.1']
    code, printed = run_tool(tmp_path, 'train.py', 'toy_config.py', *options, *advised)
    assert code == 0, printed


def test_no_base_batch_size(tmp_path):
    toy.write_config(tmp_path)
    printed = fails(tmp_path, 'train.py', 'toy_config.py', '--auto-scale-lr')
    assert 'no auto_scale_lr.base_batch_size' in printed


def test_resume_from_a_missing_file(tmp_path):
    toy.write_config(tmp_path)
    printed = fails(tmp_path, 'train.py', 'toy_config.py', '--resume', 'gone.pth')
    assert 'checkpoint gone.pth does not exist' in printed


def test_resume_with_another_seed(trained):
    folder, _ = trained
    printed = fails(folder, 'train.py', 'toy_config.py', '--resume', '--seed', 4)
    assert 'trained with seed 3, not 4' in printed


def test_checkpoint_of_another_model(trained):
    folder, _ = trained
    last = folder / 'work_dirs' / 'toy_config' / 'epoch_4.pth'
    for tool, argument in (('test.py', last), ('train.py', '--resume')):
        code, printed = run_tool(
            folder, tool, 'toy_config.py', argument, '--cfg-options', 'model.width=5'
        )
        assert code == 1 and 'Traceback' not in printed
        assert 'encoder.weight (4, 3) instead of (5, 3)' in printed


def test_resume_with_other_parameter_groups(trained):
    folder, _ = trained
    for option, groups in (
        ('paramwise_cfg.custom_keys.heads.lr_mult=0.5', 4),
        ('constructor=MatrixDecayConstructor', 2),
    ):
        code, printed = run_tool(
            folder, 'train.py', 'toy_config.py', '--resume', '--cfg-options',
            f'optim_wrapper.{option}',
        )  # fmt: skip
        assert code == 1 and 'Traceback' not in printed, printed
        assert f'has 1 groups of 4 parameters, that of this config {groups} of 4' in printed
        assert 'can start a new training: --cfg-options load_from=' in printed


def test_damaged_and_missing_checkpoints(trained, tmp_path):
    folder, _ = trained
    whole = (folder / 'work_dirs' / 'toy_config' / 'epoch_4.pth').read_bytes()
    (tmp_path / 'torn.pth').write_bytes(whole[: len(whole) // 2])
    toy.write_config(tmp_path)
    printed = fails(tmp_path, 'test.py', 'toy_config.py', 'torn.pth')
    assert 'checkpoint torn.pth cannot be read' in printed
    printed = fails(tmp_path, 'test.py', 'toy_config.py', 'gone.pth')
    assert 'checkpoint gone.pth does not exist' in printed
