"""Encoding in parts: loss and gradients of the whole batch, whatever the encoder."""

from pathlib import Path

import pytest
import torch
from mmengine.config import Config
from mmengine.optim import OptimWrapper
from mmengine.registry import init_default_scope
from mmengine.runner import Runner
from torch import nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

from children import config_file
from mmvtr.models import gradient_cache
from mmvtr.models.backdoor import BackdoorRetriever
from mmvtr.models.retriever import VideoTextRetriever
from mmvtr.models.supervisions.arl import ARLSupervision
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding
from simulation.simulated import simulate
from simulation.simulated_model import NARROW

CONFIGS = Path(__file__).resolve().parents[2] / 'configs'

#: One of each kind of encoder, head, supervision, objective and loss.
KINDS = [
    *('arl_tvr_clip', 'dvtr_c2v_msrvtt'),
    *(
        pytest.param(name, marks=pytest.mark.nightly)
        for name in (
            *('causal_hgr_msrvtt_ranp', 'ncl_clip4clip_msrvtt', 'uatvr_vitb16_msrvtt'),
            *(
                'clip4clip_msrvtt_seqtransf',
                'uatvr_vitb16_msrvtt_dua_soft',
                'dvtr_c2v_msrvtt_full_pcme',
            ),
            *('egonce_clip_epic', 'gmmformer_tvr_i3d', 'mmt_msrvtt', 'mssl_charades_i3d'),
            *('ncl_ssb_msrvtt', 'uatvr_vitb16_msrvtt_official'),
        )
    ),
]


class Case:
    """A config's model in float64 on simulated towers, and a batch of 7 items."""

    def __init__(self, name):
        init_default_scope('mmvtr')
        cfg, _ = simulate(Config.fromfile(config_file(name)), NARROW)
        loader = cfg.train_dataloader
        loader.batch_size, loader.num_workers = 7, 0
        loader.pop('persistent_workers', None)
        torch.manual_seed(0)
        self.model = MODELS.build(cfg.model).double().train()
        batch = next(iter(Runner.build_dataloader(loader, seed=0)))
        self.batch = doubled(self.model.data_preprocessor(batch, True))
        for module in self.model.modules():
            if isinstance(module, ARLSupervision):  # past its warm-up: with ambiguous sets
                module.ready.fill_(True)
                module.progress = 1.0
        self.members = [m for m in self.model.modules() if isinstance(m, VideoTextRetriever)]

    def without_dropout(self):
        for module in self.model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
            if isinstance(module, (nn.MultiheadAttention, nn.GRU)):
                module.dropout = 0.0
            for name in ('dropout', 'attention_dropout', 'dropout_rate'):
                if isinstance(getattr(module, name, None), float):
                    setattr(module, name, 0.0)

    def step(self, micro_batch):
        """Losses, gradients and buffers of one step from the same state."""
        before = {name: x.clone() for name, x in self.model.state_dict().items()}
        for member in self.members:
            member.micro_batch = micro_batch
        self.model.zero_grad(set_to_none=True)
        torch.manual_seed(1)
        losses = self.model(**self.batch, mode='loss')
        sum(value for key, value in losses.items() if 'loss' in key).backward()
        grads = {n: p.grad for n, p in self.model.named_parameters() if p.grad is not None}
        buffers = {name: x.clone() for name, x in self.model.named_buffers()}
        self.model.load_state_dict(before)
        return {key: value.detach() for key, value in losses.items()}, grads, buffers


def doubled(value):
    """float32 tensors of nested dicts and lists as float64."""
    if isinstance(value, dict):
        return {key: doubled(x) for key, x in value.items()}
    if isinstance(value, torch.Tensor) and value.dtype == torch.float32:
        return value.double()
    return value


def same(one, other):
    """Losses, gradients and buffers agree to 1e-10 of their largest entry.

    Of a gradient that is zero but for rounding, to that of the whole model's a thousandth.
    """
    largest = max(float(x.abs().max()) for x in other[1].values() if x.numel())
    assert largest > 0
    for mine, theirs in zip(one, other):
        assert mine.keys() == theirs.keys()
        for name, x in mine.items():
            x, y = x.double(), theirs[name].double()
            scale = float(y.abs().max()) if y.numel() else 0.0
            assert torch.allclose(x, y, rtol=0, atol=1e-10 * max(scale, largest / 1e3)), name


