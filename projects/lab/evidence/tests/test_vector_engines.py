"""The table of engines tells an engine that holds the biased rows from one that does not."""

import numpy as np
import pytest
from speed import engines

pytest.importorskip('faiss', reason='needs faiss-cpu')
CAPTIONS = np.random.default_rng(0).normal(size=(8000, 5, 16)).astype('float32') + 0.3
STEPS = ('search', 'filter', 'add', 'delete', 'update')


class Forgetful(engines.Faiss):
    """FAISS that keeps deleted rows and is not written anew."""

    def delete(self, ids):
        pass

    def update(self, rows):
        pass


class Raw(engines.Faiss):
    """FAISS whose rows have lost their biases."""

    def add(self, rows):
        super().add(rows._replace(vectors=rows.vectors * np.float32([1] * 16 + [0])))


def test_shares_of_right_ids():
    found = engines.of_engine(engines.Faiss, CAPTIONS, 400)
    assert [found[step] for step in STEPS] == [1.0] * 5
    found = engines.of_engine(Forgetful, CAPTIONS, 400)
    assert [found[step] for step in STEPS[:3]] == [1.0] * 3
    assert found['delete'] < 0.99 and found['update'] < 0.99
    assert engines.of_engine(Raw, CAPTIONS, 400)['search'] < 0.99


def test_rounded_rows():
    found = engines.rounded(CAPTIONS, 400)
    assert found['FAISS QT_fp16: half precision'][0] > 0.99
    bits = found['bits'][0], found['bits, 100 ranked again'][0]
    assert bits[0] < bits[1] <= 1
