"""Two processes with different numbers of texts and videos equal one process on the joint batch."""

from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import children  # noqa: F401 - the server that forks the processes has imported all
from mmvtr.datasets import collate_retrieval
from mmvtr.dist import gather_levels, gather_nested, gather_padded, gather_rows
from mmvtr.engine.hooks.query_queue import QueryQueueHook
from mmvtr.models.annotation import JointIds
from mmvtr.models.losses.matrix import ContrastiveLoss, NormalizedContrastiveLoss
from mmvtr.models.losses.ranking import RankingLoss
from mmvtr.models.retriever import VideoTextRetriever
from mmvtr.models.similarities.cosine import CosineSimilarity
from mmvtr.models.supervisions.dvtr import DVTRSupervision, LiteralDVTRSupervision
from mmvtr.models.temperature import Temperature
from mmvtr.structures import Embedding

D = 8


class TinyEncoder(nn.Module):
    """Linear towers on [N, L, 3] inputs with two levels, as CLIP2Video has."""

    dim = D

    def __init__(self):
        super().__init__()
        self.video, self.text, self.aligned = (nn.Linear(3, D) for _ in range(3))

    def _levels(self, tower, x, mask):
        tokens = tower(x) * mask[..., None]
        mean = tokens.sum(1) / mask.sum(1, keepdim=True).clamp_min(1)
        return {
            'global': Embedding(mean, tokens, mask),
            'aligned': Embedding(mean + self.aligned(x).sum(1)),
        }

    def encode_video(self, video, frame_mask):
        return self._levels(self.video, video, frame_mask)

    def encode_text(self, text, text_mask):
        return self._levels(self.text, text, text_mask)


def make_model(literal):
    torch.manual_seed(0)
    spread = 'variance' if literal else 'log_std'
    model = VideoTextRetriever(
        encoder=TinyEncoder(),
        similarity=CosineSimilarity(levels=('global', 'aligned')),
        temperature=Temperature(init=0.07, learnable=True),
        heads=dict(type='HierarchicalGaussianHead', spread=spread),
        detach_heads=not literal,
        supervision=LiteralDVTRSupervision() if literal else DVTRSupervision(),
        losses=dict(
            contrastive=ContrastiveLoss(reads=('global', 'aligned')),
            triplet=RankingLoss(negatives='random', margin=0.5),
            normalized=NormalizedContrastiveLoss(reads=('aligned',), differentiable=True),
        ),
    )
    # Away from their first values, so that no gradient vanishes by chance.
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.1 * torch.randn_like(p))
    return model.double()


def make_batch(videos, texts):
    """Slices of one joint batch: 5 videos, 7 texts; text 1 shares the video of text 0."""
    generator = torch.Generator().manual_seed(1)
    video = torch.randn(5, 4, 3, generator=generator, dtype=torch.float64)
    text = torch.randn(7, 4, 3, generator=generator, dtype=torch.float64)
    video_idx = torch.tensor([3, 1, 4, 3, 9])  # the same video twice, on two processes
    text_videos = torch.tensor([[3, -1], [3, -1], [1, -1], [4, 9], [9, -1], [1, -1], [7, -1]])
    inputs = dict(
        video=video[videos],
        frame_mask=torch.ones(5, 4, dtype=torch.bool)[videos],
        text=text[texts],
        text_mask=torch.ones(7, 4, dtype=torch.bool)[texts],
    )
    samples = dict(
        text_idx=torch.arange(7)[texts],
        video_idx=video_idx[videos],
        text_videos=text_videos[texts],
        video_ids=[str(i) for i in video_idx[videos].tolist()],
        text_ids=[str(i) for i in range(7)][texts],
    )
    return inputs, samples


def run(model, batch):
    module = getattr(model, 'module', model)
    queue = QueryQueueHook(size=6)
    queue.before_train(SimpleNamespace(model=module, iter=0))
    losses = model(*batch, mode='loss')
    sum(value for name, value in losses.items() if 'loss' in name).backward()
    return (
        {name: value.detach() for name, value in losses.items()},
        {name: p.grad for name, p in module.named_parameters()},
        {kind: queries.queries().state() for kind, queries in queue.queues.items()},
    )


