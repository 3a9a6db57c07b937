"""The alternating loop: order of stages, counts, schedules, its own shuffle for each pass."""

import multiprocessing
from types import SimpleNamespace

import pytest
import torch
from mmengine.config import Config
from mmengine.runner import Runner

import toy
from mmvtr.engine.loops.alternating import AlternatingTrainLoop, _Passes
from mmvtr.engine.runner import ToolRunner


@pytest.fixture
def runner(tmp_path, monkeypatch):
    monkeypatch.setattr(Runner, '_log_env', lambda *args: None)
    cfg = Config.fromfile(toy.write_config(tmp_path))
    cfg.work_dir = str(tmp_path / 'work')
    cfg.train_cfg = dict(type='AlternatingTrainLoop', max_epochs=2)
    cfg.experiment_name = tmp_path.name
    return Runner.from_cfg(cfg)


def test_stages_alternate(runner):
    runner.train()
    model = runner.model
    assert model.stages_seen == 2 * (3 * ['uncertainty'] + 3 * ['retrieval'])
    assert model.stage is None
    assert runner.iter == runner.max_iters == 12
    assert len(runner.train_dataloader) == 6


@pytest.mark.parametrize('loop', ['EpochBasedTrainLoop', 'AlternatingTrainLoop'])
def test_kept_workers_end_with_the_training(tmp_path, monkeypatch, loop):
    """torch would wait for each of them for seconds at the exit, where batches are pinned."""
    monkeypatch.setattr(Runner, '_log_env', lambda *args: None)
    cfg = Config.fromfile(toy.write_config(tmp_path))
    cfg.work_dir = str(tmp_path / 'work')
    cfg.train_cfg = dict(type=loop, max_epochs=2)
    cfg.experiment_name = tmp_path.name + loop
    for loader in (cfg.train_dataloader, cfg.val_dataloader):
        loader.update(num_workers=1, persistent_workers=True)
    before, during = set(multiprocessing.active_children()), []
    runner = ToolRunner.from_cfg(cfg)
    runner.call_hook = lambda name, **kwargs: during.append(
        len(set(multiprocessing.active_children()) - before)
    )
    runner.train()
    assert max(during) > 1
    assert set(multiprocessing.active_children()) == before


def test_stage_is_joint_outside_of_the_passes(runner):
    seen = []
    runner.call_hook = lambda name, **kwargs: seen.append((name, runner.model.stage))
    runner.train()
    stages = {name: {s for n, s in seen if n == name} for name, _ in seen}
    assert stages['after_train_epoch'] == stages['before_val_epoch'] == {None}
    assert stages['before_train_iter'] == {'uncertainty', 'retrieval'}


def loader(keys, epochs):
    sampler = SimpleNamespace(set_epoch=epochs.append)
    return type(
        'Loader',
        (),
        dict(
            __iter__=lambda self: iter(keys),
            __len__=lambda self: len(keys),
            sampler=sampler,
            batch_sampler=None,
            dataset='the dataset',
        ),
    )()


def test_passes():
    epochs, model = [], SimpleNamespace(stage=None)
    passes = _Passes(SimpleNamespace(epoch=3), loader([1, 2], epochs), model, ('a', 'b', 'c'))
    assert [(item, model.stage) for item in passes] == [
        (1, 'a'), (2, 'a'), (1, 'b'), (2, 'b'), (1, 'c'), (2, 'c'),
    ]  # fmt: skip
    assert epochs == [9, 10, 11]  # shuffles and draws of its own for each pass
    assert (len(passes), passes.dataset, model.stage) == (6, 'the dataset', None)


def test_an_interrupted_pass_leaves_no_stage():
    model = SimpleNamespace(stage=None)
    passes = iter(_Passes(SimpleNamespace(epoch=0), loader([1, 2], []), model, ('a', 'b')))
    next(passes)
    assert model.stage == 'a'
    passes.close()
    assert model.stage is None


def test_model_needs_stages(tmp_path):
    model = torch.nn.Linear(1, 1)
    runner = SimpleNamespace(model=model, visualizer=SimpleNamespace())
    with pytest.raises(ValueError, match='Linear has no `stage`'):
        AlternatingTrainLoop(runner, loader([1], []), max_epochs=1)


def test_objectives_belong_to_no_stage(runner):
    runner.model.objectives = torch.nn.ModuleDict({'kl': torch.nn.Identity()})
    with pytest.raises(ValueError, match='objectives belong to no stage'):
        runner.train()
