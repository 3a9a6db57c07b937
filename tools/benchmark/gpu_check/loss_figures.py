"""Timings of the contrastive loss, 1,024 to 65,536 pairs: matrix, blocks, torch's own InfoNCE."""

from __future__ import annotations

from typing import Any, Callable

import torch
import torch.nn.functional as F

from gpu_check.models import loss_alone, total, vectors
from gpu_check.report import Part, Table
from gpu_check.setting import Setting
from gpu_check.timing import free, measure, mebibytes, milliseconds, ratio

DIM = 512


def loss(setting: Setting) -> Part:
    """Time the forward and backward pass at each size."""
    sizes = (64, 128) if setting.smoke else [2**i for i in range(10, 17)]
    rows, values = [], {}
    for size in sizes:
        batch = vectors(size, DIM, setting.device)
        calls = {
            'cross_entropy both ways': _plain(batch, setting.device),
            'whole matrix': _ours(batch, setting.device),
            'blocks': _ours(batch, setting.device, block_rows=min(2048, max(16, size // 4))),
        }
        figures = measure(calls, setting.device, repeats=setting.repeats)
        base = figures['cross_entropy both ways']
        for name, x in figures.items():
            rows.append((f'{size:,}', name, milliseconds(x), ratio(x, base), mebibytes(x)))
        values[str(size)] = {name: x._asdict() for name, x in figures.items()}
        del batch, calls
        free(setting.device)
    return Part(
        'The loss alone',
        [
            f'InfoNCE of pairs of {DIM} dimensions, forward and backward, under bfloat16 autocast. '
            "torch's plain form multiplies in bfloat16; ours computes scores in float32, as "
            'differences between them are small, and the plain form is the faster for it.',
        ],
        [Table(('pairs', 'form', 'ms', 'to cross_entropy', 'peak MiB'), rows)],
        values=values,
    )


def _ours(batch: dict[str, Any], device: torch.device, **how: int) -> Callable[[], None]:
    model = loss_alone(DIM, **how).to(device).train()

    def call() -> None:
        model.zero_grad(set_to_none=True)
        with torch.autocast(device.type, torch.bfloat16):
            found = total(model(**batch, mode='loss'))
        found.backward()

    return call


def _plain(batch: dict[str, Any], device: torch.device) -> Callable[[], None]:
    model = loss_alone(DIM).to(device).train()

    def call() -> None:
        model.zero_grad(set_to_none=True)
        with torch.autocast(device.type, torch.bfloat16):
            texts, videos = (side['global'].mean for side in model(batch['inputs'], mode='tensor'))
            scores = F.normalize(texts, dim=1) @ F.normalize(videos, dim=1).t()
            logits = scores / model.temperature()
            own = torch.arange(len(logits), device=device)
            found = (F.cross_entropy(logits, own) + F.cross_entropy(logits.t(), own)) / 2
        found.backward()

    return call
