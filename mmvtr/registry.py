"""The registries of scope ``mmvtr``: children of mmengine's roots.

Each one imports its ``locations`` on the first ``build``, so importing ``mmvtr`` costs nothing and
a downstream project needs only ``custom_imports = dict(imports=['mmvtr.registry'])`` to write
``type='mmvtr.X'``.  Losses, heads and supervisions are models.  The last five are empty except for
the model wrappers: without them mmengine warns at each start that the scope lacks them.

Our configs are inherited by projects with a ``default_scope`` of their own.  So components that
mmengine's Runner builds are named with their scope (``type='mmvtr.RetrievalMetric'``: the model and
its data preprocessor, datasets, samplers, loops, hooks, metrics, optimizers).  Parts inside an
mmvtr component are built by one of these registries and need no scope: it looks for a name in the
current scope, then in mmvtr's, then in the enclosing scopes.  That keeps most of a config short,
and lets a project put its own ``dict(type='MyLoss')`` into an mmvtr model.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Iterator, Optional, Union

from mmengine import registry as roots
from mmengine.config.utils import MODULE2PACKAGE
from mmengine.registry import DefaultScope
from mmengine.registry import Registry as MMEngineRegistry

from mmvtr.cli.hints import unregistered
from mmvtr.errors import UnknownKey

SCOPE = 'mmvtr'
# mmengine's table of the packages that it reads `PACKAGE::CONFIG` from.  A module in place of the
# distribution: mmengine looks for that beside its metadata, where an editable install has nothing.
MODULE2PACKAGE.setdefault(SCOPE, __name__)


class Registry(MMEngineRegistry):
    """An mmvtr registry, which resolves a name without a scope whatever the default scope is.

    :meth:`build` takes the name from the default scope if that has it, else from here. :meth:`get`
    looks here and in mmengine's root, then in the scopes that the current default scope replaced: a
    base config that is inherited as ``mmvtr::NAME`` puts its components into mmvtr's scope, with
    everything that a project adds inside of them.
    """

    def build(self, cfg: Any, *args: Any, **kwargs: Any) -> Any:
        """See mmengine; ``cfg`` is a dict, or for models a list of dicts."""
        resolved = [self._found(c) for c in cfg] if isinstance(cfg, list) else self._found(cfg)
        for x in resolved if isinstance(cfg, list) else [resolved]:
            self._refuse_unknown(x)
        return super().build(resolved, *args, **kwargs)

    def _refuse_unknown(self, cfg: Any) -> None:
        """Raise KeyError, with the nearest names, where :meth:`build` would find nothing."""
        kind = cfg.get('type') if isinstance(cfg, dict) else None
        if not isinstance(kind, str):
            return
        with self.switch_scope_and_registry(cfg.get('_scope_')) as current:
            if current.get(kind) is None:
                names = {*self.module_dict, *self._get_root_registry().module_dict}
                raise UnknownKey(f'{unregistered(kind, names)} (registry {self.name!r})')

    def find(self, name: str, scope: Optional[str] = None) -> Optional[type]:
        """Return what :meth:`build` resolves ``dict(type=name)`` to in a scope, or None.

        Args:
            name: a ``type``, with or without a scope.
            scope: default: the current scope.
        """
        with self.switch_scope_and_registry(scope) as current:
            return current.get(self._found(dict(type=name))['type'])

    def _found(self, cfg: Any) -> Any:
        """Return the config, with scope ``mmvtr`` before a name that only mmvtr has."""
        kind = cfg.get('type') if isinstance(cfg, dict) else None
        if not isinstance(kind, str) or '.' in kind or '_scope_' in cfg:
            return cfg
        scope = next(_scopes(), None)
        current = None if scope is None else self._of(scope)
        ours = _has(self, kind)
        if current in (None, self) or _has(current, kind) or not ours:
            return cfg
        scoped = cfg.copy()  # keeps a ConfigDict a ConfigDict
        scoped['type'] = f'{SCOPE}.{kind}'
        return scoped

    def get(self, key: str) -> Optional[type]:
        """See mmengine; a name without a scope is also looked up in mmvtr's registry."""
        if '.' not in key and not _has(self, key) and not _has(self._get_root_registry(), key):
            for other in map(self._of, _scopes()):
                if other is not None and other is not self and _has(other, key):
                    return other.get(key)
            return None  # mmengine would look for a Python module of this name
        return super().get(key)

    def _of(self, scope: str) -> Optional[MMEngineRegistry]:
        """Return a scope's registry of this kind, or None (mmengine warns)."""
        try:
            import_module(f'{scope}.registry')
        except ImportError:
            pass  # a scope needs no such module
        return self._get_root_registry()._search_child(scope)


def _has(registry: MMEngineRegistry, name: str) -> bool:
    """Return whether a name is registered in this very registry."""
    registry.import_from_location()
    return name in registry.module_dict


