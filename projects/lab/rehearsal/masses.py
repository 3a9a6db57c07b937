"""Composition of the gradient if a loss pulls more than annotated pairs (RANP, EgoNCE)."""

from __future__ import annotations

from collections import Counter
from typing import Any, Sequence

import torch
from torch import Tensor, nn

from mmvtr.models.losses.matrix import MatrixLoss
from mmvtr.models.target import Target
from rehearsal.scored import Scored


def pulls_further(model: nn.Module) -> bool:
    """Return whether a loss of a retriever pulls more than the annotated pairs."""
    return any(hasattr(loss, 'further') for loss in model.losses.values())


def masses(
    model: nn.Module, whole: nn.Module, dataset: Any, items: Sequence[int], *, batch: int
) -> dict[str, float]:
    """Return shares of the gradient's mass, in percent.

    The mass of some entries of the score matrices is the sum of ``|dL / ds|`` over them, in batches
    of the real training's size: with 32 items instead of 128 a text would meet a quarter of the
    videos that its verb and noun pull.

    Args:
        model: a retriever in eval mode with a loss that has ``further``.
        whole: the model that it is a member of, or itself.
        dataset: the training dataset.
        items: items of the dataset.
        batch: batch size.

    Returns:
        ``mass_loss_<name>`` of each loss, which add up to 100, and ``mass_annotated``,
        ``mass_further`` and ``mass_negative`` of each kind of entry, which also add up to 100.  All
        are 0 if nothing has a gradient.
    """
    sums = Counter(annotated=0.0, further=0.0, negative=0.0)
    for start in range(0, len(items), batch):
        scored = Scored.of(model, whole, dataset, items[start : start + batch])
        target = scored.known if model.supervision is None else scored.supervised(model)
        pulled = [
            loss.further(target) for loss in model.losses.values() if hasattr(loss, 'further')
        ]
        annotated, further = target.positives, torch.stack(pulled).any(0)
        kinds = dict(annotated=annotated, further=further, negative=~annotated & ~further)
        for name, loss in model.losses.items():
            gradient = size_of_gradient(loss, scored.matrices, target, model.temperature())
            sums[f'loss_{name}'] += float(gradient.sum())
            for kind, entries in kinds.items():
                sums[kind] += float(gradient[entries].sum())
    total = sum(mass for name, mass in sums.items() if name.startswith('loss_'))
    return {f'mass_{name}': 100 * mass / total if total else 0.0 for name, mass in sums.items()}


def size_of_gradient(
    loss: MatrixLoss, matrices: dict[str, Tensor], target: Target, temperature: Tensor
) -> Tensor:
    """Return ``|dL / ds|`` of each pair, summed over a loss's matrices, float [T, V]."""
    with torch.enable_grad():
        leaves = {name: matrices[name].detach().requires_grad_() for name in loss.reads}
        value = loss(leaves, target, temperature.detach())
        gradients = torch.autograd.grad(value, list(leaves.values()), allow_unused=True)
    return sum(g.abs() for g in gradients if g is not None)