@pytest.mark.parametrize('name', KINDS)
def test_loss_and_gradients_are_those_of_the_whole_batch(name, monkeypatch):
    case = Case(name)
    called = []
    monkeypatch.setattr(
        gradient_cache, 'checkpoint', lambda *a, **kw: called.append(0) or checkpoint(*a, **kw)
    )
    parts = case.step(3)
    assert len(called) >= 4  # 7 texts and 7 videos, three parts each; one environment has fewer
    # The same parts with a graph and one backward: equal, also where random numbers are drawn.
    monkeypatch.setattr(gradient_cache, 'checkpoint', lambda f, x, use_reentrant: f(x))
    same(parts, case.step(3))
    monkeypatch.undo()
    case.without_dropout()
    same(case.step(3), case.step(None))


def test_a_training_ends_with_the_same_weights():
    ends = []
    for size in (None, 2):
        case = Case('dvtr_c2v_msrvtt')
        case.without_dropout()
        case.model.micro_batch = size
        optimizer = torch.optim.AdamW(case.model.parameters(), lr=1e-3)
        for _ in range(4):
            optimizer.zero_grad()
            losses = case.model(**case.batch, mode='loss')
            sum(value for key, value in losses.items() if 'loss' in key).backward()
            optimizer.step()
        assert int(case.model.supervision.step) == 4
        ends.append(case.model.state_dict())
    for name, x in ends[0].items():
        torch.testing.assert_close(ends[1][name], x, rtol=0, atol=1e-9)


class Linear(nn.Module):
    """Items that are one linear map."""

    dim = 8

    def __init__(self):
        super().__init__()
        self.video, self.text = nn.Linear(8, 8), nn.Linear(8, 8)

    def encode_video(self, video, frame_mask):
        return {'global': Embedding(self.video(video.mean(1)))}

    def encode_text(self, text, text_mask):
        return {'global': Embedding(self.text(text.mean(1)))}


def retriever(encoder, **kwargs):
    torch.manual_seed(0)
    losses = dict(nce=dict(type='mmvtr.ContrastiveLoss'))
    similarity = dict(type='mmvtr.CosineSimilarity')
    return VideoTextRetriever(encoder=encoder, similarity=similarity, losses=losses, **kwargs)


def batch_of(count):
    generator = torch.Generator().manual_seed(3)
    video, text = torch.randn(2, count, 4, 8, generator=generator)
    mask = torch.ones(count, 4, dtype=torch.bool)
    index = torch.arange(count)
    names = [str(i) for i in range(count)]
    return dict(
        inputs=dict(video=video, frame_mask=mask, text=text, text_mask=mask),
        data_samples=dict(
            video_idx=index,
            text_idx=index,
            text_videos=index[:, None],
            text_ids=names,
            video_ids=names,
        ),
    )


def gradients(model, batch, scale=1.0):
    model.zero_grad(set_to_none=True)
    with torch.autocast('cpu', torch.bfloat16):
        loss = model(**batch, mode='loss')['loss_nce']
    (scale * loss).backward()
    return torch.cat([p.grad.flatten() / scale for p in model.parameters() if p.grad is not None])


def test_under_autocast_gradients_of_parts_are_summed_in_full_precision():
    batch = batch_of(256)
    exact = retriever(Linear()).double()
    wide = {
        name: x.double() if x.dtype == torch.float32 else x for name, x in batch['inputs'].items()
    }
    exact(wide, batch['data_samples'], mode='loss')['loss_nce'].backward()
    exact = torch.cat([p.grad.flatten() for p in exact.parameters() if p.grad is not None]).float()
    whole = gradients(retriever(Linear()), batch)
    parts = gradients(retriever(Linear(), micro_batch=4), batch)
    assert parts.dtype == torch.float32
    assert (parts - exact).norm() <= 1.1 * (whole - exact).norm()
    scaled = gradients(retriever(Linear(), micro_batch=4), batch, scale=2.0**10)
    torch.testing.assert_close(scaled, parts, rtol=1e-3, atol=1e-6)


