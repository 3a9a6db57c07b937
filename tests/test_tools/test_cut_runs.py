"""Numbers of a cut run equal those of the whole one as far as it goes."""

import pytest
import torch

from mmvtr.functional import precision_at, ranks, recall_at
from score_files.cut_runs import measure_cut_run


def test_as_far_as_it_goes():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(20, 30, generator=generator)
    positives = torch.eye(20, 30).bool()
    scores[:8] += 2 * positives[:8]
    best = ranks(scores, positives)
    listed = scores >= scores.topk(6, dim=1).values[:, -1:]
    grades = torch.where(torch.rand(20, 30, generator=generator) < 0.4, 1.0, torch.nan)
    run = measure_cut_run(scores.where(listed, torch.nan), positives, grades, k=(1, 5, 10))
    assert (run.depth, run.missing) == (6, 0)
    right = (grades == 1) | positives
    for k in (1, 5):
        assert run.values[f't2v_R{k}'] == pytest.approx(100 * float(recall_at(best, k)))
        share = 100 * float(precision_at(scores, right, k).mean())
        assert run.values[f't2v_P{k}'] == run.values[f't2v_share{k}'] == pytest.approx(share)
    assert {'R10', 'P10', 'bpref', 'MnR'} <= set(run.left_out)
    assert ('MdR' in run.left_out) == (best.median() > 6)


def test_a_run_without_a_line():
    with pytest.raises(ValueError, match='nothing to measure'):
        measure_cut_run(torch.full((2, 2), torch.nan), torch.eye(2).bool())
