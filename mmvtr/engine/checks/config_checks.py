"""Checks before a start for config keys that nothing reads and for unregistered names.

A config's components are known by their ``type``, and a component's arguments by its signature
(:mod:`.arguments`).  What cannot be determined is accepted: a component that takes any argument, a
value of a component of another package.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, Callable, Iterable, Iterator, NamedTuple, Optional, Sequence

import torch
from mmengine import registry
from mmengine.config import Config
from mmengine.registry import Registry
from mmengine.runner import LogProcessor, Runner
from torch.utils.data import DataLoader

from mmvtr.cli.hints import nearest, short, unregistered
from mmvtr.cli.values import misfit
from mmvtr.engine.checks.arguments import annotation_of, arguments_of
from mmvtr.engine.checks.expert_checks import expert_faults
from mmvtr.engine.checks.key_checks import hook_faults, key_faults
from mmvtr.engine.checks.mmengine_parts import part_faults, scope_faults
from mmvtr.engine.checks.schedule_checks import check_warmup
from mmvtr.errors import UserError
from mmvtr.registry import (
    DATA_SAMPLERS,
    DATASETS,
    FUNCTIONS,
    HOOKS,
    METRICS,
    MODELS,
    SCOPE,
    TASK_UTILS,
    TRANSFORMS,
    bare_name,
)
from mmvtr.registry import Registry as OurRegistry

#: Keys of dicts that are not components.
PLAIN = {
    'env_cfg': ('cudnn_benchmark', 'dist_cfg', 'mp_cfg', 'resource_limit'),
    'auto_scale_lr': ('base_batch_size', 'enable'),
}
#: Imports (any one suffices) needed by mmengine's visualizer backends, and how to install them.
BACKENDS = {
    'AimVisBackend': (('aim',), 'pip install aim'),
    'ClearMLVisBackend': (('clearml',), 'pip install clearml'),
    'DVCLiveVisBackend': (('dvclive',), 'pip install dvclive'),
    'MLflowVisBackend': (('mlflow',), 'pip install mlflow'),
    'NeptuneVisBackend': (('neptune',), 'pip install neptune'),
    'TensorboardVisBackend': (
        ('tensorboard', 'tensorboardX'),
        "the extra 'tensorboard': pip install -e '.[tensorboard]'",
    ),
    'WandbVisBackend': (('wandb',), 'pip install wandb'),
}
PARAMWISE = {
    'DefaultOptimWrapperConstructor': (
        'bias_decay_mult', 'bias_lr_mult', 'bypass_duplicate', 'custom_keys', 'dcn_offset_lr_mult',
        'dwconv_decay_mult', 'flat_decay_mult', 'norm_decay_mult',
    ),
    'MatrixDecayConstructor': ('custom_keys',),
}  # fmt: skip

#: Registries to search for a component whose config place is not known.
ANYWHERE = (MODELS, DATASETS, TRANSFORMS, TASK_UTILS, FUNCTIONS, METRICS, HOOKS, DATA_SAMPLERS)

#: Arguments that nested components get from their builder.
HANDED_DOWN = {'heads': ('dim',), 'train': ('video_pipeline', 'text_pipeline')}
HANDED_DOWN['test'] = HANDED_DOWN['counted'] = HANDED_DOWN['train']


class Place(NamedTuple):
    """Path of a component in a config.

    Attributes:
        key: its full key, as after ``--cfg-options``.
        kinds: registries that it may come from.
        certain: whether it is certainly built from one of them.
        supplied: arguments that its builder adds.
        also: keys that its builder removes.
    """

    key: str
    kinds: Sequence[Registry]
    certain: bool = True
    supplied: Sequence[str] = ()
    also: Sequence[str] = ()


def check_config(cfg: Config, options: Iterable[str] = (), *, training: bool = True) -> None:
    """Raise if a config has unread keys, unknown components, or experts unknown to the encoder.

    Args:
        cfg: the merged config.
        options: keys of ``--cfg-options``.
        training: whether the config is used for training.

    Raises:
        UserError: names the first faults by their full keys, with the nearest valid name.
    """
    registry.init_default_scope(cfg.get('default_scope') or 'mmengine')
    faults = [*scope_faults(cfg)] or [  # without the scope no name would be found
        *key_faults(cfg, options),
        *component_faults(cfg),
        *hook_faults(cfg, options),
        *expert_faults(cfg),
        *part_faults(cfg, training=training),
    ]
    if faults:
        shown = '\nerror: '.join(f'{cfg.filename}: {fault}' for fault in faults[:5])
        more = f'\n... and {len(faults) - 5} more' if len(faults) > 5 else ''
        raise UserError(shown + more)


def check_training(cfg: Config, options: Iterable[str] = ()) -> None:
    """Check a config of a training by itself, before processes start or a folder is read.

    Args:
        cfg: the merged config.
        options: keys of ``--cfg-options``.

    Raises:
        UserError: names each of the first faults.
    """
    check_config(cfg, options)
    check_warmup(cfg)


class UnknownPart(ValueError):
    """Raised for a type or an argument that this version does not have."""


def refuse_unknown_parts(cfg: Config) -> None:
    """Raise :class:`UnknownPart` if a model's config has unknown types or arguments."""
    faults = component(cfg.model, Place('model', [registry.MODELS]))
    if (fault := next(iter(faults), None)) is not None:
        raise UnknownPart(f'{cfg.filename or "the config"}: {fault}')


