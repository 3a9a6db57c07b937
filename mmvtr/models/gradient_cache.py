"""Encoding a large batch in parts: the memory of one part, the gradients of the whole batch.

Gradient caching (Gao et al., Scaling deep contrastive learning batch size under memory limited
setup, RepL4NLP 2021): losses read embeddings only, so encode part after part without keeping
activations, compute the loss of the whole batch and its gradients on the embeddings, then encode
each part again, with the same random numbers, and propagate its gradients to the weights.

Here each part is a checkpoint of the autograd graph, so that the second encoding happens inside the
one ``backward`` of the step: the work of mmengine and DistributedDataParallel around a step (loss
scaling, accumulation, one synchronisation per step) is the same as without parts.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import Callable, Iterable, Iterator

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from mmvtr.structures import Levels, cat_levels


def encode_in_parts(
    encode: Callable[[dict[str, Tensor]], Levels], inputs: dict[str, Tensor], size: int
) -> Levels:
    """Run ``encode(inputs)`` in parts of ``size`` items, keeping activations of one part at a time.

    Args:
        encode: function from tensors of N items to levels; no item may depend on the others.
        inputs: tensors [N, ...]; an empty dict if there is no item.
        size: items per part.

    Returns:
        the levels of the N items.  Values and gradients are those of encoding the parts one by one
        with a graph, and of encoding all at once if no random number is drawn.
    """
    count = max(map(len, inputs.values()), default=0)
    if count <= size or not torch.is_grad_enabled():
        return encode(inputs)
    with uncached_autocast(next(iter(inputs.values())).device.type):
        parts = [
            checkpoint(
                encode,
                {name: x[start : start + size] for name, x in inputs.items()},
                use_reentrant=False,
            )
            for start in range(0, count, size)
        ]
    return cat_levels(parts)


@contextmanager
def uncached_autocast(device: str) -> Iterator[None]:
    """Disable autocast's weight cache on a type of device (``'cuda'``), so each part casts anew.

    With one shared cast, the gradients of all parts would be summed in low precision.
    """
    if not torch.is_autocast_enabled(device):
        yield
        return
    dtype = torch.get_autocast_dtype(device)
    with torch.autocast(device, dtype=dtype, cache_enabled=False):
        yield


@contextmanager
def refuse_dependence_on_batch(
    model: nn.Module, parts: Iterable[str] = ('encoder', 'heads')
) -> Iterator[None]:
    """Refuse modules whose result depends on the other items of a part or on repeated encoding.

    Args:
        model: model whose ``parts`` encode inside the context.
        parts: names of its children.

    Raises:
        ValueError: a batch normalisation in training mode, or a module whose buffers change when
            it encodes (named): it would process parts instead of the batch, and each part twice.
    """
    named = [(n, module) for n, module in model.named_modules() if n.split('.')[0] in parts]
    for name, module in named:
        if isinstance(module, _BatchNorm) and (module.training or module.running_mean is None):
            raise ValueError(
                f'micro_batch: {type(module).__name__} {name!r} would normalise by the statistics '
                'of a part instead of the batch: freeze it (eval mode), or leave micro_batch away'
            )
    before = _versions(named)
    yield
    changed = [name for name, version in _versions(named).items() if before.get(name) != version]
    if changed:
        raise ValueError(
            f'micro_batch: encoding changes the buffer {changed[0]!r}, which would happen with '
            'each part and once more in the backward pass: leave micro_batch away'
        )


def _versions(named: Iterable[tuple[str, nn.Module]]) -> dict[str, tuple[int, int]]:
    """Return each buffer's identity and version counter, which show any change of it."""
    return {
        f'{name}.{key}': (id(buffer), buffer._version)
        for name, module in named
        for key, buffer in module.named_buffers(recurse=False)
    }
