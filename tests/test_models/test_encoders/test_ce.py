"""CE and MoEE as encoders: what they read, what they refuse, and that they train."""

import math

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from mmengine.config import Config
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import children  # noqa: F401 - the server that forks the processes has imported all
from children import ROOT
from mmvtr.models import CEEncoder, VideoTextRetriever
from mmvtr.models.similarities.mmt import ExpertSimilarity
from mmvtr.registry import MODELS

WIDTHS = dict(motion=5, audio=3, speech=2)  # by name: audio 0, motion 1, speech 2
T, V, E, D, WORDS = 4, 5, 3, 6, 7
MODELS_OF = {
    'ce': dict(),
    'official': dict(sequential=True, padded=dict(text=5, audio=3, speech=4)),
    'triplet': dict(gating='triplet', include_self=False, g_layers=1, h_layers=1),
    'star': dict(gating='pairwise-star-tensor'),
    'moee': dict(gating=None, dim=None),
}
KINDS = pytest.mark.parametrize('kind', MODELS_OF)


def encoder(kind='ce', seed=0, **settings):
    torch.manual_seed(seed)
    model = CEEncoder(
        **{
            **dict(
                text=dict(type='FeatureWords', in_dim=WORDS),
                experts=WIDTHS,
                clusters=dict(audio=2, speech=3),
                text_clusters=3,
                text_ghosts=1,
                dim=D,
            ),
            **MODELS_OF[kind],
            **settings,
        }
    )
    for name, x in model.state_dict().items():  # also what starts at zero or one
        if x.is_floating_point():
            x.copy_(torch.rand_like(x) + 0.5 if 'running_var' in name else torch.randn_like(x))
    return model.double()


def rows_of(videos, junk=0.0, spare=2):
    """Inputs of ``encode_video`` from lists of (expert, its rows [n, w]), one below the other."""
    video = [[(e, row) for e, rows in own for row in rows] for own in videos]
    longest = max(map(len, video))
    widest = max(len(row) for own in video for _, row in own)
    shape = len(video), longest, widest
    inputs = dict(
        video=torch.full(shape, junk, dtype=video[0][0][1].dtype),
        frame_mask=torch.zeros(shape[:2], dtype=torch.bool),
        expert=torch.full((len(video), longest + spare), -1),
        second=torch.full((len(video), longest + spare), -1),
    )
    for v, own in enumerate(video):
        for f, (e, row) in enumerate(own):
            inputs['video'][v, f, : len(row)] = row
            inputs['frame_mask'][v, f], inputs['expert'][v, f] = True, e
    return inputs


def lists(seed=1):
    """Experts 0 (audio), 1 (motion) and 2 (speech) of each video."""
    torch.manual_seed(seed)
    counts = [{0: 2, 1: 3, 2: 4}, {1: 1}, {0: 3, 2: 2}, {0: 1, 1: 2}, {1: 2, 2: 1}]
    width = [w for _, w in sorted(WIDTHS.items())]
    return [[(e, torch.randn(n, width[e]).double()) for e, n in c.items()] for c in counts]


THERE = torch.tensor([[1, 1, 1], [0, 1, 0], [1, 0, 1], [1, 1, 0], [0, 1, 1]]).bool()


def texts(seed=2, junk=0.0):
    torch.manual_seed(seed)
    mask = torch.arange(5) < torch.tensor([5, 1, 3, 2])[:, None]
    return torch.randn(T, 5, WORDS).double().masked_fill(~mask[..., None], junk), mask


# -- what is read ------------------------------------------------------------------------------