# -- components --------------------------------------------------------------------------------


def component_faults(cfg: Config) -> Iterator[str]:
    """Yield unknown and missing arguments, and unknown types.

    Args:
        cfg: the merged config; its custom imports are done.
    """
    for key in ('model', 'data_preprocessor'):
        yield from component(cfg.get(key), Place(key, [registry.MODELS]))
    for split in ('train', 'val', 'test'):
        yield from _together(cfg, split)
        yield from _loader(cfg.get(f'{split}_dataloader'), f'{split}_dataloader')
        yield from _loop(cfg.get(f'{split}_cfg'), split)
        yield from _evaluator(cfg.get(f'{split}_evaluator'), f'{split}_evaluator')
    hooks = cfg.get('default_hooks') or {}
    yield from _named(hooks, Place('default_hooks', [registry.HOOKS]))
    yield from component(cfg.get('custom_hooks'), Place('custom_hooks', [registry.HOOKS]))
    yield from _optim_wrapper(cfg.get('optim_wrapper'))
    schedulers = Place(
        'param_scheduler',
        [registry.PARAM_SCHEDULERS],
        supplied=('optimizer',),
        also=('convert_to_iter_based',),
    )
    yield from component(cfg.get('param_scheduler'), schedulers)
    yield from _visualizer(cfg.get('visualizer'))
    yield from _plain(cfg)


def _together(cfg: Config, split: str) -> Iterator[str]:
    """Yield keys of a split of which only a part is given although all must be."""
    last = 'optim_wrapper' if split == 'train' else f'{split}_evaluator'
    keys = (f'{split}_dataloader', f'{split}_cfg', last)
    missing = [key for key in keys if cfg.get(key) is None]
    if 0 < len(missing) < len(keys):
        there = ', '.join(key for key in keys if key not in missing)
        yield f'{" and ".join(missing)}: missing; all of {", ".join(keys)} or none, got {there}'


def component(value: Any, place: Place) -> Iterator[str]:
    """Yield faults of a component's config, of a list of them, and of everything nested in them."""
    if isinstance(value, (list, tuple)):
        for i, item in enumerate(value):
            yield from component(item, place._replace(key=f'{place.key}.{i}'))
    elif isinstance(value, dict) and 'type' in value:
        yield from _typed(value, place)
    elif isinstance(value, dict) and place.certain:
        yield f'{place.key}: a component needs a type, got the keys {short(list(value))}'
    elif isinstance(value, dict):
        yield from _named(value, place)


def _typed(value: dict, place: Place) -> Iterator[str]:
    kind = value['type']
    scope = value.get('_scope_')
    # Nested components are looked up in our way, the others in the Runner's.
    elsewhere = ANYWHERE if place.kinds is ANYWHERE else [child.parent for child in ANYWHERE]
    components = list(lookup(kind, place.kinds, scope)) or list(lookup(kind, elsewhere, scope))
    if not components:
        names = {name for source in place.kinds for name in _names(source, kind)}
        if place.certain or nearest(str(kind), names):
            yield f'{place.key}.type: {unregistered(kind, names)}'
        return
    keys = [key for key in value if key not in ('type', '_scope_', *place.also)]
    yield from _arguments(components, keys, place)
    for key in keys:
        misfits = [misfit(value[key], annotation_of(candidate, key)) for candidate in components]
        # mmengine makes whole numbers of fractions of an epoch.
        part = isinstance(value[key], float) and key in ('begin', 'end')
        if all(misfits) and not (part and value.get('convert_to_iter_based')):
            yield f'{place.key}.{key}: {misfits[0]}'
    ours = any(candidate.__module__.startswith('mmvtr.') for candidate in components)
    for key in keys:
        if key == 'init_cfg':  # mmengine's initialisers, which are built separately
            continue
        inner = Place(
            f'{place.key}.{key}', ANYWHERE, certain=False, supplied=HANDED_DOWN.get(key, ())
        )
        if isinstance(value[key], dict) and 'type' in value[key]:
            inner = inner._replace(certain=ours)
        elif isinstance(value[key], (list, tuple)) and ours:
            inner = inner._replace(certain=all(_is_component(item) for item in value[key]))
        yield from component(value[key], inner)


