"""Find config entries that name or load code, by declarations and one generic rule.

A user's own config is code anyway.  One from somebody else (in a store, a model folder, a hub
repository, a gallery) is read as data, and :mod:`mmvtr.plain_config` refuses it if it has an entry
that is found here.
"""

from __future__ import annotations

import inspect
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Mapping, TypeVar

Component = TypeVar('Component', bound=Callable)

#: Keys, anywhere in a config, that tell libraries to run code -> values that do not.
_KEYS: dict[str, tuple[Any, ...]] = {
    'allow_all_kernels': (False, None),
    'allow_pickle': (False, None),
    'auto_map': (None,),
    'use_kernels': (False, None),
    'weights_only': (True, None),
}
#: Substrings of further such keys, whose harmless values are False and None.
_PARTS = ('trust_remote', 'remote_code', 'code_revision')
#: Endings of files that hold code.
_FILES = ('.py', '.pyc', '.pyd', '.so', '.dll', '.dylib')
#: Component -> its declared arguments, with the values that name no code.
_declared: dict[Any, dict[str, Any]] = {}


def names_code(*arguments: str) -> Callable[[Component], Component]:
    """Declare, as a component's decorator, arguments that can name or load code.

    Configs from others may set them to their default value only.  Subclasses inherit the
    declaration.

    Raises:
        TypeError: the component has no such argument.
    """

    def declare(component: Component) -> Component:
        known = inspect.signature(component).parameters
        strange = [name for name in arguments if name not in known]
        if strange:
            raise TypeError(f'{component.__name__} has no argument {strange[0]!r}')
        _declared[component] = {name: known[name].default for name in arguments}
        return component

    return declare


def code_given(component: Any, config: Mapping[str, Any]) -> list[str]:
    """Return the declared arguments that a component's config sets to other than the default.

    Args:
        component: a class, for which its bases' declarations also hold, or a function.
        config: its arguments by name.
    """
    kinds = inspect.getmro(component) if inspect.isclass(component) else (component,)
    declared = {name: x for kind in kinds for name, x in _declared.get(kind, {}).items()}
    return sorted(
        name for name in declared.keys() & config if not _same(config[name], declared[name])
    )


def code_entries(config: Mapping[str, Any]) -> list[str]:
    """Return the keys of one dict whose values load code or name a code file, for any component."""
    return sorted(str(key) for key, value in config.items() if _loads(str(key), value))


def _loads(key: str, value: Any) -> bool:
    name = key.lower()
    harmless = _KEYS.get(name, (False, None) if any(part in name for part in _PARTS) else None)
    if harmless is not None:
        return not any(_same(value, one) for one in harmless)
    values = value if isinstance(value, (list, tuple)) else [value]
    texts = [str(x).strip().lower() for x in values if isinstance(x, str)]
    # transformers accepts a kernel repository as the name of an attention implementation.
    kernels = name.endswith('attn_implementation') and any('/' in text for text in texts)
    return kernels or any(text.endswith(_FILES) for text in texts)


def _same(value: Any, other: Any) -> bool:
    return type(value) is type(other) and value == other


@contextmanager
def refusing_code(name: str) -> Iterator[None]:
    """Replace a library's refusal to run a model's own code with a one-sentence error.

    Args:
        name: the model's name, for the message.

    Raises:
        ValueError: the model that is loaded inside needs ``trust_remote_code``.
    """
    try:
        yield
    except ValueError as error:
        if 'trust_remote_code' not in str(error):
            raise
        raise ValueError(
            f'{name[-200:]} cannot be loaded without code that comes with it, which is not run: '
            'look at that code, and give the model in code or in a config of your own'
        ) from error
