"""Keys that nothing reads are told by their full name; no config of the project is suspected."""

from pathlib import Path

import pytest
from mmengine import registry
from mmengine.config import Config, ConfigDict
from mmengine.hooks import Hook
from mmengine.registry import DefaultScope
from torch import nn

from children import config_file
from mmvtr.apis import load_retriever
from mmvtr.engine.checks import config_checks
from mmvtr.engine.checks.arguments import arguments_of
from mmvtr.engine.checks.config_checks import check_config, component_faults
from mmvtr.engine.checks.key_checks import KNOWN, hook_faults, key_faults
from mmvtr.errors import UserError
from mmvtr.registry import HOOKS, MODELS
from mmvtr.utils import load_config, register_all_modules

FOLDER = Path(__file__).parents[2] / 'configs'
PLANTED = str(FOLDER / 'dvtr_c2v_planted.py')


@pytest.fixture(autouse=True)
def scope():
    register_all_modules()


def test_no_config_of_the_project_is_suspected():
    paths = sorted(FOLDER.glob('*.py'))
    assert len(paths) > 100
    for path in paths:
        cfg = load_config(str(path))
        assert [*key_faults(cfg), *component_faults(cfg), *hook_faults(cfg)] == [], path.stem


def test_a_hook_to_be_taken_away_must_be_there(tmp_path):
    path = str(FOLDER / 'c2v_planted_features.py')
    assert refused('default_hooks.checkpont', None, path) == (
        'default_hooks.checkpont: there is no such hook to remove; did you mean checkpoint?'
    )
    assert 'remove; there are ' in refused('default_hooks.zebra', None, path)
    for name in ('checkpoint', 'param_scheduler', 'seed'):  # of both, mmengine's, ours
        key = f'default_hooks.{name}'
        assert not list(hook_faults(load_config(path, {key: None}), [key]))
    child = tmp_path / 'child.py'
    hooks = dict(seed=None, zebra=None, checkpont=None)
    child.write_text(f'_base_ = {path!r}\ndefault_hooks = dict(**{hooks})')
    (fault,) = hook_faults(load_config(str(child)))
    assert fault.startswith('default_hooks.checkpont: ')


def test_a_multiplier_of_no_weight_decay():
    said = refused('optim_wrapper.optimizer', dict(type='SGD', lr=0.1, _delete_=True))
    assert said == (
        'optim_wrapper.paramwise_cfg.custom_keys.supervision.decay_mult: '
        'optim_wrapper.optimizer.weight_decay is not set; set it (0: none)'
    )
    set_ = dict(type='SGD', lr=0.1, weight_decay=0.0, _delete_=True)
    check_config(load_config(PLANTED, {'optim_wrapper.optimizer': set_}))


def test_every_top_level_key_of_the_runner_is_known():
    assert {'model', 'train_cfg', 'custom_hooks', 'load_from', 'shortcuts'} <= KNOWN
    assert not {'self', 'cfg', 'modle'} & KNOWN


def refused(key, value=1, path=PLANTED):
    """What is said of one option."""
    cfg = load_config(path, {key: value})
    with pytest.raises(UserError) as error:
        check_config(cfg, [key])
    said = str(error.value)
    assert said.startswith(f'{path}: ') and len(said) < 500 and '\n' not in said
    return said.removeprefix(f'{path}: ')


