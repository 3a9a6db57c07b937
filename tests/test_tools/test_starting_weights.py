"""tools/train.py: what load_from and --resume take, and what they refuse."""

import os
import signal
import time
from pathlib import Path

import pytest
import torch

import toy
from children import log_of, run_tool, start_tool
from mmvtr.storage.weights import read_checkpoint

LAST = Path('work_dirs/toy_config/epoch_1.pth')


@pytest.fixture(scope='module')
def trained(tmp_path_factory):
    """A folder with a training of one epoch."""
    folder = tmp_path_factory.mktemp('trained')
    toy.write_config(folder)
    code, printed = run_tool(
        folder, 'train.py', 'toy_config.py', '--cfg-options', 'train_cfg.max_epochs=1'
    )
    assert code == 0, printed
    return folder


def train(folder, *options, work='again', code=0):
    """One more training, of a learning rate of 0; what it printed."""
    found, printed = run_tool(
        folder, 'train.py', 'toy_config.py', '--work-dir', work, '--cfg-options',
        'train_cfg.max_epochs=1', 'optim_wrapper.optimizer.lr=0.', *options,
    )  # fmt: skip
    assert found == code and 'Traceback' not in printed, printed
    return printed


def weights(path):
    return read_checkpoint(path)['state_dict']


def test_a_whole_start(trained):
    train(trained, f'load_from={LAST}')
    found, expected = weights(trained / 'again' / 'epoch_1.pth'), weights(trained / LAST)
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_a_part(trained):
    printed = train(trained, f'load_from={LAST}', 'load_from_prefixes=encoder.', work='part')
    assert f'From {LAST}: 2 encoder.*; all other weights keep their initial values' in printed
    found, expected = weights(trained / 'part' / 'epoch_1.pth'), weights(trained / LAST)
    fresh = toy.ToyRetriever().state_dict()
    for name, value in found.items():
        given = expected if name.startswith('encoder.') else fresh
        assert torch.equal(value, given[name]), name
    assert not torch.equal(expected['heads.weight'], fresh['heads.weight'])


@pytest.mark.parametrize(
    ('options', 'words'),
    [
        (['load_from=gone.pth'], 'checkpoint gone.pth does not exist'),
        (['load_from=s3://x/y.pth'], 'checkpoint s3://x/y.pth: download it'),
        ([f'load_from={LAST}', 'model.width=5'], 'encoder.weight (4, 3) instead of (5, 3)'),
        (['load_from=other.pth'], 'missing (4): encoder.weight, encoder.bias, ...'),
        (['load_from=other.pth'], 'unexpected (1): nothing'),
        (['load_from=text.pth'], "'epoch' is a int"),
        ([f'load_from={LAST}', 'load_from_prefixes=towers.'], 'no weight towers.*; its weights'),
        ([f'load_from={LAST}', 'load_from_prefixes=7'], 'is a list of beginnings'),
        (['load_from_prefixes=encoder.'], 'load_from_prefixes needs a load_from'),
        ([f'load_from={LAST}', 'load_from_prefixes=encoder.', 'model.width=5'], 'of another shape'),
    ],
)
def test_starts_that_are_refused(trained, options, words):
    torch.save(dict(nothing=torch.zeros(1)), trained / 'other.pth')
    torch.save(dict(epoch=3), trained / 'text.pth')
    printed = train(trained, *options, work='refused', code=1)
    assert words in printed and 'Epoch(train)' not in printed


def damage(folder, name):
    """A checkpoint to resume from, in the folder's work_dir ``damaged``."""
    content = read_checkpoint(folder / LAST)
    path = folder / 'damaged' / 'epoch_1.pth'
    path.parent.mkdir(exist_ok=True)
    if name == 'bare':
        content = content['state_dict']
    else:
        content.pop(name, None)
    torch.save(content, path)
    pointer = dict(empty=b'', garbage=b'\x00\xff\x80 no path').get(name, bytes(path))
    (path.parent / 'last_checkpoint').write_bytes(pointer)