def _arguments(components: Sequence[Callable], keys: Sequence[str], place: Place) -> Iterator[str]:
    """Yield arguments that are unknown to or missing for all components of a name."""
    chosen, takes = components[0], arguments_of(components[0])
    for other in components[1:]:  # a name may be in several registries
        if not (set(keys) - arguments_of(other).names):
            chosen, takes = other, arguments_of(other)
    for key in keys:
        if key not in takes.names and not takes.open:
            right = takes.names - set(place.supplied)
            yield (
                f'{place.key}.{key}: {chosen.__name__} has no argument {short(key)}'
                f'{nearest(key, right, otherwise=right)}'
            )
    missing = sorted(takes.required - set(keys) - set(place.supplied))
    if missing and place.certain:
        yield f'{place.key}: {chosen.__name__} needs {", ".join(missing)}'


def _named(value: dict, place: Place) -> Iterator[str]:
    """Yield faults of a dict of components (losses, hooks); if some have a type, all must."""
    typed = [name for name, item in value.items() if _is_component(item)]
    for name, item in value.items():
        key = f'{place.key}.{name}'
        if isinstance(item, dict) and 'type' not in item and typed:
            yield f'{key}: has no type{nearest(str(name), typed, otherwise=typed)}'
        elif item is not None:
            certain = place.certain or _is_component(item)
            yield from component(item, place._replace(key=key, certain=certain))


def _is_component(value: Any) -> bool:
    return isinstance(value, dict) and 'type' in value


def lookup(
    kind: Any, registries: Sequence[Registry], scope: Optional[str] = None
) -> Iterator[Callable]:
    """Yield what a type resolves to in each of the registries."""
    if not isinstance(kind, str):
        yield from [kind] if callable(kind) else []
        return
    for owner in registries:
        if isinstance(owner, OurRegistry):
            candidate = owner.find(kind, scope)
        else:
            with owner.switch_scope_and_registry(scope) as scoped:
                candidate = scoped.get(kind)
        if callable(candidate):
            yield candidate


def _names(source: Registry, kind: Any) -> Iterator[str]:
    """Yield all names of a registry in the current scope, and ours."""
    yield from (f'{SCOPE}.{name}' for name in _ours(source).module_dict)
    if '.' not in str(kind):
        with source.switch_scope_and_registry(None) as scoped:
            while scoped is not None:
                yield from scoped.module_dict
                scoped = scoped.parent


def _ours(source: Registry) -> Registry:
    return source if isinstance(source, OurRegistry) else source.children.get(SCOPE, source)


# -- components that the Runner builds in its own way ---------------------------------------------


def _loader(value: Any, key: str) -> Iterator[str]:
    if not isinstance(value, dict):
        return
    extra = {'num_batch_per_epoch', 'disable_subprocess_warning'}
    parts = {
        'dataset': (registry.DATASETS, ()),
        'sampler': (registry.DATA_SAMPLERS, ('dataset', 'seed')),
        'batch_sampler': (registry.DATA_SAMPLERS, ('sampler', 'batch_size')),
        'collate_fn': (registry.FUNCTIONS, None),
        'worker_init_fn': (registry.FUNCTIONS, None),
    }
    takes = arguments_of(DataLoader).names | extra
    for name in value:
        if name not in takes:
            yield f'{key}.{name}: DataLoader has no argument {short(name)}{nearest(name, takes)}'
        elif fault := misfit(value[name], annotation_of(DataLoader, name)):
            yield f'{key}.{name}: {fault}'
    if 'dataset' not in value:
        yield f'{key}: has no dataset'
    for name, (kind, supplied) in parts.items():
        if not isinstance(value.get(name), dict):
            continue
        if supplied is None:  # a function whose first argument is a list of items
            functions = lookup(value[name].get('type'), [kind])
            supplied = [
                argument for function in functions for argument in arguments_of(function).required
            ]
        yield from component(value[name], Place(f'{key}.{name}', [kind], supplied=supplied))


def _loop(value: Any, split: str) -> Iterator[str]:
    if not isinstance(value, dict):
        return
    value, key = dict(value), f'{split}_cfg'
    if 'type' not in value:
        loops = dict(val='ValLoop', test='TestLoop')
        by_epoch = value.pop('by_epoch', True) if split == 'train' else None
        value['type'] = loops.get(split, f'{"Epoch" if by_epoch else "Iter"}BasedTrainLoop')
    supplied = ('runner', 'dataloader') + (() if split == 'train' else ('evaluator',))
    yield from component(value, Place(key, [registry.LOOPS], supplied=supplied))


