"""JointBatchNorm1d is nn.BatchNorm1d where that exists, and says what becomes of the rest."""

import copy

import pytest
import torch
from torch import nn

from mmvtr.models.layers.joint_batch_norm import JointBatchNorm1d

N, C, G = 6, 3, 4


def pair(seed=0):
    """Ours and PyTorch's, with the same random state."""
    torch.manual_seed(seed)
    ours, theirs = JointBatchNorm1d(C).double(), nn.BatchNorm1d(C).double()
    state = {
        key: torch.rand_like(x) + 0.5 if x.is_floating_point() else x
        for key, x in theirs.state_dict().items()
    }
    for module in (ours, theirs):
        module.load_state_dict(state)
    return ours, theirs


def rows(*shape):
    return torch.randn(*shape, C).double().requires_grad_()


@pytest.mark.parametrize('training', [True, False])
def test_one_process_is_pytorch(training):
    results = []
    for module in pair():
        module.train(training)
        torch.manual_seed(1)
        x = rows(N)
        y = module(x)
        (y * torch.randn(N, C)).sum().backward()
        results.append((y, x.grad, module.weight.grad, module.bias.grad, module.state_dict()))
    torch.testing.assert_close(*results, rtol=1e-12, atol=1e-12)
    assert list(results[0][-1]) == list(results[1][-1])


def test_groups_are_batches_one_after_the_other():
    ours, theirs = pair()
    x = rows(G, N)
    expected = torch.stack([theirs(group) for group in x])
    torch.testing.assert_close(ours(x), expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict(), rtol=1e-12, atol=1e-12)
    assert ours.num_batches_tracked == G


def test_rows_that_do_not_count_are_not_there():
    ours, theirs = pair()
    x, mask = rows(N), torch.tensor([1, 0, 1, 1, 0, 1]).bool()
    expected = theirs(x[mask])
    with torch.no_grad():
        x[1] = torch.nan
    y = ours(x, mask)
    torch.testing.assert_close(y[mask], expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict(), rtol=1e-12, atol=1e-12)
    y[mask].square().sum().backward()
    assert (x.grad[~mask] == 0).all() and x.grad.isfinite().all()


def test_a_group_of_fewer_than_two_rows_moves_nothing():
    ours, theirs = pair()
    frozen = copy.deepcopy(ours).eval()
    x = rows(3, N)
    mask = torch.ones(3, N, dtype=torch.bool)
    mask[0, 1:], mask[1] = False, False
    y = ours(x, mask)
    torch.testing.assert_close(y[0, 0], frozen(x[0, :1])[0], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(y[1], frozen(0 * x[1]), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(y[2], theirs(x[2]), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(ours.state_dict(), theirs.state_dict(), rtol=1e-12, atol=1e-12)
    before = copy.deepcopy(ours.state_dict())
    assert ours(rows(0)).shape == (0, C) and ours(rows(0, N)).shape == (0, N, C)
    torch.testing.assert_close(ours.state_dict(), before, rtol=0, atol=0)


def test_gradients():
    module = pair()[0]
    mask = torch.tensor([[1, 1, 1, 0, 1, 1], [1, 0, 0, 0, 0, 0]]).bool()
    # Each call moves the statistics that the second group reads.
    assert torch.autograd.gradcheck(lambda x: copy.deepcopy(module)(x, mask), rows(2, N))


def test_half_precision_is_normalised_in_float32():
    module = JointBatchNorm1d(C)
    x = torch.randn(N, C).bfloat16()
    torch.testing.assert_close(module(x), nn.BatchNorm1d(C)(x.float()))


@pytest.mark.parametrize('shape', [(N, C + 1), (C,), (1, 2, N, C)])
def test_other_shapes_are_refused(shape):
    with pytest.raises(ValueError, match=r'takes \[N, 3\] or \[G, N, 3\], got'):
        JointBatchNorm1d(C)(torch.zeros(shape))