def test_accumulated_batches():
    def trained(size):
        model = retriever(Linear(), micro_batch=size).double()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        wrapper = OptimWrapper(optimizer, accumulative_counts=2)
        wrapper.initialize_count_status(model, 0, 4)
        for count in (7, 5, 6, 8):
            batch = doubled(batch_of(count))
            with wrapper.optim_context(model):
                loss = model(**batch, mode='loss')['loss_nce']
            wrapper.update_params(loss)
        return model.state_dict()

    start, whole, parts = retriever(Linear()).double().state_dict(), trained(None), trained(2)
    for name, x in whole.items():
        torch.testing.assert_close(parts[name], x, rtol=0, atol=1e-12)
    assert not torch.equal(whole['encoder.video.weight'], start['encoder.video.weight'])


def test_batch_statistics_and_counting_buffers_are_refused():
    class Normed(Linear):
        def __init__(self):
            super().__init__()
            self.video = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))

    batch = batch_of(6)
    model = retriever(Normed(), micro_batch=2)
    with pytest.raises(ValueError, match="BatchNorm1d 'encoder.video.1' would normalise"):
        model.train()(**batch, mode='loss')
    model.encoder.video[1].eval()
    model(**batch, mode='loss')

    class Counting(Linear):
        def __init__(self):
            super().__init__()
            self.register_buffer('calls', torch.zeros(()))

        def encode_text(self, text, text_mask):
            self.calls += 1
            return super().encode_text(text, text_mask)

    with pytest.raises(ValueError, match="changes the buffer 'encoder.calls'"):
        retriever(Counting(), micro_batch=2)(**batch, mode='loss')
    with pytest.raises(ValueError, match='micro_batch must be at least 1, not 0'):
        retriever(Linear(), micro_batch=0)


def test_members_take_it_from_the_whole():
    def member(**kwargs):
        return retriever(Linear(), **kwargs)

    both = BackdoorRetriever(members=[member(micro_batch=3), member()])
    assert [m.micro_batch for m in both.members] == [3, None]
    nested = BackdoorRetriever(
        members=[BackdoorRetriever(members=[member()])], micro_batch=2, block_rows=7
    )
    assert (nested.members[0].members[0].micro_batch, nested.block_rows) == (2, 7)
    batch = batch_of(4)
    batch['data_samples']['environment'] = torch.zeros(4, dtype=torch.long)
    losses = nested.train()(**batch, mode='loss')
    nested.block_rows = nested.micro_batch = None
    torch.testing.assert_close(nested(**batch, mode='loss'), losses)


@pytest.mark.nightly
def test_peak_memory_falls_with_the_part():
    torch.manual_seed(0)
    cfg = Config.fromfile(CONFIGS / 'dvtr_c2v_planted.py')
    init_default_scope('mmvtr')
    model = MODELS.build(cfg.model).train()
    batch = batch_of(32)
    inputs = dict(
        video=torch.randn(32, 6, 3, 64, 64),
        frame_mask=torch.ones(32, 6, dtype=torch.bool),
        text=torch.randint(1, 40, (32, 8)),
        text_mask=torch.ones(32, 8, dtype=torch.bool),
    )

    def step(size):
        model.micro_batch = size
        losses = model(inputs, batch['data_samples'], mode='loss')
        sum(value for key, value in losses.items() if 'loss' in key).backward()

    step(2)  # gradients are there
    whole, parts = (peak_memory(lambda size=size: step(size)) for size in (None, 2))
    assert parts < 0.15 * whole, f'{parts / 2**20:.1f} of {whole / 2**20:.1f} MiB'


def peak_memory(call):
    """Bytes that torch allocates at most during ``call()``, above those held before."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        call()
    events = [e for e in record.profiler.kineto_results.events() if e.name() == '[memory]']
    held = torch.tensor([e.nbytes() for e in sorted(events, key=lambda e: e.start_ns())])
    return int(held.cumsum(0).max())
