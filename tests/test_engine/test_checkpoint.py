"""Checkpoints are plain and whole, and a run killed anywhere resumes to the same end."""

import logging
import random
import signal
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from mmengine.config import Config
from mmengine.runner import Runner

import toy
from children import MP, in_child
from mmvtr.engine.hooks.checkpoint_hook import PlainCheckpointHook, plain
from mmvtr.engine.loops.checkpoint import latest_checkpoint, random_states, set_random_states
from mmvtr.storage.weights import check_weights, read_checkpoint


def train(folder: Path, *, kill_at: int = -1, resume: bool = False, events=None, **options) -> None:
    """Train the toy in this process; ``events`` receives the names of the run's events."""
    cfg = Config.fromfile(toy.write_config(folder))
    cfg.merge_from_dict(options)
    cfg.work_dir = str(folder / 'work')
    cfg.custom_hooks = [dict(type='KillHook', at=kill_at)]
    if resume:
        cfg.load_from = latest_checkpoint(cfg.work_dir)
        cfg.resume = cfg.load_from is not None
    runner = Runner.from_cfg(cfg)
    runner.train()
    if events is not None:
        events.extend(runner.hooks[-1].log)


def train_in_child(folder: Path, **kwargs) -> int:
    return in_child(folder / 'log.txt', train, folder, **kwargs)


def outcome(work_dir: Path) -> dict:
    """Everything that a finished run leaves behind, as bytes and plain values."""
    files = {path.name for path in work_dir.glob('*.pth*')}
    last = read_checkpoint(latest_checkpoint(work_dir))
    hub = last['message_hub']['runtime_info']
    best = read_checkpoint(hub['best_ckpt'])
    values = {name: w.numpy().tobytes() for name, w in last['state_dict'].items()}
    values.update({f'best {name}': w.numpy().tobytes() for name, w in best['state_dict'].items()})
    states = last['optimizer']['state'].values()
    values['optimizer'] = [x.numpy().tobytes() for state in states for x in state.values()]
    values['schedulers'] = last['param_schedulers']
    return dict(files=files, best_score=hub['best_score'], epoch=last['meta']['epoch'], **values)


@pytest.fixture(scope='module')
def uninterrupted(tmp_path_factory):
    folder = tmp_path_factory.mktemp('uninterrupted')
    with MP.Manager() as manager:
        events = manager.list()
        assert train_in_child(folder, events=events) == 0, (folder / 'log.txt').read_text()
        return outcome(folder / 'work'), list(events)


def nth(events, name, n):
    return [i for i, event in enumerate(events) if event == name][n]


@pytest.mark.parametrize(
    ('event', 'n'),
    [
        ('after_train_iter', 1),  # in the first epoch: nothing to resume from
        ('before_train_iter', 7),  # in an epoch
        ('before fsync', 2),  # while an epoch's checkpoint is written, its file incomplete
        ('after replace', 2),  # written, but not yet pointed to
        ('before_val_epoch', 2),  # saved, not validated
        ('after_val_iter', -1),  # in the last validation
        ('before fsync', -3),  # while the best checkpoint is written
        ('after replace', -3),  # best written, its score not yet stored
        ('before remove', 1),  # everything written, outdated files still there
        ('after_train', 0),  # finished
    ],
)
def test_killed_and_resumed(uninterrupted, tmp_path, event, n):
    expected, events = uninterrupted
    kill_at = nth(events, event, n)
    assert train_in_child(tmp_path, kill_at=kill_at) == -signal.SIGKILL
    assert train_in_child(tmp_path, resume=True) == 0, (tmp_path / 'log.txt').read_text()
    assert outcome(tmp_path / 'work') == expected


def test_alternation_resumes_exactly(tmp_path):
    options = dict(train_cfg=dict(_delete_=True, type='AlternatingTrainLoop', max_epochs=2))
    for name in ('whole', 'killed'):
        (tmp_path / name).mkdir()
    with MP.Manager() as manager:
        events = manager.list()
        assert train_in_child(tmp_path / 'whole', events=events, **options) == 0
        kill_at = nth(events, 'before_train_iter', 8)  # second epoch, first stage
    assert train_in_child(tmp_path / 'killed', kill_at=kill_at, **options) == -signal.SIGKILL
    assert train_in_child(tmp_path / 'killed', resume=True, **options) == 0
    whole, killed = (outcome(tmp_path / name / 'work') for name in ('whole', 'killed'))
    assert killed == whole


@pytest.mark.parametrize('counts', [2, 5])
def test_accumulation_resumes_exactly(tmp_path, counts):
    """Three batches an epoch: the last one, or all, make a step with fewer than accumulated."""
    options = {'optim_wrapper.accumulative_counts': counts}
    for name in ('whole', 'killed'):
        (tmp_path / name).mkdir()
    assert train_in_child(tmp_path / 'whole', **options) == 0
    with MP.Manager() as manager:
        events = manager.list()
        (tmp_path / 'events').mkdir()
        assert train_in_child(tmp_path / 'events', events=events, **options) == 0
        kill_at = nth(events, 'before_train_iter', 4)  # in the second epoch, within a window
    assert train_in_child(tmp_path / 'killed', kill_at=kill_at, **options) == -signal.SIGKILL
    assert train_in_child(tmp_path / 'killed', resume=True, **options) == 0
    whole, killed = (outcome(tmp_path / name / 'work') for name in ('whole', 'killed'))
    assert killed == whole