@pytest.mark.parametrize(
    ('name', 'options', 'words'),
    [
        ('optimizer', [], 'cannot be resumed: it holds no optimizer.param_groups. Its weights can'),
        ('bare', [], 'it holds no meta.epoch, no meta.iter, no meta.order, no meta.groups'),
        ('param_schedulers', [], 'it holds no param_schedulers'),
        ('empty', [], "last_checkpoint is damaged: expected the path of a checkpoint, found b''"),
        ('garbage', [], r"found b'\x00\xff\x80 no path'"),
        ('', ['train_dataloader.batch_size=6'], '12 items, 4 joint batch, 1 accumulated, this run'),
        ('', ['train_dataloader.dataset.length=13'], 'this run has 13 items'),
    ],
)
def test_resumes_that_are_refused(trained, name, options, words):
    damage(trained, name)
    options = ['--cfg-options', *options] if options else []
    code, printed = run_tool(
        trained, 'train.py', 'toy_config.py', '--work-dir', 'damaged', '--resume', *options
    )
    assert code == 1 and words in printed and 'Traceback' not in printed, printed
    assert 'Epoch(train)' not in printed
    assert len(printed.rpartition('error: ')[2]) < 500


def test_a_checkpoint_without_digest_resumes(trained):
    damage(trained, '')
    code, printed = run_tool(
        trained, 'train.py', 'toy_config.py', '--work-dir', 'damaged', '--resume'
    )
    assert code == 0, printed
    assert 'Epoch(train) [2]' in printed and printed.count('has no digest') == 1
    for path in (trained / 'damaged').glob('*.pth'):
        path.unlink()


def test_a_config_that_resumes_by_itself(trained, tmp_path):
    toy.write_config(tmp_path, 'resume = True\n')
    code, printed = run_tool(tmp_path, 'train.py', 'toy_config.py')
    assert code == 0 and 'Epoch(train) [1]' in printed, printed
    code, printed = run_tool(tmp_path, 'train.py', 'toy_config.py')
    assert code == 0 and 'Epoch(train)' not in printed, printed


def test_a_run_that_was_killed_or_lives(tmp_path):
    """Its lock is taken over, or refuses a second run before that writes anything."""
    toy.write_config(tmp_path, "custom_hooks = [dict(type='KillHook', at=70)]\n")
    code, _ = run_tool(tmp_path, 'train.py', 'toy_config.py')
    work = tmp_path / 'work_dirs' / 'toy_config'
    assert code == -signal.SIGKILL and (work / '.lock').exists()
    toy.write_config(tmp_path, 'train_cfg = dict(by_epoch=True, max_epochs=100000)\n')
    living = start_tool(tmp_path, 'train.py', 'toy_config.py')
    log = log_of(tmp_path, living)
    while living.exitcode is None and not (log.exists() and 'Epoch(train)' in log.read_text()):
        time.sleep(0.05)
    os.kill(living.pid, signal.SIGSTOP)  # so that nothing changes in its folder
    try:
        assert 'is taken over from process' in log.read_text()
        before = sorted(work.rglob('*'))
        code, printed = run_tool(tmp_path, 'train.py', 'toy_config.py', '--resume')
        assert code == 1 and printed.startswith(f'error: {Path("work_dirs/toy_config")} is in use')
        assert f'process {living.pid} of ' in printed and len(printed.splitlines()) == 1
        assert sorted(work.rglob('*')) == before
    finally:
        os.kill(living.pid, signal.SIGCONT)
        living.terminate()
        living.join(60)
    assert living.exitcode == 128 + signal.SIGTERM and not (work / '.lock').exists()


def test_a_work_dir_that_is_a_file(tmp_path):
    toy.write_config(tmp_path)
    (tmp_path / 'file').write_text('')
    code, printed = run_tool(tmp_path, 'train.py', 'toy_config.py', '--work-dir', 'file')
    assert code == 1 and 'Traceback' not in printed
    assert 'error: work dir file cannot be written' in printed
