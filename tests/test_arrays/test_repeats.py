"""A query log asks the same again and again: wherever biases are fitted, different texts count."""

import numpy as np
import pytest
import torch

from mmvtr.functional import distinct_rows
from mmvtr.functional.transforms.transform_table import OF_QUERIES
from mmvtr.gallery.mteb_index import DebiasedIndex
from mmvtr.normaliser import Normaliser

RANDOM = np.random.default_rng(0)
VIDEOS, ASK, BANK = (RANDOM.normal(size=(n, 24)).astype('f4') for n in (120, 40, 90))
OFTEN = np.concatenate([np.arange(90), RANDOM.integers(0, 5, 300)])
LOG = BANK[OFTEN]


def test_equal_rows_are_found_in_any_encoding_noise():
    rows = torch.randn(300, 64)
    again = rows[torch.arange(600) % 300]
    assert distinct_rows(again).tolist() == list(range(300))
    noisy = again + 1e-9 * torch.randn(600, 64)
    assert len(distinct_rows(noisy)) < 305
    assert distinct_rows(torch.zeros(4, 2)).tolist() == [0]
    assert distinct_rows(torch.tensor([[0.0, 1.0], [-0.0, 1.0]])).tolist() == [0]


@pytest.mark.parametrize('transform', OF_QUERIES)
def test_a_normaliser(transform):
    """Refits, biases of an export and the evaluator are made by it."""
    how = dict(transform=transform, temperature=0.5)
    once, often = (
        Normaliser.fit(torch.tensor(x), torch.tensor(VIDEOS), **how) for x in (BANK, LOG)
    )
    assert len(often.queries) == 90
    for one, other in zip(once[:2], often[:2]):
        assert torch.equal(one, other)


@pytest.mark.parametrize('transform', OF_QUERIES)
def test_the_index(transform):
    found = []
    for bank in (BANK, LOG):
        index = DebiasedIndex(bank, transform=transform)
        index.add_documents(VIDEOS, [str(i) for i in range(len(VIDEOS))])
        found.append(index.search(ASK, 5))
    assert found[0] == found[1]
