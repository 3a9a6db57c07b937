"""Console output of a log: which messages, in which order and how often. The log file has all."""

from __future__ import annotations

import logging
import re
import sys
import time
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Iterator, Optional, Sequence

from mmengine.hooks import LoggerHook
from mmengine.runner import LogProcessor, Runner

from mmvtr.functional.values import check_range
from mmvtr.registry import HOOKS


def consoles(logger: logging.Logger) -> list[logging.Handler]:
    """Return a logger's handlers that write to no file."""
    return [h for h in logger.handlers if not isinstance(h, logging.FileHandler)]


@contextmanager
def file_only(logger: logging.Logger) -> Iterator[None]:
    """Within this context, send only errors to the console; all messages go to the log file."""

    def errors(record: logging.LogRecord) -> bool:
        return record.levelno >= logging.ERROR

    shown = consoles(logger)
    for handler in shown:
        handler.addFilter(errors)
    try:
        yield
    finally:
        for handler in shown:
            handler.removeFilter(errors)


def raise_on_full_disk(logger: logging.Logger) -> None:
    """End the run if the log cannot be written; ``logging`` would print a trace per line."""
    for handler in logger.handlers:
        if isinstance(handler, logging.FileHandler):
            handler.handleError = _Raise(handler.baseFilename)


class _Raise:
    """Log handler that raises write errors with the name of the file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, record: logging.LogRecord) -> None:
        error = sys.exc_info()[1]
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, self.path) from error
        raise error


# -- rows ----------------------------------------------------------------------------------------


#: Values that come first in a step's line, if known; the learning rate with fewer digits.
FIRST = ('loss', 'lr', 'time_left', 'time')


class RowsLogProcessor(LogProcessor):
    """mmengine's LogProcessor with loss, learning rates and times first in a step's line.

    ``lr`` is the lowest to the highest rate of the optimizer's groups, ``time_left`` is mmengine's
    ``eta``, which here would be mistaken for the matching uncertainty.  The visualizer
    (``scalars.json``, TensorBoard) gets mmengine's values: its ``lr`` is that of the first group.
    """

    def get_log_after_iter(self, runner: Runner, batch_idx: int, mode: str) -> tuple[dict, str]:
        tag, line = super().get_log_after_iter(runner, batch_idx, mode)
        rates = runner.optim_wrapper.get_lr().get('lr', []) if mode == 'train' else []
        return tag, what_matters_first(line, rates)


def what_matters_first(line: str, rates: Sequence[float] = ()) -> str:
    """Return mmengine's line ``Epoch(train) [1][2/3]  base_lr ... loss`` with loss and rates first.

    Args:
        line: mmengine's line.
        rates: rates of the optimizer's groups; if empty, that of the line is the only one.

    Example:
        ::

            >>> what_matters_first('Epoch(train) [1][2/3]  base_lr: 1e-3 lr: 1e-3  loss: 2.0')
            'Epoch(train) [1][2/3]  loss: 2.0  lr: 1.00e-03'
    """
    head, *rest = re.split(r' {2,}(?=\S+: )', line.rstrip(), maxsplit=1)
    values = dict(re.findall(r'(\S+): (.*?)(?=\s+\S+: |$)', ''.join(rest)))
    if values.get('base_lr') == values.get('lr'):
        values.pop('base_lr', None)
    if 'lr' in values:
        shown = sorted({f'{rate:.2e}' for rate in rates or [float(values['lr'])]}, key=float)
        values['lr'] = ' to '.join(dict.fromkeys([shown[0], shown[-1]]))
    if 'eta' in values:
        values['time_left'] = values.pop('eta')
    values = {**{name: values[name] for name in FIRST if name in values}, **values}
    return '  '.join([head, *(f'{name}: {value}' for name, value in values.items())])


@HOOKS.register_module()
class TimedLoggerHook(LoggerHook):
    """mmengine's LoggerHook that also writes a line after some seconds without one.

    This applies to training, validation and test.  Lines between the intervals go only to the log,
    not to the visualizer.  If the loop has printed a table, the line with all its numbers goes only
    to the log file.

    Args:
        seconds: maximum time between two lines.
        **kwargs: as for LoggerHook (``interval``, ``ignore_last``).

    Raises:
        ValueError: ``seconds`` is not positive.
    """

    def __init__(self, *, seconds: float = 10.0, **kwargs: Any) -> None:
        check_range('(0, inf]', **{'TimedLoggerHook.seconds': seconds})
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
        with _beside_table(runner.val_loop, runner.logger):
            super().after_val_epoch(runner, metrics)

    def after_test_epoch(self, runner: Runner, metrics: Optional[dict] = None) -> None:
        with _beside_table(runner.test_loop, runner.logger):
            super().after_test_epoch(runner, metrics)


def _beside_table(loop: Any, logger: logging.Logger) -> AbstractContextManager:
    """Return a context whose messages only the log file gets, if the loop has printed a table."""
    return nullcontext() if getattr(loop, 'report', None) is None else file_only(logger)
