"""A device that is not the CPU, on a machine that has no other: what CUDA would refuse is refused.

Tensors on ``DEVICE`` report that device and hold their numbers on the CPU. As with CUDA, an
operation that mixes them with tensors of the CPU is an error, but for numbers (0-dim), indices of
the CPU, and copies; and there is no ``.numpy()`` without a ``.cpu()`` before it.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import Any, Callable, Iterator
from unittest.mock import patch

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

#: A device of torch that needs no driver.  Its own tensors hold nothing; these do.
DEVICE = torch.device('meta')

_aten = torch.ops.aten
#: Operations that take tensors of several devices.
_COPIES = {_aten._to_copy.default, _aten.copy_.default}
#: Recurrent networks over sequences of several lengths: those are counted on the CPU.
_PACK = _aten._pack_padded_sequence.default
_PACKED = {_PACK, _aten._pad_packed_sequence.default, _aten.gru.data, _aten.lstm.data}
#: Whose further arguments may be on the CPU.
_INDEXED = {
    _aten.index.Tensor,
    _aten.index_put.default,
    _aten.index_put_.default,
    _aten._index_put_impl_.default,
}


_PRODUCTS = {Tensor.__matmul__, Tensor.matmul, torch.matmul}
#: What a program may ask of any tensor: it waits for the device and gets a number.
_NUMBERS = {
    Tensor.__bool__,
    Tensor.__contains__,
    Tensor.__float__,
    Tensor.__format__,
    Tensor.__index__,
    Tensor.__int__,
    Tensor.item,
    Tensor.tolist,
}


class Elsewhere(Tensor):
    """A tensor on ``DEVICE``; ``here`` holds its numbers."""

    here: Tensor

    @staticmethod
    def __new__(cls, here: Tensor) -> 'Elsewhere':
        made = Tensor._make_wrapper_subclass(
            cls,
            here.size(),
            strides=here.stride(),
            storage_offset=here.storage_offset(),
            dtype=here.dtype,
            device=DEVICE,
            requires_grad=here.requires_grad,
        )
        made.here = here.detach()
        return made

    def __repr__(self, **_: Any) -> str:
        return f'Elsewhere({self.here})'

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func in _NUMBERS:
            return func(args[0].cpu(), *args[1:], **(kwargs or {}))
        if func is Tensor.numpy:
            raise TypeError("can't convert a tensor elsewhere to numpy: use .cpu() first")
        if func is Tensor.backward:  # which may compute again, by functions that come here
            return torch.autograd.backward(args[0])
        if func in _PRODUCTS and args[0].dim() == 1 < args[1].dim():
            # torch would change the shape of a result in place, which a wrapper cannot follow.
            return (args[0][None] @ args[1]).squeeze(0)
        with torch._C.DisableTorchFunctionSubclass():  # a copy on the CPU is a plain tensor
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return _run(func, args, kwargs or {})


class _FromNumbers(TorchFunctionMode):
    """``torch.tensor(..., device=DEVICE)``, which torch makes without asking a dispatch mode."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func in (torch.tensor, torch.as_tensor) and kwargs.get('device') is not None:
            return func(*args, **{**kwargs, 'device': None}).to(kwargs['device'])
        if func is Tensor.new_tensor and isinstance(args[0], Elsewhere):
            return args[0].here.new_tensor(*args[1:], **kwargs).to(DEVICE)
        return func(*args, **kwargs)


class _Factories(TorchDispatchMode):
    """Makes what is made on ``DEVICE``, too."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return _run(func, args, kwargs or {})


def _run(func: Any, args: tuple, kwargs: dict) -> Any:
    tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
    away = [x for x in tensors if isinstance(x, Elsewhere)]
    _refuse_mixture(func, args, tensors, away)
    target = kwargs.get('device')
    stays = bool(away) if target is None else torch.device(target) == DEVICE
    if target is not None:
        kwargs = {**kwargs, 'device': torch.device('cpu')}
    if func is _aten._to_copy.default:
        kwargs.pop('non_blocking', None)
    inner = tree_map_only(Elsewhere, lambda x: x.here, (args, kwargs))
    out = func(*inner[0], **inner[1])
    if func is _aten.copy_.default or func._schema.name.endswith('_') or 'out' in kwargs:
        changed = kwargs.get('out', args[0] if args else None)
        if isinstance(changed, Tensor):
            return changed
    if not stays:
        return out
    if func is _PACK:
        return Elsewhere(out[0]), out[1]
    return tree_map_only(Tensor, Elsewhere, out)


def _refuse_mixture(func: Any, args: tuple, tensors: list[Tensor], away: list[Tensor]) -> None:
    if not away or func in _COPIES | _PACKED:
        return
    here = [x for x in tensors if not isinstance(x, Elsewhere) and x.dim()]
    if func in _INDEXED:
        if isinstance(args[0], Elsewhere):
            here = [x for x in args[2:] if isinstance(x, Tensor) and x in here]
        else:
            here = [args[0]]
    if here:
        shapes = [tuple(x.shape) for x in tensors]
        raise RuntimeError(f'{func} of tensors on the CPU and elsewhere, of shapes {shapes}')


@contextmanager
def elsewhere() -> Iterator[torch.device]:
    """Inside, ``.to(DEVICE)`` and ``torch.zeros(..., device=DEVICE)`` make such tensors."""
    with ExitStack() as stack:
        tolist = Tensor.tolist
        stack.enter_context(patch.object(Tensor, 'tolist', lambda x: tolist(x.cpu())))
        for name in ('autocast', 'is_autocast_enabled', 'get_autocast_dtype'):
            stack.enter_context(patch.object(torch, name, _as_cpu(getattr(torch, name))))
        stack.enter_context(_FromNumbers())
        stack.enter_context(_Factories())
        yield DEVICE


def _as_cpu(of_device_type: Callable) -> Callable:
    def call(*args: Any, **kwargs: Any) -> Any:
        return of_device_type(*('cpu' if x == DEVICE.type else x for x in args), **kwargs)

    return call
