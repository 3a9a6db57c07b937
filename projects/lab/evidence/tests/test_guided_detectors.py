"""guided_detectors.py: its scores by hand, and weights of the highest AUC."""

import importlib
import json

import numpy as np
import pytest
import torch

from children import ROOT


@pytest.fixture(scope='module')
def tool():
    return importlib.import_module('guided_detectors')


def test_a_guide_by_hand(tool):
    unit = torch.nn.functional.normalize(torch.randn(4, 3), dim=1)
    vectors = dict(zip(['a', 'b', 'c', 'd'], unit))
    data = tool.Captions([], [['a', 'b'], ['c']], ['d', 'a'], {})
    found = tool.guide(data, vectors)
    t, v = np.array([0, 1]), np.array([0, 1])
    mean = (unit[0] + unit[1]) / (unit[0] + unit[1]).norm()
    expected = [(unit[3] @ mean).item(), (unit[0] @ unit[2]).item()]
    assert found['guide'](t, v).tolist() == pytest.approx(expected, abs=1e-6)
    nearest = max((unit[3] @ unit[n]).item() for n in (0, 1))
    assert found['nearest'](t[:1], v[:1]).tolist() == pytest.approx([nearest], abs=1e-6)


def test_weights_of_the_highest_auc(tool):
    right = np.array([True, True, False, False])
    pairs = tool.Pairs(np.arange(4), np.arange(4), right)
    parts = dict(guide=np.array([1.0, 0.0, 0.9, 0.2]), implication=np.array([0.0, 1.0, 0.0, 0.0]))
    assert tool.auc_of(parts['guide'], pairs) == 50
    found = tool.best(parts, pairs, ['implication'])
    assert found == dict(guide=1.0, implication=1.0)
    assert tool.auc_of(tool._sum(parts, found), pairs) == 100


ROWS = {
    'the guide': 'guide',
    '`CaptionImplication': 'implication',
    '`CaptionAgreement': 'agreement',
    'guide, implication ': 'guide + implication',
    'guide, implication, agreement': 'guide + implication + agreement',
    'these, and the nearest': 'all four',
}


def test_the_page_says_what_was_found():
    found = json.loads((ROOT / 'projects/lab/evidence/cells/guided_detectors.json').read_text())
    lines = (ROOT / 'projects/lab/evidence/pages/judged_guides.md').read_text().splitlines()
    for begin, name in ROWS.items():
        (line,) = [x for x in lines if x.startswith(f'| {begin}')]
        for key in ('Flickr8k crowd, other half', 'CxC'):
            assert f'| {found[name]["sets"][key]["AUC"] / 100:.3f}'.replace('0.', '.') in line
