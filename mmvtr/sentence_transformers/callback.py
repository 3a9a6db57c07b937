"""What a trainer has to tell a loss, and a checkpoint has to keep of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn
from transformers import TrainerCallback

from mmvtr.sentence_transformers.bank import write_bank


class LossCallback(TrainerCallback):
    """Tells a supervision how far the training is, and writes a queue into each checkpoint.

    Args:
        loss: of this package; the one that the trainer has.

    Example:
        ::

            SentenceTransformerTrainer(..., loss=loss, callbacks=[LossCallback(loss)])
    """

    def __init__(self, loss: nn.Module) -> None:
        self.loss = loss

    def on_train_begin(self, args: Any, state: Any, control: Any, **told: Any) -> None:
        loader = told.get('train_dataloader')
        if hasattr(self.loss, 'shorten') and hasattr(getattr(loader, 'dataset', None), '__len__'):
            self.loss.shorten(len(loader.dataset))

    def on_step_begin(self, args: Any, state: Any, control: Any, **told: Any) -> None:
        share = state.global_step / max(state.max_steps, 1)
        for part in self.loss.modules():
            if hasattr(part, 'progress'):
                part.progress = share

    def on_save(self, args: Any, state: Any, control: Any, **told: Any) -> None:
        bank = self.loss.bank() if hasattr(self.loss, 'bank') else None
        if bank is not None and state.is_world_process_zero:
            write_bank(Path(args.output_dir, f'checkpoint-{state.global_step}'), bank)