@KINDS
@torch.no_grad()
def test_items_by_hand(kind):
    """One video and one text at a time, from the layers alone (tested by themselves)."""
    model, inputs = encoder(kind).eval(), rows_of(lists(), junk=math.nan)
    found = model.encode_video(**inputs)['global']
    assert torch.equal(found.mask, THERE)
    padded = MODELS_OF[kind].get('padded', {})

    def pooled(pool, rows, length):
        rows = nn.functional.pad(rows, (0, 0, 0, length - len(rows) if length else 0))
        return pool(rows[None], torch.ones(1, len(rows), dtype=torch.bool))

    width = [w for _, w in sorted(WIDTHS.items())]
    for v, own in enumerate(lists()):
        own, vectors = dict(own), []
        for e, name in enumerate(sorted(WIDTHS)):
            x = own.get(e, torch.zeros(0 if name in padded else 1, width[e]).double())
            x = pooled(model.pools[e], x, padded.get(name)) if e != 1 else x.mean(0, keepdim=True)
            vectors.append(model.project[e](x))
        if kind != 'moee':
            vectors = model.gating(torch.stack(vectors), THERE[v][:, None])
        for e in range(E):
            row = torch.zeros(model.dim).double()
            if THERE[v, e]:
                row[: vectors[e].shape[1]] = vectors[e][0]
            torch.testing.assert_close(found.tokens[v, e], row, rtol=1e-9, atol=1e-9)
    words, mask = texts(junk=0.0 if padded else math.nan)
    text = model.encode_text(words, mask)['global']
    for t in range(T):
        x = pooled(model.text_pool, words[t][mask[t]], padded.get('text'))
        weights = model.weigh(x)[0].softmax(0)
        for e in range(E):
            row = torch.zeros(model.dim).double()
            phrase = model.phrases[e](x)[0]
            row[: len(phrase)] = weights[e] * phrase
            torch.testing.assert_close(text.tokens[t, e], row, rtol=1e-9, atol=1e-9)


@torch.no_grad()
def test_padding_and_missing_experts_count_nowhere():
    """Neither rows behind the last nor what a missing expert's layers would say, in training."""
    model = encoder().train()
    state = {name: x.clone() for name, x in model.state_dict().items()}
    expected = model.encode_video(**rows_of(lists()))['global'].tokens
    after = {name: x.clone() for name, x in model.state_dict().items()}
    model.load_state_dict(state)
    more = rows_of(lists(), junk=math.nan)
    for key in ('video', 'frame_mask'):
        x = more[key]
        more[key] = torch.cat([x, torch.zeros_like(x[:, :1])], 1)
    torch.testing.assert_close(model.encode_video(**more)['global'].tokens, expected)
    torch.testing.assert_close(model.state_dict(), after)
    # In the released code's way they count: other statistics, other vectors.
    official = encoder('official', sequential=False).train()
    official.load_state_dict(state)
    found = official.encode_video(**rows_of(lists()))['global'].tokens
    assert (found - expected).abs().max() > 1e-3


@torch.no_grad()
def test_an_expert_that_a_whole_batch_lacks():
    model = encoder().train()
    found = model.encode_video(**rows_of([own[:1] for own in lists()[1:2] * 3]))['global']
    assert found.tokens.isfinite().all() and found.mask.tolist() == [[False, True, False]] * 3
    assert model.pools[0].norm.num_batches_tracked == 0
    assert model.gating.gates[0].norm_own.num_batches_tracked == 0
    assert model.gating.gates[1].norm_own.num_batches_tracked == 1


def test_names_may_hold_dots_and_their_order_is_the_alphabet():
    experts = {'r2p1d.r2p1d-ig65m.0': 5, 'audio': 3}
    model = CEEncoder(
        dict(type='FeatureWords', in_dim=3),
        experts=experts,
        clusters=dict(audio=2),
        text_clusters=2,
    )
    assert list(model.experts) == ['audio', 'r2p1d.r2p1d-ig65m.0']
    assert model.pools[0].dim == 6 and model.pools[1].dim == 5


# -- training ----------------------------------------------------------------------------------


def retriever(kind='ce', **settings):
    return VideoTextRetriever(
        encoder=encoder(kind),
        similarity=ExpertSimilarity(),
        losses=dict(ranking=dict(type='RankingLoss', margin=0.3)),
        **settings,
    ).double()


