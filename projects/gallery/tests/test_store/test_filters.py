"""Filters of a command line: values by the types of a store's columns."""

import pytest

from mmvtr_gallery.store.filters import as_typed

TYPES = dict(split='str', views='int', rate='float', seen='bool')


@pytest.mark.parametrize(
    'text', ['a,b', '[a]', '2024', '1e5', 'None', 'two words', '00123', '-4', '']
)
def test_strings_stay_as_they_are_typed(text):
    for column in ('split', 'path', 'id'):
        assert as_typed([(column, text)], TYPES) == {column: [text]}


@pytest.mark.parametrize(
    ('column', 'text', 'values'),
    [
        ('views', '2024', [2024]),
        ('views', '00123', [123]),
        ('views', '1,2', [1, 2]),
        ('views', '[3, 4]', [3, 4]),
        ('rate', '2', [2.0]),
        ('rate', '1e-3,5', [0.001, 5.0]),
        ('start', '3.5', [3.5]),
        ('seen', 'true', [True]),
        ('seen', 'False', [False]),
    ],
)
def test_values_by_the_type_of_the_column(column, text, values):
    found = as_typed([(column, text)], TYPES)
    assert found == {column: values}
    assert list(map(type, found[column])) == list(map(type, values))


def test_several_values_and_columns():
    written = [('split', 'a,b'), ('views', '1'), ('split', 'c'), ('views', '2,3')]
    assert as_typed(written, TYPES) == dict(split=['a,b', 'c'], views=[1, 2, 3])
    assert as_typed(None, TYPES) == {}


@pytest.mark.parametrize(
    ('column', 'text', 'said'),
    [
        ('veiws', '3', "no column 'veiws'; there are id, path"),
        ('views', 'many', "views is of type int, got 'many'"),
        ('views', '1.5', 'views is of type int'),
        ('rate', 'nan', 'rate is of type float'),
        ('seen', 'yes', 'seen is of type bool'),
    ],
)
def test_what_does_not_fit(column, text, said):
    with pytest.raises(ValueError, match=said):
        as_typed([(column, text)], TYPES)
