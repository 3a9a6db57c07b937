"""Which parts of a config its rehearsal depends on."""

import copy

import pytest

from children import ROOT
from mmvtr.utils import load_config
from rehearsal import report

CONFIG = 'dvtr_ncl_c2v_msrvtt'


@pytest.fixture(scope='module')
def config():
    """Return a config with hooks of several kinds."""
    return load_config(str(ROOT / 'configs' / f'{CONFIG}.py'))


@pytest.mark.parametrize(
    'key, value',
    [
        ('default_hooks.logger.interval', 7),
        ('default_hooks.logger', dict(type='mmvtr.TimedLoggerHook', interval=3)),
        ('default_hooks.checkpoint.max_keep_ckpts', 3),
        ('default_hooks.eta', dict(type='mmvtr.EtaMonitorHook')),
        ('custom_hooks', [dict(type='mmvtr.PicturesHook', pictures=['matrix'])]),
        ('custom_hooks', [dict(type='mmvtr.NNNHook')]),
        ('log_processor.window_size', 5),
        ('log_level', 'ERROR'),
        ('visualizer.vis_backends', [dict(type='TensorboardVisBackend')]),
        ('work_dir', 'elsewhere'),
        ('train_cfg.val_interval', 2),
        ('train_dataloader.num_workers', 1),
        ('test_cfg.tile_rows', 9),
        ('test_evaluator', []),
        ('env_cfg.dist_cfg.backend', 'gloo'),
        ('a_variable_of_its_own', 3),
    ],
)
def test_what_no_training_reads_needs_no_rehearsal(config, key, value):
    changed = copy.deepcopy(config)
    changed.custom_hooks = [] if key == 'custom_hooks' else changed.get('custom_hooks')
    before = report.fingerprint(changed)
    changed.merge_from_dict({key: value})
    assert report.fingerprint(changed) == before


@pytest.mark.parametrize(
    'key, value',
    [
        ('optim_wrapper.optimizer.lr', 0.5),
        ('train_cfg.max_epochs', 77),
        ('train_dataloader.batch_size', 3),
        ('train_dataloader.dataset.split', 'other'),
        ('model.temperature.init', 0.5),
        ('randomness.seed', 5),
        ('param_scheduler', []),
        ('custom_hooks', [dict(type='mmvtr.QueryQueueHook', size=9)]),
        ('custom_hooks', [dict(type='another.Hook')]),
    ],
)
def test_what_a_training_reads_needs_one(config, key, value):
    changed = copy.deepcopy(config)
    changed.custom_hooks = []
    before = report.fingerprint(changed)
    changed.merge_from_dict({key: value})
    assert report.fingerprint(changed) != before
