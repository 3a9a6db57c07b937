"""BertAdam against CLIP4Clip's own numbers, it and Ranger against loops in float64; autocast on a
CPU."""

import copy
import math

import numpy as np
import pytest
import torch
from mmengine.optim import build_optim_wrapper
from torch import nn

from mmvtr.engine.optim_wrappers import AutocastOptimWrapper
from mmvtr.engine.optimizers import BertAdam, Ranger
from mmvtr.engine.schedulers import WarmupCosineLR, WarmupLinearLR, warmup_cosine


def test_golden_20_steps(shared):
    golden = np.load(shared / 'golden' / 'clip4clip_bertadam.npz')
    params = [nn.Parameter(torch.from_numpy(golden[f'p{i}_init'])) for i in (1, 2)]
    lrs = [float(golden['lr1']), float(golden['lr2'])]
    groups = [
        dict(params=params[:1], lr=lrs[0], weight_decay=float(golden['wd1'])),
        dict(params=params[1:], lr=lrs[1], weight_decay=0.0),
    ]
    optimizer = BertAdam(
        groups,
        lr=lrs[0],
        betas=(float(golden['b1']), float(golden['b2'])),
        eps=float(golden['e']),
        max_grad_norm=float(golden['max_grad_norm']),
    )
    scheduler = WarmupCosineLR(
        optimizer, warmup=float(golden['warmup']), end=int(golden['t_total']), by_epoch=False
    )
    for step in range(20):
        for i, param in enumerate(params, start=1):
            param.grad = torch.from_numpy(golden[f'grads{i}'][step].copy())
        optimizer.step()
        scheduler.step()
        for i, param in enumerate(params, start=1):
            np.testing.assert_allclose(param.detach(), golden[f'p{i}'][step], rtol=0, atol=1e-6)
        if step < 19:  # mmengine stops at the end; theirs goes on to 0
            now = [group['lr'] for group in optimizer.param_groups]
            np.testing.assert_allclose(now, golden['lr_after_step'][step], rtol=1e-9)


def test_golden_schedule(shared):
    golden = np.load(shared / 'golden' / 'clip4clip_bertadam.npz')
    x = np.linspace(0, 1, len(golden['sched']))
    ours = [warmup_cosine(progress, float(golden['warmup'])) for progress in x]
    np.testing.assert_allclose(ours, golden['sched'], atol=1e-9)


def test_schedule_falls_after_the_warmup():
    assert warmup_cosine(0, 0.1) == 0
    assert warmup_cosine(0.05, 0.1) == 0.5
    assert warmup_cosine(0.1, 0.1) == pytest.approx(0.9755, abs=1e-4)
    assert warmup_cosine(1, 0.1) == pytest.approx(0)
    assert warmup_cosine(0, 0) == 1


