"""The committed results of rehearsals: of the configs as they are now, and as the page says."""

import copy

import pytest

from children import ROOT, WITHIN_MINUTES
from rehearsal import report
from mmvtr.utils import load_config

FOLDER = ROOT / 'docs' / 'rehearsal'
RESULTS = report.read_results(FOLDER / report.RESULTS)


def rehearsed() -> list[str]:
    """Names of the configs that have a training, and none that is over in minutes."""
    names = []
    for path in sorted((ROOT / 'configs').glob('*.py')):
        if not any(word in path.stem for word in (*WITHIN_MINUTES, 'zeroshot')):
            names.append(path.stem)
    return names


def test_every_real_config_has_been_rehearsed():
    assert list(RESULTS) == rehearsed()


@pytest.mark.parametrize('name', RESULTS)
def test_as_it_is_now(name):
    """Whoever changes a config rehearses it: ``projects/lab/rehearse.py CONFIG --out projects/lab/docs/rehearsal``."""
    config = load_config(str(ROOT / 'configs' / f'{name}.py'))
    assert RESULTS[name]['sha'] == report.fingerprint(config)


def test_none_fails():
    unmet = {
        f'{name}: {check}'
        for name, one in RESULTS.items()
        for check, (passed, _) in one['checks'].items()
        if passed is False
    }
    assert unmet == set()


def test_they_are_all_that_is_kept():
    """Pictures are drawn on demand."""
    assert [path.name for path in FOLDER.iterdir() if path.suffix in ('.json', '.png')] == []


def test_the_page_is_made_of_them():
    assert (ROOT / 'docs' / 'rehearsal.md').read_text() == report.page(RESULTS.values())


CONFIG = 'dvtr_ncl_c2v_msrvtt'


@pytest.fixture(scope='module')
def config():
    """One with hooks of several kinds."""
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
