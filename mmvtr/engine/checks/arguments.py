"""Arguments of a registered class or function, read from its signature."""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import cache
from typing import Any, Callable, NamedTuple, Optional

from torch import nn


class Arguments(NamedTuple):
    """Arguments that a function accepts by name.

    Attributes:
        names: all known names.
        required: those without a default.
        open: whether other names may also be valid: they are passed on to code without a known
            signature.
    """

    names: frozenset[str]
    required: frozenset[str]
    open: bool


class _Forwarding(NamedTuple):
    """Destination of a function's ``**kwargs``; ``lost``: they do not go to the base alone."""

    to_base: bool
    lost: bool
    filled: frozenset[str]
    positions: int
    read: frozenset[str]


NOTHING = Arguments(frozenset(), frozenset(), False)
ANYTHING = Arguments(frozenset(), frozenset(), True)


@cache
def arguments_of(component: Callable) -> Arguments:
    """Return the arguments of a class or a function.

    ``**kwargs`` that a constructor passes to ``super().__init__`` are resolved by the base's
    arguments, recursively; ``**kwargs`` that go elsewhere leave the answer open.  A class can list
    its further arguments in ``option_names``; then it accepts no others.
    """
    if not inspect.isclass(component):
        return _of_function(component, skip=0, base=None)
    if any('__new__' in vars(owner) for owner in _own(component)) and not _constructors(component):
        return ANYTHING
    arguments = _of_constructors(_constructors(component))
    more = getattr(component, 'option_names', None)
    if more is None:
        return arguments
    return Arguments(arguments.names | {*more}, arguments.required, False)


def annotation_of(component: Callable, name: str) -> Any:
    """Return the annotation of a parameter of a class or a function; ``Any`` without one.

    A class that passes ``**kwargs`` on has the parameters of its bases.
    """
    if name == 'type':
        return str
    owners = component.__mro__ if inspect.isclass(component) else [None]
    for owner in owners:
        function = component if owner is None else vars(owner).get('__init__')
        try:
            parameter = inspect.signature(function).parameters.get(name)
        except (TypeError, ValueError):  # no constructor of its own, or one in C
            continue
        if parameter is not None:
            return _evaluated(parameter.annotation, function)
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


def _own(component: type) -> list[type]:
    """Return a class and its bases, without those that define no arguments."""
    return [owner for owner in component.__mro__ if owner not in (object, nn.Module)]


def _constructors(component: type) -> tuple[Callable, ...]:
    """Return each ``__init__`` of a class and its bases, the nearest first."""
    return tuple(vars(owner)['__init__'] for owner in _own(component) if '__init__' in vars(owner))


def _of_constructors(chain: tuple[Callable, ...]) -> Arguments:
    if not chain:
        return NOTHING
    return _of_function(chain[0], skip=1, base=chain[1:])


def _of_function(
    function: Callable, *, skip: int, base: Optional[tuple[Callable, ...]]
) -> Arguments:
    """Return a function's arguments without the first ``skip``; ``base``: constructors above it."""
    try:
        parameters = list(inspect.signature(function).parameters.values())[skip:]
    except (TypeError, ValueError):  # written in C
        return ANYTHING
    by_name = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    names = frozenset(p.name for p in by_name)
    required = frozenset(p.name for p in by_name if p.default is p.empty)
    rest = next((p.name for p in parameters if p.kind == p.VAR_KEYWORD), None)
    if rest is None:
        return Arguments(names, required, False)
    goes = _forwarding(function, rest)
    if base is None or goes is None or not goes.to_base:
        return Arguments(names, required, True)
    above = _of_constructors(base)
    positional = list(inspect.signature(base[0]).parameters)[1:] if base else []
    filled = goes.filled | frozenset(positional[: goes.positions])
    return Arguments(
        names | goes.read | above.names,
        required | (above.required - filled),
        above.open or goes.lost,
    )


def _forwarding(function: Callable, rest: str) -> Optional[_Forwarding]:
    """Return where a function passes its ``**rest``; None if its source is unavailable."""
    try:
        source = textwrap.dedent(inspect.getsource(inspect.unwrap(function)))
        tree = ast.parse(source)
    except (OSError, TypeError, SyntaxError):
        return None
    to_base, filled, positions, read, forwarded = False, set(), 0, set(), 0
    for node in ast.walk(tree):
        name = _read_name(node, rest)
        if name is not None:
            read.add(name)
            forwarded += 1
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == '__init__'  # of the base
            and any(not k.arg and _is(k.value, rest) for k in node.keywords)
        ):
            to_base = True
            filled.update(k.arg for k in node.keywords if k.arg)
            positions = sum(not isinstance(argument, ast.Starred) for argument in node.args)
            forwarded += 1
    lost = sum(_is(node, rest) for node in ast.walk(tree)) > forwarded
    return _Forwarding(to_base, lost, frozenset(filled), positions, frozenset(read))


def _read_name(node: ast.AST, rest: str) -> Optional[str]:
    """Return 'x' for ``rest['x']``, ``rest.pop('x', ...)`` and similar calls."""
    if isinstance(node, ast.Subscript) and _is(node.value, rest):
        return _text(node.slice)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if _is(node.func.value, rest) and node.args:
            return _text(node.args[0])
    return None


def _is(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _text(node: ast.AST) -> Any:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
