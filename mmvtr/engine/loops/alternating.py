"""Training loops beyond mmengine's own: DVTR's alternation of two stages."""

from __future__ import annotations

from typing import Any, Iterator, Optional, Sequence

from mmengine.runner import EpochBasedTrainLoop
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from mmvtr.engine.loops.evaluation import bare
from mmvtr.registry import LOOPS


@LOOPS.register_module()
class AlternatingTrainLoop(EpochBasedTrainLoop):
    """DVTR's Algorithm 1: an epoch is one pass over all data for each stage of the model.

    Before a pass ``model.stage`` is set to the stage's name; outside of the passes it is None (all
    at once).  Each pass has its own shuffle and random transforms.  An epoch therefore has
    ``len(stages) * len(dataloader)`` iterations, which progress, ETA and schedulers all count.

    Args:
        stages: values of ``model.stage``, in order.
        args, kwargs: as for mmengine's EpochBasedTrainLoop.

    Raises:
        ValueError: the model has no stages, or has objectives, or is distributed without
            ``find_unused_parameters`` for those that a stage leaves out.
    """

    def __init__(
        self, *args: Any, stages: Sequence[str] = ('uncertainty', 'retrieval'), **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        model = self.runner.model
        if isinstance(model, DistributedDataParallel) and not model.find_unused_parameters:
            raise ValueError(
                'AlternatingTrainLoop: a stage trains a part of the model only; set'
                ' `find_unused_parameters = True` in the config for distributed training'
            )
        model = bare(model)
        if not hasattr(model, 'stage'):
            raise ValueError(f'AlternatingTrainLoop: {type(model).__name__} has no `stage` to set')
        if len(getattr(model, 'objectives', ())):
            raise ValueError(
                'AlternatingTrainLoop: objectives belong to no stage (they may train heads and'
                ' encoders alike); train such a model with EpochBasedTrainLoop'
            )
        self.dataloader = _Passes(self, self.dataloader, model, tuple(stages))
        self._max_iters = self._max_epochs * len(self.dataloader)


class _Passes:
    """A dataloader that passes through its data once for each stage of a model."""

    def __init__(
        self,
        loop: AlternatingTrainLoop,
        dataloader: DataLoader,
        model: nn.Module,
        stages: tuple[str, ...],
    ) -> None:
        self.loop = loop
        self.dataloader = dataloader
        self.model = model
        self.stages = stages

    def __getattr__(self, name: str) -> Any:
        return getattr(self.dataloader, name)

    def __len__(self) -> int:
        return len(self.stages) * len(self.dataloader)

    def __iter__(self) -> Iterator[Any]:
        sampler = _epoch_sampler(self.dataloader)
        try:
            for number, stage in enumerate(self.stages):
                if sampler is not None:
                    sampler.set_epoch(self.loop.epoch * len(self.stages) + number)
                self.model.stage = stage
                yield from self.dataloader
        finally:
            self.model.stage = None


def _epoch_sampler(dataloader: DataLoader) -> Optional[Any]:
    """Return the sampler that orders the data of an epoch, or None."""
    for sampler in (dataloader.sampler, getattr(dataloader.batch_sampler, 'sampler', None)):
        if hasattr(sampler, 'set_epoch'):
            return sampler
    return None
