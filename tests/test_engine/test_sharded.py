"""Sharded training on two processes (gloo) equals one process."""

import copy
import subprocess
import sys
from unittest.mock import patch

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from mmengine.model import MMDistributedDataParallel
from mmengine.optim import OptimWrapper

from children import ROOT, free_port, run_tool
from mmvtr.engine.loops.sharded import (
    FullyShardedRetriever,
    adapt_optimizer,
    clip_grad_norm,
    is_sharded,
    layers_of,
    whole_layers,
)
from mmvtr.engine.optim_wrappers import AutocastOptimWrapper
from mmvtr.registry import MODELS
from mmvtr.storage.weights import read_checkpoint

CLIP = dict(
    embed_dim=16,
    vision_cfg=dict(layers=2, width=16, head_width=8, patch_size=8, image_size=16),
    text_cfg=dict(context_length=8, vocab_size=20, width=16, heads=2, layers=3),
)
MODEL = dict(
    type='mmvtr.VideoTextRetriever',
    encoder=dict(
        type='mmvtr.CLIP2Video',
        frames=dict(type='mmvtr.OpenCLIPFrames', model=CLIP),
        text=dict(type='mmvtr.OpenCLIPText', model=CLIP),
        temporal_layers=1,
        max_frames=4,
    ),
    similarity=dict(type='mmvtr.CosineSimilarity', levels=('global', 'aligned')),
    heads=dict(type='mmvtr.HierarchicalGaussianHead'),
    supervision=dict(type='mmvtr.DVTRSupervision', num_samples=7),
    losses=dict(contrastive=dict(type='mmvtr.ContrastiveLoss', reads=('global', 'aligned'))),
)
#: Shares of a batch of 4 videos, each with a text of its own.
SHARES = slice(0, 2), slice(2, 4)
CASES = {
    'whole': {},
    'parts': dict(micro_batch=1),
    'bf16': {},
    'parts in bf16': dict(micro_batch=1),
}


def batch(part=slice(None)):
    draw = torch.Generator().manual_seed(3)
    ids = [str(i) for i in range(4)]
    inputs = dict(
        video=torch.randn(4, 3, 3, 16, 16, generator=draw),
        frame_mask=torch.ones(4, 3, dtype=torch.bool),
        text=torch.randint(1, 19, (4, 8), generator=draw),
        text_mask=torch.ones(4, 8, dtype=torch.bool),
    )
    index = torch.arange(4)[part]
    samples = dict(
        video_idx=index,
        text_idx=index,
        text_videos=index[:, None],
        text_ids=ids[part],
        video_ids=ids[part],
    )
    return {name: x[part] for name, x in inputs.items()}, samples


def make_model(**options):
    torch.manual_seed(0)
    return MODELS.build({**copy.deepcopy(MODEL), **options}).train()


def wrapper_of(model, name):
    kind = AutocastOptimWrapper if 'bf16' in name else OptimWrapper
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, eps=1e-4)
    wrapper = kind(optimizer=optimizer, clip_grad=dict(max_norm=1.0))
    adapt_optimizer(wrapper)
    return wrapper


def two_steps(model, name, part=slice(None)):
    """Loss and score matrix of a step, gradients, and the weights after two steps."""
    bare = getattr(model, 'module', model)
    found, wrapper = {}, wrapper_of(model, name)
    seen = []
    hook = bare.similarity.register_forward_hook(lambda *call: seen.append(call[2]['scores']))
    for _ in range(2):
        torch.manual_seed(5)
        with wrapper.optim_context(model):
            losses = model(inputs=batch(part)[0], data_samples=batch(part)[1], mode='loss')
        loss, _ = bare.parse_losses(losses)
        loss.backward()
        if 'loss' not in found:
            found['loss'], found['scores'] = loss.detach(), seen[-1].detach().float()
            found['norm'] = clip_grad_norm(bare.parameters(), 1e9)  # clips nothing
            found['grads'] = {
                n: whole(p.grad).clone() for n, p in bare.named_parameters() if p.grad is not None
            }
        wrapper.step()
        wrapper.zero_grad()
    hook.remove()
    found['state'], found['optimizer'] = bare.state_dict(), wrapper.optimizer.state_dict()
    return found


