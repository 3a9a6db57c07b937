"""Key encoders that follow the weights, one small step after each step of the optimizer."""

from __future__ import annotations

from typing import Any

from mmengine.hooks import Hook
from mmengine.runner import Runner

from mmvtr.engine.loop.evaluation import bare
from mmvtr.registry import HOOKS


def check_banks(runner: Runner) -> None:
    """Raise if a memory bank is larger than an epoch of the training set.

    A longer one would hold keys of the same item twice, from encoders an epoch apart.

    Raises:
        SystemExit: it does; says how long both are, and what to set.
    """
    model = bare(runner.model)
    if not hasattr(model, 'banks'):
        return
    size = max(bank.size for bank in model.banks.values())
    count = len(runner.train_dataloader.dataset)
    if size > count:
        raise SystemExit(
            f'error: a memory bank of {size} keys is longer than an epoch of the training set, '
            f'{count} items: it would hold the same items twice. Set model.bank_size to at most '
            f'{count}, or better to half of it'
        )


@HOOKS.register_module()
class MomentumHook(Hook):
    """Calls the model's ``follow()`` after each actual optimizer step.

    So gradients that are accumulated, or skipped for an overflow of fp16, move no key encoder.

    Raises:
        ValueError: (before training) a model that cannot follow.
    """

    def before_train(self, runner: Runner) -> None:
        model = bare(runner.model)
        if not hasattr(model, 'follow'):
            raise ValueError(
                f'MomentumHook: {type(model).__name__} has no key encoder that could follow; it '
                'goes with a MomentumRetriever (as the whole model, not as a member of one)'
            )

        def follow(*_: Any) -> None:
            model.follow()

        self._handle = runner.optim_wrapper.optimizer.register_step_post_hook(follow)

    def after_train(self, runner: Runner) -> None:
        self._handle.remove()