def test_written_checkpoints_are_plain(uninterrupted):
    expected, _ = uninterrupted
    assert expected['files'] == {'epoch_4.pth', 'best.pth'}
    # read_checkpoint, which `outcome` used, loads under weights_only=True


def test_plain_converts_and_keeps():
    value = dict(a=np.float32(1.5), b=[np.int64(2), (np.bool_(True), 'x')], c=np.arange(3), d=None)
    result = plain(value, 'meta')
    assert result['a'] == 1.5 and type(result['a']) is float
    assert result['b'] == [2, (True, 'x')] and type(result['b'][0]) is int
    assert result['c'].tolist() == [0, 1, 2] and isinstance(result['c'], torch.Tensor)
    state = torch.nn.Linear(2, 2).state_dict()
    assert plain(state, 'state_dict')._metadata is state._metadata


def test_plain_names_the_place():
    with pytest.raises(TypeError, match=r'meta\.a\[1\] is a set'):
        plain(dict(a=[1, {2}]), 'meta')


def test_random_states_survive_a_file(tmp_path):
    def draw():
        return random.random(), np.random.rand(), np.random.randn(), torch.rand(1).item()

    draw()
    torch.save(random_states(), tmp_path / 'states.pt')
    first = draw()
    set_random_states(torch.load(tmp_path / 'states.pt', weights_only=True))
    assert draw() == first


def test_save_best_is_one_key():
    with pytest.raises(ValueError, match='one metric key'):
        PlainCheckpointHook(save_best=['a', 'b'])


def test_nothing_is_chosen_where_a_transform_was_left_out(caplog):
    hook = PlainCheckpointHook(save_best='sinkhorn/retrieval/rsum', rule='greater')
    hook.file_backend = None  # as after before_train
    hub = SimpleNamespace(update_info=lambda *told: None)
    runner = SimpleNamespace(message_hub=hub, epoch=3, logger=logging.getLogger('best'))
    hook.after_val_epoch(runner, {'retrieval/rsum': 5.0})
    assert 'best.pth is not chosen at epoch 3: there is no sinkhorn/retrieval/rsum' in caplog.text
    with pytest.raises(KeyError, match='is not among the metrics of the validation: retrieval/mAP'):
        hook.after_val_epoch(runner, {'retrieval/mAP': 5.0})


@pytest.mark.parametrize('content', [b'', b'no checkpoint', b'\x80\x02}q\x00(X', None])
def test_damaged_checkpoints_are_named(tmp_path, content):
    path = tmp_path / 'damaged.pth'
    if content is None:  # torn in the middle
        torch.save(dict(state_dict=dict(w=torch.zeros(1000))), path)
        content = path.read_bytes()[:2000]
    path.write_bytes(content)
    with pytest.raises(RuntimeError, match='damaged.pth cannot be read'):
        read_checkpoint(path)


def test_missing_checkpoint_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match='none.pth does not exist'):
        read_checkpoint(tmp_path / 'none.pth')


def test_bare_state_dict(tmp_path):
    torch.save(dict(w=torch.ones(2)), tmp_path / 'bare.pth')
    assert read_checkpoint(tmp_path / 'bare.pth')['state_dict']['w'].tolist() == [1, 1]


def test_weights_of_another_model():
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
    weights = dict(model.state_dict())
    check_weights(model, weights, 'good.pth')
    weights['0.weight'] = torch.zeros(3, 4)
    weights['9.bias'] = weights.pop('1.bias')
    with pytest.raises(RuntimeError) as error:
        check_weights(model, weights, 'other.pth')
    assert 'other.pth does not fit this Sequential' in str(error.value)
    assert 'missing (1): 1.bias' in str(error.value)
    assert 'unexpected (1): 9.bias' in str(error.value)
    assert 'of another shape (1): 0.weight (3, 4) instead of (3, 2)' in str(error.value)


def test_latest_checkpoint_follows_a_moved_folder(tmp_path):
    assert latest_checkpoint(tmp_path) is None
    (tmp_path / 'last_checkpoint').write_text('/gone/epoch_3.pth')
    assert latest_checkpoint(tmp_path) == '/gone/epoch_3.pth'
    (tmp_path / 'epoch_3.pth').touch()
    assert latest_checkpoint(tmp_path) == str(tmp_path / 'epoch_3.pth')
    original = tmp_path / 'original'
    original.mkdir()
    (original / 'epoch_3.pth').touch()
    (tmp_path / 'last_checkpoint').write_text(str(original / 'epoch_3.pth'))
    assert latest_checkpoint(tmp_path) == str(tmp_path / 'epoch_3.pth')
    (tmp_path / 'epoch_3.pth').unlink()  # checkpoints may be in a folder of their own
    assert latest_checkpoint(tmp_path) == str(original / 'epoch_3.pth')