def _evaluator(value: Any, key: str) -> Iterator[str]:
    if isinstance(value, dict) and 'metrics' in value:
        yield from component(value['metrics'], Place(f'{key}.metrics', [registry.METRICS]))
    else:
        yield from component(value, Place(key, [registry.METRICS]))


def _optim_wrapper(value: Any) -> Iterator[str]:
    if not isinstance(value, dict) or 'optimizer' not in value:
        return
    key = 'optim_wrapper'
    shell = {'type': 'OptimWrapper', **value}
    maker, paramwise = shell.pop('constructor', None), shell.pop('paramwise_cfg', None) or {}
    optimizer, clip = shell.pop('optimizer'), shell.pop('clip_grad', None)
    wrappers = Place(
        key, [registry.OPTIM_WRAPPERS], supplied=('optimizer',), also=('constructor', 'clip_grad')
    )
    yield from component(shell, wrappers)
    optimizers = Place(f'{key}.optimizer', [registry.OPTIMIZERS], supplied=('params',))
    yield from component(optimizer, optimizers)
    maker = maker or 'DefaultOptimWrapperConstructor'
    if isinstance(maker, str) and not list(lookup(maker, [registry.OPTIM_WRAPPER_CONSTRUCTORS])):
        names = set(_names(registry.OPTIM_WRAPPER_CONSTRUCTORS, maker))
        yield f'{key}.constructor: {unregistered(maker, names)}'
    if str(maker).rpartition('.')[2] in PARAMWISE:
        takes = PARAMWISE[str(maker).rpartition('.')[2]]
        yield from _keys(paramwise, f'{key}.paramwise_cfg', takes)
    if maker == 'DefaultOptimWrapperConstructor':
        yield from _no_decay(paramwise, optimizer, key)
    if isinstance(clip, dict):
        clips = dict(norm=torch.nn.utils.clip_grad_norm_, value=torch.nn.utils.clip_grad_value_)
        chosen = clips.get(clip.get('type', 'norm'))
        if chosen is not None:
            takes = arguments_of(chosen).names - {'parameters'} | {'type'}
            yield from _keys(clip, f'{key}.clip_grad', takes)


def _no_decay(paramwise: Any, optimizer: Any, key: str) -> Iterator[str]:
    """Yield that a multiplier of the weight decay has nothing to multiply."""
    if not isinstance(paramwise, dict) or not isinstance(optimizer, dict):
        return
    if optimizer.get('weight_decay') is not None:
        return
    by_name = paramwise.get('custom_keys') or {}
    options = {f'custom_keys.{name}': entry for name, entry in by_name.items()} | {'': paramwise}
    for place, entry in options.items():
        for name in entry if isinstance(entry, dict) else ():
            if name.endswith('decay_mult') and name != 'flat_decay_mult':
                where = '.'.join(filter(None, [key, 'paramwise_cfg', place, name]))
                yield f'{where}: {key}.optimizer.weight_decay is not set; set it (0: none)'
                return


def _visualizer(value: Any) -> Iterator[str]:
    if not isinstance(value, dict):
        return
    visualizer, backends = dict(value), value.get('vis_backends')
    visualizer.pop('vis_backends', None)
    supplied = ('name', 'save_dir')
    yield from component(visualizer, Place('visualizer', [registry.VISUALIZERS], supplied=supplied))
    where = Place('visualizer.vis_backends', [registry.VISBACKENDS], supplied=('save_dir',))
    yield from component(backends, where)
    for backend in backends or ():
        package = BACKENDS.get(bare_name(backend)) if isinstance(backend, dict) else None
        if package is not None and not any(map(find_spec, package[0])):
            yield f'visualizer.vis_backends: {backend["type"]} needs {package[1]}'


def _plain(cfg: Config) -> Iterator[str]:
    """Yield faults of the dicts whose keys the Runner reads one by one."""
    # As a bound method: without its first parameter.
    randomness = arguments_of(Runner.set_randomness.__get__(object()))
    for key, takes in {**PLAIN, 'randomness': randomness.names}.items():
        yield from _keys(cfg.get(key), key, takes)
    log = cfg.get('log_processor')
    if isinstance(log, dict):
        yield from component(
            {'type': LogProcessor, **log}, Place('log_processor', [registry.LOG_PROCESSORS])
        )


def _keys(value: Any, key: str, takes: Iterable[str]) -> Iterator[str]:
    """Yield keys of a plain dict that nothing reads."""
    for name in value if isinstance(value, dict) else ():
        if name not in takes:
            hint = nearest(str(name), takes, otherwise=takes)
            yield f'{key}.{name}: nothing reads this key{hint}'
