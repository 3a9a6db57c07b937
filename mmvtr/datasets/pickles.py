"""Restricted unpickling: published pickles read without running what they name.

A pickle is a program: it may call any function of any module.  Here it can build containers,
strings and numbers and, if allowed, numpy arrays of numbers; anything else is an error.  The
functions below replace those that numpy's pickles call.
"""

from __future__ import annotations

import math
import pickle
import re
from pathlib import Path
from typing import Any, Callable, Optional, Union

import numpy as np

from mmvtr.datasets.annotation_values import Place, problem, string

#: Dtype codes of numbers in pickles; no objects, no records, no complex numbers.
_NUMBERS = re.compile(r'(?:f[248]|[iu][1248]|b1)')


def read_pickle(path: Path, what: str, *, arrays: bool = False) -> Any:
    """Return the content of a pickle of plain data, of any protocol and Python version.

    Args:
        path: the file; it is read into memory as a whole.
        what: its content in words, for the error: ``'plain captions'``.
        arrays: also accept numpy arrays, and numbers, of float16 to float64, integers and booleans.
            A string of Python 2 then comes as bytes (:func:`text_of`), else it is decoded as UTF-8.

    Returns:
        The content; an array may be read-only.

    Raises:
        FileNotFoundError: no such file.
        ValueError: not a pickle, a damaged one, or one of anything else.
    """
    with open(path, 'rb') as file:
        try:
            if arrays:
                return _ArrayUnpickler(file, encoding='bytes').load()
            return _PlainUnpickler(file, encoding='utf-8').load()
        except Exception as error:  # a damaged pickle may raise anything
            reason = str(error) or type(error).__name__
            raise problem(Place(path), f'not a pickle of {what}: {reason}') from error


def text_of(value: Any, place: Place) -> str:
    """Return a pickled string as str; Python 2 strings are decoded as UTF-8 or else latin-1.

    Raises:
        ValueError: not a string.
    """
    if not isinstance(value, bytes):
        return string(value, place)
    try:
        return string(value.decode(), place)
    except UnicodeDecodeError:
        return string(value.decode('latin-1'), place)


class _PlainUnpickler(pickle.Unpickler):
    """Unpickler of containers, strings and numbers that resolves no global name."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f'it asks for {module}.{name}')


class _ArrayUnpickler(_PlainUnpickler):
    """Unpickler that resolves only the names by which older and newer numpy pickle arrays."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _ANSWERS:
            return _Answer(_ANSWERS[module, name])
        return super().find_class(module, name)


class _Answer:
    """An immutable wrapper of a function that a pickle may call."""

    __slots__ = ('_function',)

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)

    def __setstate__(self, state: Any) -> None:
        raise pickle.UnpicklingError('it changes a function')


class _Dtype:
    """A placeholder for a numpy dtype whose byte order is in its state."""

    __slots__ = ('code', 'order')

    def __init__(self, code: str) -> None:
        self.code, self.order = code, '='

    def __setstate__(self, state: Any) -> None:
        order = _word(state[1]) if isinstance(state, tuple) and len(state) > 4 else None
        if order not in ('<', '>', '|', '=') or state[2:5] != (None, None, None):
            raise pickle.UnpicklingError('an array of records')
        self.order = order

    def numpy(self) -> np.dtype:
        return np.dtype(self.order + self.code)


class _Array(np.ndarray):
    """A placeholder for an array whose state is checked before numpy reads it."""

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, tuple) or len(state) != 5:
            raise pickle.UnpicklingError('an array of an unknown format')
        version, shape, dtype, fortran, raw = state
        checked = _checked(raw, dtype, shape)
        super().__setstate__((1, shape, checked, bool(fortran), raw))


def _dtype(code: Any, align: Any = False, copy: Any = True) -> _Dtype:
    code = _word(code)
    if not isinstance(code, str) or not _NUMBERS.fullmatch(code):
        raise pickle.UnpicklingError(f'an array without numbers ({str(code)[:20]})')
    return _Dtype(code)


def _reconstruct(kind: Any, shape: Any, code: Any) -> _Array:
    """Return an array placeholder without content."""
    _ndarray_only(kind)
    return np.zeros(0, np.uint8).view(_Array)


def _frombuffer(raw: Any, dtype: Any, shape: Any, order: Any, axes: Any = None) -> np.ndarray:
    order = _word(order)
    if order == 'K' and isinstance(axes, tuple):  # a transposed array
        return np.frombuffer(raw, _checked(raw, dtype, shape)).reshape(shape).transpose(axes)
    if order not in ('C', 'F'):
        raise pickle.UnpicklingError('an array of an unknown order')
    return np.frombuffer(raw, _checked(raw, dtype, shape)).reshape(shape, order=order)


def _scalar(dtype: Any, raw: Any) -> Union[int, float, bool]:
    return np.frombuffer(raw, _checked(raw, dtype, ()))[0].item()


def _encode(text: Any, encoding: Any) -> bytes:
    """Decode bytes that Python 3 pickled for Python 2."""
    if not isinstance(text, str) or _word(encoding) != 'latin1':
        raise pickle.UnpicklingError('an unknown encoding of bytes')
    return text.encode('latin-1')


def _no_bytes(*content: Any) -> bytes:
    if content:
        raise pickle.UnpicklingError('bytes of something else')
    return b''


def _ndarray(*arguments: Any) -> None:
    """Placeholder that is only passed to :func:`_reconstruct`."""
    raise pickle.UnpicklingError('it calls numpy.ndarray')


def _ndarray_only(kind: Any) -> None:
    if not isinstance(kind, _Answer) or kind._function is not _ndarray:
        raise pickle.UnpicklingError('an array of another class')


def _checked(raw: Any, dtype: Any, shape: Any) -> np.dtype:
    """Return the dtype of an array whose bytes match its shape."""
    if not isinstance(dtype, _Dtype) or not isinstance(raw, (bytes, bytearray)):
        raise pickle.UnpicklingError('an array without numbers')
    if not isinstance(shape, tuple) or not all(type(n) is int and n >= 0 for n in shape):
        raise pickle.UnpicklingError('an array without a shape')
    size = math.prod(shape) * dtype.numpy().itemsize
    if size != len(raw):
        raise pickle.UnpicklingError(f'an array of {len(raw)} bytes where its shape has {size}')
    return dtype.numpy()


def _word(value: Any) -> Optional[str]:
    """Return a short string, which Python 2 pickles as bytes."""
    return value.decode('latin-1') if isinstance(value, bytes) else value


#: Global names that a pickle of arrays may use.
_ANSWERS: dict[tuple[str, str], Callable[..., Any]] = {
    ('numpy', 'ndarray'): _ndarray,
    ('numpy', 'dtype'): _dtype,
    ('_codecs', 'encode'): _encode,
    ('builtins', 'bytes'): _no_bytes,
    ('__builtin__', 'bytes'): _no_bytes,
    **{
        (f'{core}.{module}', function): answer
        for core in ('numpy.core', 'numpy._core')
        for module, function, answer in (
            ('multiarray', '_reconstruct', _reconstruct),
            ('multiarray', 'scalar', _scalar),
            ('numeric', '_frombuffer', _frombuffer),
        )
    },
}
