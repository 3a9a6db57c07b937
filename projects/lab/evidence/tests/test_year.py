"""year.py, a month by day and a year by night; when_to_refit.py, one row of each kind."""

import json

import numpy as np
import pytest
import when_to_refit

from children import ROOT, run_tool

TOOL = str(ROOT / 'projects/lab/evidence/year.py')
DAYS = [
    pytest.param(28, 3, id='month'),
    pytest.param(364, 30, marks=pytest.mark.nightly, id='year'),
]


def ran(folder, *options):
    code, printed = run_tool(folder, TOOL, *map(str, options), '--out', 'out.json')
    assert code == 0, printed
    return json.loads((folder / 'out.json').read_text())


@pytest.mark.parametrize('days, kills', DAYS)
def test_a_debiaser(days, kills, tmp_path):
    found = ran(tmp_path, '--items', 600, '--days', days, '--transform', 'nnn')
    weeks = days // 7
    assert not found['errors'] and found['increasing'] and found['searches'] > 5
    assert found['equal'] == f'{weeks} of {weeks}' and len(found['weeks']) == weeks
    assert found['changes'] >= 3 * days and found['parts'] < 12
    assert abs(found['said'] - found['true']) < 0.02
    assert found['beyond'] <= 3 + 2 * found['beyond_by_chance']
    for week in found['weeks']:
        assert abs(week['said'] - week['true']) < 0.08
        assert 0 < week['added'] < 0.05 and abs(week['drift']) < 1


@pytest.mark.parametrize('days, kills', DAYS)
def test_a_store_that_is_killed(days, kills, tmp_path):
    pytest.importorskip('faiss')
    pytest.importorskip('mmvtr_gallery', reason='pip install -e projects/gallery')
    found = ran(
        tmp_path, '--store', tmp_path / 's', '--items', 300, '--days', days, '--kills', kills,
        '--transform', 'nnn', '--pairs', 200,
    )  # fmt: skip
    assert found['kills'] >= kills - 1 and not found['lost'] and found['equal'] == [True]
    assert found['changes'] == 3 * days + days // 7


def test_when_to_refit():
    random = np.random.default_rng(0)
    items = (random.normal(size=(300, 12)) + 0.5).astype('f4')
    texts = (items + 0.5 * random.normal(size=items.shape)).astype('f4')
    kinds = ('the same kind', 'another kind', 'removed')
    rows = [
        dict(when_to_refit.row(items, texts, name, share, kind, 0), set='x')
        for name in ('nnn', 'sinkhorn')
        for kind in kinds
        for share in when_to_refit.SHARES
    ]
    for row in rows:
        gone = row['kind'] == 'removed'
        assert row['removed' if gone else 'added'] == pytest.approx(row['share'], abs=0.01)
        if row['transform'] == 'nnn':  # each item's bias is its own
            assert row['moved'] < 1e-5 and row['kept'] == row['refit']
    moved = [x['moved'] for x in rows if x['transform'] == 'sinkhorn']
    assert min(moved) > 1e-4
    page = when_to_refit.page(rows)
    assert all(kind.capitalize() in page for kind in kinds) and page.count('| `nnn` |') == 3
