"""A line of progress at least every ten seconds."""

from __future__ import annotations

import time
from typing import Any, Optional

from mmengine.hooks import LoggerHook
from mmengine.runner import Runner

from mmvtr.engine.launch.console import file_only
from mmvtr.registry import HOOKS


@HOOKS.register_module()
class TimedLoggerHook(LoggerHook):
    """mmengine's LoggerHook that also writes after some seconds without a line.

    In training, validation and test alike.  Lines between the intervals go to the log alone, not
    to the visualizer.  Where the loop has printed a table, the line with all its numbers goes to
    the log file alone.

    Args:
        seconds: of silence.
        **kwargs: as for LoggerHook (``interval``, ``ignore_last``).

    Raises:
        ValueError: ``seconds`` is not positive.
    """

    def __init__(self, *, seconds: float = 10.0, **kwargs: Any) -> None:
        if not seconds > 0:
            raise ValueError(f'TimedLoggerHook: seconds must be > 0, got {seconds}')
        super().__init__(**kwargs)
        self.seconds = seconds
        self._spoke = time.monotonic()

    def _silent(self) -> bool:
        return time.monotonic() - self._spoke >= self.seconds

    def _before_epoch(self, runner: Runner, mode: str = 'train') -> None:
        self._spoke = time.monotonic()

    def after_train_iter(
        self, runner: Runner, batch_idx: int, data_batch: Any = None, outputs: Optional[dict] = None
    ) -> None:
        loader = runner.train_dataloader
        ends = self.end_of_epoch(loader, batch_idx)
        ends = ends and (not self.ignore_last or len(loader) <= self.interval)
        due = self.every_n_inner_iters(batch_idx, self.interval) or ends
        if not (due or self._silent()):
            return
        tag, line = runner.log_processor.get_log_after_iter(runner, batch_idx, 'train')
        runner.logger.info(line)
        self._spoke = time.monotonic()
        if due:
            runner.visualizer.add_scalars(tag, step=runner.iter + 1, file_path=self.json_log_path)

    def after_val_iter(
        self, runner: Runner, batch_idx: int, data_batch: Any = None, outputs: Any = None
    ) -> None:
        self._evaluated(runner, batch_idx, 'val')

    def after_test_iter(
        self, runner: Runner, batch_idx: int, data_batch: Any = None, outputs: Any = None
    ) -> None:
        self._evaluated(runner, batch_idx, 'test')

    def _evaluated(self, runner: Runner, batch_idx: int, mode: str) -> None:
        if self.every_n_inner_iters(batch_idx, self.interval) or self._silent():
            _, line = runner.log_processor.get_log_after_iter(runner, batch_idx, mode)
            runner.logger.info(line)
            self._spoke = time.monotonic()

    def after_scored_tile(self, runner: Runner, done: int, total: int) -> None:
        """Log progress after ``done`` of ``total`` texts of this process are scored."""
        if self._silent():
            runner.logger.info(f'scored {done:,} of {total:,} texts')
            self._spoke = time.monotonic()

    def after_val_epoch(self, runner: Runner, metrics: Optional[dict] = None) -> None:
        if getattr(runner.val_loop, 'report', None) is None:
            super().after_val_epoch(runner, metrics)
        else:
            with file_only(runner.logger):
                super().after_val_epoch(runner, metrics)

    def after_test_epoch(self, runner: Runner, metrics: Optional[dict] = None) -> None:
        if getattr(runner.test_loop, 'report', None) is None:
            super().after_test_epoch(runner, metrics)
        else:
            with file_only(runner.logger):
                super().after_test_epoch(runner, metrics)
