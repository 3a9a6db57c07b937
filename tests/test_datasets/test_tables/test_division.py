"""Splits by lot: of the fractions asked for, the same every time, and no video in two."""

from collections import Counter

import pytest

from mmvtr.datasets.tables.division import divide

THREE = dict(train=0.7, val=0.1, test=0.2)


def pairs(count, captions=2):
    return [(f'v{i}', f't{i}#{n}') for i in range(count) for n in range(captions)]


@pytest.mark.parametrize(
    'count, fractions, sizes',
    [
        (20, THREE, (14, 2, 4)),
        (10, THREE, (7, 1, 2)),
        (5, THREE, (3, 1, 1)),
        (3, THREE, (1, 1, 1)),
        (99, THREE, (71, 9, 19)),
        (7, dict(train=0.5, val=0, test=0.5), (4, 0, 3)),
    ],
)
def test_sizes(count, fractions, sizes):
    lots = divide(pairs(count), fractions, seed=0)
    assert len(lots) == count
    assert tuple(Counter(lots.values())[name] for name in fractions) == sizes


def test_a_function_of_the_names_and_the_seed():
    lots = divide(pairs(40), THREE, seed=0)
    assert divide(reversed(pairs(40)), THREE, seed=0) == lots
    assert divide(pairs(40), THREE, seed=1) != lots
    more = divide(pairs(44), THREE, seed=0)  # a few more videos move few
    assert sum(more[video] != name for video, name in lots.items()) <= 8


def test_videos_that_share_a_text_stay_together():
    shared = [(f'v{i}', f'shared{i // 4}') for i in range(40)]
    lots = divide([*pairs(40), *shared], THREE, seed=0)
    for i in range(0, 40, 4):
        assert len({lots[f'v{j}'] for j in range(i, i + 4)}) == 1
    assert Counter(lots.values()) == dict(train=28, val=4, test=8)
    chain = [('a', '1'), ('b', '1'), ('b', '2'), ('c', '2'), ('d', '3'), ('e', '4')]
    lots = divide(chain, THREE, seed=0)
    assert lots['a'] == lots['b'] == lots['c'] and len(set(lots.values())) == 3


@pytest.mark.parametrize(
    'count, fractions, said',
    [
        (2, THREE, '2 videos .* cannot be divided into 3 splits'),
        (
            9,
            dict(train=0.7, test=0.2),
            'fractions: expected a share from 0 to 1 for each split, 1 in',
        ),
        (9, dict(train=1.5, test=-0.5), 'fractions: '),
        (9, dict(train='all'), 'fractions: '),
        (9, {}, 'fractions: '),
    ],
)
def test_what_is_no_division(count, fractions, said):
    with pytest.raises(ValueError, match=said):
        divide(pairs(count), fractions, seed=0)
