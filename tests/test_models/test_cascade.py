"""TACo's three losses and three scores against loops over pairs, and two processes against one."""

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import children  # noqa: F401 - the server that forks the processes has imported all
from mmvtr.functional import hard_negatives
from mmvtr.models import (
    CascadeRetriever,
    CascadeSimilarity,
    ContrastiveLoss,
    CosineSimilarity,
    TACoEncoder,
    Temperature,
    TokenContrast,
)
from mmvtr.structures import take

D, V, T = 8, 5, 7
WIDTHS = dict(audio=3, motion=5)
CLOSE = dict(rtol=1e-9, atol=1e-9)


class Words(nn.Module):
    dim = 6

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(20, self.dim)

    def forward(self, ids, mask):
        return self.table(ids), None


def similarity(**kwargs):
    return CascadeSimilarity(dim=D, heads=2, feedforward=12, positions=6, **kwargs)


def make_model(dropout=0.0, **kwargs):
    torch.manual_seed(0)
    small = dict(heads=2, feedforward=12, dropout=dropout)
    model = CascadeRetriever(
        encoder=TACoEncoder(Words(), experts=WIDTHS, dim=D, max_seconds=6, **small),
        similarity=similarity(dropout=dropout, pairs=4),
        temperature=Temperature(init=1.0),
        losses=dict(
            vectors=ContrastiveLoss(reads=('global',), direction='t2v'),
            fusion=ContrastiveLoss(reads=('fusion',), direction='t2v'),
        ),
        objectives=dict(tokens=TokenContrast(loss_weight=0.5)),
        negatives=1,
        **kwargs,
    )
    for p in trained(model).values():  # so that no gradient vanishes by chance
        nn.init.normal_(p, std=0.4)
    return model.double()


def trained(model):
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def make_batch(videos=slice(None), texts=slice(None)):
    """Slices of one joint batch; text 2 has no word of interest, text 6 no video here."""
    generator = torch.Generator().manual_seed(1)
    interest = torch.rand(T, 8, generator=generator, dtype=torch.float64)
    interest = interest * (torch.rand(T, 8, generator=generator) > 0.4)
    interest[2] = 0
    expert = torch.tensor([[0, 0, 1, 1], [1, 1, 0, 0], [0, 1, 0, 1], [1, 0, 0, 0], [0, 0, 0, 1]])
    inputs = dict(
        video=torch.randn(V, 4, 5, generator=generator, dtype=torch.float64)[videos],
        frame_mask=(torch.arange(4) < torch.tensor([4, 2, 3, 1, 4])[:, None])[videos],
        video_expert=expert[videos],
        video_second=torch.arange(4).expand(V, 4)[videos],
        text=torch.randint(20, (T, 5), generator=generator)[texts],
        text_mask=(torch.arange(5) < torch.tensor([5, 3, 4, 2, 5, 4, 3])[:, None])[texts],
        text_interest=interest[texts],
    )
    video_idx = torch.tensor([3, 1, 4, 3, 9])  # the same video twice
    text_videos = torch.tensor([[3, -1], [3, -1], [1, -1], [4, 9], [9, -1], [1, -1], [7, -1]])
    samples = dict(
        text_idx=torch.arange(T)[texts],
        video_idx=video_idx[videos],
        text_videos=text_videos[texts],
        video_ids=[str(i) for i in video_idx[videos].tolist()],
        text_ids=[str(i) for i in range(T)][texts],
    )
    return inputs, samples


def positives():
    _, samples = make_batch()
    return (samples['text_videos'][..., None] == samples['video_idx']).any(1)


