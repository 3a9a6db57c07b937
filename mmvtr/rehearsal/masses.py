"""What the gradient consists of where a loss pulls more than annotated pairs (RANP, EgoNCE)."""

from __future__ import annotations

from typing import Any, Sequence

import torch
from torch import Tensor, nn

from mmvtr.datasets.sampling.collate import collate_retrieval
from mmvtr.models.annotation import annotated_target
from mmvtr.models.losses.matrix import MatrixLoss
from mmvtr.models.target import Target


def pulls_further(model: nn.Module) -> bool:
    """Whether a loss of a retriever pulls more than the annotated pairs."""
    return any(hasattr(loss, 'further') for loss in model.losses.values())


def masses(
    model: nn.Module, preprocess: nn.Module, dataset: Any, items: Sequence[int], *, batch: int
) -> dict[str, float]:
    """Shares of the gradient's mass, in percent.

    The mass of some entries of the score matrices is the sum of ``|dL / ds|`` over them, in batches
    of the size that a real training has: of 32 items in place of 128 a text meets a quarter of what
    its verb and noun pull.

    Args:
        model: a retriever in eval mode, some loss of which has ``further``.
        preprocess: its data preprocessor.
        dataset: of the training.
        items: of the dataset.
        batch: items of a batch.

    Returns:
        ``mass_loss_<name>`` of each loss, which add up to 100, and ``mass_annotated``,
        ``mass_further`` and ``mass_negative`` of each kind of entry, which do, too.  All are 0
        where nothing has a gradient.
    """
    sums: dict[str, float] = {}
    for start in range(0, len(items), batch):
        some = collate_retrieval(dataset.__getitems__(items[start : start + batch]))
        for name, mass in _of_batch(model, preprocess(some, False)).items():
            sums[name] = sums.get(name, 0.0) + mass
    total = sum(mass for name, mass in sums.items() if name.startswith('mass_loss_'))
    return {name: 100 * mass / total if total else 0.0 for name, mass in sums.items()}


def _of_batch(model: nn.Module, batch: dict[str, Any]) -> dict[str, float]:
    """As :func:`masses`, sums of one batch in place of shares."""
    inputs = batch['inputs']
    texts, videos = model.encode_text(inputs), model.encode_video(inputs)
    matrices = model.similarity(texts, videos)
    target = annotated_target(batch['data_samples'], matrices['scores'].device)
    if model.supervision is not None:
        target, _ = model.supervision(texts, videos, target)
    further = _further(model, target)
    sums = dict.fromkeys(('mass_annotated', 'mass_further', 'mass_negative'), 0.0)
    for name, loss in model.losses.items():
        gradient = size_of_gradient(loss, matrices, target, model.temperature())
        sums[f'mass_loss_{name}'] = float(gradient.sum())
        annotated = target.positives
        for kind, entries in dict(
            annotated=annotated, further=further, negative=~annotated & ~further
        ).items():
            sums[f'mass_{kind}'] += float(gradient[entries].sum())
    return sums


def _further(model: nn.Module, target: Target) -> Tensor:
    """What some loss pulls beside the annotated pairs, bool [T, V]."""
    pulled = [loss.further(target) for loss in model.losses.values() if hasattr(loss, 'further')]
    return torch.stack(pulled).any(0)


def size_of_gradient(
    loss: MatrixLoss, matrices: dict[str, Tensor], target: Target, temperature: Tensor
) -> Tensor:
    """``|dL / ds|`` of each pair, summed over the matrices that a loss reads, float [T, V]."""
    with torch.enable_grad():
        leaves = {name: matrices[name].detach().requires_grad_() for name in loss.reads}
        value = loss(leaves, target, temperature.detach())
        gradients = torch.autograd.grad(value, list(leaves.values()), allow_unused=True)
    return sum(g.abs() for g in gradients if g is not None)
