"""Helpers of functions of tensors: numpy arrays, float32 or better, checks of arguments."""

from __future__ import annotations

import math
from functools import partial, wraps
from inspect import signature
from numbers import Real
from typing import Any, Callable, Collection, Sequence, TypeVar

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

Function = TypeVar('Function', bound=Callable[..., Any])
#: Module of a type that is not an array -> the conversion to one; {} stands for the argument.
CONVERSIONS = dict(
    builtins='numpy.asarray({})',
    pandas='{}.to_numpy()',
    polars='{}.to_numpy()',
    pyarrow='{}.to_numpy(zero_copy_only=False)',
    scipy='{}.toarray()',
    jax='numpy.asarray({})',
    tensorflow='{}.numpy()',
)
#: Calls a function whose intermediate values are recomputed in the backward pass.
recomputed = partial(checkpoint, use_reentrant=False, preserve_rng_state=False)
#: Annotations of arguments that must be tensors.
TENSORS = ('Tensor', 'Optional[Tensor]')


def arrays_too(function: Function, *, mapped: bool = False) -> Function:
    """Return a function of tensors that also accepts numpy arrays.

    If an argument is an array, returned tensors become arrays.  Data frames and columns of other
    libraries, and lists whose argument is annotated as a tensor, raise a TypeError that names the
    conversion.

    Args:
        function: a function of tensors.
        mapped: the function reads arrays itself, such as memory-mapped files: they are passed on as
            they are.

    Example:
        ::

            >>> import numpy as np
            >>> @arrays_too
            ... def half(x):
            ...     return x / 2
            >>> half(np.ones(2)).tolist(), half(torch.ones(2)).tolist()
            ([0.5, 0.5], [0.5, 0.5])
    """

    names = [*signature(function).parameters]
    tensors = {name for name, kind in function.__annotations__.items() if kind in TENSORS}

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        for name, one in (*zip(names, args), *kwargs.items()):
            kind = type(one)
            module = kind.__module__.partition('.')[0]
            listed = module == 'builtins' and not (kind in (list, tuple) and name in tensors)
            if module in CONVERSIONS and not listed:
                raise TypeError(
                    f'{function.__name__}: {name} must be a numpy array or a torch tensor, not '
                    f'{kind.__name__}: give {CONVERSIONS[module].format(name)}'
                )
        given = [*filter(_is_array, (*args, *kwargs.values()))]
        if not given:
            return function(*args, **kwargs)
        if mapped:
            return _back(function(*args, **kwargs), given)
        made = {name: _tensor(one) for name, one in kwargs.items()}
        return _back(function(*(_tensor(one) for one in args), **made), given)

    return called


def _is_array(x: Any) -> bool:
    """Return whether an object is a numpy array, without importing numpy."""
    return any(
        kind.__module__ == 'numpy' and kind.__name__ == 'ndarray' for kind in type(x).__mro__
    )


def _tensor(x: Any) -> Any:
    """Return a tensor that shares an array's memory, or a copy if torch cannot use it."""
    if not _is_array(x):
        return x
    plain = x.flags.writeable and x.dtype.isnative and min((*x.strides, 0)) >= 0
    return torch.from_numpy(x if plain else x.astype(x.dtype.newbyteorder('='), order='C'))


def _back(x: Any, given: Sequence[Any]) -> Any:
    """Return tensors as arrays, which share no memory with ``given``."""
    if isinstance(x, Tensor):
        import numpy as np

        found = x.detach().cpu().numpy()
        return found.copy() if any(np.may_share_memory(found, one) for one in given) else found
    if isinstance(x, tuple):
        parts = [_back(one, given) for one in x]
        return type(x)(*parts) if hasattr(x, '_fields') else tuple(parts)
    return x


def at_least_float32(x: Tensor) -> Tensor:
    """Return float16 and bfloat16 [...] as float32; float32 and float64 unchanged.

    Example:
        ::

            >>> at_least_float32(torch.ones(2, dtype=torch.bfloat16)).dtype
            torch.float32
    """
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def check_one_of(known: Collection, **given: Any) -> None:
    """Raise ValueError unless each value is one of ``known``.

    Example:
        ::

            >>> check_one_of(('mean', 'sum'), reduction='mean')
    """
    for name, value in given.items():
        if value not in known:
            raise ValueError(f'{name} must be one of {[*known]}, not {value!r}')


def check_range(interval: str, **given: Any) -> None:
    """Raise ValueError unless each number lies in an interval.

    Args:
        interval: such as ``'[0, 1)'`` or ``'(0, inf]'``.
        given: numbers or 0-dim tensors by argument name; a NaN lies in no interval.

    Example:
        ::

            >>> check_range('(0, inf]', temperature=0.07)
    """
    low, high = map(float, interval[1:-1].split(','))
    words = f'lie in {interval}'
    if high == math.inf:
        words = 'be positive' if low == 0 and interval[0] == '(' else f'be at least {low:g}'
        words += ' and finite' if interval[-1] == ')' else ''
    for name, value in given.items():
        number = float(value) if isinstance(value, (Real, Tensor)) else math.nan
        above = low < number if interval[0] == '(' else low <= number
        below = number < high if interval[-1] == ')' else number <= high
        if not (above and below):
            raise ValueError(
                f'{name} must {words}, not {number if isinstance(value, Tensor) else value!r}'
            )


def check_shapes(**tensors: Tensor) -> None:
    """Raise ValueError unless all tensors have one shape.

    Example:
        ::

            >>> check_shapes(scores=torch.ones(2, 3), positives=torch.ones(2, 3))
    """
    if len({x.shape for x in tensors.values()}) > 1:
        shapes = [f'{name} {list(x.shape)}' for name, x in tensors.items()]
        raise ValueError(f'{" and ".join(shapes)} differ')
