"""Sentences as weighed counts of their words, against numbers by hand."""

import math

import numpy as np
import pytest

from mmvtr.datasets import WordCounts

TEXTS = [dict(text='A red cross, a cross'), dict(text='a red square'), dict(text='a')]


def test_counts_by_hand():
    step = WordCounts(name='w')
    step.check(TEXTS)
    rows = [step.transform(dict(text, text_vectors=dict(o=1)))['text_vectors'] for text in TEXTS]
    assert all(row['o'] == 1 and row['w'].shape == (1, 4) for row in rows)
    cross, red, square = math.log(3), math.log(3 / 2), math.log(3)
    first = np.array([0, 2 * cross, red, 0]) / math.hypot(2 * cross, red)
    second = np.array([0, 0, red, square]) / math.hypot(red, square)
    np.testing.assert_allclose(rows[0]['w'][0], first, rtol=1e-6)
    np.testing.assert_allclose(rows[1]['w'][0], second, rtol=1e-6)
    assert not rows[2]['w'].any() and rows[2]['w'].dtype == np.float32  # a word of all captions
    assert step.transform(dict(text='unheard of'))['text_vectors']['w'].sum() == pytest.approx(0)
