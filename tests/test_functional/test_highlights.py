import numpy as np
import pytest
import torch

from mmvtr.functional import interpolated_precision


def test_by_hand():
    # Ranked: yes, no, yes, yes, no.  Precisions at the three: 1, 2/3, 3/4; the second is lifted.
    scores = torch.tensor([0.9, 0.8, 0.7, 0.6, 0.1])
    relevant = torch.tensor([True, False, True, True, False])
    assert interpolated_precision(scores, relevant).item() == pytest.approx((1 + 0.75 + 0.75) / 3)
    # The three share one score with a part that is none: one threshold of precision 3/4.
    assert interpolated_precision(torch.tensor([1.0, 1, 1, 1, 0]), relevant).item() == 0.75
    assert interpolated_precision(scores, torch.zeros(5, dtype=torch.bool)).item() == 0
    assert interpolated_precision(scores, torch.ones(5, dtype=torch.bool)).item() == 1


def test_against_the_curve_of_scikit_learn():
    metrics = pytest.importorskip('sklearn.metrics')
    rng = np.random.default_rng(0)
    for ties in (3, 1000):
        for _ in range(50):
            scores = rng.integers(ties, size=20) / ties
            relevant = rng.random(20) < 0.4
            relevant[0] = True
            precision, recall, _ = metrics.precision_recall_curve(relevant, scores)
            best = np.maximum.accumulate(precision)
            expected = best[:-1][recall[:-1] != recall[1:]].mean()
            found = interpolated_precision(torch.tensor(scores), torch.tensor(relevant))
            assert found.item() == pytest.approx(expected, abs=1e-12)


def test_refuses():
    yes = torch.ones(2, dtype=torch.bool)
    with pytest.raises(ValueError, match='one score a part'):
        interpolated_precision(torch.zeros(3), yes)
    with pytest.raises(ValueError, match='NaN'):
        interpolated_precision(torch.tensor([0.0, float('nan')]), yes)