@pytest.mark.parametrize(
    ('key', 'said'),
    [
        ('modle.x', 'modle: nothing reads this key; did you mean model?'),
        ('resum', 'resum: nothing reads this key; did you mean resume?'),
        ('zebra', 'zebra: nothing reads this key (a key of your own'),
        ('corpus.general', 'corpus: a variable of the config file, which is read before'),
        ('train_dataloader.dataset.genral', "PlantedDataset has no argument 'genral'; did you"),
        ('train_dataloader.bath_size', "no argument 'bath_size'; did you mean batch_size?"),
        ('train_dataloader.dataset.video_pipeline.0.num_frame', 'did you mean num_frames?'),
        ('train_dataloader.sampler.shufle', "EpochSampler has no argument 'shufle'"),
        ('train_dataloader.dataset.text_pipeline.0.xyz', "WordTokenize has no argument 'xyz';"),
        ('model.supervison.floor', 'did you mean supervision?'),
        ('model.belief.at', 'it is teacher now'),
        ('model.supervision.flor', "DVTRSupervision has no argument 'flor'; did you mean floor?"),
        ('model.losses.contrastiv.loss_weight', 'has no type; did you mean contrastive?'),
        ('default_hooks.loger.interval', 'default_hooks.loger: has no type; did you mean logger?'),
        ('default_hooks.checkpoint.save_bst', 'did you mean save_best?'),
        ('optim_wrapper.optimizer.weight_decy', "AdamW has no argument 'weight_decy'"),
        ('optim_wrapper.clip_grad.max_nrm', 'did you mean max_norm?'),
        ('optim_wrapper.paramwise_cfg.custom_key', 'did you mean custom_keys?'),
        ('optim_wrapper.optimiser.lr', "OptimWrapper has no argument 'optimiser'"),
        ('train_cfg.max_epoch', "EpochBasedTrainLoop has no argument 'max_epoch'"),
        ('val_cfg.tile_row', "RetrievalLoop has no argument 'tile_row'"),
        ('param_scheduler.0.begn', "LinearLR has no argument 'begn'"),
        ('randomness.sed', 'randomness.sed: nothing reads this key; did you mean seed?'),
        ('env_cfg.cudnn_benchmrk', 'did you mean cudnn_benchmark?'),
        ('log_processor.windw_size', 'did you mean window_size?'),
        ('visualizer.vis_backend', 'did you mean vis_backends?'),
    ],
)  # fmt: skip
def test_a_key_that_nothing_reads(key, said):
    found = refused(key)
    assert said in found and found.startswith(key.partition('.')[0])


def test_a_former_name_leads_to_the_name_of_today():
    assert refused('model.supervision.type', 'CrossFittedBelief').endswith(
        "nothing is registered as 'CrossFittedBelief'; it is CrossFittedTeachers now"
    )


@pytest.mark.parametrize(
    ('key', 'wrong', 'right'),
    [
        ('model.type', 'VideoTextRetreiver', 'VideoTextRetriever'),
        ('model.encoder.type', 'CLIP2Vido', 'CLIP2Video'),
        ('train_dataloader.dataset.type', 'PlantedDatset', 'PlantedDataset'),
        ('train_dataloader.collate_fn.type', 'colate_retrieval', 'collate_retrieval'),
        ('test_evaluator.0.type', 'RetrivalMetric', 'RetrievalMetric'),
        ('train_cfg.type', 'EpochBasedTrainLop', 'EpochBasedTrainLoop'),
        ('optim_wrapper.optimizer.type', 'AdamWW', 'AdamW'),
        ('param_scheduler.0.type', 'LinerLR', 'LinearLR'),
    ],
)
def test_a_name_that_nobody_registered(key, wrong, right):
    assert (
        refused(key, wrong) == f'{key}: nothing is registered as {wrong!r}; did you mean {right}?'
    )


def test_a_name_far_from_all_gets_the_nearest():
    found = refused('model.encoder.type', 'VideoTower')
    assert "model.encoder.type: nothing is registered as 'VideoTower'; the nearest are " in found
    assert 'Video' in found.partition('nearest are')[2]
    assert found.endswith("; a part of your own needs custom_imports=dict(imports=['its.module'])")


@pytest.mark.parametrize(
    ('key', 'wrong', 'expected'),
    [
        ('train_dataloader.batch_size', '12', 'an integer'),
        ('train_dataloader.batch_size', 7.5, 'an integer'),
        ('train_dataloader.num_workers', 0.5, 'an integer'),
        ('train_cfg.max_epochs', 1.5, 'an integer'),
        ('train_cfg.val_interval', 'two', 'an integer'),
        ('model.temperature.init', 'hot', 'a number'),
        ('train_dataloader.dataset.video_pipeline.0.num_frames', 'six', 'an integer'),
        ('param_scheduler.0.begin', 'late', 'an integer'),
    ],
)
def test_a_value_of_another_type(key, wrong, expected):
    found = refused(key, wrong)
    assert found.startswith(f'{key}: ') and found.endswith(f'expected, found {wrong!r}')
    assert expected in found