def three_scores(model, texts, videos):
    """Of each pair alone: vectors, weighted tokens, unweighted tokens, fusion; [4, T, V]."""
    table = torch.zeros(4, T, V, dtype=torch.float64)
    t, v, weights = texts['global'], videos['global'], texts['interest'].tokens[..., 0]
    for i in range(T):
        for j in range(V):
            x, y = v.tokens[j][v.mask[j]], t.tokens[i][t.mask[i]]
            w = weights[i][t.mask[i]]
            best = (y @ x.t()).amax(1)
            table[:3, i, j] = torch.stack([x.mean(0) @ y[0], best @ w, best @ (w > 0).double()])
            sides = [s[None] for s in (y, y[:, 0] == y[:, 0], x, x[:, 0] == x[:, 0])]
            table[3, i, j] = model.similarity.fusion(*sides)
    return table


def test_losses_of_the_cascade():
    model = make_model()
    inputs, samples = make_batch()
    texts, videos = model(inputs, samples, mode='tensor')
    table = three_scores(model, texts, videos)
    own = positives()
    chosen = hard_negatives(table[0] + table[2], ~own, 1)
    assert 0 < chosen.sum() < (~own).sum()  # there is something to choose
    first, fused = [], []
    for i in range(T):
        if own[i].any():
            e = table[0, i].exp()
            first.append(-(e[own[i]].sum() / e.sum()).log())
            e = table[3, i].exp()
            pull = e[own[i]].sum()
            fused.append(-(pull / (pull + e[chosen[i]].sum())).log())
    losses = model(inputs, samples, mode='loss')
    torch.testing.assert_close(losses['loss_vectors'], torch.stack(first).mean(), **CLOSE)
    torch.testing.assert_close(losses['loss_fusion'], torch.stack(fused).mean(), **CLOSE)
    assert losses['tokens_loss'] > 0  # its values: test_token_contrast


@pytest.mark.parametrize('shortlist', [None, 2, 5])
def test_scores_of_evaluation(shortlist):
    model = make_model().eval()
    model.similarity.shortlist = shortlist
    with torch.no_grad():
        texts, videos = model(*make_batch(), mode='tensor')
        table = three_scores(model, texts, videos)
        found = model.score(texts, videos)
    first, whole = table[0] + table[1], table[0] + table[1] + table[3]
    assert model.similarity.exact == (shortlist != 2)
    if shortlist != 2:
        torch.testing.assert_close(found['scores'], whole, **CLOSE)
        for name, expected in zip(('global', 'token', 'fusion'), table[[0, 1, 3]]):
            torch.testing.assert_close(found[name], expected, **CLOSE)
        assert not found['token'][2].any()  # no word of interest
        return
    torch.testing.assert_close(found['first'], first, **CLOSE)
    for i in range(T):
        order = first[i].argsort(descending=True)
        inside, outside = order[:2], order[2:]
        torch.testing.assert_close(found['scores'][i, inside], whole[i, inside], **CLOSE)
        below = found['scores'][i, outside]
        assert below.max() < found['scores'][i, inside].min()
        assert torch.equal(below, below.sort(descending=True).values)


def test_chunks_change_nothing():
    model = make_model()
    batch = make_batch()
    gradients = []
    for pairs in (1, 4, 1000):
        model.similarity.pairs = pairs
        model.zero_grad()
        sum(value for key, value in model(*batch, mode='loss').items() if 'loss' in key).backward()
        gradients.append([p.grad.clone() for p in trained(model).values()])
    for other in gradients[1:]:
        torch.testing.assert_close(other, gradients[0], **CLOSE)


def test_a_text_is_scored_alone_as_among_others():
    model = make_model().eval()
    with torch.no_grad():
        texts, videos = model(*make_batch(), mode='tensor')
        whole = model.score(texts, videos)['scores']
        for i in range(T):
            one = model.score(take(texts, slice(i, i + 1)), videos)['scores']
            torch.testing.assert_close(one[0], whole[i], **CLOSE)


def test_padding_is_not_read():
    model = make_model().eval()
    inputs, samples = make_batch()
    with torch.no_grad():
        before = model.score(*model(inputs, samples, mode='tensor'))['scores']
        inputs['video'][~inputs['frame_mask']] = float('nan')
        inputs['text_interest'][:, :5][~inputs['text_mask']] = 1e6
        inputs['text'][~inputs['text_mask']] = 19
        after = model.score(*model(inputs, samples, mode='tensor'))['scores']
    torch.testing.assert_close(after, before, **CLOSE)