def batch(videos=slice(None), own=slice(None)):
    """Texts ``own`` and videos of a joint batch of 4 and 5; text t describes video t."""
    words, mask = texts()
    inputs = rows_of(lists())
    sides = dict(text=words[own], text_mask=mask[own])
    if len(inputs['video'][videos]):
        sides.update(video=inputs['video'][videos], frame_mask=inputs['frame_mask'][videos])
        sides.update({f'video_{k}': inputs[k][videos] for k in ('expert', 'second')})
    if not len(sides['text']):
        del sides['text'], sides['text_mask']
    numbers = torch.arange(5)
    samples = dict(
        text_idx=numbers[:T][own],
        video_idx=numbers[videos],
        text_videos=numbers[:T, None][own],
        video_ids=[str(i) for i in numbers[videos].tolist()],
        text_ids=[str(i) for i in numbers[:T][own].tolist()],
    )
    return sides, samples


@KINDS
def test_a_retriever_trains_on_random_rows(kind):
    model = retriever(kind).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(40):
        losses.append(model(*batch(), mode='loss')['loss_ranking'])
        optimizer.zero_grad()
        losses[-1].backward()
        optimizer.step()
    assert losses[-1] < 0.3 * losses[0] and losses[0] > 0.05
    trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
    assert all(p.grad is not None for p in trained.values())


def test_micro_batch_is_refused():
    model = retriever(micro_batch=2).train()
    with pytest.raises(ValueError, match="JointBatchNorm1d 'encoder.* would normalise by the stat"):
        model(*batch(), mode='loss')
    model.eval()(*batch(), mode='loss')  # fixed statistics: nothing depends on the batch


def step(model, joint):
    """Losses, gradients and buffers of a training step, after which all is as before."""
    module = getattr(model, 'module', model)
    before = {name: x.clone() for name, x in module.state_dict().items()}
    model.zero_grad(set_to_none=True)
    losses = model(*joint, mode='loss')
    losses['loss_ranking'].backward()
    buffers = {name: x.clone() for name, x in module.named_buffers()}
    grads = {name: p.grad for name, p in module.named_parameters()}
    module.load_state_dict(before)
    return losses['loss_ranking'].detach(), grads, buffers


SPLITS = {
    'unequal': [(slice(0, 2), slice(0, 1)), (slice(2, 5), slice(1, 4))],
    'no_video': [(slice(0, 0), slice(0, 3)), (slice(0, 5), slice(3, 4))],
    'nothing': [(slice(0, 5), slice(0, 4)), (slice(5, 5), slice(4, 4))],
}
JOINED = ('ce', 'official', 'triplet', 'moee')


def worker(rank, folder):
    dist.init_process_group('gloo', init_method=f'file://{folder}/store', rank=rank, world_size=2)
    try:
        found = {}
        for kind in JOINED:
            model = DistributedDataParallel(retriever(kind).train())
            found[kind] = {name: step(model, batch(*split[rank])) for name, split in SPLITS.items()}
        torch.save(found, f'{folder}/rank{rank}.pt')
        dist.barrier()
    finally:
        dist.destroy_process_group()


def test_two_processes_equal_one(tmp_path):
    """Losses, gradients and running statistics, with unequal shares and with empty ones."""
    mp.start_processes(worker, (tmp_path,), nprocs=2, start_method='forkserver')
    found = [torch.load(tmp_path / f'rank{rank}.pt') for rank in (0, 1)]
    for kind in JOINED:
        loss, grads, buffers = step(retriever(kind).train(), batch())
        moved = [name for name, x in buffers.items() if name.endswith('num_batches_tracked') and x]
        assert len(moved) > 5 and loss > 0.01
        for name in SPLITS:
            for rank in (0, 1):
                mine = found[rank][kind][name]
                torch.testing.assert_close(mine[0], loss, msg=f'{kind} {name}')
                for key, grad in grads.items():
                    torch.testing.assert_close(mine[1][key], grad, rtol=1e-7, atol=1e-9, msg=key)
                for key, buffer in buffers.items():
                    torch.testing.assert_close(mine[2][key], buffer, msg=f'{kind} {name} {key}')


