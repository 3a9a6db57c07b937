"""mmengine's own components that do not work here, each with an alternative; all others work."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Callable, Iterator, Mapping, Sequence

import torch
from mmengine import registry
from mmengine.config import Config
from mmengine.hooks import EarlyStoppingHook, EMAHook
from mmengine.registry import Registry

from mmvtr.cli.hints import nearest
from mmvtr.evaluation.metric import listed_metrics
from mmvtr.registry import DATASETS, METRICS, MODELS, bare_name
from mmvtr.registry import Registry as OurRegistry

#: What a component cannot do here, and its alternative, as the end of a sentence;
#: ``docs/mmengine.md`` shows them with those that work.
REFUSED: Mapping[str, str] = {
    **dict.fromkeys(
        ('ValLoop', 'TestLoop'),
        'goes batch by batch, and a retrieval metric ranks all videos for each text: '
        "dict(type='mmvtr.RetrievalLoop') measures metrics of both kinds",
    ),
    **dict.fromkeys(
        ('DefaultSampler', 'InfiniteSampler'),
        'does not say which epoch an item is of, so each would draw the frames and captions '
        "of the first: dict(type='mmvtr.EpochSampler')",
    ),
    **dict.fromkeys(
        ('pseudo_collate', 'default_collate'),
        'does not put videos, texts and their ids into a batch: '
        "dict(type='mmvtr.collate_retrieval')",
    ),
    'ClassBalancedDataset': (
        'asks for the category of an item, and a text has none: RepeatDataset inside of '
        'ConcatDataset shows a set or a part of it (indices) more often'
    ),
    **dict.fromkeys(
        ('BaseDataPreprocessor', 'ImgDataPreprocessor'),
        "does not read videos and texts: dict(type='mmvtr.VideoTextDataPreprocessor')",
    ),
    **dict.fromkeys(
        ('BaseTTAModel', 'PrepareTTAHook'),
        'averages what several views of one image give: of several clips or frames a video '
        'has one vector already (num_frames); scores of several models are added by test.py '
        'CONFIG A.pth B.pth',
    ),
    'CheckpointHook': (
        'writes objects that no test and no --resume reads, since they could be code: '
        "dict(type='mmvtr.PlainCheckpointHook') takes the same options"
    ),
    'NaiveVisualizationHook': (
        "draws one image of each batch: dict(type='mmvtr.PicturesHook') draws queries and "
        'what they find'
    ),
    'FlexibleRunner': 'is built with a strategy, and the tools build Runner: leave runner_type out',
    **dict.fromkeys(
        ('ColossalAIStrategy', 'DDPStrategy', 'DeepSpeedStrategy', 'SingleDeviceStrategy'),
        'belongs to FlexibleRunner, which has no val and test loop of ours and no resume that '
        'is checked: leave it out; several processes are --launcher pytorch, memory is saved '
        'by activation_checkpointing, gradient_cache and --amp',
    ),
    **dict.fromkeys(
        ('FSDPStrategy', 'MMFullyShardedDataParallel'),
        'asks for CUDA over gloo, too, and has none of our loops and checkpoints: '
        "model_wrapper_cfg=dict(type='mmvtr.FullyShardedRetriever')",
    ),
    **dict.fromkeys(
        (
            'CollosalAIModelWrapper',
            'ColossalAIModelWrapper',
            'MMDeepSpeedEngineWrapper',
            'MMSeparateDistributedDataParallel',
        ),
        'splits or drives the training step itself, which holds the scores of the joint '
        'batch: leave model_wrapper_cfg out (MMDistributedDataParallel)',
    ),
    **dict.fromkeys(
        ('ApexOptimWrapper', 'ColossalAIOptimWrapper', 'DeepSpeedOptimWrapper'),
        'belongs to the engine of the same name: OptimWrapper, and --amp bf16 for low precision',
    ),
    **dict.fromkeys(
        ('OneCycleLR', 'OneCycleParamScheduler'),
        'keeps a function in its state, which a checkpoint without code cannot hold: '
        "dict(type='mmvtr.WarmupCosineLR')",
    ),
    'ZeroRedundancyOptimizer': (
        'keeps a part of the state on each process, and a checkpoint holds all of it: the '
        'optimizer that it wraps'
    ),
}
#: Components that work only with certain hardware: what they need, and a check for it.
NEEDS: Mapping[str, tuple[str, Callable[[], bool]]] = {
    'AmpOptimWrapper': ('a GPU; on a CPU --amp bf16 trains', torch.cuda.is_available),
    'NPUProfilerHook': ('an Ascend NPU: ProfilerHook', lambda: find_spec('torch_npu') is not None),
}


def scope_faults(cfg: Config) -> Iterator[str]:
    """Yield a fault if no registry has the ``default_scope``.

    Args:
        cfg: the merged config; its custom imports are done.
    """
    scope = cfg.get('default_scope') or 'mmengine'
    with suppress(ImportError):  # mmengine's location of a scope's registries
        import_module(f'{scope}.registry')
    roots = [root for root in vars(registry).values() if isinstance(root, Registry)]
    scopes = {'mmengine'}.union(*(root.children for root in roots))
    if scope not in scopes:
        hint = nearest(scope, scopes, otherwise=scopes)
        yield f'default_scope: no registry has the scope {scope!r}{hint}'


def part_faults(cfg: Config, *, training: bool = True) -> Iterator[str]:
    """Yield what mmengine's components in a config cannot do with our datasets, model and metrics.

    Args:
        cfg: the merged config; its custom imports are done.
        training: whether the config is used for training; a test builds no optimizer.
    """
    for key, value in (('runner_type', cfg.get('runner_type')), ('strategy', cfg.get('strategy'))):
        if value is not None and bare_name(value) != 'Runner':
            name = bare_name(value)
            yield f'{key}: {name} {REFUSED.get(name, REFUSED["FlexibleRunner"])}'
    for key in ('tta_model', 'tta_pipeline'):
        if cfg.get(key) is not None:
            yield f'{key}: test-time augmentation {REFUSED["BaseTTAModel"]}'
    if bare_name(cfg.get('model_wrapper_cfg')) == 'FullyShardedRetriever':
        yield from _sharded_faults(cfg)
    ours = _is_ours(cfg.get('model'), MODELS)
    for key, kind, value in _parts(cfg, ours):
        name = _name(value, kind)
        if name in REFUSED:
            yield f'{key}: {name} {REFUSED[name]}'
        elif training and name in NEEDS and not NEEDS[name][1]():
            yield f'{key}: {name} needs {NEEDS[name][0]}'
        elif name == 'EarlyStoppingHook':
            yield from _early_stopping_faults(key, value)


def _early_stopping_faults(key: str, hook: Mapping[str, Any]) -> Iterator[str]:
    """Yield a fault of an early stopping without a rule whose metric does not tell it."""
    monitor = hook.get('monitor')
    if not isinstance(monitor, str) or hook.get('rule') is not None:
        return
    try:
        EarlyStoppingHook(monitor)
    except ValueError:
        rule = 'less' if monitor.endswith(('_MdR', '_MnR')) else 'greater'
        yield f'{key}.rule: of {monitor} mmengine cannot tell what is better: rule={rule!r}'


def _sharded_faults(cfg: Config) -> Iterator[str]:
    """Yield components that copy a model with sharded layers, which cannot be copied."""
    teacher = (cfg.get('model') or {}).get('teacher')
    copies = [] if teacher is None else [('model.teacher', bare_name(teacher))]
    for key, hook in _listed('custom_hooks', cfg.get('custom_hooks')):
        component = registry.HOOKS.get(hook['type']) if isinstance(hook, dict) else None
        if isinstance(component, type) and issubclass(component, EMAHook):
            copies.append((key, component.__name__))
    for key, name in copies:
        yield (
            f'{key}: {name} copies the encoder, and the shards of FullyShardedRetriever cannot be '
            'copied: leave it or model_wrapper_cfg out'
        )


def _parts(cfg: Config, ours: bool) -> Iterator[tuple[str, Registry, Any]]:
    """Yield key, registry and value of components that may be mmengine's.

    Args:
        cfg: the merged config.
        ours: whether the model is an mmvtr retriever; another project's need not be.
    """
    model, optim = cfg.get('model'), cfg.get('optim_wrapper') or {}
    if ours:
        inside = (model.get('data_preprocessor'), cfg.get('data_preprocessor'))
        yield 'model.data_preprocessor', registry.MODELS, inside[0] or inside[1]
        for name, hook in (cfg.get('default_hooks') or {}).items():
            yield f'default_hooks.{name}', registry.HOOKS, hook
        yield 'model_wrapper_cfg', registry.MODEL_WRAPPERS, cfg.get('model_wrapper_cfg')
        yield 'optim_wrapper', registry.OPTIM_WRAPPERS, optim
        yield 'optim_wrapper.optimizer', registry.OPTIMIZERS, optim.get('optimizer')
    yield 'model', registry.MODELS, model
    for key, value in _listed('param_scheduler', cfg.get('param_scheduler')):
        yield key, registry.PARAM_SCHEDULERS, value
    for key, value in _listed('custom_hooks', cfg.get('custom_hooks')):
        yield key, registry.HOOKS, value
    for split in ('train', 'val', 'test'):
        loader, loop = cfg.get(f'{split}_dataloader'), cfg.get(f'{split}_cfg')
        if not isinstance(loader, dict):
            continue
        yield f'{split}_dataloader.dataset', registry.DATASETS, loader.get('dataset')
        if split == 'train' and _is_ours(loader.get('dataset'), DATASETS):
            yield 'train_dataloader.sampler', registry.DATA_SAMPLERS, loader.get('sampler')
            collate = loader.get('collate_fn') or dict(type='pseudo_collate')
            yield 'train_dataloader.collate_fn', registry.FUNCTIONS, collate
        if split != 'train' and isinstance(loop, dict) and (ours or _ranks(cfg, split)):
            default = {'val': 'ValLoop', 'test': 'TestLoop'}[split]
            yield f'{split}_cfg.type', registry.LOOPS, {'type': default, **loop}


def _ranks(cfg: Config, split: str) -> bool:
    """Return whether a metric of mmvtr is among those of a split."""
    return any(
        _is_ours(metric, METRICS) for metric in listed_metrics(cfg.get(f'{split}_evaluator'))
    )


def _listed(key: str, value: Any) -> Sequence[tuple[str, Any]]:
    if isinstance(value, (list, tuple)):
        return [(f'{key}.{i}', item) for i, item in enumerate(value)]
    return [] if value is None else [(key, value)]


def _name(value: Any, kind: Registry) -> str:
    """Return the name of the mmengine component that a value refers to, or ''."""
    name = bare_name(value)
    component = kind.module_dict.get(name.removeprefix('mmengine.'))
    if component is None or not component.__module__.startswith('mmengine.'):
        return ''
    ours = kind.children.get('mmvtr')
    if not name.startswith('mmengine.') and ours is not None and name in ours.module_dict:
        return ''
    return name.removeprefix('mmengine.')


def _is_ours(value: Any, kind: OurRegistry) -> bool:
    """Return whether a component's config is of an mmvtr class or a subclass."""
    if not isinstance(value, dict) or 'type' not in value:
        return False
    component = value['type']
    if isinstance(component, str):
        component = kind.find(component, value.get('_scope_'))
    bases = component.__mro__ if isinstance(component, type) else ()
    return any(base.__module__.startswith('mmvtr.') for base in bases)
