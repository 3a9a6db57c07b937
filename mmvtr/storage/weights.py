"""The weights in a checkpoint: read, and seen to be those of a model before they are loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Sequence, Union

from torch import Tensor, nn

from mmvtr.storage.reader import read_plain
from mmvtr.storage.tensors import SAFETENSORS, read_tensors


def read_checkpoint(path: Union[str, Path], *, map_location: Any = 'cpu') -> dict[str, Any]:
    """A checkpoint's content.

    Args:
        path: of the file; one that ends in ``.safetensors`` holds weights alone.
        map_location: as of ``torch.load``; default the CPU.

    Returns:
        The stored dict; a bare state_dict comes as dict(state_dict=...), and what DistributedData-
        Parallel calls ``module.X`` as ``X``.

    Raises:
        FileNotFoundError, RuntimeError: see :func:`~mmvtr.storage.read_plain` and
            :func:`~mmvtr.storage.read_tensors`; no weights in it.
    """
    if Path(path).suffix == SAFETENSORS:
        return dict(state_dict=read_tensors(path, kind='checkpoint', device=map_location))
    content = read_plain(path, kind='checkpoint', map_location=map_location)
    if not isinstance(content, dict):
        raise RuntimeError(f'checkpoint {path} holds a {type(content).__name__}, not a dict')
    content = content if 'state_dict' in content else dict(state_dict=content)
    weights = content['state_dict']
    if not isinstance(weights, dict):
        kind = type(weights).__name__
        raise RuntimeError(f'checkpoint {path}: state_dict is a {kind}, expected a dict of tensors')
    for name, weight in weights.items():
        if not (isinstance(name, str) and isinstance(weight, Tensor)):
            raise RuntimeError(
                f'checkpoint {path}: its weights are to be tensors by name, but '
                f'{str(name)[:80]!r} is a {type(weight).__name__}'
            )
    if weights and all(name.startswith('module.') for name in weights):
        content['state_dict'] = {name[7:]: weight for name, weight in weights.items()}
    return content


def check_weights(
    model: nn.Module,
    weights: dict[str, Tensor],
    path: Union[str, Path],
    prefixes: Sequence[str] = ('',),
) -> None:
    """See that ``weights`` are those of ``model``: the same names and shapes.

    Args:
        model: any.
        weights: by name.
        path: of their file, for the error.
        prefixes: of the names to look at; default all.

    Raises:
        RuntimeError: lists the missing and unexpected names and the differing shapes.
    """
    own, given = (
        {name: tuple(x.shape) for name, x in every.items() if name.startswith(tuple(prefixes))}
        for every in (model.state_dict(), weights)
    )
    complaints = {
        'missing': [name for name in own if name not in given],
        'unexpected': [name for name in given if name not in own],
        'of another shape': [
            f'{name} {given[name]} instead of {shape}'
            for name, shape in own.items()
            if given.get(name, shape) != shape
        ],
    }
    lines = [f'  {kind} ({len(n)}): {_first(n)}' for kind, n in complaints.items() if n]
    if lines:
        first = f'checkpoint {path} is not of this {type(model).__name__}:'
        raise RuntimeError('\n'.join([first, *lines]))


def _first(names: list[str], limit: int = 2) -> str:
    shown = ', '.join(name if len(name) < 80 else f'...{name[-75:]}' for name in names[:limit])
    return shown + (', ...' if len(names) > limit else '')