def worker(rank, folder, literal, split, micro_batch):
    dist.init_process_group('gloo', init_method=f'file://{folder}/store', rank=rank, world_size=2)
    try:
        model = make_model(literal)
        model.micro_batch = micro_batch
        model = DistributedDataParallel(model)
        result = run(model, make_batch(*split[rank]))
        torch.save(result, f'{folder}/rank{rank}.pt')
        dist.barrier()
    finally:
        dist.destroy_process_group()


UNEQUAL = [(slice(0, 3), slice(0, 2)), (slice(3, 5), slice(2, 7))]
ONE_EMPTY = [(slice(0, 5), slice(0, 7)), (slice(5, 5), slice(7, 7))]


@pytest.mark.parametrize('micro_batch', [None, 2], ids=['whole', 'parts'])
@pytest.mark.parametrize('literal', [False, True], ids=['sound', 'literal'])
@pytest.mark.parametrize('split', [UNEQUAL, ONE_EMPTY], ids=['unequal', 'one_empty'])
def test_two_processes_equal_one(tmp_path, literal, split, micro_batch):
    expected_losses, expected_grads, expected_queues = run(
        make_model(literal), make_batch(slice(0, 5), slice(0, 7))
    )
    assert expected_queues['text']['index'].tolist() == [1, 2, 3, 4, 5, 6]
    assert expected_queues['video']['video'].tolist() == [3, 1, 4, 3, 9]
    assert all(g is not None and g.abs().max() > 0 for g in expected_grads.values())
    arguments = (tmp_path, literal, split, micro_batch)
    mp.start_processes(worker, arguments, nprocs=2, start_method='forkserver')
    for rank in range(2):
        losses, grads, queues = torch.load(tmp_path / f'rank{rank}.pt')
        for name, value in expected_losses.items():
            torch.testing.assert_close(losses[name], value, msg=name)
        for name, grad in expected_grads.items():
            torch.testing.assert_close(grads[name], grad, msg=name)
        torch.testing.assert_close(queues, expected_queues)


def token_worker(rank, folder):
    dist.init_process_group('gloo', init_method=f'file://{folder}/store', rank=rank, world_size=2)
    words = [torch.ones(2, 3, D), torch.full((1, 5, D), 2.0)][rank].requires_grad_()
    mask = torch.ones(words.shape[:2], dtype=torch.bool)
    own = {'global': Embedding(words.mean(1), words, mask)}
    joint = gather_levels(own)['global']
    (joint.tokens * torch.arange(3.0)[:, None, None]).sum().backward()
    torch.save((joint.map(torch.Tensor.detach)._asdict(), words.grad), f'{folder}/rank{rank}.pt')
    dist.destroy_process_group()


def test_tokens_are_padded_to_the_longest_process(tmp_path):
    mp.start_processes(token_worker, (str(tmp_path),), nprocs=2, start_method='forkserver')
    (joint, grad_0), (again, grad_1) = (torch.load(tmp_path / f'rank{r}.pt') for r in (0, 1))
    torch.testing.assert_close(joint, again)
    joint = Embedding(**joint)
    assert joint.tokens.shape == (3, 5, D)
    assert joint.mask.dtype == torch.bool and joint.mask.sum(1).tolist() == [3, 3, 5]
    assert not joint.tokens[:2, 3:].any() and (joint.tokens[2] == 2).all()
    # Two processes computed the same loss: their gradients add, as DDP's mean expects.
    assert grad_0[:, 0, 0].tolist() == [0, 2] and (grad_1 == 4).all()


def classed(verb, noun, swap=False):
    """Classes; an annotation may name its kinds in any order."""
    classes = dict(verb=verb, noun=noun)
    return dict(classes=dict(reversed(classes.items())) if swap else classes)


def vector(seed):
    return torch.randn(4, generator=torch.Generator().manual_seed(seed)).numpy()


def item(v, known, *texts):
    video = dict(video_idx=v, video_id=str(v), frames=torch.zeros(1, 3), **known)
    video['agreement'] = vector(v)
    return dict(
        video=video,
        texts=[
            dict(
                text_idx=t,
                text_id=str(t),
                tokens=torch.zeros(1),
                video_idx=owners,
                true_videos=[*owners, 5 + t % 3],
                agreement=vector(100 + t),
                **known,
            )
            for t, owners, known in texts
        ],
    )


