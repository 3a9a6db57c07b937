"""Delayed imports of mmengine's slow dependencies, which few trainings use.

mmengine imports FSDP, ZeRO (both with sympy) and transformers to register one name of each, even
for reading or searching.  Here the names are registered, and the imports wait until one is used.
Modules imported before this one are unchanged.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from inspect import Signature, signature
from types import ModuleType
from typing import Any, Optional

from mmengine.registry import MODEL_WRAPPERS, OPTIMIZERS, STRATEGIES, Registry


class Late:
    """A class that is imported when it is called, subclassed or accessed by attribute.

    Args:
        registry: the registry that has it.
        name: name of the class.
        module: module that defines it.
    """

    def __init__(self, registry: Registry, name: str, module: str) -> None:
        self._registry, self.__name__, self.__module__ = registry, name, module
        registry.module_dict[name] = self

    def real(self) -> type:
        """Return the class itself, which from then on is in the registry.

        Raises:
            ImportError: its library is not installed.
        """
        held, name = self._registry.module_dict, self.__name__
        if isinstance(sys.modules.get(self.__module__), _Place):
            del sys.modules[self.__module__]
        if held.get(name) is self:
            del held[name]  # mmengine's modules register their class themselves
        try:
            held.setdefault(name, getattr(import_module(self.__module__), name))
        except BaseException:
            held.setdefault(name, self)
            raise
        return held[name]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.real()(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith('__'):
            raise AttributeError(name)
        return getattr(self.real(), name)

    @property
    def __signature__(self) -> Signature:
        return signature(self.real())

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type]:
        return (self.real(),)

    def __instancecheck__(self, instance: Any) -> bool:
        made = sys.modules.get(self.__module__)
        return (
            made is not None and not isinstance(made, _Place) and isinstance(instance, self.real())
        )


class _Place(ModuleType):
    """A module with one late class; accessing anything else in it imports the module itself."""

    def __init__(self, late: Late) -> None:
        super().__init__(late.__module__)
        self._late = late
        setattr(self, late.__name__, late)

    def __getattr__(self, name: str) -> Any:
        if name.startswith('__'):
            raise AttributeError(name)
        self._late.real()
        return getattr(sys.modules[self.__name__], name)


class _Finder:
    """Import finder that gives each module of :data:`LATE` a _Place, and hides transformers."""

    def __init__(self) -> None:
        self.waiting = {module: (registry, name) for registry, name, module in LATE}

    def find_spec(self, module: str, *_: Any) -> Optional[ModuleSpec]:
        if module == 'transformers' and _begun('mmengine.optim.optimizer.builder'):
            Late(OPTIMIZERS, 'Adafactor', module)
            raise ModuleNotFoundError(f'{module} is imported only when it is used', name=module)
        return ModuleSpec(module, self) if module in self.waiting else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Place(Late(*self.waiting.pop(spec.name), spec.name))

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing: a _Place is complete when created."""


def _begun(module: str) -> bool:
    """Return whether a module is currently being imported."""
    return getattr(getattr(sys.modules.get(module), '__spec__', None), '_initializing', False)


#: (registry, class, module) of mmengine's classes that are imported late.
LATE = (
    (OPTIMIZERS, 'ZeroRedundancyOptimizer', 'mmengine.optim.optimizer.zero_optimizer'),
    (
        MODEL_WRAPPERS,
        'MMFullyShardedDataParallel',
        'mmengine.model.wrappers.fully_sharded_distributed',
    ),
    (STRATEGIES, 'FSDPStrategy', 'mmengine._strategy.fsdp'),
)


sys.meta_path.insert(0, _Finder())
