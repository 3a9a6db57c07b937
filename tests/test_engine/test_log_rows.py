"""Rows of a log begin with what matters."""

import doctest

import pytest

import mmvtr.engine.hooks.console
from mmvtr.engine.hooks.console import what_matters_first

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


def test_rates_of_several_groups():
    line = 'Epoch(train) [1][1/3]  lr: 1.0000e-07  loss: 2.0'
    for rates, shown in [
        ([1e-7, 1e-4, 1e-7], '1.00e-07 to 1.00e-04'),
        ([1e-4, 3e-5, 1e-7], '1.00e-07 to 1.00e-04'),
        ([1e-7, 1e-7], '1.00e-07'),
        ([], '1.00e-07'),
    ]:
        assert what_matters_first(line, rates) == f'Epoch(train) [1][1/3]  loss: 2.0  lr: {shown}'


def test_the_examples():
    assert doctest.testmod(mmvtr.engine.hooks.console).failed == 0
