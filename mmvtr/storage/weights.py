"""Weights in a checkpoint: reading, and checks that they fit a model before they are loaded."""

from __future__ import annotations

import logging
from functools import cache
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, Mapping, Sequence, Union

from mmengine.dist import is_main_process
from mmengine.logging import print_log
from torch import Tensor, nn

from mmvtr.errors import UserError
from mmvtr.storage.reader import read_plain
from mmvtr.storage.tensors import SAFETENSORS, read_meta, read_tensors

#: Prefixes that wrappers add to a model's names: DistributedDataParallel, torch.compile, modules
#: that call it ``model``, and sentence-transformers (``0.auto_model.``); also several in sequence.
WRAPPERS = ('module.', '_orig_mod.', 'model.', 'auto_model.', '0.')
#: Keys under which files hold weights beside other content.
_CONTAINERS = ('state_dict', 'model')


def read_checkpoint(
    path: Union[str, Path], *, map_location: Any = 'cpu', kind: str = 'checkpoint'
) -> dict[str, Any]:
    """Return the content of a checkpoint.

    Args:
        path: the file; one that ends in ``.safetensors`` holds only weights and ``meta``.
        map_location: as for ``torch.load``; default the CPU.
        kind: its name in error messages.

    Returns:
        The stored dict, with tensors by name in ``state_dict``, named as in the file, even if the
        file calls them ``model`` or holds nothing else.

    Raises:
        FileNotFoundError, RuntimeError: see :func:`~mmvtr.storage.read_plain` and
            :func:`~mmvtr.storage.read_tensors`; no weights in it, or two sets of them.
    """
    if Path(path).suffix == SAFETENSORS:
        weights = read_tensors(path, kind=kind, device=map_location)
        return dict(state_dict=weights, meta=read_meta(path))
    content = read_plain(path, kind=kind, map_location=map_location)
    if not isinstance(content, dict):
        raise UserError(f'{kind} {path} holds a {type(content).__name__}, not a dict')
    holders = [key for key in _CONTAINERS if isinstance(content.get(key), dict)]
    if len(holders) > 1:
        raise UserError(
            f"{kind} {path} holds weights under 'state_dict' and under 'model', so it is not clear "
            'which are meant: write one of them to a file of its own'
        )
    if holders == ['model']:
        content['state_dict'] = content.pop('model')
    content = content if 'state_dict' in content else dict(state_dict=content)
    weights = content['state_dict']
    if not isinstance(weights, dict):
        found = type(weights).__name__
        raise UserError(f'{kind} {path}: state_dict is a {found}, expected a dict of tensors')
    for name, weight in weights.items():
        if not (isinstance(name, str) and isinstance(weight, Tensor)):
            raise UserError(
                f'{kind} {path}: its weights are to be tensors by name, but '
                f'{str(name)[:80]!r} is a {type(weight).__name__}'
            )
    return content


def unwrapped(
    weights: Mapping[str, Tensor], fits: Callable[[str], bool], path: Union[str, Path]
) -> dict[str, Tensor]:
    """Return weights without a common name prefix of wrappers, which is logged.

    Args:
        weights: weights by name.
        fits: function that returns whether a name is one of the model's.
        path: their file, for the log and the error.

    Raises:
        RuntimeError: see :func:`wrapper_before`.
    """
    start = wrapper_before(weights, fits, path)
    return {name.removeprefix(start): weight for name, weight in weights.items()}


def wrapper_before(
    names: Iterable[str], fits: Callable[[str], bool], path: Union[str, Path]
) -> str:
    """Return the wrapper prefix of a file's names, e.g. ``'module._orig_mod.'``; mostly ``''``.

    Args:
        names: names in the file.
        fits: function that returns whether a name is one of the model's.
        path: the file.

    Raises:
        RuntimeError: names of the model have different prefixes in the file (names two).
    """
    names = list(names)
    wrappers: dict[str, str] = {}
    for name in names:
        for start in _starts(name):
            if fits(name[len(start) :]):
                wrappers.setdefault(start, name)
    whole = [s for s in wrappers if all(n.startswith(s) and fits(n[len(s) :]) for n in names)]
    if len(wrappers) > 1 and not whole:
        one, two = list(wrappers.values())[:2]
        raise UserError(
            f'{path}: the file has two sets of weights for this model, {one[:80]!r} and '
            f'{two[:80]!r}, behind different wrappers: keep one of them in the file'
        )
    start = min(whole or wrappers, key=len, default='')
    if start:
        _log_once(f'{path}: its names begin with {start!r}, of a wrapper, which is left out')
    return start


def check_weights(
    model: nn.Module,
    weights: Mapping[str, Tensor],
    path: Union[str, Path],
    prefixes: Sequence[str] = ('',),
) -> dict[str, Tensor]:
    """Raise unless ``weights`` match ``model`` in names and shapes and are finite.

    Args:
        model: any module.
        weights: weights by name; a common prefix of wrappers is ignored.
        path: their file, for the error.
        prefixes: prefixes of the names to check; default all.

    Returns:
        All of them, by the model's names.

    Raises:
        RuntimeError: lists missing and unexpected names and differing shapes, or weights with NaN
            or infinite numbers.
    """
    expected = model.state_dict()
    weights = unwrapped(weights, expected.__contains__, path)
    shapes, found = (
        {name: tuple(x.shape) for name, x in every.items() if name.startswith(tuple(prefixes))}
        for every in (expected, weights)
    )
    complaints = {
        'missing': [name for name in shapes if name not in found],
        'unexpected': [name for name in found if name not in shapes],
        'of another shape': [
            f'{name} {found[name]} instead of {shape}'
            for name, shape in shapes.items()
            if found.get(name, shape) != shape
        ],
    }
    lines = [f'  {kind} ({len(n)}): {first_of(n)}' for kind, n in complaints.items() if n]
    if lines:
        first = f'checkpoint {path} does not fit this {type(model).__name__}:'
        raise UserError('\n'.join([first, *lines]))
    refuse_not_finite({name: weights[name] for name in found}, path)
    return weights


def refuse_not_finite(weights: Mapping[str, Tensor], path: Union[str, Path]) -> None:
    """Raise RuntimeError naming the first weight with a NaN or infinite number."""
    wrong = [
        name
        for name, weight in weights.items()
        if weight.is_floating_point()
        and not weight.sum().isfinite()  # faster, but the sum of large numbers may be infinite, too
        and not weight.isfinite().all()
    ]
    if wrong:
        raise UserError(
            f'{path}: {len(wrong)} of its {len(weights)} weights are not finite (NaN or infinite), '
            f'{first_of(wrong)}: its training has diverged, or the file is damaged; take another'
        )


def first_of(names: Sequence[str], limit: int = 2) -> str:
    """Return the first few of many names as text, long names shortened."""
    shown = ', '.join(name if len(name) < 80 else f'...{name[-75:]}' for name in names[:limit])
    return shown + (', ...' if len(names) > limit else '')


def _starts(name: str) -> Iterator[str]:
    """Yield the possible prefixes '', 'module.', 'module._orig_mod.' of 'module._orig_mod.x'."""
    start, rest = '', name
    while True:
        yield start
        wrapper = next((w for w in WRAPPERS if rest.startswith(w)), None)
        if wrapper is None:
            return
        start, rest = start + wrapper, rest[len(wrapper) :]


@cache
def _log_once(text: str) -> None:
    """Log once per file, on one process."""
    if is_main_process():
        print_log(text, 'current', logging.INFO)
