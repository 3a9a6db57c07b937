"""implication.py: its summary by hand, and the committed one from its trainings."""

import importlib
import json
import statistics

import pytest

from children import ROOT


@pytest.fixture(scope='module')
def tool():
    return importlib.import_module('implication')


def cell(tool, t2v, v2t, first):
    queries = dict(t2v_recalls=t2v, v2t_recalls=v2t, v2t_P1=first)
    return dict(
        queries=queries,
        test={name: tool.reached(queries, fields) for name, fields in tool.MEASURES.items()},
    )


def test_the_summary_by_hand(tool):
    rows = {
        tool.BASELINE: cell(tool, '3001', '2100', '1000'),
        tool.OURS: cell(tool, '3111', '1100', '1110'),
        tool.ORACLE: cell(tool, '0000', '0000', '1111'),
    }
    trained = {
        f'{corpus} / {name} / {tool.SEEDS[corpus][0]}': one
        for corpus in tool.UNUSED
        for name, one in rows.items()
    }
    found = tool.summary(trained)
    assert found.keys() == {*map(str, tool.UNUSED), 'unused'}
    ours = found['unused'][tool.OURS]
    assert ours['trainings'] == 3 and ours['mean']['rsum'] == 200
    assert ours['gain']['v2t P@1'] == pytest.approx([50, 50, 50])
    assert ours['gain']['rsum'] == pytest.approx([25, 25, 25])
    assert ours['gain']['t2v rsum'][0] == 50 and ours['gain']['v2t rsum'][0] == -25
    assert ours['of the oracle'] == pytest.approx([100 * 50 / 75] * 3)
    assert found['21'][tool.OURS]['gain']['v2t P@1'] == [50]  # one seed has no interval
    assert '+50.0 [+50.0, +50.0]' in tool.table(found)


def test_what_is_committed_follows_from_its_trainings(tool):
    known = json.loads((ROOT / 'projects/lab/evidence/cells/implication.json').read_text())
    trained = known['trainings']
    for key, one in trained.items():
        for name, fields in tool.MEASURES.items():
            found = tool.reached(one['queries'], fields)
            assert found == pytest.approx(one['test'][name], abs=1e-3), (key, name)
    again = tool.summary(trained)
    for corpus, rows in known['summary'].items():
        for name, row in rows.items():
            for measure, values in row['gain'].items():
                assert again[corpus][name]['gain'][measure] == pytest.approx(values, abs=1e-3)
            corpora = tool.UNUSED if corpus == 'unused' else [int(corpus)]
            sums = [
                one['test']['rsum']
                for key, one in trained.items()
                if int(key.split(' / ')[0]) in corpora and key.split(' / ')[1] == name
            ]
            assert statistics.mean(sums) == pytest.approx(row['mean']['rsum'], abs=1e-3)