def test_a_module_that_cannot_be_imported(tmp_path):
    (tmp_path / 'own.py').write_text(
        f"_base_ = {PLANTED!r}\ncustom_imports = dict(imports=['no_such.lossses'])"
    )
    with pytest.raises(UserError) as error:
        load_config(str(tmp_path / 'own.py'))
    assert str(error.value).endswith("own.py: custom_imports: No module named 'no_such'")


def types_in(value, key=''):
    """Keys of all components of a config."""
    if isinstance(value, dict):
        if isinstance(value.get('type'), str):
            yield key
        for name, part in value.items():
            yield from types_in(part, f'{key}.{name}' if key else name)
    elif isinstance(value, (list, tuple)):
        for i, part in enumerate(value):
            yield from types_in(part, f'{key}.{i}')


@pytest.mark.parametrize(
    'name',
    [
        'dvtr_c2v_planted',
        *(
            pytest.param(name, marks=pytest.mark.nightly)
            for name in ('causal_hgr_epic_ran', 'ncl_clip4clip_msvd')
        ),
    ],
)
def test_an_unknown_type_anywhere_is_named_with_its_key(name):
    cfg = Config.fromfile(config_file(name))
    read = {key: cfg[key] for key in cfg if key in KNOWN - {'shortcuts'}}
    keys = list(types_in(read))
    assert len(keys) > 20
    for key in keys:
        part = cfg._cfg_dict
        for step in key.split('.'):
            part = part[int(step)] if isinstance(part, (list, tuple)) else part[step]
        was, part['type'] = part['type'], 'Nonesuch'
        assert any(x.startswith(f"{key}.type: nothing is registered as 'None") for x in
                   component_faults(cfg)), key  # fmt: skip
        part['type'] = was


def test_who_loads_a_model_alone_is_told_the_key(tmp_path):
    text = f"_base_ = {str(PLANTED)!r}\nmodel = dict(encoder=dict(text=dict(type='WordTowr')))\n"
    (tmp_path / 'mine.py').write_text(text)
    with pytest.raises(ValueError, match=r"mine.py: model.encoder.text.type: .* 'WordTowr'; "):
        load_retriever(tmp_path / 'mine.py', None, random_weights=True)


def test_what_is_missing_is_named():
    cfg = Config.fromfile(PLANTED)
    del cfg.train_dataloader.dataset['split']
    del cfg.model.encoder['text']
    del cfg.test_dataloader['dataset']
    assert list(component_faults(cfg)) == [
        'model.encoder: CLIP2Video needs text',
        'train_dataloader.dataset: PlantedDataset needs split',
        'test_dataloader: has no dataset',
    ]


@pytest.mark.parametrize('name', [*config_checks.BACKENDS])
def test_a_backend_whose_package_is_missing(name, monkeypatch):
    assert name in registry.VISBACKENDS.module_dict
    cfg = Config(dict(visualizer=dict(type='Visualizer', vis_backends=[dict(type=name)])))
    monkeypatch.setattr(config_checks, 'find_spec', lambda package: object())
    assert not [*config_checks.component_faults(cfg)]
    monkeypatch.setattr(config_checks, 'find_spec', lambda package: None)
    (said,) = config_checks.component_faults(cfg)
    assert said.startswith(f'visualizer.vis_backends: {name} needs ') and 'pip install' in said


def test_many_faults_are_told_in_a_few_lines():
    options = {f'model.wrong{i}': 1 for i in range(9)}
    with pytest.raises(UserError) as error:
        check_config(load_config(PLANTED, options), options)
    lines = str(error.value).splitlines()
    assert len(lines) == 6 and lines[-1] == '... and 4 more'


