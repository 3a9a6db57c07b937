"""The type that a key of a config has, as its component's signature tells it."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Optional

from mmengine import registry
from mmengine.config import Config
from mmengine.runner import Runner
from torch.utils.data import DataLoader

from mmvtr.engine.checks.config_checks import ANYWHERE, lookup
from mmvtr.values import inside, part

#: Where the ``type`` of a component may be registered.
REGISTRIES = (
    *ANYWHERE,
    registry.LOOPS,
    registry.OPTIMIZERS,
    registry.OPTIM_WRAPPERS,
    registry.OPTIM_WRAPPER_CONSTRUCTORS,
    registry.PARAM_SCHEDULERS,
    registry.VISUALIZERS,
    registry.VISBACKENDS,
    registry.LOG_PROCESSORS,
)


def kind_at(cfg: Config, key: str) -> Any:
    """The annotation of what a key sets: a parameter of a component, or something inside of one.

    Args:
        cfg: the config.
        key: in full, ``'train_dataloader.dataset.columns.video'``; it need not be there.

    Returns:
        As :func:`mmvtr.values.read` takes it; ``Any``: nobody knows.
    """
    value: Any = cfg
    owner: Optional[Callable] = Runner
    kind: Any = Any
    for name in key.split('.'):
        kind = inside(kind, name) if owner is None else annotation_of(owner, name)
        value = part(value, name)
        owner = DataLoader if name.endswith('_dataloader') else _component(cfg, value)
    return kind


def annotation_of(component: Callable, name: str) -> Any:
    """The annotation of a parameter of a class or a function; ``Any``: there is none.

    A class that hands ``**kwargs`` on has the parameters of its bases.
    """
    if name == 'type':
        return str
    owners = component.__mro__ if inspect.isclass(component) else [None]
    for owner in owners:
        made = component if owner is None else vars(owner).get('__init__')
        try:
            parameter = inspect.signature(made).parameters.get(name)
        except (TypeError, ValueError):  # no constructor of its own, or one in C
            continue
        if parameter is not None:
            return _evaluated(parameter.annotation, made)
    return Any


def _evaluated(annotation: Any, function: Callable) -> Any:
    if annotation is inspect.Parameter.empty:
        return Any
    if not isinstance(annotation, str):
        return annotation
    try:
        return eval(annotation, getattr(inspect.unwrap(function), '__globals__', {}))  # noqa: S307
    except Exception:  # a name that only type checkers import
        return Any


def _component(cfg: Config, value: Any) -> Optional[Callable]:
    """The class or function that a part of a config is built by; None: it is no component."""
    if not isinstance(value, dict) or 'type' not in value:
        return None
    scope = value.get('_scope_') or cfg.get('default_scope') or 'mmengine'
    return next(lookup(value['type'], REGISTRIES, scope), None)
