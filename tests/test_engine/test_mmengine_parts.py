"""Each part that mmengine registers works here, or is refused before a start.

The page docs/mmengine.md shows the table that is made here.
"""

import json
import pickle
from pathlib import Path

import mmengine.evaluator
import mmengine.hooks
import mmengine.runner
import mmengine.visualization  # noqa: F401 - now its registries are full
import numpy as np
import pytest
import torch
from mmengine import _strategy, registry  # noqa: F401
from mmengine.config import Config

import toy
from children import ROOT, run_tool
from mmvtr.engine.checks.config_checks import check_config
from mmvtr.engine.checks.mmengine_parts import NEEDS, REFUSED
from mmvtr.errors import UserError

#: Backends of the visualizer that mmengine refuses without a package of their own.
BACKENDS = {
    f'{name}VisBackend': name.lower()
    for name in ('Aim', 'ClearML', 'DVCLive', 'MLflow', 'Neptune', 'Wandb')
}
#: What a config says of a part of each kind; NAME is the part, MORE its options.
PLACES = {
    'DATASETS': 'train_dataloader.update(dataset=dict(type=NAME, **MORE))',
    'DATA_SAMPLERS': 'train_dataloader.update(sampler=dict(type=NAME))',
    'FUNCTIONS': 'train_dataloader.update(collate_fn=dict(type=NAME))',
    'EVALUATOR': 'test_evaluator = dict(type=NAME, metrics=test_evaluator)',
    'HOOKS': 'custom_hooks = [dict(type=NAME, **MORE)]',
    'LOG_PROCESSORS': 'log_processor = dict(type=NAME)',
    'LOOPS': 'val_cfg = dict(type=NAME)',
    'METRICS': 'test_evaluator = [*test_evaluator, dict(type=NAME, **MORE)]',
    'MODELS': "custom_hooks = [dict(type='EMAHook', ema_type=NAME, **MORE)]",
    'MODEL_WRAPPERS': 'model_wrapper_cfg = dict(type=NAME)',
    'OPTIMIZERS': "optim_wrapper['optimizer'] = dict(type=NAME, optimizer_type='SGD', lr=.1)",
    'OPTIM_WRAPPERS': "optim_wrapper['type'] = NAME",
    'OPTIM_WRAPPER_CONSTRUCTORS': "optim_wrapper['constructor'] = NAME",
    'PARAM_SCHEDULERS': 'param_scheduler = [dict(type=NAME, **MORE)]',
    'RUNNERS': 'runner_type = NAME',
    'STRATEGIES': 'strategy = dict(type=NAME)',
    'VISBACKENDS': (
        "visualizer = dict(type='Visualizer', vis_backends=[dict(type='LocalVisBackend'),"
        ' dict(type=NAME)])'
    ),
    'VISUALIZERS': "visualizer = dict(type=NAME, vis_backends=[dict(type='LocalVisBackend')])",
    'WEIGHT_INITIALIZERS': "model['init_cfg'] = dict(type=NAME, layer='Linear', **MORE)",
}
OTHERWISE = {
    'LocalVisBackend': "visualizer = dict(type='Visualizer', vis_backends=[dict(type=NAME)])",
    'BaseDataPreprocessor': "model['data_preprocessor'] = dict(type=NAME)",
    'ImgDataPreprocessor': "model['data_preprocessor'] = dict(type=NAME)",
    'BaseTTAModel': 'tta_model = dict(type=NAME)',
    'EpochBasedTrainLoop': 'train_cfg = dict(type=NAME, max_epochs=2)',
    'IterBasedTrainLoop': 'train_cfg = dict(type=NAME, max_iters=4, val_interval=2)',
    'CheckpointHook': 'default_hooks = dict(checkpoint=dict(type=NAME, interval=1))',
    'IterTimerHook': 'default_hooks = dict(timer=dict(type=NAME))',
    'LoggerHook': 'default_hooks = dict(logger=dict(type=NAME, interval=1))',
    'ParamSchedulerHook': 'default_hooks = dict(param_scheduler=dict(type=NAME))',
    'RuntimeInfoHook': 'default_hooks = dict(runtime_info=dict(type=NAME))',
    'DistSamplerSeedHook': 'default_hooks = dict(sampler_seed=dict(type=NAME))',
    'ClassBalancedDataset': (
        'train_dataloader.update(dataset=dict(type=NAME, oversample_thr=.1,'
        " dataset=train_dataloader['dataset']))"
    ),
    'Pretrained': "model['init_cfg'] = dict(type=NAME, checkpoint='clip.pth')",
}
OPTIONS = {
    'RepeatDataset': "dataset=train_dataloader['dataset'], times=2",
    'ConcatDataset': "datasets=[train_dataloader['dataset'], test_dataloader['dataset']]",
    'EarlyStoppingHook': "monitor='retrieval/rsum', rule='greater'",
    'EmptyCacheHook': 'after_iter=True',
    'ProfilerHook': 'by_epoch=False, profile_times=1',
    'DumpResults': "out_file_path='dumped.pkl'",
    'MomentumAnnealingEMA': 'gamma=100',
    'Constant': 'val=.1',
    'Uniform': 'a=-.1, b=.1',
}
SCHEDULES = {
    'CosineAnnealing': 'T_max=2, eta_min=0.0',
    'CosineRestart': 'periods=[2], eta_min=0.0',
    'Exponential': 'gamma=.9',
    'MultiStep': 'milestones=[1]',
    'OneCycle': 'eta_max=.1, total_steps=6',
    'ReduceOnPlateau': "monitor='retrieval/rsum', rule='greater'",
    'Step': 'step_size=1',
}
#: By test_visualization/test_backends.py.
TRIED = {
    'WandbVisBackend': "works offline (init_kwargs=dict(mode='offline'))",
    'MLflowVisBackend': "works (tracking_uri='sqlite:///mlflow.db': MLflow 3 refuses files)",
}
#: Of the retriever, which builds its layers itself: there is nothing to initialise by `init_cfg`.
NOT_OF_A_CONFIG = ('INFERENCERS', 'RUNNER_CONSTRUCTORS', 'TASK_UTILS', 'TRANSFORMS')