def whole(x):
    return x.full_tensor() if is_sharded(x) else x


def worker(rank, folder):
    dist.init_process_group('gloo', init_method=f'file://{folder}/store', rank=rank, world_size=2)
    try:
        results = {}
        for name, options in CASES.items():
            model = make_model(**options)
            with torch.no_grad():  # rank 0 has the weights
                for weight in model.parameters():
                    weight += rank
            model = FullyShardedRetriever(model, min_parameters=1)
            results[name] = two_steps(model, name, SHARES[rank])
            local = sum(p.to_local().numel() for p in model.parameters() if is_sharded(p))
            results[name]['held'] = local / sum(
                p.numel() for p in model.parameters() if is_sharded(p)
            )
        results['went on'] = went_on(results['whole'], rank)
        results['evaluated'] = evaluated(model, rank)
        results['counts'] = {case: answer(model, rank, *case) for case in COUNTS}
        results['loss scaling'] = with_loss_scaling(model)
        torch.save(results, f'{folder}/rank{rank}.pt')
        dist.barrier()
    finally:
        dist.destroy_process_group()


def went_on(found, rank):
    """The weights of two steps more after a load of weights and optimizer."""
    model = FullyShardedRetriever(make_model(), min_parameters=1)
    model.module.load_state_dict(found['state'])
    wrapper = wrapper_of(model, 'whole')
    wrapper.load_state_dict(copy.deepcopy(found['optimizer']))
    return continued(model, wrapper, SHARES[rank])


def continued(model, wrapper, part):
    torch.manual_seed(5)
    losses = model(inputs=batch(part)[0], data_samples=batch(part)[1], mode='loss')
    bare = getattr(model, 'module', model)
    wrapper.update_params(bare.parse_losses(losses)[0])
    return bare.state_dict()


def evaluated(model, rank):
    """Process 1 encodes twice as often as process 0."""
    model.module.load_state_dict(make_model().state_dict())
    with whole_layers(model), torch.no_grad():
        for _ in range(rank + 1):
            levels = model.module.eval().encode_video(batch()[0])
    return levels['global'].mean


#: Items of the two processes and ``micro_batch`` -> whether both encode in as many parts.
COUNTS = {
    (2, 1, None): True,
    (2, 1, 2): True,
    (2, 1, 1): False,
    (3, 4, 2): True,
    (4, 2, 3): False,
    (2, 0, None): False,
    (0, 0, None): False,
}


def answer(model, rank, zero, one, size):
    """What the wrapper says to a batch before anything is encoded."""
    model.module.micro_batch = size
    items = torch.zeros((zero, one)[rank], 1)
    try:
        with patch.object(MMDistributedDataParallel, 'forward', lambda *_, **__: 'accepted'):
            return model(inputs=dict(text=items, video=items))
    except ValueError as error:
        return str(error)


