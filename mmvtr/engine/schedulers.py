"""Learning-rate schedules with a warm-up, as shares of the whole training."""

from __future__ import annotations

import math
from typing import Any

from mmengine.optim.scheduler.lr_scheduler import LRSchedulerMixin
from mmengine.optim.scheduler.param_scheduler import _ParamScheduler
from mmengine.runner import Runner

from mmvtr.functional.values import check_range
from mmvtr.registry import PARAM_SCHEDULERS


def warmup_cosine(progress: float, warmup: float, *, whole: bool = True) -> float:
    """Return CLIP4Clip's learning-rate factor.

    Linear from 0 to 1 in the warm-up, then ``(1 + cos(pi progress)) / 2`` with the progress of the
    *whole* run: at the end of a warm-up of 0.1 the factor falls from 1 to 0.976.

    Args:
        progress: completed share of the run, in [0, 1].
        warmup: share of the run that is warm-up, in [0, 1).
        whole: False: with the progress after the warm-up, without that fall (X-Pool, transformers).
    """
    if progress < warmup:
        return progress / warmup
    if not whole:
        progress = (progress - warmup) / (1 - warmup)
    return 0.5 * (1 + math.cos(math.pi * progress))


@PARAM_SCHEDULERS.register_module()
class WarmupCosineLR(LRSchedulerMixin, _ParamScheduler):
    """:func:`warmup_cosine` as a scheduler: ``dict(type='WarmupCosineLR', by_epoch=False)``.

    The first step has a learning rate of 0, as in CLIP4Clip.

    Args:
        warmup: share of the run that is warm-up, in [0, 1).
        whole: see :func:`warmup_cosine`.
        args, kwargs: as for mmengine's schedulers (``begin``, ``end``: the Runner fills in the
            whole run, ``by_epoch``).
    """

    def __init__(self, *args: Any, warmup: float = 0.1, whole: bool = True, **kwargs: Any) -> None:
        check_range('[0, 1)', warmup=warmup)
        self.warmup, self.whole = warmup, whole
        super().__init__(*args, **kwargs)

    @classmethod
    def build_iter_from_epoch(
        cls, *args: Any, begin: int = 0, end: int, epoch_length: int, **kwargs: Any
    ) -> 'WarmupCosineLR':
        """Build the schedule in iterations (mmengine's ``convert_to_iter_based=True``)."""
        kwargs.pop('by_epoch', None)
        begin, end = begin * epoch_length, end * epoch_length
        return cls(*args, begin=begin, end=end, by_epoch=False, **kwargs)

    def _get_value(self) -> list[float]:
        progress = self.last_step / (self.end - self.begin)
        factor = warmup_cosine(progress, self.warmup, whole=self.whole)
        return [base * factor for base in self.base_values]


@PARAM_SCHEDULERS.register_module()
class WarmupLinearLR(WarmupCosineLR):
    """Schedule that rises linearly from 0 in the warm-up, then falls linearly to 0.

    As in TACo, MS-SL and pytorch-pretrained-BERT.

    Args:
        warmup, args, kwargs: see :class:`WarmupCosineLR`.
    """

    def _get_value(self) -> list[float]:
        progress = self.last_step / (self.end - self.begin)
        rising = progress / self.warmup if progress < self.warmup else 1.0
        return [base * min(rising, (1 - progress) / (1 - self.warmup)) for base in self.base_values]


def schedulers_of(runner: Runner) -> list[_ParamScheduler]:
    """Return the schedulers of a runner, of one or of several optimizers."""
    built = runner.param_schedulers or []
    lists = built.values() if isinstance(built, dict) else [built]
    return [scheduler for schedulers in lists for scheduler in schedulers]