def parts():
    """(Registry, name) of all that mmengine itself registers."""
    found = []
    for place in PLACES:
        known = getattr(registry, place).module_dict
        found += [
            (place, n) for n, part in known.items() if part.__module__.startswith('mmengine.')
        ]
    return sorted(found)


def config(place, name):
    """A toy config with this part in its place."""
    more = OPTIONS.get(name, '')
    if place == 'PARAM_SCHEDULERS':
        kind = name.removesuffix('LR').removesuffix('Momentum').removesuffix('ParamScheduler')
        named = ["param_name='lr'"] * name.endswith('ParamScheduler')
        more = ', '.join([*filter(None, [SCHEDULES.get(kind, '')]), *named])
    line = OTHERWISE.get(name, PLACES[place])
    line = line.replace('NAME', repr(name)).replace('MORE', f'dict({more})')
    momentum = "optim_wrapper['optimizer']['momentum'] = .9\n"
    return f'{toy.RETRIEVAL}{momentum}{line}\n'


def verdict(place, name):
    """'works', or what is said of it."""
    if name in REFUSED:
        return f'refused; instead: {REFUSED[name].partition(": ")[2]}'
    if name in NEEDS:
        return f'refused where there is not {NEEDS[name][0]}'
    needed = BACKENDS.get(name)
    if needed is None:
        return 'works'
    tried = TRIED.get(name, 'not tried')
    return f'refused without its package (pip install {needed}); with it {tried}'


def table():
    """The rows of the page, parts of one kind and one verdict in one."""
    rows = {}
    for place, name in parts():
        rows.setdefault((place, verdict(place, name)), []).append(f'`{name}`')
    return '\n'.join(
        f'| {place} | {", ".join(names)} | {said} |' for (place, said), names in rows.items()
    )


def refused_parts():
    return [part for part in parts() if part[1] in REFUSED]


def working_parts():
    return [part for part in parts() if verdict(*part) == 'works']


def test_the_page_has_the_table():
    page = (ROOT / 'docs' / 'mmengine.md').read_text()
    assert table() in page, f'docs/mmengine.md should have:\n{table()}'
    assert len(table().splitlines()) >= 25
    names = {name for _, name in parts()}
    assert REFUSED.keys() | NEEDS.keys() | BACKENDS.keys() <= names


@pytest.fixture(scope='module')
def folder(tmp_path_factory, write_video):
    folder = tmp_path_factory.mktemp('parts')
    for name in 'abcd':
        write_video(folder / f'{name}.mp4', [60, 90, 120])
    torch.save(dict(state_dict={}), folder / 'clip.pth')  # for the initialiser 'Pretrained'
    return folder


@pytest.mark.parametrize(('place', 'name'), refused_parts())
def test_refused_before_a_start(folder, place, name):
    path = folder / f'{name}.py'
    path.write_text(config(place, name))
    with pytest.raises(UserError, match=name) as caught:
        check_config(Config.fromfile(path))
    assert REFUSED[name] in str(caught.value)