def with_loss_scaling(model):
    """What is said to float16 on a GPU, whose wrapper scales the loss."""
    wrapper = OptimWrapper(optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    wrapper.loss_scaler = None
    try:
        adapt_optimizer(wrapper)
    except ValueError as error:
        return str(error)
    return ''


@pytest.fixture(scope='module')
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp('sharded')
    mp.start_processes(worker, (folder,), nprocs=2, start_method='forkserver')
    return [torch.load(folder / f'rank{rank}.pt') for rank in range(2)]


@pytest.mark.parametrize('name', CASES)
def test_two_processes_equal_one(found, name):
    expected = two_steps(make_model(**CASES[name]), name)
    near = dict(rtol=1e-5, atol=1e-5)
    if 'bf16' in name:
        near = dict(rtol=2e-2, atol=2e-2)
    largest = max(float(grad.abs().max()) for grad in expected['grads'].values())
    for results in found:
        assert results[name]['held'] < 0.6
        torch.testing.assert_close(results[name]['loss'], expected['loss'], **near)
        torch.testing.assert_close(results[name]['scores'], expected['scores'], **near)
        torch.testing.assert_close(results[name]['norm'], expected['norm'], **near)
        assert results[name]['grads'].keys() == expected['grads'].keys()
        for key, grad in expected['grads'].items():
            gap = (results[name]['grads'][key] - grad).abs().max()
            assert gap <= near['atol'] * largest, key


def test_a_training_goes_on_from_a_checkpoint_on_one_process(found):
    stored = found[0]['whole']
    model = make_model()
    model.load_state_dict(stored['state'])
    wrapper = wrapper_of(model, 'whole')
    wrapper.load_state_dict(stored['optimizer'])
    expected = continued(model, wrapper, slice(None))
    for results in found:
        for key, x in expected.items():
            torch.testing.assert_close(results['went on'][key], x, rtol=1e-4, atol=1e-5, msg=key)
    assert any(not torch.equal(x, stored['state'][key]) for key, x in expected.items())


def test_processes_may_evaluate_different_numbers_of_batches(found):
    expected = make_model().eval().encode_video(batch()[0])['global'].mean
    for results in found:
        torch.testing.assert_close(results['evaluated'], expected.detach())


@pytest.mark.parametrize('case', COUNTS)
def test_processes_encode_in_as_many_parts(found, case):
    for results in found:
        said = results['counts'][case]
        assert said == 'accepted' if COUNTS[case] else 'micro_batch cuts' in said


def test_float16_is_refused(found):
    assert all('take --amp bf16' in results['loss scaling'] for results in found)


def test_small_layers_are_not_cut():
    assert len(layers_of(make_model(), 1)) == 2 + 3
    with pytest.raises(ValueError, match='no layer of an encoder .* has min_parameters=1048576'):
        FullyShardedRetriever(make_model())


CONFIG = """
_base_ = 'mmvtr::_base_/../clip4clip_planted.py'
corpus = dict(num_train=12, num_val=8, num_test=8)
loader = dict(num_workers=0, persistent_workers=False)
train_dataloader = dict(batch_size=6, dataset=corpus, **loader)
val_dataloader = dict(dataset=corpus, **loader)
test_dataloader = dict(dataset=corpus, **loader)
train_cfg = dict(max_epochs=1, val_interval=1)
auto_scale_lr = dict(base_batch_size=12)
param_scheduler = [dict(type='WarmupCosineLR', warmup=0.25, by_epoch=False)]
model_wrapper_cfg = dict(type='FullyShardedRetriever', min_parameters=1000)
optim_wrapper = dict(clip_grad=dict(max_norm=1.0))
"""


@pytest.mark.nightly
def test_a_config_trains_goes_on_and_is_tested_by_the_tools(tmp_path):
    """Two processes train and go on; one tests what they have written."""
    (tmp_path / 'sharded.py').write_text(CONFIG)
    tools = str(ROOT / 'tools')
    for epochs in (1, 3):
        done = subprocess.run(
            [
                *(sys.executable, '-m', 'torch.distributed.run', '--nproc_per_node=2'),
                *(f'--master_port={free_port()}', f'{tools}/train.py', 'sharded.py'),
                *('--launcher', 'pytorch', '--amp', 'bf16', '--resume', '--cfg-options'),
                *('model.micro_batch=2', f'train_cfg.max_epochs={epochs}'),
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    path = 'work_dirs/sharded/epoch_3.pth'
    weights = read_checkpoint(tmp_path / path)['state_dict']
    assert not any(map(is_sharded, weights.values()))
    code, printed = run_tool(tmp_path, 'test.py', 'sharded.py', path)
    assert code == 0 and 'results on test' in printed
