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
#: Annotations of arguments that must be tensors, and of those that may be :class:`.Tiles` instead.
TENSORS = ('Tensor', 'Optional[Tensor]')
TILES = ('Tensor | Tiles',)


def arrays_too(function: Function, *, mapped: bool = False) -> Function:
    """Return a function of tensors that also accepts numpy arrays, and computes in float32.

    If an argument is an array, returned tensors become arrays.  Tensors of fewer than 32 bits
    become float32 before the call, but for matrices that the function reads as :class:`.Tiles`.
    Data frames and columns of other libraries, and lists whose argument is annotated as a tensor,
    raise a TypeError that names the conversion; so do tensors that are not dense, and masked
    arrays.

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
    tensors = {x for x, kind in function.__annotations__.items() if kind in (*TENSORS, *TILES)}
    wide = {x for x, kind in function.__annotations__.items() if kind in TENSORS}

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        arguments = {**dict(zip(names, args)), **kwargs}
        for name, value in arguments.items():
            kind = type(value)
            module = kind.__module__.partition('.')[0]
            listed = module == 'builtins' and not (kind in (list, tuple) and name in tensors)
            if module in CONVERSIONS and not listed:
                raise TypeError(
                    f'{function.__name__}: {name} must be a numpy array or a torch tensor, not '
                    f'{kind.__name__}: give {CONVERSIONS[module].format(name)}'
                )
            refuse_unreadable(value, name, numbers=False)
        arrays = [*filter(_is_array, arguments.values())]
        if mapped:
            return _back(function(*args, **kwargs), arrays) if arrays else function(*args, **kwargs)
        read = {name: _tensor(value) for name, value in arguments.items()}
        read.update((x, at_least_float32(read[x])) for x in wide & {*read} if read[x] is not None)
        out = function(*(read[x] for x in names[: len(args)]), **{x: read[x] for x in kwargs})
        return _back(out, arrays) if arrays else out

    return called


def refuse_unreadable(x: Any, name: str, *, numbers: bool = True) -> None:
    """Raise TypeError if a tensor or an array has no plain matrix of numbers.

    Args:
        x: anything; a tensor [...] must be dense and on a device, an array [...] without masked
            entries.
        name: its name in the message.
        numbers: whether it must hold numbers; a tensor on the meta device has a shape alone.

    Example:
        ::

            >>> refuse_unreadable(torch.eye(2).to_sparse(), 'scores')
            Traceback (most recent call last):
            TypeError: scores is a sparse_coo tensor: give scores.to_dense()
    """
    wrong = None
    if isinstance(x, Tensor):
        if x.is_nested:
            wrong = f'nested tensor: give torch.nested.to_padded_tensor({name}, 0.0) and a mask'
        elif x.is_quantized:
            wrong = f'quantized tensor: give {name}.dequantize()'
        elif x.layout is not torch.strided:
            wrong = f'{str(x.layout).partition(".")[2]} tensor: give {name}.to_dense()'
        elif numbers and x.is_meta:
            wrong = 'tensor on the meta device, which holds no numbers'
    elif _is_array(x) and getattr(x, 'mask', None) is not None and x.mask.any():
        wrong = f'masked array: give the rows without masked entries, or {name}.filled(...)'
    if wrong:
        raise TypeError(f'{name} is a {wrong}')


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


def _back(x: Any, inputs: Sequence[Any]) -> Any:
    """Return tensors as arrays, which share no memory with ``inputs``."""
    if isinstance(x, Tensor):
        import numpy as np

        array = x.detach().cpu().numpy()
        return array.copy() if any(np.may_share_memory(array, part) for part in inputs) else array
    if isinstance(x, tuple):
        parts = [_back(part, inputs) for part in x]
        return type(x)(*parts) if hasattr(x, '_fields') else tuple(parts)
    return x


def at_least_float32(x: Tensor) -> Tensor:
    """Return floats [...] of fewer than 32 bits as float32; other tensors unchanged.

    Example:
        ::

            >>> at_least_float32(torch.ones(2, dtype=torch.bfloat16)).dtype
            torch.float32
    """
    return x.float() if x.is_floating_point() and x.element_size() < 4 else x


def product(a: Tensor, b: Tensor) -> Tensor:
    """Return ``a @ b``, [..., M, N], in the type of both also under autocast, which loses digits.

    Example:
        ::

            >>> product(torch.tensor([[1.0, 2.0]]), torch.eye(2))
            tensor([[1., 2.]])
    """
    with torch.autocast(a.device.type, enabled=False):
        return a @ b


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
        words = 'be finite' if low == -math.inf else words
    for name, value in given.items():
        value = value.item() if isinstance(value, Tensor) else value
        plain = isinstance(value, Real) and not isinstance(value, bool)
        number = float(value) if plain else math.nan
        above = low < number if interval[0] == '(' else low <= number
        below = number < high if interval[-1] == ')' else number <= high
        if not (above and below):
            raise ValueError(f'{name} must {words}, not {value!r}')


def check_valid(mask: Tensor, item: str, entry: str) -> None:
    """Raise ValueError unless each row of a mask, bool [N, L], has a True.

    Args:
        mask: bool [N, L].
        item, entry: names of a row and of an entry, for the message.

    Example:
        ::

            >>> check_valid(torch.tensor([[True], [False]]), 'video', 'frame')
            Traceback (most recent call last):
            ValueError: video 1 has no valid frame: its mask is all False
    """
    some = mask.any(1)
    if not some.all():
        row = int(some.int().argmin())
        raise ValueError(f'{item} {row} has no valid {entry}: its mask is all False')


def check_shapes(**tensors: Tensor) -> None:
    """Raise ValueError unless all tensors have one shape.

    Example:
        ::

            >>> check_shapes(scores=torch.ones(2, 3), positives=torch.ones(2, 3))
    """
    if len({x.shape for x in tensors.values()}) > 1:
        shapes = [f'{name} {list(x.shape)}' for name, x in tensors.items()]
        raise ValueError(f'{" and ".join(shapes)} differ')
