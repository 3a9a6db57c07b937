"""A query log asks the same again and again: wherever biases are fitted, each text is read once,
and weighs the less the more often it was asked."""

import ast

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

import mmvtr
from children import ROOT
from mmvtr.arrays import Debiaser
from mmvtr.functional import distinct_rows
from mmvtr.functional.similarities.distinct import row_groups
from mmvtr.functional.transforms.transform_table import OF_QUERIES, TRANSFORMS

pytest.importorskip('mmvtr_gallery', reason='pip install -e projects/gallery')

from mmvtr_gallery.mteb_index import DebiasedIndex  # noqa: E402

RANDOM = np.random.default_rng(0)
VIDEOS, ASK, BANK = (RANDOM.normal(size=(n, 24)).astype('f4') for n in (120, 40, 90))
OFTEN = np.concatenate([np.arange(90), RANDOM.integers(0, 5, 300)])
LOG = BANK[OFTEN]


def test_equal_rows_are_found_in_any_encoding_noise():
    for width, noise in ((64, 1e-9), (64, 1e-6), (512, 1e-7), (512, 1e-6)):
        rows = normalize(torch.randn(300, width), dim=1)
        again = rows[torch.arange(600) % 300]
        assert distinct_rows(again).tolist() == list(range(300))
        noisy = again + noise * torch.randn(600, width)
        assert 300 <= len(distinct_rows(noisy)) < 305
        assert 300 <= len(distinct_rows(noisy.double().numpy())) < 305
    close = rows + 0.01 * torch.randn(300, 512) / 512**0.5
    assert len(distinct_rows(torch.cat([rows, close]))) == 600
    assert distinct_rows(torch.zeros(4, 2)).tolist() == [0]
    assert distinct_rows(torch.tensor([[0.0, 1.0], [-0.0, 1.0]])).tolist() == [0]


@pytest.mark.parametrize('transform', OF_QUERIES)
def test_a_debiaser(transform):
    """Refits, biases of an export and the evaluator are made by it."""
    how = dict(transform=transform)
    once, often = (Debiaser(**how).fit(torch.tensor(VIDEOS), torch.tensor(x)) for x in (BANK, LOG))
    assert len(often.bank_.texts) == 90
    assert torch.equal(once.bank_.texts, often.bank_.texts)
    weighed = 'bank_marginals' in TRANSFORMS[transform].options
    assert torch.equal(once.biases_, often.biases_) == (not weighed)
    if weighed:
        how['bank_marginals'] = often.bank_.weights
        once = Debiaser(**how).fit(torch.tensor(VIDEOS), torch.tensor(BANK))
        assert torch.equal(once.biases_, often.biases_)


@pytest.mark.parametrize('transform', OF_QUERIES)
def test_the_index(transform):
    found = []
    twice = np.concatenate([BANK, BANK])
    for bank in (BANK, twice):
        index = DebiasedIndex(bank, transform=transform)
        index.add_documents(VIDEOS, [str(i) for i in range(len(VIDEOS))])
        found.append(index.search(ASK, 5))
    assert found[0] == found[1]


@pytest.mark.parametrize('transform', ['sinkhorn', 'unbalanced_sinkhorn', 'auto'])
def test_what_a_log_asks_for_often_stays_in_reach(transform):
    """The five texts that it repeats find items that each question once would push down more."""
    once, often = (mmvtr.fit(VIDEOS, bank, transform) for bank in (BANK, LOG))
    best = (normalize(torch.tensor(BANK[:5])) @ normalize(torch.tensor(VIDEOS)).T).argmax(1)
    assert (often.biases_[best] > once.biases_[best]).all()


#: Who fits biases, and where what it fits them from has each query once.
PLACES = {
    'mmvtr/arrays/choice.py': 'arrays/inputs.py: _different',
    'mmvtr/arrays/debiaser.py': 'arrays/inputs.py: _different',
    'mmvtr/arrays/fitting.py': 'arrays/inputs.py: _different',
    'mmvtr/arrays/judged_lists.py': 'arrays/inputs.py: _different',
    'mmvtr/engine/hooks/score_transforms.py': 'engine/hooks/query_queue.py: unique',
    'projects/gallery/mmvtr_gallery/store/refits.py': 'arrays/inputs.py: _different',
    'mmvtr/apis/inferencer/transforms.py': 'engine/hooks/query_queue.py: unique',
    'tools/analysis_tools/eval_scores.py': 'itself',
}


def test_all_places_at_which_biases_are_fitted_are_known():
    """A further one says in :data:`PLACES` who takes the repeats out, and has a test above."""
    found = set()
    folders = 'mmvtr', 'tools', 'projects/gallery/mmvtr_gallery'
    names = 'fit_biases', '.fit_scores', 'unpaired_bank'
    for path in (path for folder in folders for path in (ROOT / folder).rglob('*.py')):
        source = path.read_text()
        if not any(name in source for name in names):
            continue
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(names):
                found.add(str(path.relative_to(ROOT)))
    assert found == set(PLACES)
    for fits, takes_out in PLACES.items():
        file, _, name = takes_out.partition(': ')
        text = (ROOT / (fits if file == 'itself' else f'mmvtr/{file}')).read_text()
        assert (
            'distinct_rows(' in text or 'row_groups(' in text
        ) and f'def {name}' in text + 'def '


@pytest.mark.parametrize('spread', [1.0, 0.02, 0.005])
def test_equal_rows_are_found_however_near_the_others_lie(spread):
    random = np.random.default_rng(0)
    rows = 1 + spread * random.normal(size=(400, 64))
    groups = row_groups(torch.from_numpy(np.concatenate([rows, rows]).astype('float32')))
    assert torch.equal(groups[:400], groups[400:])  # near ones may be one group
