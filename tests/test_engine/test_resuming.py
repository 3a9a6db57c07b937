"""What a resumed training does with values that are others than before: the table, run."""

import shutil

import pytest
import torch

import toy
from children import ROOT, run_tool
from mmvtr.engine.loops.checkpoint import latest_checkpoint
from mmvtr.engine.loops.resume_rules import RULES, changes, values_of
from mmvtr.storage.weights import read_checkpoint
from tiny_sets import of_planted

FIRST = 'work_dirs/toy_config/epoch_2.pth'
#: All that a training of four epochs keeps, and numbers to change.
EXTRA = """
model = dict(type='ToySloped', slope=2.0, rate=1.0)
train_cfg = dict(by_epoch=True, max_epochs=4, val_interval=2)
default_hooks = dict(checkpoint=dict(max_keep_ckpts=-1))
custom_hooks = [dict(type='EMAHook', momentum=0.2)]
"""
OPTIMIZER = 'optim_wrapper.optimizer'


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp('trained')
    toy.write_config(folder, EXTRA)
    code, printed = run_tool(folder, 'train.py', 'toy_config.py')
    assert code == 0, printed
    return folder


def resumed(folder, work, *options, flags=()):
    """Go on after two epochs. Returns the exit code, what was said, and the last checkpoint."""
    code, printed = run_tool(
        folder, 'train.py', 'toy_config.py', '--resume', FIRST, '--work-dir', work, *flags,
        *(['--cfg-options', *options] if options else []),
    )  # fmt: skip
    assert 'Traceback' not in printed, printed
    last = latest_checkpoint(folder / work)
    return code, ' '.join(printed.split()), last and read_checkpoint(last)


def group(last):
    return last['optimizer']['param_groups'][0]


GOES_ON = {
    'epochs': (
        ['train_cfg.max_epochs=5'], 'from step 6 of 15 on', lambda c: c['meta']['epoch'] == 5,
    ),
    'fewer': (
        ['train_cfg.max_epochs=3'], 'from step 6 of 9 on', lambda c: c['meta']['epoch'] == 3,
    ),
    'rate': ([f'{OPTIMIZER}.lr=.05'], 'of 0.05', lambda c: group(c)['initial_lr'] == 0.05),
    'decay': (
        [f'{OPTIMIZER}.weight_decay=.1'], 'number of the config',
        lambda c: group(c)['weight_decay'] == 0.1,
    ),
    'betas': (
        [f'{OPTIMIZER}.betas=.8,.9'], 'betas was not set',
        lambda c: [*group(c)['betas']] == [0.8, 0.9],
    ),
    'schedule': (
        ['param_scheduler.warmup=.4'], 'the new schedule, at the step that is reached',
        lambda c: c['param_schedulers'][0]['warmup'] == 0.4,
    ),
    'clip': (['optim_wrapper.clip_grad.max_norm=1.'], 'clip_grad was not set', None),
    'loss': (['model.rate=.5'], 'model.rate was 1.0, is 0.5: from the next step on', None),
    'order': (['train_dataloader.sampler.shuffle=False'], 'sampler.shuffle was not set', None),
    'validation': (['train_cfg.val_interval=1'], 'val_interval was 2, is 1', None),
    'average': (['custom_hooks.0.momentum=.1'], 'momentum was 0.2, is 0.1: from here on', None),
    'workers': (['train_dataloader.num_workers=1'], 'resumed epoch: 2', None),
    'seed': (['randomness.seed=0'], 'resumed epoch: 2', None),
}  # fmt: skip


@pytest.mark.parametrize('name', GOES_ON)
def test_values_that_take_effect(trained, name):
    options, words, holds = GOES_ON[name]
    code, said, last = resumed(trained, name, *options)
    assert code == 0 and words in said, said
    assert ('resumed with another value' in said) == (name not in ('workers', 'seed'))
    assert holds is None or holds(last)


def test_another_precision(trained):
    code, said, last = resumed(trained, 'amp', flags=['--amp'])
    assert code == 0 and "optim_wrapper.type was 'OptimWrapper', is" in said
    assert last['meta']['training']['precision'] == 'bf16'


@pytest.mark.parametrize(
    ('options', 'words'),
    [
        (['train_cfg.max_epochs=1'], 'it has 2 epochs behind it, train_cfg.max_epochs=1'),
        ([f'{OPTIMIZER}.type=RAdam'], "optimizer.type was 'BertAdam', is 'RAdam'"),
        (['optim_wrapper.accumulative_counts=2'], '1 accumulated, this run has'),
        (['train_dataloader.batch_size=6'], '4 joint batch'),
        (['randomness.seed=9'], 'was trained with seed'),
        (['model.slope=3.'], 'model.slope was 2.0, is 3.0: it is the start of slope'),
        (['custom_hooks=[]'], 'it holds averaged weights'),
        (['default_hooks.checkpoint.rule=less'], 'score of the best epoch so far'),
        (['val_dataloader.dataset.length=4'], 'val_dataloader.dataset.length was 8, is 4'),
        (['train_dataloader.drop_last=True'], 'another number of steps'),
        (['optim_wrapper.paramwise_cfg.custom_keys.heads.lr_mult=.5'], 'has 1 groups of 5'),
    ],
)
def test_values_that_are_refused(trained, options, words):
    code, said, last = resumed(trained, 'refused', *options)
    assert code == 1 and words in said, said
    assert last is None and 'Epoch(train)' not in said
    assert len(said.rpartition('error: ')[2]) < 600


