"""Import libraries without their slow and rarely used dependencies.

mmengine imports FSDP, ZeRO (both with sympy) and transformers, of which it registers a name each,
in whatever reads or searches, too.  Here the names are registered, and the imports wait until one
is used.  open_clip imports transformers (for a few of its text towers), torchvision torch._dynamo
(for a function of detection): their names wait, too.  What has been imported before this module
stays as it is.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import find_spec
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
        waits = made is None or isinstance(made, (_Place, _StandIn))
        return not waits and isinstance(instance, self.real())


class LateName(Late):
    """A class or function of a library that another one has imported and may never use."""

    def __init__(self, module: str, name: str) -> None:
        self.__name__, self.__module__ = name, module

    def real(self) -> Any:
        """Return the object itself.

        Raises:
            AttributeError: this version of the library does not have it.
        """
        _drop_stand_ins()
        home = import_module(self.__module__)
        if not hasattr(home, self.__name__) and self.__module__ == 'transformers':
            home = import_module('transformers.generation')  # where open_clip looks next
        return getattr(home, self.__name__)


class _StandIn(ModuleType):
    """A module whose names all wait."""

    __path__: list[str] = []  # its submodules are looked for, and wait, too

    def __getattr__(self, name: str) -> Any:
        if name.startswith('__'):
            raise AttributeError(name)
        return LateName(self.__name__, name)


def _drop_stand_ins() -> None:
    for name, module in list(sys.modules.items()):
        if isinstance(module, _StandIn):
            del sys.modules[name]
            parent, _, child = name.rpartition('.')
            if vars(sys.modules.get(parent, module)).get(child) is module:
                delattr(sys.modules[parent], child)


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
    """Gives each module of :data:`LATE` its place, once; hides transformers from mmengine, and what
    is in :data:`WAITS` from those who import it."""

    def __init__(self) -> None:
        self.waiting = {module: (registry, name) for registry, name, module in LATE}
        self.hidden: list[str] = []

    def find_spec(self, module: str, *_: Any) -> Optional[ModuleSpec]:
        if module == 'transformers' and _begun('mmengine.optim.optimizer.builder'):
            Late(OPTIMIZERS, 'Adafactor', module)
            raise ModuleNotFoundError(f'{module} waits until it is used', name=module)
        if any(f'{module}.'.startswith(f'{library}.') for library in self.hidden):
            return ModuleSpec(module, self, is_package=True)
        if module in WAITS and WAITS[module] not in sys.modules and find_spec(WAITS[module]):
            return self._hiding(module)
        return ModuleSpec(module, self) if module in self.waiting else None

    def _hiding(self, module: str) -> Optional[ModuleSpec]:
        """Return the spec of a library, which is not to meet what it seldom uses."""
        spec = PathFinder.find_spec(module)
        execute = getattr(spec and spec.loader, 'exec_module', None)
        if execute is None:
            return None

        def exec_module(made: ModuleType) -> None:
            from torch import _disable_dynamo, compiler

            # torch's own form of it that imports torch._dynamo when the function is called
            disable, compiler.disable = compiler.disable, _disable_dynamo
            self.hidden.append(WAITS[module])
            try:
                execute(made)
            finally:
                compiler.disable = disable
                self.hidden.remove(WAITS[module])
                _drop_stand_ins()

        spec.loader.exec_module = exec_module
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        if spec.name not in self.waiting:
            return _StandIn(spec.name)
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


#: Library -> what it imports and seldom uses.
WAITS = {
    'open_clip': 'transformers',
    'timm': 'torch._dynamo',
    'torchvision': 'torch._dynamo',
}

sys.meta_path.insert(0, _Finder())
