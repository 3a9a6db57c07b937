"""adversarial_hubs.py on a planted world, and its numbers on the page."""

import importlib
import json
import re

import pytest
import torch
from torch.nn.functional import normalize

from children import ROOT


@pytest.fixture(scope='module')
def tool():
    return importlib.import_module('adversarial_hubs')


@pytest.fixture(scope='module')
def split(tool):
    return tool.planted(0, count=300)


def test_parts_share_no_pair(split):
    parts = (split.test.queries, split.bank.queries, split.attacker)
    assert [len(x) for x in parts] == [100, 100, 100]
    assert len(torch.cat(parts).unique(dim=0)) == 300
    for part in split[:2]:  # query i belongs to item i
        own = (part.queries @ part.items.T).diagonal()
        assert own.mean() > (part.queries @ part.items.T).mean() + 0.1


def test_attacks_know_the_attackers_queries_alone(tool, split):
    found = [*tool.attacks(split, 3)]
    assert [name for name, _ in found[:2]] == ['mean', 'mean, halfway']
    assert len(found) == 14 and all(vector.norm().item() == pytest.approx(1) for _, vector in found)
    mean = normalize(split.attacker.mean(0), dim=0)
    torch.testing.assert_close(found[0][1], mean)
    torch.testing.assert_close(found[1][1], normalize(mean + split.test.items[3], dim=0))


def test_what_is_optimised_wins_where_it_was_meant_to(tool, split):
    found = dict(tool.attacks(split, 3))
    wins = {}
    for name in ('optimised', 'adaptive'):
        gallery = torch.cat([split.test.items, found[name][None]])
        for transform in ('raw', 'sinkhorn'):
            scores = tool.transformed(transform, split, gallery)(split.test.queries)
            lists = scores.topk(2, dim=1).indices
            wins[name, transform] = (lists == len(split.test.items)).any(1).float().mean().item()
    assert wins['optimised', 'raw'] > 0.9 > wins['adaptive', 'raw']
    assert max(wins['optimised', 'sinkhorn'], wins['adaptive', 'sinkhorn']) < 0.1


def test_figures(tool, split, monkeypatch):
    monkeypatch.setattr(tool, 'TRANSFORMS', ('raw', 'sinkhorn', 'dbsn', 'db_norm', 'qb_norm'))
    cells = tool.means(tool.figures(split, 0))
    raw = split.test.queries @ split.test.items.T
    right = (raw.argmax(1) == torch.arange(100)).float().mean().item()
    assert cells['none / raw']['r1'] == pytest.approx(right) and 'found' not in cells['none / raw']
    assert cells['mean / raw']['n'] == 1 and cells['centroid / raw']['n'] == 5
    worse, better = cells['mean / raw'], cells['mean / sinkhorn']
    assert worse['found'] > 0.9 and worse['detected'] == 1 and worse['r1'] < right - 0.3
    assert better['found'] < 0.1 and better['detected'] == 0 and better['r1'] > right - 0.1


def test_the_page_says_what_was_found(tool):
    found = json.loads((ROOT / 'projects/lab/evidence/cells/adversarial_hubs.json').read_text())
    page = (ROOT / 'projects/lab/evidence/pages/adversarial_hubs.md').read_text()
    for row in (*tool.rows_of_sets(found), *tool.rows_of_transforms(found)):
        assert row in page
    said = re.search(
        r'by ([\d.]+) % of the\nqueries, and by ([\d.]+) % with Sinkhorn;.*\nby ([\d.]+) % with it',
        page,
    )
    wanted = ('optimised / raw', 'optimised / sinkhorn', 'adaptive / sinkhorn')
    both = [cells for name, cells in found.items() if name.startswith('CLAP clean')]
    for figure, key in zip(said.groups(), wanted):
        mean = sum(100 * cells[key]['found'] for cells in both) / len(both)
        assert float(figure) == pytest.approx(mean, abs=0.051)
