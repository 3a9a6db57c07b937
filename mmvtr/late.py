"""mmengine without what takes seconds to import and few trainings use.

mmengine imports FSDP, ZeRO (both with sympy) and transformers, of which it registers a name each,
in whatever reads or searches, too.  Here the names are registered, and the imports wait until one
is used.  What has been imported before this module stays as it is.
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
    """A class that is imported when it is called, inherited from or asked for an attribute.

    Args:
        registry: has it by its name.
        name: of the class.
        module: defines it.
    """

    def __init__(self, registry: Registry, name: str, module: str) -> None:
        self._registry, self.__name__, self.__module__ = registry, name, module
        registry.module_dict[name] = self

    def real(self) -> type:
        """Return the class itself, which the registry has from now on.

        Raises:
            ImportError: its library is not installed.
        """
        held, name = self._registry.module_dict, self.__name__
        if isinstance(sys.modules.get(self.__module__), _Place):
            del sys.modules[self.__module__]
        if held.get(name) is self:
            del held[name]  # mmengine's modules register their class
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
    """A module with one late class; anything else of it imports the module itself."""

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
    """Gives each module of :data:`LATE` its place, once; hides transformers from mmengine."""

    def __init__(self) -> None:
        self.waiting = {module: (registry, name) for registry, name, module in LATE}

    def find_spec(self, module: str, *_: Any) -> Optional[ModuleSpec]:
        if module == 'transformers' and _begun('mmengine.optim.optimizer.builder'):
            Late(OPTIMIZERS, 'Adafactor', module)
            raise ModuleNotFoundError(f'{module} waits until it is used', name=module)
        return ModuleSpec(module, self) if module in self.waiting else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Place(Late(*self.waiting.pop(spec.name), spec.name))

    def exec_module(self, module: ModuleType) -> None:
        """A place holds all that it has."""


def _begun(module: str) -> bool:
    """Return whether a module is being imported at this moment."""
    return getattr(getattr(sys.modules.get(module), '__spec__', None), '_initializing', False)


#: (registry, class, module) of mmengine's that are late.
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
