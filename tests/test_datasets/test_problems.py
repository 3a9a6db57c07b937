"""Many problems of a file as one error."""

import pytest

from mmvtr.datasets.folders import visible
from mmvtr.datasets.problems import Problems, collecting


def note(problems, kind, *said):
    for one in said:
        with problems.of(kind):
            raise ValueError(one)


def test_one_problem_is_one_sentence():
    problems = Problems('t.csv')
    assert not problems and problems.refuse() is None
    note(problems, 'time', 't.csv: line 2: no time')
    assert problems and problems.text() == 't.csv: line 2: no time'
    assert problems.text(['x=1 helps']) == 't.csv: line 2: no time; x=1 helps'


def test_several_of_a_kind_are_counted_and_the_first_named():
    problems = Problems('t.csv')
    note(problems, 'time', *(f't.csv: line {n}' for n in range(2, 7)))
    assert problems.text() == 't.csv: time (5): line 2; line 3; line 4; ...'
    problems = Problems('t.csv')
    problems.add('2 of 9 files are gone', ['a', 'b' * 500])
    assert problems.text(['y']) == f't.csv: 2 of 9 files are gone: a; {"b" * 157}...; y'


def test_each_kind_has_a_line():
    problems = Problems('t.csv')
    note(problems, 'time', 't.csv: line 2', 'of elsewhere')
    note(problems, 'name', 't.csv: line 3')
    problems.add('1 of 3 files is gone', ['a'])
    with pytest.raises(ValueError) as error:
        problems.refuse()
    assert str(error.value).split('\n') == [
        't.csv has 3 kinds of problems:', '  time (2): line 2; of elsewhere', '  name (1): line 3',
        '  1 of 3 files is gone: a',
    ]  # fmt: skip
    assert problems.text(['x=1 helps']).endswith('\n  x=1 helps')


def test_other_errors_pass():
    with pytest.raises(KeyError), Problems('t').of('kind'):
        raise KeyError('x')


def test_who_reports_more_takes_them():
    problems = Problems('t')
    with collecting('t', problems) as same:
        note(same, 'kind', 'a')
    assert same is problems and problems
    with pytest.raises(ValueError, match='^t: a$'), collecting('t', None) as own:
        note(own, 'kind', 't: a')


@pytest.mark.parametrize(
    'raw, said',
    [
        (b'caf\xe9.mp4', 'caf\\xe9.mp4'),
        ('café 犬.mp4'.encode(), 'café 犬.mp4'),
        (b'\xff\xfe/\xc3(', '\\xff\\xfe/\\xc3('),
    ],
)
def test_names_that_can_be_written(raw, said):
    assert visible(raw.decode('utf-8', 'surrogateescape')) == said
    assert visible('\ud83d half') == '\\ud83d half'