def _scopes() -> Iterator[str]:
    """Yield the default scope, then the scopes that it temporarily replaced, innermost first."""
    for name, instance in reversed(list(DefaultScope._instance_dict.items())):
        yield instance.scope_name
        if not name.startswith('overwrite-'):  # mmengine's name of a temporary scope
            return


def bare_name(component: Union[dict, str, type, None]) -> str:
    """Return the registered name of an mmvtr component given with or without its scope.

    Args:
        component: its config, or the config's ``type``.

    Returns:
        ``'RankingLoss'`` of ``'mmvtr.RankingLoss'``, of ``'RankingLoss'`` and of the class; a
        name in another project's scope unchanged; ``''`` for None.
    """
    kind = component.get('type') if isinstance(component, dict) else component
    if isinstance(kind, str):
        return kind.rpartition('.')[2] if kind.startswith(f'{SCOPE}.') else kind
    return getattr(kind, '__name__', '')


MODELS = Registry('model', parent=roots.MODELS, locations=['mmvtr.models'])
DATASETS = Registry('dataset', parent=roots.DATASETS, locations=['mmvtr.datasets'])
DATA_SAMPLERS = Registry('data sampler', parent=roots.DATA_SAMPLERS, locations=['mmvtr.datasets'])
TRANSFORMS = Registry('transform', parent=roots.TRANSFORMS, locations=['mmvtr.datasets'])
FUNCTIONS = Registry('function', parent=roots.FUNCTIONS, locations=['mmvtr.datasets'])
TASK_UTILS = Registry('task util', parent=roots.TASK_UTILS, locations=['mmvtr.datasets'])
METRICS = Registry('metric', parent=roots.METRICS, locations=['mmvtr.evaluation'])

ENGINE = ['mmvtr.engine']
HOOKS = Registry('hook', parent=roots.HOOKS, locations=ENGINE)
LOOPS = Registry('loop', parent=roots.LOOPS, locations=ENGINE)
OPTIMIZERS = Registry('optimizer', parent=roots.OPTIMIZERS, locations=ENGINE)
OPTIM_WRAPPERS = Registry('optimizer wrapper', parent=roots.OPTIM_WRAPPERS, locations=ENGINE)
PARAM_SCHEDULERS = Registry('parameter scheduler', parent=roots.PARAM_SCHEDULERS, locations=ENGINE)
OPTIM_WRAPPER_CONSTRUCTORS = Registry(
    'optimizer wrapper constructor', parent=roots.OPTIM_WRAPPER_CONSTRUCTORS, locations=ENGINE
)
MODEL_WRAPPERS = Registry('model wrapper', parent=roots.MODEL_WRAPPERS, locations=ENGINE)

LOG_PROCESSORS = Registry('log_processor', parent=roots.LOG_PROCESSORS)
VISUALIZERS = Registry('visualizer', parent=roots.VISUALIZERS)
WEIGHT_INITIALIZERS = Registry('weight initializer', parent=roots.WEIGHT_INITIALIZERS)
VISBACKENDS = Registry('vis backend', parent=roots.VISBACKENDS)


def own_names(namespace: dict[str, Any]) -> list[str]:
    """Return the public names that a package's ``__init__`` collects from its own modules."""
    home = namespace['__name__']
    return [
        name
        for name, value in namespace.items()
        if name[0] != '_' and getattr(value, '__module__', '').startswith(home)
    ]


def register_all_modules(init_default_scope: bool = True) -> None:
    """Import all modules that register components in mmvtr's registries.

    A Runner and ``MODELS.build(dict(type='mmvtr.X'))`` need no such call: the registries import
    their modules on first use.

    Args:
        init_default_scope: also make ``mmvtr`` the default scope.
    """
    for room in ('datasets', 'engine', 'evaluation', 'models'):
        import_module(f'mmvtr.{room}')
    if init_default_scope:
        roots.init_default_scope(SCOPE)


def build(component: Any, **defaults: Any) -> Any:
    """Return a module built from its config and defaults; a built module passes through."""
    from torch import nn  # the registries themselves do not import torch

    if isinstance(component, nn.Module):
        return component
    return MODELS.build({**defaults, **component})


def forget_pretrained(cfg: Any) -> None:
    """Stop all towers of a model's config from reading pretrained weights: a checkpoint holds them.

    A tower's ``pretrained`` becomes None, so that loading a checkpoint needs no download; False if
    open_clip's ``local-dir:FOLDER`` would read the folder's weights.
    """
    if isinstance(cfg, dict):
        if str(cfg.get('model')).startswith('local-dir:'):
            cfg['pretrained'] = False
        elif isinstance(cfg.get('pretrained'), str):
            cfg['pretrained'] = None
        for part in cfg.values():
            forget_pretrained(part)
    elif isinstance(cfg, (list, tuple)):
        for part in cfg:
            forget_pretrained(part)
