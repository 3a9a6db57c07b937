"""Tensors by name in a safetensors file, which can hold nothing else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Mapping, Union

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from mmvtr.storage.atomic import write_atomically

#: How the names of such files end.
SAFETENSORS = '.safetensors'


def write_tensors(tensors: Mapping[str, Tensor], path: Union[str, Path]) -> None:
    """Write tensors by name; the file appears when it is complete.

    Tensors that share memory (tied weights) are written each.

    Raises:
        TypeError: something that is no tensor (names it).
    """
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f'{path}: tensors by name expected, {name[:80]!r} is a {type(tensor).__name__}'
            )
    seen: set[int] = set()
    own = {}
    for name, tensor in tensors.items():
        tensor = tensor.detach().cpu().contiguous()
        memory = tensor.untyped_storage().data_ptr()
        own[name] = tensor.clone() if memory in seen else tensor
        seen.add(memory)
    content = safetensors.torch.save(own, metadata=dict(format='pt'))
    write_atomically(path, lambda file: file.write(content))


def read_tensors(path: Union[str, Path], *, kind: str, device: Any = 'cpu') -> dict[str, Tensor]:
    """What :func:`write_tensors`, or another writer of the format, has written.

    Args:
        path: of the file.
        kind: what error messages call it, e.g. 'checkpoint'.
        device: where the tensors go.

    Raises:
        FileNotFoundError: there is no such file.
        RuntimeError: it is damaged, or no safetensors file.
    """
    if not os.path.isfile(path):
        raise FileNotFoundError(f'{kind} {path} does not exist')
    try:
        return safetensors.torch.load_file(path, device=str(torch.device(device)))
    except SafetensorError as error:
        raise RuntimeError(
            f'{kind} {path} cannot be read: it is damaged, cut short, or no safetensors file '
            f'({str(error)[:80]})'
        ) from error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise RuntimeError(f'{kind} {path} cannot be read: {reason}') from error
