"""Timings of a training step: with and without debiasing, and in parts."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import torch

from gpu_check.models import clips, dvtr, total
from gpu_check.report import Part, Table, Verdict
from gpu_check.setting import Setting
from gpu_check.timing import free, measure, mebibytes, milliseconds, ratio
from mmvtr.models.retriever import VideoTextRetriever

#: Largest allowed ratio of step times with and without debiasing.
GOAL = 1.02


def step_time(setting: Setting) -> Part:
    """Time forward, backward and AdamW under bfloat16 autocast."""
    debiased, plain = dvtr(setting), dvtr(setting, debiased=False)
    size = largest_batch(setting, [debiased, plain], 8 if setting.smoke else 128)
    batch = clips(setting, size)
    own = {
        'without debiasing': training_step(plain, batch),
        'with debiasing': training_step(debiased, batch),
    }
    figures = measure(own, setting.device, repeats=setting.repeats)
    parts = {}
    for micro in (4, 2) if setting.smoke else (128, 64, 32, 16):
        if micro <= size:
            parts[f'micro_batch {micro}'] = training_step(debiased, batch, micro_batch=micro)
    figures.update(measure(parts, setting.device, repeats=setting.repeats))
    base, full = figures['without debiasing'], figures['with debiasing']
    rows = [(name, milliseconds(x), ratio(x, full), mebibytes(x)) for name, x in figures.items()]
    known = base.seconds is not None and full.seconds is not None
    cost = full.seconds / base.seconds if known else None
    return Part(
        'A training step',
        [
            f'{"dvtr_c2v_planted" if setting.smoke else "dvtr_c2v_msrvtt"}, random weights, '
            f'{size} pairs of {batch["inputs"]["video"].shape[1]} frames'
            + (', tiny sizes.' if setting.smoke else _own_batch(size)),
            'Forward and backward pass and AdamW under bfloat16 autocast, median of '
            f'{setting.repeats} in turn; memory is the peak above what is held between steps.',
        ],
        [Table(('step', 'ms', 'to debiased', 'peak MiB'), rows)],
        [] if cost is None or setting.smoke else [_goal(cost)],
        dict(batch=size, debiasing=cost, **{name: x._asdict() for name, x in figures.items()}),
    )


def _own_batch(size: int) -> str:
    return ", the config's own batch." if size == 128 else ': of 128 so many fit.'


def _goal(cost: float) -> Verdict:
    bar = f'debiasing adds at most {GOAL - 1:.0%} to a step'
    return Verdict(bar, cost <= GOAL, f'{cost - 1:+.1%}', binding=False)


def training_step(
    model: VideoTextRetriever, batch: dict[str, Any], **how: int
) -> Callable[[], None]:
    """Return a call that makes a step; ``how`` are attributes of the model during it."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-7)
    device = next(model.parameters()).device.type

    def call() -> None:
        for name in ('micro_batch', 'block_rows'):
            setattr(model, name, how.get(name))
        optimizer.zero_grad()
        with torch.autocast(device, torch.bfloat16):
            loss = total(model(**batch, mode='loss'))
        loss.backward()
        optimizer.step()

    return call


def largest_batch(setting: Setting, models: Sequence[VideoTextRetriever], size: int) -> int:
    """Return ``size``, or the first half, quarter ... of it with which all models' steps fit.

    Raises:
        RuntimeError: not even one pair fits.
    """
    while size:
        try:
            for model in models:
                training_step(model, clips(setting, size))()
            return size
        except torch.OutOfMemoryError:
            size //= 2
        finally:
            free(setting.device)
    raise RuntimeError('not even one pair fits into the memory of this device')
