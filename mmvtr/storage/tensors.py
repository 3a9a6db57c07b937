"""Tensors by name in a safetensors file, which can hold nothing else.

Files written here contain their digest in the metadata.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Mapping, Optional, Union

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from mmvtr.errors import UserError
from mmvtr.storage.atomic import write_atomically
from mmvtr.storage.digests import ROOM, own_digest_holds, write_with_digest

#: Metadata key for the description of a file's tensors.
META = 'mmvtr'
#: Suffix of such files.
SAFETENSORS = '.safetensors'


def write_tensors(
    tensors: Mapping[str, Tensor], path: Union[str, Path], *, meta: Mapping[str, Any] = {}
) -> None:
    """Write named tensors atomically as safetensors.

    Tensors that share memory (tied weights) are written separately.

    Args:
        tensors: tensors by name.
        path: the file.
        meta: their description, in json types.

    Raises:
        TypeError: a value that is not a tensor (names it).
    """
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f'{path}: tensors by name expected, {name[:80]!r} is a {type(tensor).__name__}'
            )
    seen: set[int] = set()
    copies = {}
    for name, tensor in tensors.items():
        tensor = tensor.detach().cpu().contiguous()
        memory = tensor.untyped_storage().data_ptr()
        copies[name] = tensor.clone() if memory in seen else tensor
        seen.add(memory)
    about = {META: json.dumps(meta)} if meta else {}
    content = safetensors.torch.save(copies, metadata=dict(format='pt', sha256=ROOM, **about))
    write_atomically(path, lambda file: write_with_digest(content, file))


def read_tensors(path: Union[str, Path], *, kind: str, device: Any = 'cpu') -> dict[str, Tensor]:
    """Return the tensors of a safetensors file, whichever program wrote it.

    A file with a digest is read only if the digest matches; files of other writers have none.

    Args:
        path: the file.
        kind: its name in error messages, e.g. 'checkpoint'.
        device: device of the tensors.

    Raises:
        FileNotFoundError: there is no such file.
        RuntimeError: it is damaged, or not a safetensors file.
    """
    if not os.path.isfile(path):
        raise FileNotFoundError(f'{kind} {path} does not exist')
    try:
        if _digest_holds(path) is False:
            raise UserError(
                f'{kind} {path} cannot be read: it is damaged: its bytes do not have the SHA-256 '
                'that it was written with'
            )
        return safetensors.torch.load_file(path, device=str(torch.device(device)))
    except SafetensorError as error:
        raise UserError(
            f'{kind} {path} cannot be read: it is damaged, cut short, or no safetensors file '
            f'({str(error)[:80]})'
        ) from error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise UserError(f'{kind} {path} cannot be read: {reason}') from error


def read_meta(path: Union[str, Path]) -> dict[str, Any]:
    """Return the ``meta`` that :func:`write_tensors` wrote; empty for other writers' files.

    Raises:
        RuntimeError: it is not a json dict.
    """
    with safetensors.safe_open(path, framework='pt') as file:
        text = (file.metadata() or {}).get(META)
    try:
        meta = {} if text is None else json.loads(text)
    except (ValueError, RecursionError):
        meta = None
    if not isinstance(meta, dict):
        raise UserError(
            f'{path}: {META} in its metadata: a dict in json expected, found {text[:80]!r}'
        )
    return meta


def _digest_holds(path: Union[str, Path]) -> Optional[bool]:
    """Return whether the digest of a file matches the file; None if there is none."""
    with open(path, 'rb') as file:
        size = file.read(8)
        length = int.from_bytes(size, 'little')  # length of the json that follows
        if length > os.path.getsize(path):
            return None  # not a safetensors file, as the reader will report
        return own_digest_holds(size + file.read(length), file)