def test_no_items_have_levels_and_gradients():
    model = encoder().train()
    similarity = ExpertSimilarity()
    text, video = model.encode_nothing('text'), model.encode_nothing('video')
    assert similarity(text, model.encode_video(**rows_of(lists())))['scores'].shape == (0, V)
    scores = similarity(model.encode_text(*texts()), video)['scores']
    assert scores.shape == (T, 0)
    (scores.sum() + text['global'].tokens.sum()).backward()
    assert all(p.grad is not None and (p.grad == 0).all() for p in model.parameters())


def test_words_that_are_trained_take_part_without_texts():
    words = dict(type='WordVectors', words=9, dim=WORDS)
    model = encoder(text=words).train()
    model.encode_nothing('text')['global'].tokens.sum().backward()
    assert (model.text.table.weight.grad == 0).all()


def test_bfloat16():
    model, inputs = encoder().float().eval(), rows_of(lists())
    inputs['video'] = inputs['video'].float()
    expected = model.encode_video(**inputs)['global'].tokens
    with torch.autocast('cpu', torch.bfloat16):
        found = model.encode_video(**inputs)['global'].tokens
        text = model.encode_text(texts()[0].float(), texts()[1])['global'].tokens
    assert found.dtype == text.dtype == torch.float32
    torch.testing.assert_close(found, expected, atol=0.1, rtol=0)


# -- bad input ---------------------------------------------------------------------------------


def test_videos_that_are_refused():
    model, inputs = encoder(), rows_of(lists())
    with pytest.raises(ValueError, match=r'CEEncoder takes rows \[V, F, 5\], as wide as .* 4\]'):
        model.encode_video(**{**inputs, 'video': inputs['video'][..., :4]})
    for tag in (3, -1):
        tags = inputs['expert'].clone()
        tags[1, 0] = tag
        with pytest.raises(ValueError, match=f'expert {tag}, but CEEncoder knows 0 to 2'):
            model.encode_video(**{**inputs, 'expert': tags})
    mask = inputs['frame_mask'].clone()
    mask[1] = False
    with pytest.raises(ValueError, match='frame_mask of item 1 of the batch is all False'):
        model.encode_video(**{**inputs, 'frame_mask': mask})
    short = encoder('official', padded=dict(text=5, audio=2, speech=4))
    with pytest.raises(ValueError, match="3 rows of expert 'audio', but padded says 2: cut them"):
        short.encode_video(**inputs)


def test_texts_that_are_refused():
    words, mask = texts()
    mask[2] = False
    with pytest.raises(ValueError, match='text_mask of item 2 of the batch is all False'):
        encoder().encode_text(words, mask)
    short = encoder('official', padded=dict(text=4, audio=3, speech=4))
    with pytest.raises(ValueError, match='5 words, but padded says 4: cut them in the pipeline'):
        short.encode_text(*texts())


@pytest.mark.parametrize(
    'settings, message',
    [
        (dict(experts={}, clusters={}), 'needs an expert'),
        (dict(clusters=dict(ocr=3)), r"clusters of \['ocr'\], which are none of the experts"),
        (dict(padded=dict(text=5)), r"for \['audio', 'speech', 'text'\], .* got {'text': 5}"),
        (dict(padded=dict(text=5, audio=0, speech=1)), 'padded must have rows, at least 1'),
        (dict(gating=None), "MoEE has neither gating nor dim, CE has both; got gating=None and"),
        (dict(dim=None), "got gating='pairwise' and dim=None"),
    ],
)  # fmt: skip
def test_settings_that_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        encoder(**settings)


def test_the_config_is_that_of_msrvtt():
    cfg = Config.fromfile(ROOT / 'configs/_base_/ce.py')
    cfg.model.encoder.update(dim=8, text=dict(type='FeatureWords', in_dim=4))
    cfg.model.encoder.experts = dict.fromkeys(cfg.model.encoder.experts, 3)
    model = MODELS.build(cfg.model)
    pools = {n: p.dim // 3 for n, p in zip(model.encoder.experts, model.encoder.pools)}
    assert len(pools) == 9 and (pools['ocr'], pools['audio'], pools['speech']) == (43, 8, 19)
    assert model.encoder.text_pool.clusters.shape == (4, 29)
    assert model.losses['ranking'].margin == 0.0938
