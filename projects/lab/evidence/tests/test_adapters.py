"""adapters.py: adapters that begin as nothing, a training that learns, and its statistics."""

import importlib
import json

import numpy as np
import pytest
import torch

from children import ROOT


@pytest.fixture(scope='module')
def tool():
    return importlib.import_module('adapters')


def planted(tool, count, seed):
    """Two sides that see one content through different maps."""
    maps = torch.randn(2, 6, 12, generator=torch.Generator().manual_seed(0))
    content = torch.randn(count, 6, generator=torch.Generator().manual_seed(seed))
    return tool.unit(tool.Side(content @ maps[0], content @ maps[1]))


@pytest.fixture
def part(tool):
    implied = torch.full((64, 64), -9.0).fill_diagonal_(0.0)
    return tool.Trained(planted(tool, 64, 1), planted(tool, 40, 2), implied)


def test_an_adapter_begins_as_the_identity(tool):
    x = torch.randn(3, 5)
    torch.testing.assert_close(tool.linear(5)(x), x)


@pytest.mark.parametrize('method', ['InfoNCE', 'DVTR, floor .4', "ARL's rule", 'implied texts'])
def test_a_training_learns(tool, part, method):
    frozen = tool.Fitted(torch.nn.ModuleList([torch.nn.Identity()] * 2), part.train)
    before = tool.tested(part, frozen)['t2v_R1'].mean()
    after = tool.tested(part, tool.train(part, method, 1e-2, 1))['t2v_R1'].mean()
    assert after > before + 20


def test_methods_are_different_losses(tool, part):
    """On scores that no method agrees about."""
    draw = torch.Generator().manual_seed(0)
    sides = [torch.nn.functional.normalize(torch.randn(8, 4, generator=draw)) for _ in range(2)]
    frozen = torch.rand(8, 8, generator=draw)
    implied = -torch.rand(8, 8, generator=draw)
    torch.manual_seed(0)
    losses = {}
    for name in [x for x in tool.METHODS if x != tool.FROZEN]:
        loss, _ = tool.METHODS[name].make(4)
        losses[name] = round(loss(tool.Batch(*sides, frozen, implied, 0.9)).item(), 4)
    assert len({*losses.values()}) == len(losses), losses


def test_what_is_resolved(tool):
    random = np.random.default_rng(0)
    base = random.random((5, 300)) * 100
    same = tool.difference(base, base)
    assert same == [0, 0, 0, 1]
    mean, low, high, p = tool.difference(base + 3 + random.normal(size=base.shape), base)
    assert low < mean < high and mean == pytest.approx(3, abs=0.2) and p < 1e-6
    noise = tool.difference(base + random.normal(size=base.shape) * 30, base)
    assert noise[1] < 0 < noise[2] and noise[3] > 0.05


def test_holm(tool):
    def row(method, p):
        return dict(set='s', method=method, minus_infonce=dict(x=[1.0, 0.5, 1.5, p]))

    rows = [row('InfoNCE', 1.0), row('a', 0.001), row('b', 0.03), row('c', 0.04)]
    assert [x['resolved'] for x in tool.holm(rows)] == [[], ['x'], [], []]


def test_a_gain_that_is_paid_for_is_a_trade(tool):
    gains = dict(t2v_R1=[1, 0, 0, 0], v2t_R1=[-1, 0, 0, 0], v2t_bank_R1=[-1, 0, 0, 0])
    for resolved, expected in (
        ([], 'not resolved'),
        (['v2t_bank_R1'], 'not resolved'),
        (['t2v_R1', 'v2t_bank_R1'], 'helps'),
        (['v2t_R1'], 'harms'),
        (['t2v_R1', 'v2t_R1'], 'a trade'),
    ):
        row = dict(method='NCL', minus_infonce=gains, resolved=resolved, same_rate=True)
        assert tool.verdict(row) == expected
    row.update(same_rate=False)
    assert tool.verdict(row) == 'a trade, at another rate'


@pytest.fixture(scope='module')
def rows():
    return json.loads((ROOT / 'projects/lab/evidence/cells/adapters.json').read_text())


def test_the_page_is_of_the_cells(tool, rows):
    assert tool.page(rows) == (ROOT / 'projects/lab/evidence/pages/adapters.md').read_text()


def test_the_documentation_says_what_was_found(tool, rows):
    page = ' '.join((ROOT / 'docs/teachers.md').read_text().split())
    by_name = {(row['set'], row['method']): row for row in rows}
    for method, begin in (
        ('guide, calibrated', 'higher by'),
        ('implied texts', 'implied texts by'),
    ):
        row = by_name['Flickr8k', method]
        mean, low, high, _ = row['minus_infonce']['v2t_AP']
        text = f'{mean:+.1f} [{low:+.1f}, {high:+.1f}]'
        assert f'{begin} {text}' in page and row['resolved'] == ['v2t_AP']
        assert tool.verdict(row) == 'helps'
    others = ['guide, GIST', 'hardness, alpha 5', "ARL's rule", 'DVTR, floor .4']
    for row in rows:
        if row['method'] in (*others, 'guide, permuted (control)'):
            assert tool.verdict(row) == 'not resolved'
