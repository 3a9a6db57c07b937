"""Rows of a log fit on a screen and begin with what matters."""

import doctest
import io
import logging

import pytest

import mmvtr.engine.launch.console
from mmvtr.engine.launch.console import fold_rows, folded, what_matters_first

HEAD = '11/25 12:53:25 - mmengine - INFO - '
STEP = (
    'Epoch(train) [1][1/3]  base_lr: 1.0000e-04 lr: 2.0000e-04  eta: 1 day, 0:00:01  time: 0.2472'
    '  data_time: 0.0783  grad_norm: 24.6628  loss: 6.3592  loss_match: 0.6455  eta_sure: 0.0000'
)


def test_a_step():
    line = what_matters_first(STEP)
    assert line == (
        'Epoch(train) [1][1/3]  loss: 6.3592  lr: 2.00e-04  time_left: 1 day, 0:00:01  time: 0.2472'
        '  base_lr: 1.0000e-04  data_time: 0.0783  grad_norm: 24.6628  loss_match: 0.6455'
        '  eta_sure: 0.0000'
    )
    assert folded(HEAD + line).splitlines() == [
        HEAD + 'Epoch(train) [1][1/3]  loss: 6.3592  lr: 2.00e-04',
        '    time_left: 1 day, 0:00:01  time: 0.2472  base_lr: 1.0000e-04  data_time: 0.0783',
        '    grad_norm: 24.6628  loss_match: 0.6455  eta_sure: 0.0000',
    ]


@pytest.mark.parametrize(
    'line, expected',
    [
        ('Epoch(train) [2][1/3]  loss: nan', 'Epoch(train) [2][1/3]  loss: nan'),
        (
            'Epoch(val) [1][1/2]    eta: 0:00  time: 1  ',
            'Epoch(val) [1][1/2]  time_left: 0:00  time: 1',
        ),
        ('Iter(train) [ 5/9]  lr: 1e-2  b.lr: 1', 'Iter(train) [ 5/9]  lr: 1.00e-02  b.lr: 1'),
        ('Epoch(train)  [1][ 2/9]  time: 1  loss: 2', 'Epoch(train)  [1][ 2/9]  loss: 2  time: 1'),
        ('Epoch(test) [1/2]  ', 'Epoch(test) [1/2]'),
    ],
)  # fmt: skip
def test_lines_of_other_loops(line, expected):
    assert what_matters_first(line) == expected


@pytest.mark.parametrize(
    'text',
    [
        HEAD + 'a sentence that says a lot, ' * 12,
        HEAD + 'first\n' + 'short\n' + '  indented words ' * 20,
        ' '.join(['x' * 30] * 30),
        '  '.join(f'name_{i}: {i}' for i in range(100)),
        'gaps  of two  and ' + 'long runs of words ' * 20 + '  and  gaps',
        'äöü 日本 ' * 60,
    ],
)
def test_nothing_is_lost_and_nothing_is_wide(text):
    rows = folded(text)
    assert max(map(len, rows.splitlines())) <= 100
    assert rows.split() == text.split()
    assert folded(rows) == rows


def test_short_rows_tables_and_paths_stay():
    table = '\n'.join(['          value   chance', 'R@1        12.0      3.1  ', ''])
    assert folded(table) == table
    path = '/a' * 80
    assert folded(f'log: {path}').split() == ['log:', path]


def test_rates_of_several_groups():
    line = 'Epoch(train) [1][1/3]  lr: 1.0000e-07  loss: 2.0'
    for rates, shown in [
        ([1e-7, 1e-4, 1e-7], '1.00e-07 to 1.00e-04'),
        ([1e-4, 3e-5, 1e-7], '1.00e-07 to 1.00e-04'),
        ([1e-7, 1e-7], '1.00e-07'),
        ([], '1.00e-07'),
    ]:
        assert what_matters_first(line, rates) == f'Epoch(train) [1][1/3]  loss: 2.0  lr: {shown}'


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_message_stays_one_row_where_it_is_searched(tmp_path):
    logger = logging.Logger('rows')
    logger.addHandler(logging.StreamHandler(io.StringIO()))
    logger.addHandler(logging.FileHandler(tmp_path / 'run.log'))
    for handler in logger.handlers:
        handler.setFormatter(logging.Formatter('%(levelname)s - %(message)s'))
    fold_rows(logger)
    logger.info('some words ' * 20)
    assert len(logger.handlers[0].stream.getvalue().splitlines()) == 1
    assert len((tmp_path / 'run.log').read_text().splitlines()) == 1


def test_terminals_are_folded_once():
    logger = logging.Logger('rows')
    logger.addHandler(logging.StreamHandler(Terminal()))
    logger.handlers[0].setFormatter(logging.Formatter('%(levelname)s - %(message)s'))
    for _ in range(2):
        fold_rows(logger)
    logger.info('some words ' * 20)
    lines = logger.handlers[0].stream.getvalue().splitlines()
    assert lines[0].startswith('INFO - some words') and max(map(len, lines)) <= 100
    assert lines[1].startswith('    ')


def test_the_examples():
    assert doctest.testmod(mmvtr.engine.launch.console).failed == 0