# -- processes -----------------------------------------------------------------------------------


def run(model, batch, micro_batch):
    module = getattr(model, 'module', model)
    module.micro_batch = micro_batch
    losses = model(*batch, mode='loss')
    sum(value for name, value in losses.items() if 'loss' in name).backward()
    gradients = {name: p.grad for name, p in trained(module).items()}
    return {name: value.detach() for name, value in losses.items()}, gradients


def worker(rank, folder, split, micro_batch):
    dist.init_process_group('gloo', init_method=f'file://{folder}/store', rank=rank, world_size=2)
    try:
        result = run(DistributedDataParallel(make_model()), make_batch(*split[rank]), micro_batch)
        torch.save(result, f'{folder}/rank{rank}.pt')
        dist.barrier()
    finally:
        dist.destroy_process_group()


UNEQUAL = [(slice(0, 3), slice(0, 2)), (slice(3, 5), slice(2, 7))]
ONE_EMPTY = [(slice(0, 5), slice(0, 7)), (slice(5, 5), slice(7, 7))]


@pytest.mark.parametrize('split, micro_batch', [(UNEQUAL, 2), (ONE_EMPTY, None)])
def test_two_processes_equal_one(tmp_path, split, micro_batch):
    expected_losses, expected_grads = run(make_model(), make_batch(), None)
    assert all(g is not None and g.abs().max() > 0 for g in expected_grads.values())
    arguments = (tmp_path, split, micro_batch)
    mp.start_processes(worker, arguments, nprocs=2, start_method='forkserver')
    for rank in range(2):
        losses, grads = torch.load(tmp_path / f'rank{rank}.pt')
        torch.testing.assert_close(losses, expected_losses)
        torch.testing.assert_close(grads, expected_grads)


# -- what is refused -----------------------------------------------------------------------------


def test_a_batch_of_broken_videos_alone():
    model = make_model()
    inputs, samples = make_batch(slice(0, 0), slice(0, 0))
    losses = model(inputs, samples, mode='loss')
    sum(value for name, value in losses.items() if 'loss' in name).backward()
    assert not any(value.any() for name, value in losses.items() if 'loss' in name)
    assert all(p.grad is not None and not p.grad.any() for p in trained(model).values())


def test_what_it_refuses():
    with pytest.raises(ValueError, match='block_rows=4.*ranks all pairs'):
        make_model(block_rows=4)
    encoder = make_model().encoder
    with pytest.raises(ValueError, match=r'CosineSimilarity has no first_stage\(\)'):
        CascadeRetriever(encoder=encoder, similarity=CosineSimilarity(), losses={})
    with pytest.raises(ValueError, match='negatives must be at least 1, not 0'):
        CascadeRetriever(encoder=encoder, similarity=similarity(), losses={}, negatives=0)
    with pytest.raises(ValueError, match='shortlist must be at least 1, not 0'):
        similarity(shortlist=0)
    with pytest.raises(ValueError, match='a multiple of heads.*got dim 8, heads 3'):
        CascadeSimilarity(dim=8, heads=3)
    with pytest.raises(ValueError, match='temperature must be positive, not 0'):
        TokenContrast(temperature=0)
    inputs, samples = make_batch()
    model = make_model()
    narrow = {**inputs, 'text_interest': inputs['text_interest'][:, :3]}
    with pytest.raises(ValueError, match='5 tokens and 3 weights of interest'):
        model(narrow, samples, mode='loss')
    inputs['text_interest'][3, 1] = -1
    with pytest.raises(ValueError, match='numbers from 0, text 3 of the batch'):
        model(inputs, samples, mode='loss')
    inputs, samples = make_batch()
    model.similarity = CascadeSimilarity(dim=D, heads=2, positions=4)
    with pytest.raises(ValueError, match='a text has 5 tokens.*4 positions'):
        model.double()(inputs, samples, mode='loss')
