"""Training steps on the device: steps in parts and in blocks equal the plain one."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gpu_check.models import clips, dvtr, loss_alone, step, vectors, without_dropout
from gpu_check.report import Part, Table, Verdict
from gpu_check.setting import Setting
from mmvtr.models.retriever import VideoTextRetriever

#: Largest relative difference of the loss, and of a gradient over the largest entry of all
#: gradients, as float32 sums are taken in another order.
BAR = 1e-3


def steps(setting: Setting) -> Part:
    """Compare micro_batch and block_rows with the plain step, for a retriever and a loss alone."""
    tiny = Setting(setting.device, smoke=True)  # equality does not depend on size
    model = dvtr(tiny)
    without_dropout(model)
    alone = loss_alone(64).to(setting.device).train()
    rows, values, failed = [], {}, []
    for title, one, batch in (
        ('DVTR on CLIP2Video', model, clips(tiny, 13)),
        ('contrastive loss', alone, vectors(500, 64, setting.device)),
    ):
        plain = step(one, batch)
        for way, change in (
            ('micro_batch', dict(micro_batch=4)),
            ('block_rows', dict(block_rows=5)),
            ('both', dict(micro_batch=4, block_rows=5)),
        ):
            off = differences(_changed(one, batch, change), plain)
            rows.append((title, way, *(f'{x:.1e}' for x in off.values())))
            values[f'{title}, {way}'] = off
            if not max(off.values()) <= BAR:
                failed.append(f'{title}, {way} {max(off.values()):.1e}')
    worst = max(max(x.values()) for x in values.values())
    return Part(
        'Training steps',
        [
            'Loss and gradients of a step in parts (micro_batch) and in blocks (block_rows), '
            f'beside the plain step on the device, in float32. The bar is {BAR:g}.'
        ],
        [Table(('model', 'way', 'loss', 'gradients'), rows)],
        [Verdict(f'steps within {BAR:g}', not failed, '; '.join(failed) or f'largest {worst:.1e}')],
        values,
    )


def _changed(
    model: VideoTextRetriever, batch: dict[str, Any], change: dict[str, int]
) -> tuple[Tensor, dict[str, Tensor]]:
    try:
        for name, value in change.items():
            setattr(model, name, value)
        return step(model, batch)
    finally:
        for name in change:
            setattr(model, name, None)


def differences(
    mine: tuple[Tensor, dict[str, Tensor]], reference: tuple[Tensor, dict[str, Tensor]]
) -> dict[str, float]:
    """Return the relative difference of the loss, and the largest one of the gradients.

    The latter is relative to the largest entry of all reference gradients.
    """
    (loss, gradients), (expected, known) = mine, reference
    if gradients.keys() != known.keys():
        return dict(loss=float('inf'), gradients=float('inf'))
    largest = max(float(x.abs().max()) for x in known.values())
    worst = max(float((gradients[name] - x).abs().max()) for name, x in known.items())
    off = float((loss - expected).abs() / expected.abs())
    return {
        'loss': off if torch.isfinite(loss) else float('inf'),
        'gradients': worst / largest if worst == worst else float('inf'),
    }
