"""judged_guides.py on small made sets, and its numbers on the page."""

import importlib
import json
import re

import pytest
import torch

from children import ROOT

IMAGES = ['b.jpg', 'a.jpg', 'c.jpg', 'd.jpg']


@pytest.fixture(scope='module')
def tool():
    return importlib.import_module('judged_guides')


@pytest.fixture
def vectors():
    generator = torch.Generator().manual_seed(0)
    return torch.nn.functional.normalize(torch.randn(4, 5, 3, generator=generator), dim=2)


def test_a_guide_by_loops(tool, vectors):
    scores, own = tool.guide(vectors)
    for n in range(4):
        for k in range(5):
            text = vectors[n, k]
            for m in range(4):
                image = vectors[m].mean(0)
                expected = text @ image / image.norm()
                assert scores[5 * n + k, m].item() == pytest.approx(expected.item(), abs=1e-6)
            rest = torch.stack([vectors[n, i] for i in range(5) if i != k]).mean(0)
            expected = (text @ rest / rest.norm()).item()
            assert own[5 * n + k].item() == pytest.approx(expected, abs=1e-6)


def test_judged_pairs(tool, tmp_path):
    """Of known images, other than the own one; half of the people are not enough."""
    lines = [
        'a.jpg\tb.jpg#3\t0.75\t3\t1',
        'b.jpg\ta.jpg#0\t0.5\t2\t2',
        'a.jpg\ta.jpg#1\t1.0\t3\t0',
        'x.jpg\ta.jpg#1\t1.0\t3\t0',
        'd.jpg\tc.jpg#4\t0.0\t0\t3',
    ]
    (tmp_path / 'crowd.txt').write_text('\n'.join(lines) + '\n')
    texts, items, right = tool.judged(IMAGES, tmp_path / 'crowd.txt')
    assert texts.tolist() == [3, 5, 14] and items.tolist() == [1, 0, 3]
    assert right.tolist() == [True, False, False]


def test_a_threshold_and_its_figures(tool):
    scores, right = torch.tensor([0.9, 0.55, 0.4, 0.2]), torch.tensor([1, 1, 0, 0]).bool()
    threshold = tool.best_threshold(scores, right)
    assert 0.4 <= threshold < 0.55
    assert tool.precision_recall(scores > 0.3, right) == dict(
        precision=66.7, recall=100.0, marked=75.0
    )


def test_the_page_says_what_was_found():
    found = json.loads((ROOT / 'projects/lab/evidence/cells/judged_guides.json').read_text())
    page = (ROOT / 'projects/lab/evidence/pages/judged_guides.md').read_text()
    rules = {name: value['other_half'] for name, value in found['rules'].items()}
    table = re.findall(r'^\| `(\w+)`, ([\d.]+).* \| ([\d.]+) \| ([\d.]+) \|$', page, flags=re.M)
    assert len(table) == 5
    for rule, margin, precision, recall in table:
        figures = rules[f'{rule} {float(margin):.2f}']
        assert (figures['precision'], figures['recall']) == (float(precision), float(recall))
    fit = found['calibrated']
    for value in (
        *(found['auc'], found['auc_relative_to_own'], fit['margin'], fit['softness']),
        *(fit['weight_of_right'], fit['weight_of_wrong']),
    ):
        assert f'{value:.3f}'[1:] in page
