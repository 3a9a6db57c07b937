"""Trainer callback that drives a loss' ramp and saves its bank in checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import TrainerCallback

from mmvtr.arrays import fit
from mmvtr.sentence_transformers.evaluator import DEFAULT


class LossCallback(TrainerCallback):
    """Callback that connects a loss to its trainer: progress, logged figures, saved queues.

    A log row with the training loss also gets the mean of each figure of the supervision since the
    previous row (``guided_per_text``, ``eta_negative`` ...).  Callbacks before this one, such as
    TensorBoard's, have already written their row: to reach them, make it the first by
    ``trainer.callback_handler.callbacks.insert(0, LossCallback(loss))``.

    Args:
        loss: a loss of this package, the one of the trainer.

    Example:
        ::

            SentenceTransformerTrainer(..., loss=loss, callbacks=[LossCallback(loss)])
    """

    def __init__(self, loss: nn.Module) -> None:
        self.loss = loss
        self._seen: dict[str, list[Tensor]] = {}

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        loader = kwargs.get('train_dataloader')
        if hasattr(self.loss, 'shorten') and hasattr(getattr(loader, 'dataset', None), '__len__'):
            self.loss.shorten(len(loader.dataset))

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        share = state.global_step / max(state.max_steps, 1)
        for part in self.loss.modules():
            if hasattr(part, 'progress'):
                part.progress = share

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        for name, value in self.loss.figures.items():
            if 'loss' not in name:
                self._seen.setdefault(name, []).append(value)

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        logs = kwargs.get('logs')
        if logs is not None and 'loss' in logs:
            figures = {k: round(float(torch.stack(x).mean()), 4) for k, x in self._seen.items()}
            logs.update(figures)
            state.log_history[-1].update(figures)
            self._seen = {}

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        bank = self.loss.bank() if hasattr(self.loss, 'bank') else None
        if bank is not None and state.is_world_process_zero:
            fit(None, bank, DEFAULT).save(Path(args.output_dir, f'checkpoint-{state.global_step}'))
