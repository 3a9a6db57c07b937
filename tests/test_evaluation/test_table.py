"""The table and the protocol line, letter by letter."""

import doctest

import pytest

import mmvtr.evaluation.table
from mmvtr.evaluation import Report, protocol_line, results_table, transforms_table

VALUES = {
    'retrieval/t2v_R1': 12.34,
    'retrieval/v2t_R1': 23.45,
    'retrieval/v2t_caption_R1': 20.0,
    'retrieval/t2v_MdR': 7.5,
    'retrieval/rsum': 206.1,
    'semantic/t2v_nDCG50': 55.55,
    'soft_positive/eta_auc': 83.2,
    'soft_positive/eta_mean_soft': 0.1234,
}
CHANCE = {'retrieval/t2v_R1': 0.25, 'retrieval/rsum': 7.5, 'soft_positive/eta_auc': 50.0}
CEILING = {'retrieval/t2v_R1': 45.0, 'retrieval/rsum': 456.0}

EXPECTED = """\
                              text to video             video to text          video to caption
                      value  chance ceiling     value  chance ceiling     value  chance ceiling
retrieval  R@1         12.3     0.2    45.0      23.4                      20.0
           MdR          7.5
semantic   nDCG@50     55.5

                                      both directions
                                value  chance ceiling
retrieval      rsum             206.1     7.5   456.0
soft_positive  eta_auc           83.2    50.0
               eta_mean_soft    0.123"""


def test_the_whole_table():
    assert results_table(Report(VALUES, CHANCE, CEILING)) == EXPECTED


def test_without_truth_there_is_no_ceiling():
    assert 'ceiling' not in results_table(Report(VALUES, CHANCE, {}))


@pytest.mark.parametrize(
    'names', [['sinkhorn'], [f'member_{k}' for k in range(20)], ['x' * 40, 'y' * 45, 'z']]
)
def test_no_row_is_wider_than_a_screen(names):
    """Columns that do not fit go below, the raw ones beside them again."""
    transformed = {name: {**VALUES, 'retrieval/t2v_R1': float(k)} for k, name in enumerate(names)}
    table = transforms_table(Report(VALUES, CHANCE, CEILING, transformed))
    lines = table.splitlines()
    assert max(map(len, lines)) <= 100
    heads = [line.split() for line in lines if ' raw ' in line]
    assert {head[0] for head in heads} == {'raw'}
    shown = [name for head in heads[: len(heads) // 4] for name in head[1:]]  # of 4 directions
    assert shown == names
    first = [line.split() for line in lines if 'R@1 ' in line]
    found = [float(x) for row in first[: len(heads) // 4] for x in row[-len(row) + 3 :]]
    assert found == [float(k) for k in range(len(names))]


def test_wide_names_part_the_directions():
    values = {f'{key}_of_all_that_is_longer_than_an_hour': x for key, x in VALUES.items()}
    lines = results_table(Report(values, {key: 1.0 for key in values}, {})).splitlines()
    assert max(map(len, lines)) <= 100
    heads = ('text to video', 'video to text', 'video to caption')
    assert [line.strip() for line in lines if line.strip() in heads] == [*heads]
    assert sum('MdR' in line for line in lines) == 1


def test_a_long_protocol_breaks_between_items():
    protocol = {f'item {i}': 'some value' for i in range(9)}
    lines = protocol_line(protocol).splitlines()
    assert len(lines) > 1 and all(len(line) <= 100 for line in lines)
    assert all(line.startswith(('protocol: item', '          item')) for line in lines)
    assert ' '.join(line.strip() for line in lines).count('some value') == 9


def test_the_examples():
    assert doctest.testmod(mmvtr.evaluation.table).failed == 0
