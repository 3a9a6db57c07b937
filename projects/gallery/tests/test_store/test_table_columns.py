"""Further columns of a table as metadata."""

import pytest
from mmengine.logging import MMLogger

from mmvtr_gallery.store.table_columns import columns_of


@pytest.mark.parametrize(
    'given, expected',
    [
        (['1', '20', '-3'], [1, 20, -3]),
        (['1', '2.5', ''], [1.0, 2.5, None]),
        (['1e-2', ' 3 ', '0'], [0.01, 3.0, 0.0]),
        (['007', '8', '9'], ['007', '8', '9']),
        (['1', 'two', ''], ['1', 'two', None]),
        (['nan', '1', '2'], ['nan', '1', '2']),
        (['1' * 30, '1', '2'], ['1' * 30, '1', '2']),
        (['', '', ' '], [None, None, None]),
    ],
)
def test_a_column_has_one_type(given, expected):
    found = columns_of({str(n): [dict(x=x)] for n, x in enumerate(given)}, 'table')
    found = [row['x'] for row in found.values()]
    assert found == expected and [type(x) for x in found] == [type(x) for x in expected]


def test_columns_that_differ_between_rows_of_a_video_are_left_out(caplog):
    rows = [dict(kind='home', writer='eve'), dict(kind='home', writer='bob')]
    MMLogger.get_current_instance().addHandler(caplog.handler)
    try:
        found = columns_of({'a': rows, 'b': [dict(kind='', writer='eve')]}, 'my.csv')
    finally:
        MMLogger.get_current_instance().removeHandler(caplog.handler)
    assert found == {'a': dict(kind='home'), 'b': dict(kind=None)}
    assert 'my.csv: the columns writer differ between rows of a video' in caplog.text


def test_truth_stays_truth():
    found = columns_of({'a': [dict(ok=True, year=3)], 'b': [dict(ok=False, year=4)]}, 'my.jsonl')
    assert found == {'a': dict(ok=True, year=3), 'b': dict(ok=False, year=4)}
