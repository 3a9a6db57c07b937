"""Rows of a log with what matters first, folded to the width of a terminal."""

from __future__ import annotations

import logging
import re
import textwrap
from typing import Any, Sequence

from mmengine.runner import LogProcessor, Runner

#: Columns of a row.
WIDTH = 100
#: What stands first of a step, where it is known; the learning rate with fewer digits.
FIRST = ('loss', 'lr', 'time_left', 'time')


def folded(text: str, width: int = WIDTH) -> str:
    """Return text whose long lines are wrapped with an indent of four columns.

    A line breaks where it has several blanks in a row, so that ``name: value`` stays together, and
    only within what is still too long at a single one.  A word, such as a path, is never broken.

    Example:
        ::

            >>> print(folded('step 3  loss: 0.25  lr: 0.001', 20))
            step 3  loss: 0.25
                lr: 0.001
    """
    return '\n'.join(_folded(line, width) for line in text.split('\n'))


def _folded(line: str, width: int) -> str:
    if len(line) <= width:
        return line
    margin = line[: len(line) - len(line.lstrip())] + ' ' * 4
    glued = re.sub(
        r'\S+( \S+)+',
        lambda item: item[0].replace(' ', '\0') if len(item[0]) <= width - len(margin) else item[0],
        line.rstrip(),
    )
    return textwrap.fill(
        glued,
        width,
        subsequent_indent=margin,
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
    ).replace('\0', ' ')


class FoldingFormatter(logging.Formatter):
    """Formatter that wraps another formatter's text at :data:`WIDTH` columns."""

    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__()
        self.formatter = formatter

    def format(self, record: logging.LogRecord) -> str:
        return folded(self.formatter.format(record))


def fold_rows(logger: logging.Logger) -> None:
    """Make a logger write rows of :data:`WIDTH` columns on terminals.

    In files and pipes a message stays one row, for ``grep`` and the like.
    """
    for handler in logger.handlers:
        stream = getattr(handler, 'stream', None)
        if handler.formatter is None or not _is_terminal(stream):
            continue
        if not isinstance(handler.formatter, FoldingFormatter):
            handler.setFormatter(FoldingFormatter(handler.formatter))


def _is_terminal(stream: Any) -> bool:
    return stream is not None and not getattr(stream, 'closed', False) and stream.isatty()


class RowsLogProcessor(LogProcessor):
    """mmengine's LogProcessor with loss, learning rates and times first in a step's line.

    ``lr`` is the lowest to the highest rate of the optimizer's groups, ``time_left`` is mmengine's
    ``eta``, which here would be read as the matching uncertainty.  What goes to the visualizer
    (``scalars.json``, TensorBoard) is mmengine's: its ``lr`` is that of the first group.
    """

    def get_log_after_iter(self, runner: Runner, batch_idx: int, mode: str) -> tuple[dict, str]:
        tag, line = super().get_log_after_iter(runner, batch_idx, mode)
        rates = runner.optim_wrapper.get_lr().get('lr', []) if mode == 'train' else []
        return tag, what_matters_first(line, rates)


def what_matters_first(line: str, rates: Sequence[float] = ()) -> str:
    """Return a line of mmengine's in this order: ``Epoch(train) [1][2/3]  base_lr ... loss``.

    Args:
        line: mmengine's.
        rates: of the optimizer's groups; none: the one of the line is the only one.

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
