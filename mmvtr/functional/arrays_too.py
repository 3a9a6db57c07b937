"""Decorator that lets functions of tensors also take, and then return, numpy arrays."""

from __future__ import annotations

from functools import wraps
from typing import Any, Callable, TypeVar

import torch
from torch import Tensor

Function = TypeVar('Function', bound=Callable[..., Any])
#: Module of a type that is not an array -> the conversion to an array.
CONVERSIONS = dict(
    pandas='x.to_numpy()', polars='x.to_numpy()', pyarrow='x.to_numpy(zero_copy_only=False)'
)


def arrays_too(function: Function) -> Function:
    """Return a function of tensors that also takes numpy arrays.

    If an argument is an array, returned tensors become arrays.  Data frames and columns of pandas,
    polars and pyarrow raise a TypeError that names the conversion.

    Example:
        ::

            >>> import numpy as np
            >>> @arrays_too
            ... def half(x):
            ...     return x / 2
            >>> half(np.ones(2)).tolist(), half(torch.ones(2)).tolist()
            ([0.5, 0.5], [0.5, 0.5])
    """

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        given = (*args, *kwargs.values())
        for one in given:
            made = CONVERSIONS.get(type(one).__module__.split('.')[0])
            if made:
                raise TypeError(
                    f'{function.__name__} takes numpy arrays or torch tensors, not '
                    f'{type(one).__name__}: give {made}'
                )
        if not any(map(_is_array, given)):
            return function(*args, **kwargs)
        made = {name: _tensor(one) for name, one in kwargs.items()}
        return _back(function(*(_tensor(one) for one in args), **made))

    return called


def _is_array(x: Any) -> bool:
    """Return whether an object is a numpy array, without importing numpy."""
    return any(
        kind.__module__ == 'numpy' and kind.__name__ == 'ndarray' for kind in type(x).__mro__
    )


def _tensor(x: Any) -> Any:
    return torch.tensor(x) if _is_array(x) else x


def _back(x: Any) -> Any:
    if isinstance(x, Tensor):
        return x.detach().cpu().numpy()
    if isinstance(x, tuple):
        parts = [_back(one) for one in x]
        return type(x)(*parts) if hasattr(x, '_fields') else tuple(parts)
    return x