def test_more_epochs_have_the_rates_of_that_length(trained, tmp_path):
    """Scheduler and rates at the end are those of five epochs without a stop, bit for bit."""
    toy.write_config(tmp_path, EXTRA)
    code, printed = run_tool(
        tmp_path, 'train.py', 'toy_config.py', '--cfg-options', 'train_cfg.max_epochs=5'
    )
    assert code == 0, printed
    whole = read_checkpoint(tmp_path / 'work_dirs/toy_config/epoch_5.pth')
    _, _, last = resumed(trained, 'five', 'train_cfg.max_epochs=5')
    assert group(last)['lr'] == group(whole)['lr'] and group(last)['lr'] > 0
    for name in ('base_values', 'end', 'last_step', '_last_value', '_global_step'):
        assert last['param_schedulers'][0][name] == whole['param_schedulers'][0][name]


def test_groups_of_the_same_sizes_and_other_parameters_are_refused(trained):
    content = read_checkpoint(trained / FIRST)
    content['meta']['groups'][0].reverse()
    torch.save(content, trained / 'moved.pth')
    code, printed = run_tool(
        trained, 'train.py', 'toy_config.py', '--resume', 'moved.pth', '--work-dir', 'moved'
    )
    assert code == 1 and 'Epoch(train)' not in printed, printed
    assert 'the groups of its optimizer hold other parameters' in printed


def test_a_copied_run_resumes_from_its_own_folder(trained):
    """``last_checkpoint`` names the original's file; the copy's is of two epochs."""
    original, copy = trained / 'work_dirs/toy_config', trained / 'copied'
    shutil.copytree(original, copy)
    shutil.copy2(copy / 'epoch_2.pth', copy / 'epoch_4.pth')
    code, printed = run_tool(
        trained, 'train.py', 'toy_config.py', '--resume', '--work-dir', 'copied'
    )
    said = ' '.join(printed.split())
    assert code == 0 and 'resumed epoch: 2' in said, said
    assert 'resumed from copied/epoch_4.pth; last_checkpoint names' in said
    assert str(original / 'epoch_4.pth') in said


def test_the_set_of_a_resumed_training_has_other_ids(tmp_path):
    (tmp_path / 'one.py').write_text(of_planted('c2v_planted', max_epochs=1))
    (tmp_path / 'two.py').write_text(of_planted('c2v_planted', max_epochs=2))
    code, printed = run_tool(tmp_path, 'train.py', 'one.py', '--work-dir', 'run')
    assert code == 0, printed
    content = read_checkpoint(tmp_path / 'run/epoch_1.pth')
    trained = content['meta']['training']['ids']
    content['meta']['training']['ids'] = '01234567'
    torch.save(content, tmp_path / 'other.pth')
    for path in ('other.pth', 'run/epoch_1.pth'):
        command = ['two.py', '--resume', path, '--work-dir', 'on']
        code, printed = run_tool(tmp_path, 'train.py', *command)
        assert code == 0, printed
        said = ' '.join(printed.split())
        assert ('other ids, or the same in another order' in said) == (path == 'other.pth')
        assert (f'(hash {trained}), than that of other.pth (01234567)' in said) == (
            path == 'other.pth'
        )


def test_the_seed_of_a_config_is_not_the_trained_one(trained):
    config = (trained / 'toy_config.py').read_text()
    (trained / 'seeded.py').write_text(config + '\nrandomness = dict(seed=911)\n')
    code, printed = run_tool(
        trained, 'train.py', 'seeded.py', '--resume', FIRST, '--work-dir', 'seeded'
    )
    assert code == 0 and 'randomness.seed=911 of the config' in printed, printed


def test_a_resumed_training_with_averaged_weights_tests_them_without_a_warning(trained):
    _, said, _ = resumed(trained, 'averaged')
    assert 'Testing the weights of' in said and 'There is no `ema_state_dict`' not in said


def test_the_page_has_the_table():
    by_action = {}
    for rule in RULES:
        by_action.setdefault(rule.action, []).append(rule.what)
    rows = [f'| {action} | {"; ".join(values)} |' for action, values in by_action.items()]
    table = '\n'.join(['| what happens | values |', '|---|---|', *rows])
    assert table in (ROOT / 'docs' / 'training.md').read_text()


def test_values_that_a_checkpoint_can_hold():
    found = values_of(dict(a=(1, {'b': None}), f=torch.float16))
    assert found == dict(a=[1, dict(b=None)], f='torch.float16')


def test_what_counts_as_another_value():
    same = dict(a=None, b=dict(type='mmvtr.X'), work_dir='x', c=(1, 2))
    assert changes(same, dict(b=dict(type='X'), work_dir='y', c=(1, 2))) == []
    (one,) = changes(dict(new=dict(key=1)), dict(new=dict(key=2)))
    assert str(one) == 'new.key was 1, is 2: from here on'