def test_a_cosine_of_what_follows_the_warmup():
    """transformers' and X-Pool's: no fall at the end of the warm-up."""
    optimizer = BertAdam([nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = WarmupCosineLR(optimizer, warmup=0.2, whole=False, end=10, by_epoch=False)
    lrs = []
    for _ in range(10):
        lrs.append(optimizer.param_groups[0]['lr'])
        optimizer.step()
        scheduler.step()
    after = [0.5 * (1 + math.cos(math.pi * i / 8)) for i in range(8)]
    assert lrs == pytest.approx([0, 0.5, *after])


def test_epochs_to_iterations():
    optimizer = BertAdam([nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = WarmupCosineLR.build_iter_from_epoch(
        optimizer, warmup=0.5, end=2, epoch_length=4, by_epoch=True
    )
    lrs = []
    for _ in range(8):
        lrs.append(optimizer.param_groups[0]['lr'])
        optimizer.step()
        scheduler.step()
    assert lrs == pytest.approx([warmup_cosine(i / 8, 0.5) for i in range(8)])


def test_bertadam_against_a_loop():
    rng = np.random.default_rng(0)
    start = rng.normal(size=5)
    grads = rng.normal(size=(6, 5)) * [[0.01], [3], [1], [5], [0], [2]]
    param = nn.Parameter(torch.from_numpy(start.copy()))
    optimizer = BertAdam([param], lr=0.05, betas=(0.8, 0.9), weight_decay=0.1, max_grad_norm=1.5)
    w, m, v = start.tolist(), [0.0] * 5, [0.0] * 5
    for grad in grads:
        param.grad = torch.from_numpy(grad.copy())
        optimizer.step()
        norm = math.sqrt(sum(g * g for g in grad))
        scale = min(1, 1.5 / (norm + 1e-6))
        for i in range(5):
            g = grad[i] * scale
            m[i] = 0.8 * m[i] + 0.2 * g
            v[i] = 0.9 * v[i] + 0.1 * g * g
            w[i] -= 0.05 * (m[i] / (math.sqrt(v[i]) + 1e-6) + 0.1 * w[i])
    np.testing.assert_allclose(param.detach(), w, rtol=1e-12)


def test_defaults_are_the_originals():
    """b2 = .999 and a decay of .01: pytorch-pretrained-BERT's and MS-SL's; a constant gradient."""
    param = nn.Parameter(torch.tensor([0.5], dtype=torch.float64))
    optimizer = BertAdam([param], lr=0.001)
    w, m, v = 0.5, 0.0, 0.0
    for _ in range(10):
        param.grad = torch.tensor([0.3], dtype=torch.float64)
        optimizer.step()
        m, v = 0.9 * m + 0.1 * 0.3, 0.999 * v + 0.001 * 0.3**2
        w -= 0.001 * (m / (math.sqrt(v) + 1e-6) + 0.01 * w)
    assert param.item() == pytest.approx(w, rel=1e-12)
    assert 0.04 < 0.5 - w < 0.06  # without bias correction: ten steps of 3 to 6.5 rates


def test_parameters_are_clipped_one_by_one():
    small, large = (nn.Parameter(torch.zeros(2)) for _ in range(2))
    small.grad, large.grad = torch.tensor([0.1, 0.0]), torch.tensor([30.0, 40.0])
    BertAdam([small, large], lr=0.0).step()
    assert small.grad.tolist() == pytest.approx([0.1, 0])
    assert large.grad.tolist() == pytest.approx([0.6, 0.8])
    large.grad = torch.tensor([30.0, 40.0])
    BertAdam([large], lr=0.0, max_grad_norm=0).step()
    assert large.grad.tolist() == [30, 40]


def test_parameters_without_gradient_stay():
    param = nn.Parameter(torch.ones(2))
    BertAdam([param], lr=1.0).step()
    assert param.tolist() == [1, 1]


def test_closure():
    param = nn.Parameter(torch.ones(2))
    optimizer = BertAdam([param], lr=0.1)

    def closure():
        loss = param.sum()
        loss.backward()
        return loss

    assert optimizer.step(closure) == 2
    assert param[0] < 1


@pytest.mark.parametrize('bad', [dict(lr=-1), dict(lr=1, betas=(1, 0.9)), dict(lr=1, eps=-1)])
def test_bertadam_rejects(bad):
    with pytest.raises(ValueError, match=r'^(lr|betas|eps) must '):
        BertAdam([nn.Parameter(torch.ones(1))], **bad)


RANGER = dict(lr=0.05, betas=(0.95, 0.9), eps=1e-5, weight_decay=0.1, alpha=0.3, k=4)


def ranger_by_a_loop(start, grads):
    """Numbers one by one, as Ranger's code of 2019 (CE's) computes them; None: no gradient."""
    b1, b2 = RANGER['betas']
    w, slow, m, v, step = list(start), list(start), [0.0] * len(start), [0.0] * len(start), 0
    longest = 2 / (1 - b2) - 1
    for grad in grads:
        if grad is None:
            continue
        step += 1
        length = longest - 2 * step * b2**step / (1 - b2**step)
        for i, g in enumerate(grad):
            m[i] = b1 * m[i] + (1 - b1) * g
            v[i] = b2 * v[i] + (1 - b2) * g * g
            w[i] -= RANGER['weight_decay'] * RANGER['lr'] * w[i]
            size = RANGER['lr'] / (1 - b1**step)
            if length > 5:
                size *= math.sqrt(
                    (1 - b2**step)
                    * ((length - 4) / (longest - 4))
                    * ((length - 2) / length)
                    * (longest / (longest - 2))
                )
                w[i] -= size * m[i] / (math.sqrt(v[i]) + RANGER['eps'])
            else:
                w[i] -= size * m[i]
            if step % RANGER['k'] == 0:
                slow[i] += RANGER['alpha'] * (w[i] - slow[i])
                w[i] = slow[i]
    return w


def gradients_of_two(steps=14):
    """Of two parameters, of which the second has none in some steps."""
    rng = np.random.default_rng(1)
    grads = [list(rng.normal(size=(steps, n))) for n in (5, 3)]
    grads[1][0] = grads[1][5] = None
    return [rng.normal(size=n) for n in (5, 3)], grads


def ranger_steps(params, optimizer, grads, steps):
    for step in steps:
        for param, of_param in zip(params, grads):
            grad = of_param[step]
            param.grad = None if grad is None else torch.from_numpy(grad).to(param.dtype)
        optimizer.step()


def test_ranger_against_a_loop():
    """Before and behind the step at which rectification begins, with steps without a gradient."""
    starts, grads = gradients_of_two()
    params = [nn.Parameter(torch.from_numpy(start.copy())) for start in starts]
    ranger_steps(params, Ranger(params, **RANGER), grads, range(14))
    for param, start, of_param in zip(params, starts, grads):
        np.testing.assert_allclose(param.detach(), ranger_by_a_loop(start, of_param), rtol=1e-11)


@pytest.mark.parametrize('at', [1, 6, 9])
def test_ranger_resumes_to_the_bit(at):
    starts, grads = gradients_of_two()
    params = [nn.Parameter(torch.from_numpy(start).float()) for start in starts]
    optimizer = Ranger(params, **RANGER)
    ranger_steps(params, optimizer, grads, range(at))
    again = [nn.Parameter(param.detach().clone()) for param in params]
    resumed = Ranger(again, lr=1.0)
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for some, one in ((params, optimizer), (again, resumed)):
        ranger_steps(some, one, grads, range(at, 14))
    assert all(torch.equal(*pair) for pair in zip(params, again))


def test_ranger_closure_and_groups():
    params = [nn.Parameter(torch.ones(2)) for _ in range(2)]
    groups = [dict(params=params[:1], k=1, alpha=0.0), dict(params=params[1:])]
    optimizer = Ranger(groups, lr=0.1)

    def closure():
        loss = sum(param.sum() for param in params)
        loss.backward()
        return loss

    assert optimizer.step(closure) == 4
    assert params[0].tolist() == [1, 1] and params[1][0] < 1  # drawn back wholly, and not at all


@pytest.mark.parametrize(
    'bad', [dict(alpha=2), dict(k=0), dict(lr=0), dict(eps=0), dict(alpha=float('nan'))]
)
def test_ranger_rejects(bad):
    with pytest.raises(ValueError, match=r'^(alpha|k|lr|eps) must '):
        Ranger([nn.Parameter(torch.ones(1))], **bad)


def test_warmup_rejects():
    with pytest.raises(ValueError, match=r'\[0, 1\)'):
        WarmupCosineLR(BertAdam([nn.Parameter(torch.ones(1))], lr=1.0), warmup=1.0)


def test_autocast_runs_the_forward_in_bfloat16():
    model = nn.Linear(4, 4)
    wrapper = build_optim_wrapper(
        model,
        dict(
            type='mmvtr.AutocastOptimWrapper',
            optimizer=dict(type='mmvtr.BertAdam', lr=0.1),
            accumulative_counts=2,
            clip_grad=dict(max_norm=1.0),
        ),
    )
    assert isinstance(wrapper, AutocastOptimWrapper)
    before = model.weight.detach().clone()
    for step in range(2):
        with wrapper.optim_context(model):
            out = model(torch.ones(2, 4))
        assert out.dtype == torch.bfloat16
        wrapper.update_params(out.float().square().mean())
        assert torch.equal(model.weight, before) == (step == 0)
    assert model(torch.ones(2, 4)).dtype == torch.float32
    assert model.weight.dtype == torch.float32


def test_autocast_refuses_float16():
    optimizer = BertAdam([nn.Parameter(torch.ones(1))], lr=0.1)
    with pytest.raises(ValueError, match='loss scaling'):
        AutocastOptimWrapper(optimizer=optimizer, dtype='float16')


def test_up_and_down_linearly():
    optimizer = BertAdam([nn.Parameter(torch.zeros(1))], lr=2.0)
    scheduler = WarmupLinearLR(optimizer, warmup=0.25, end=8, by_epoch=False)
    rates = []
    for _ in range(8):
        rates.append(optimizer.param_groups[0]['lr'])
        optimizer.step()
        scheduler.step()
    assert rates == pytest.approx([0, 1, 2, 5 / 3, 4 / 3, 1, 2 / 3, 1 / 3])
    with pytest.raises(ValueError, match='warmup must lie in'):
        WarmupLinearLR(BertAdam([nn.Parameter(torch.ones(1))], lr=1.0), warmup=1.0)