#: Four videos with 2, 1, 3 and 1 texts; some lack classes of a kind, or hold one twice.
ITEMS = [
    item(5, classed([1], [1, 2]), (0, [5], classed([1], [2])), (1, [5, 6], classed([], [2, 2]))),
    item(6, classed([2, 1], []), (2, [6], classed([2, 1], [7]))),
    item(
        7,
        classed([3, 2, 1, 2], [9], swap=True),
        (3, [7], classed([3], [1, 2, 9, 4, 5], swap=True)),
        (4, [5], classed([4], [9], swap=True)),
        (5, [7], classed([], [], swap=True)),
    ),
    item(5, classed([1], [1, 2]), (6, [6, 5, 7], classed([1], [2, 1]))),
]
BROKEN = dict(
    broken=('8', 'cut short'),
    true_videos=[8],
    agreement=vector(8),
    **classed([1], [1], swap=True),
)
SPLITS = dict(
    unequal=(ITEMS[:1], ITEMS[1:]),
    swapped=(ITEMS[2:3], ITEMS[3:]),
    second_broken=(ITEMS, [BROKEN, BROKEN]),
    first_broken=([BROKEN], [BROKEN, *ITEMS]),
    both_broken=([BROKEN], [BROKEN, BROKEN]),
)


def target_worker(rank, folder):
    dist.init_process_group('gloo', init_method=f'file://{folder}/store', rank=rank, world_size=2)
    targets = {}
    for name, split in SPLITS.items():
        samples = collate_retrieval(split[rank])['data_samples']
        target = JointIds(samples, torch.device('cpu')).target()
        targets[name] = dict(positives=target.positives, **target.known._asdict())
    torch.save(targets, f'{folder}/rank{rank}.pt')
    dist.destroy_process_group()


def test_relevance_and_truth_of_the_joint_batch(tmp_path):
    """Processes differ in texts, videos, classes an item, or have broken videos only."""
    mp.start_processes(target_worker, (str(tmp_path),), nprocs=2, start_method='forkserver')
    found = [torch.load(tmp_path / f'rank{rank}.pt') for rank in (0, 1)]
    for name, (first, second) in SPLITS.items():
        joint = collate_retrieval(first + second)['data_samples']
        target = JointIds(joint, torch.device('cpu')).target()
        expected = dict(positives=target.positives, **target.known._asdict())
        for rank in (0, 1):
            for field in ('positives', 'relevance', 'overlap', 'agreement', 'truth'):
                mine = found[rank][name][field]
                assert torch.equal(mine, expected[field]), f'{field}, {name}, rank {rank}'
        assert expected['relevance'].shape == (len(joint['text_idx']), len(joint['video_idx']))
        if name != 'both_broken':
            assert 0 < expected['relevance'].mean() < 1 and expected['overlap'].any()
            assert (expected['truth'] & ~expected['positives']).any()
            assert expected['agreement'].std() > 0.1


#: No bfloat16 has these.
FINE = 1.0 + 2.0**-20 * torch.arange(1, 4)


def mixed_nest(rank):
    """Half and single precision, and whole numbers, of one process."""
    half = torch.arange(4.0).add(rank).to(torch.bfloat16)
    return dict(half=half, single=FINE + rank, whole=torch.tensor([2**40 + rank]), none=None)


def mixed_worker(rank, folder):
    dist.init_process_group('gloo', init_method=f'file://{folder}/store', rank=rank, world_size=2)
    torch.save(gather_nested(mixed_nest(rank)), f'{folder}/rank{rank}.pt')
    dist.destroy_process_group()


def test_each_precision_arrives_as_it_was(tmp_path):
    mp.start_processes(mixed_worker, (str(tmp_path),), nprocs=2, start_method='forkserver')
    for rank in (0, 1):
        for sender, found in enumerate(torch.load(tmp_path / f'rank{rank}.pt')):
            expected = mixed_nest(sender)
            assert found.keys() == expected.keys() and found['none'] is None
            for name in ('half', 'single', 'whole'):
                assert found[name].dtype == expected[name].dtype
                assert torch.equal(found[name], expected[name]), (rank, sender, name)


def test_one_process_is_the_identity():
    x = torch.randn(3, 2, requires_grad=True)
    assert gather_rows(x) is x
    ids = torch.tensor([[1, -1]])
    assert gather_padded(ids, fill=-1) is ids