@pytest.mark.parametrize(
    ('monitor', 'rule'),
    [
        ('retrieval/rsum', 'greater'),
        ('retrieval/t2v_MnR', 'less'),
        ('semantic/t2v_mAP', None),  # mmengine knows what is better
    ],
)
def test_early_stopping_without_a_rule(folder, monitor, rule):
    path = folder / 'early.py'
    hook = f"dict(type='EarlyStoppingHook', monitor={monitor!r})"
    path.write_text(f'{toy.RETRIEVAL}\ncustom_hooks = [{hook}]')
    said = f'custom_hooks.0.rule: of {monitor} mmengine cannot tell what is better: rule={rule!r}'
    assert (said in faults(path)) == (rule is not None)
    path.write_text(f'{toy.RETRIEVAL}\ncustom_hooks = [dict({hook}, rule="greater")]')
    assert 'rule' not in faults(path)


@pytest.mark.parametrize(
    ('line', 'key', 'name'),
    [
        ("custom_hooks = [dict(type='mmengine.EMAHook')]", 'custom_hooks.0', 'EMAHook'),
        ("custom_hooks = [dict(type='EMAHook', momentum=.1)]", 'custom_hooks.0', 'EMAHook'),
        ("model['teacher'] = dict(type='EarlyTeacher')", 'model.teacher', 'EarlyTeacher'),
    ],
)
def test_what_copies_a_sharded_model_is_refused_before_a_start(folder, line, key, name):
    path = folder / 'copies.py'
    path.write_text(toy.RETRIEVAL + line)
    alone = faults(path)
    path.write_text(f'{path.read_text()}\nmodel_wrapper_cfg = dict(type="FullyShardedRetriever")')
    assert f'{key}: {name} copies the encoder, and the shards' in faults(path)
    assert 'shards' not in alone


def test_a_scope_that_nobody_has_is_told_first(folder):
    path = folder / 'scope.py'
    path.write_text(f"{toy.RETRIEVAL}\ndefault_scope = 'mmvrt'\nhooks = []")
    (said,) = faults(path).splitlines()
    assert said.endswith("default_scope: no registry has the scope 'mmvrt'; did you mean mmvtr?")


def faults(path: Path) -> str:
    try:
        check_config(Config.fromfile(path))
    except UserError as error:
        return str(error)
    return ''


@pytest.mark.nightly
@pytest.mark.parametrize(('place', 'name'), working_parts())
def test_works_alone(folder, place, name):
    printed = trained(folder, f'{place}_{name}.py', config(place, name))
    assert 'results on test' in printed


def trained(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    code, printed = run_tool(folder, 'train.py', name)
    assert code == 0 and 'Traceback' not in printed, printed
    return printed


TOGETHER = """
custom_hooks = [
    dict(type='EMAHook'), dict(type='EarlyStoppingHook', monitor='retrieval/rsum', rule='greater'),
    dict(type='EmptyCacheHook', after_iter=True), dict(type='SyncBuffersHook'),
    dict(type='ProfilerHook', by_epoch=False, profile_times=1),
]
train_dataloader.update(dataset=dict(type='ConcatDataset', names=['all', 'some'], datasets=[
    dict(type='RepeatDataset', times=2, dataset=train_dataloader['dataset']),
    dict(test_dataloader['dataset'], indices=1),
]))
test_evaluator = dict(type='Evaluator', metrics=[
    *test_evaluator, dict(type='DumpResults', out_file_path='dumped.pkl')])
visualizer = dict(type='Visualizer', vis_backends=[
    dict(type='LocalVisBackend'), dict(type='TensorboardVisBackend')])
log_processor = dict(type='LogProcessor', window_size=2)
"""


def mean_rank(scores, own):
    """From 0; ties at their mean."""
    above, level = (scores > scores[own]).sum(), (scores == scores[own]).sum()
    return float(above + (level - 1) / 2)


def test_beside_each_other(folder):
    printed = trained(folder, 'together.py', toy.RETRIEVAL + TOGETHER)
    assert 'ConcatDataset ToyVideos + ToyVideos' in printed
    samples = pickle.loads((folder / 'dumped.pkl').read_bytes())
    assert [sample['text_id'] for sample in samples] == ['b', 'c']
    assert [sample['gt_label'].tolist() for sample in samples] == [[0], [1]]
    ranks = [mean_rank(sample['pred_score'], sample['gt_label']) for sample in samples]
    (results,) = folder.glob('work_dirs/together/*/results.json')
    hits = 100 * np.mean([rank < 0.5 for rank in ranks])
    assert json.loads(results.read_text())['retrieval/t2v_R1'] == hits
