"""Every public function computes in float32 or better, whatever it is given."""

import importlib

import pytest
import torch
from torch.utils._pytree import tree_map

import mmvtr.functional
from children import ROOT

LOW = (torch.bfloat16, torch.float16)
#: float32 rounds to 6e-8, and sums of thousands of numbers lose two digits.
BAR = 1e-5
#: Its ``dtype`` is an argument.
AS_ASKED = {'clip_pooling'}


@pytest.fixture
def gpu_check(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / 'tools/benchmark'))
    return {x: importlib.import_module(f'gpu_check.{x}') for x in ('cases', 'compare')}


def wide(function):
    """The same function, given float32 in place of low precision."""

    def widened(x):
        return x.float() if isinstance(x, torch.Tensor) and x.dtype in LOW else x

    return lambda *args, **how: function(*tree_map(widened, args), **tree_map(widened, how))


def test_all_functions_compute_in_float32(gpu_check, monkeypatch):
    """Also what a case computes from its inputs is in low precision, in both runs."""
    cpu, compare, cases = torch.device('cpu'), gpu_check['compare'], gpu_check['cases'].cases
    functions = {case.function for case in cases()}
    found = [
        (case, dtype, compare.run(compare.rounded(case, dtype), cpu, dtype))
        for dtype in LOW
        for case in cases()
    ]
    for name in functions - {
        x for x in functions if isinstance(getattr(mmvtr.functional, x), type)
    }:
        monkeypatch.setattr(mmvtr.functional, name, wide(getattr(mmvtr.functional, name)))
    references = [
        compare.run(compare.rounded(case, dtype), cpu, dtype) for dtype in LOW for case in cases()
    ]
    assert len(found) == 2 * len([*cases()]) and len(functions) > 140
    for (case, dtype, mine), reference in zip(found, references):
        error = compare.error(mine._replace(gradients={}), reference._replace(gradients={}))
        assert error['value'] <= BAR, (case.name, dtype, error)
        low = {x.dtype for x in mine.values} & {*LOW}
        assert not low or case.function in AS_ASKED, (case.name, low)


def test_blocks_of_scores(gpu_check):
    scores = torch.randn(6, 5, generator=torch.Generator().manual_seed(0)).bfloat16()
    whole = mmvtr.functional.sinkhorn(scores, temperature=0.07)
    rows = mmvtr.functional.sinkhorn_by_rows(lambda: scores.split(2), temperature=0.07)
    torch.testing.assert_close(rows.columns, whole.columns, atol=1e-5, rtol=0)
    with pytest.raises(ValueError, match='no block'):
        mmvtr.functional.sinkhorn_by_rows(lambda: [], temperature=0.07)


def test_ranges():
    f = mmvtr.functional
    scores = torch.tensor([[0.9, 0.5, 0.1]])
    for k in (0, -1, True):
        with pytest.raises(ValueError, match='k must be at least 1'):
            f.precision_at(scores, scores > 0.4, k)
    for x in (torch.inf, torch.nan, -torch.inf):
        with pytest.raises(ValueError, match='all finite'):
            f.skewness(torch.tensor([0.0, 1.0, x]))
    assert f.ranks(torch.eye(3, dtype=torch.int64)).tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match='temperature must be positive and finite'):
        f.sinkhorn(scores, temperature=True)
    for count in (10**12, True, 2.5, -1):
        with pytest.raises(ValueError, match='iterations must be 0 to 100,000'):
            f.sinkhorn(scores, temperature=0.1, iterations=count)
