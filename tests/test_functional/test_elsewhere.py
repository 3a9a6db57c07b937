"""The functions on a device that is not the CPU: nothing is made or left on the CPU by mistake."""

import importlib

import pytest
import torch

import mmvtr.functional
from children import ROOT
from elsewhere import Elsewhere, elsewhere
from mmvtr.functional import (
    UnitMean,
    contrastive,
    csls,
    dissimilarities,
    dual_softmax,
    expected_median_rank,
    inverted_softmax,
    paired_best_frames,
    qb_norm,
    rank_counts,
    sinkhorn_scores,
    token_matches,
    wasserstein2,
)


@pytest.fixture
def check(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / 'tools/benchmark'))
    return importlib.import_module('gpu_check.compare')


@pytest.fixture
def all_cases(check):
    return importlib.import_module('gpu_check.cases')


def test_every_function_has_a_case(all_cases):
    known = {case.function for case in all_cases.cases()}
    assert known | all_cases.WITHOUT_CASE == set(mmvtr.functional.__all__)
    assert not known & all_cases.WITHOUT_CASE


def test_all_of_them_run_elsewhere(check, all_cases):
    with elsewhere() as device:
        for case in all_cases.cases():
            errors = check.check(case, device)
            assert max(errors.values()) <= check.BAR, (case.name, errors)


def test_under_autocast_from_low_precision(check, all_cases):
    some = [case for case in all_cases.cases() if case.low]
    assert len(some) > 40
    for case in some:
        for dtype in (torch.bfloat16, torch.float16):
            errors = check.check_low(case, torch.device('cpu'), dtype)
            assert max(errors.values()) <= check.LOW_BARS[dtype], (case.name, dtype, errors)


def test_a_wrong_number_is_seen(check, all_cases):
    case = next(x for x in all_cases.cases() if x.name == 'contrastive')
    cpu = torch.device('cpu')
    right = check.run(case, cpu, torch.float64)
    wrong = check.run(case._replace(call=lambda i: case.call(i) * 1.001), cpu, torch.float64)
    assert check.error(wrong, right)['value'] > 9e-4 < check.error(wrong, right)['gradient']
    detached = check.run(case._replace(call=lambda i: case.call(i).detach()), cpu, torch.float64)
    assert check.error(detached, right)['gradient'] == float('inf')
    lost = check.run(case._replace(call=lambda i: case.call(i) * torch.nan), cpu, torch.float64)
    assert check.error(lost, right)['value'] == float('inf')


def test_elsewhere_refuses_what_cuda_refuses():
    with elsewhere() as device:
        scores, positives = torch.eye(3).to(device), torch.eye(3).bool()
        assert isinstance(scores, Elsewhere) and scores.device == device
        with pytest.raises(RuntimeError, match='on the CPU and elsewhere'):
            contrastive(scores, positives)
        with pytest.raises(TypeError, match=r'use \.cpu\(\) first'):
            scores.numpy()
        with pytest.raises(RuntimeError, match='on the CPU and elsewhere'):
            torch.zeros(3)[torch.tensor([0, 1], device=device)]
        assert scores[torch.tensor([0])].device == device  # as CUDA: indices may be on the CPU
        assert (scores + torch.tensor(1.0)).device == device  # and so may numbers
        assert not isinstance(scores.cpu(), Elsewhere)


def test_what_is_made_lies_where_the_inputs_are():
    with elsewhere() as device:
        texts, none = torch.eye(2).to(device), torch.zeros(0, dtype=torch.long, device=device)
        frames, mask = torch.ones(1, 1, 2, device=device), torch.ones(1, 1).bool().to(device)
        found = paired_best_frames(texts, frames, mask, none, none)
        assert found.scores.device == found.index.device == device
        counts = rank_counts(texts, texts.bool())
        assert expected_median_rank(counts).device == device
        mean = UnitMean(2)  # on the CPU; what it meets need not be
        mean.add(texts)
        assert mean.mean.tolist() == [0.5, 0.5]


def test_a_bank_that_was_read_from_a_file_may_stay_on_the_cpu():
    generator = torch.Generator().manual_seed(0)
    scores, bank = torch.randn(60, 30, generator=generator).split([20, 40])
    with elsewhere() as device:
        away = scores.to(device)
        for transform in (csls, dual_softmax, inverted_softmax, qb_norm, sinkhorn_scores):
            how = {} if transform is csls else dict(temperature=0.1)
            found = transform(away, bank, **how)
            assert found.device == device
            torch.testing.assert_close(found.cpu(), transform(scores, bank, **how))


def test_half_precision_is_no_matter_of_small_differences():
    generator = torch.Generator().manual_seed(0)
    mean, log_std = torch.randn(2, 6, 64, generator=generator).bfloat16()
    exact = wasserstein2(*(x.double() for x in (mean, log_std, mean, log_std)))
    low = wasserstein2(mean, log_std, mean, log_std)
    torch.testing.assert_close(low.double(), exact, rtol=1e-5, atol=1e-3)

    unit = torch.nn.functional.normalize(torch.randn(6, 64, generator=generator), dim=1)
    near = torch.nn.functional.normalize(unit + 8, dim=1)
    own = torch.eye(6).bool()
    exact = dissimilarities(near @ near.T, near @ near.T, own)
    valid = torch.ones(6, 1, dtype=torch.bool)
    tokens = (near[:, None], valid, near[:, None], valid)
    shares = token_matches(*tokens)['words'].share
    cosines = near @ near.T
    with torch.autocast('cpu', torch.bfloat16):
        torch.testing.assert_close(dissimilarities(cosines, cosines, own), exact)
        torch.testing.assert_close(token_matches(*tokens)['words'].share, shares)