def test_keys_of_ones_own(tmp_path):
    own = tmp_path / 'own.py'
    own.write_text(
        f"_base_ = ['{PLANTED}']\ncustom_keys = ['mine']\nvalidator = 3\n"
        'modell = dict(x=1)  # a helper\nother = dict(modell, y=2)\n'
    )
    for options in ({}, {'mine.x': 1}, {'_mine': 1}, {'validator': 4}):
        check_config(load_config(str(own), options), options)
    assert 'modell: a variable of the config file' in refused('modell.x', path=str(own))
    own.write_text(f"_base_ = ['{PLANTED}']\nmodle = dict(x=1)  # modle\n")
    assert list(key_faults(load_config(str(own))))[0].startswith('modle: nothing reads this key')


# -- downstream --------------------------------------------------------------------------------


class Base(nn.Module):
    def __init__(self, width, depth=2):
        super().__init__()


class Closed(Base):
    def __init__(self, *args, extra=1, **kwargs):
        self.mode = kwargs.pop('mode', None)
        super().__init__(*args, **kwargs)


class Fills(Base):
    def __init__(self, **kwargs):
        super().__init__(3, **kwargs)


class Open(Base):
    def __init__(self, **kwargs):
        super().__init__(3)
        self.options = kwargs


class Picks(Base):
    def __init__(self, **kwargs):
        self.own = {name: kwargs.pop(name) for name in ('a', 'b')}
        super().__init__(**kwargs)


class Says(Picks):
    option_names = ('a', 'b')


@pytest.mark.parametrize(
    ('component', 'names', 'required', 'is_open'),
    [
        (Base, {'width', 'depth'}, {'width'}, False),
        (Closed, {'width', 'depth', 'extra', 'mode'}, {'width'}, False),
        (Fills, {'width', 'depth'}, set(), False),
        (Open, set(), set(), True),
        (Picks, {'width', 'depth'}, {'width'}, True),
        (Says, {'width', 'depth', 'a', 'b'}, {'width'}, False),
        (nn.Module, set(), set(), False),
    ],
)
def test_arguments_follow_kwargs_up(component, names, required, is_open):
    assert arguments_of(component) == (names, required, is_open)


def test_components_from_elsewhere():
    """One with ``**kwargs`` takes anything; one in another scope is found."""
    HOOKS.register_module(module=type('OwnHook', (Hook,), {'__init__': Open.__init__}), force=True)
    MODELS.register_module(name='OwnOpen', module=Open, force=True)
    cfg = Config.fromfile(PLANTED)
    cfg.custom_hooks = [dict(type='OwnHook', anything=1), dict(type='mmvtr.OwnHook', x=dict(a=1))]
    cfg.model.encoder = ConfigDict(type='OwnOpen', act=dict(type='no component of ours'))
    assert list(component_faults(cfg)) == []
    with DefaultScope.overwrite_default_scope('mmengine'):
        assert registry.MODELS.get('mmvtr.OwnOpen') is Open


def test_components_of_a_project_are_found_where_its_registry_says(tmp_path, monkeypatch):
    """Its module is imported by the first look, as when the Runner builds them."""
    (tmp_path / 'otherlab_hooks.py').write_text(
        'from mmengine.hooks import Hook\nfrom mmengine.registry import HOOKS\n'
        "HOOKS.children['otherlab'].register_module(module=type('OtherHook', (Hook,), {}))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry.HOOKS, '_children', dict(registry.HOOKS.children))
    registry.Registry('hook', parent=registry.HOOKS, scope='otherlab', locations=['otherlab_hooks'])
    cfg = Config.fromfile(PLANTED)
    cfg.custom_hooks = [dict(type='OtherHook', _scope_='otherlab')]
    assert list(component_faults(cfg)) == []
    cfg.custom_hooks[0].type = 'OtherHooks'
    assert "nothing is registered as 'OtherHooks'" in list(component_faults(cfg))[0]
