"""What only a GPU can show (``pytest -m cuda``); the cases are those of tools/benchmark/gpu.py."""

import importlib

import pytest
import torch
from mmengine.config import Config
from mmengine.optim import AmpOptimWrapper
from mmengine.registry import init_default_scope
from mmengine.runner import Runner

from children import ROOT, run_tool
from mmvtr.functional import csls, inverted_softmax, qb_norm, sinkhorn_scores
from mmvtr.registry import MODELS
from mmvtr.storage import read_plain
from simulation.simulated import simulate
from simulation.simulated_model import NARROW

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason='needs a CUDA device, and -m cuda'),
]


@pytest.fixture
def part(monkeypatch):
    """``part(name)``: a module of the tool."""
    monkeypatch.syspath_prepend(str(ROOT / 'tools/benchmark'))
    return lambda name: importlib.import_module(f'gpu_check.{name}')


@pytest.fixture
def setting(part):
    return part('setting').Setting(torch.device('cuda'), smoke=True)


@pytest.mark.parametrize('section', ['float32', 'autocast'])
def test_functions_agree_with_float64(part, setting, section):
    for verdict in getattr(part('functional'), section)(setting).verdicts:
        assert verdict.met, verdict


def test_micro_batch_and_strip_equal_the_plain_step(part, setting):
    assert all(verdict.met for verdict in part('steps').steps(setting).verdicts)


def dvtr():
    """DVTR on simulated towers, and a pinned loader of small batches."""
    init_default_scope('mmvtr')
    cfg, _ = simulate(Config.fromfile(ROOT / 'configs/dvtr_c2v_msrvtt.py'), NARROW)
    loader = cfg.train_dataloader
    loader.update(batch_size=8, num_workers=1, pin_memory=True, persistent_workers=False)
    torch.manual_seed(0)
    return MODELS.build(cfg.model).cuda().train(), Runner.build_dataloader(loader, seed=0)


@pytest.mark.parametrize('dtype', ['float16', 'bfloat16'])
def test_steps_with_amp_and_loss_scaling_from_a_pinned_loader(dtype):
    model, loader = dvtr()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    wrapper = AmpOptimWrapper(optimizer=optimizer, dtype=dtype)
    batch = next(iter(loader))
    assert batch['inputs']['video'][0].is_pinned()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    for _ in range(3):
        logged = model.train_step(batch, wrapper)
        assert all(torch.isfinite(x).all() for x in logged.values() if torch.is_tensor(x))
    moved = [name for name, p in model.named_parameters() if not torch.equal(p, before[name])]
    assert moved and all(p.isfinite().all() for p in model.parameters())


def test_score_transforms_agree_with_the_cpu():
    generator = torch.Generator().manual_seed(0)
    scores, bank = torch.randn(60, 30, generator=generator).split([20, 40])
    near = dict(rtol=1e-4, atol=1e-4)
    for transform in (csls, inverted_softmax, qb_norm, sinkhorn_scores):
        how = {} if transform is csls else dict(temperature=0.1)
        found = transform(scores.cuda(), bank.cuda(), **how)
        assert found.is_cuda
        torch.testing.assert_close(found.cpu(), transform(scores, bank, **how), **near)
        mixed = transform(scores.cuda(), bank, **how)  # a bank that was read from a file
        torch.testing.assert_close(mixed, found, **near)


@pytest.mark.parametrize('precision', ['bf16', 'fp16'])
def test_training_evaluation_and_a_checkpoint_that_the_cpu_reads(tmp_path, precision):
    work = tmp_path / 'work'
    options = [
        'train_cfg.max_epochs=2',
        'train_cfg.val_interval=2',
        'train_dataloader.batch_size=16',
        'auto_scale_lr.base_batch_size=16',
    ]
    sizes = [
        f'{loader}.dataset.{knob}={count}'
        for loader in ('train_dataloader', 'val_dataloader', 'test_dataloader')
        for knob, count in dict(num_train=48, num_val=16, num_test=16).items()
    ]
    config = ROOT / 'configs/ncl_clip4clip_planted.py'  # its table has Sinkhorn's scores, too
    code, printed = run_tool(
        tmp_path, 'train.py', config, '--work-dir', work, '--amp', precision,
        '--cfg-options', *options, *sizes,
    )  # fmt: skip
    assert code == 0, printed[-3000:]
    assert 'sinkhorn' in printed.lower()
    found = read_plain(next(work.glob('epoch_2.pth')), kind='checkpoint')
    assert all(x.device.type == 'cpu' for x in found['state_dict'].values())
