"""CMGSD whole: the numbers of third parties' code, its options, and processes."""

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import children  # noqa: F401 - the server that forks the processes has imported all
from mmvtr.functional.losses.adaptive_margin import (
    adaptive_margin,
    dissimilarities,
    text_dissimilarities,
)
from mmvtr.functional.losses.ranking import margin_ranking
from mmvtr.models.losses.ranking import RankingLoss, SeveralHingesLoss
from mmvtr.models.retriever import VideoTextRetriever
from mmvtr.models.similarities.cosine import CosineSimilarity
from mmvtr.models.supervisions.cmgsd import AdaptiveMarginSupervision, CMGSDSupervision
from mmvtr.models.target import Target
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding

EPOCHS = 100


@pytest.fixture(scope='module')
def golden(shared):
    with np.load(shared / 'golden/cmgsd_thirdparty.npz') as arrays:
        return {name: torch.from_numpy(x) for name, x in arrays.items()}


@pytest.mark.parametrize('beta', [1.0, 0.1])
def test_the_numbers_of_third_parties(golden, beta):
    """Score rows are videos there: the loss is the same of the transposed matrix."""
    module = CMGSDSupervision(
        sentences='mini', project=dict(in_dim=7, dim=8), beta=beta, ramp=(20 / EPOCHS, 50 / EPOCHS)
    ).eval()
    for side, theirs in (('video', 'pose_proj'), ('text', 'sentence_proj')):
        weights = {k: golden[f'w.{theirs}.2.{k}'] for k in ('weight', 'bias')}
        module.project[side].linear.load_state_dict(weights)
    texts = {
        'global': Embedding(golden['text_backbone']),
        'vectors.mini': Embedding(golden['sentence']),
    }
    videos = {'global': Embedding(golden['video_backbone'])}
    units = (nn.functional.normalize(golden[name], dim=-1) for name in ('texts', 'videos'))
    scores = {'scores': torch.matmul(*(x if i == 0 else x.t() for i, x in enumerate(units)))}
    positives = torch.eye(6, dtype=torch.bool)
    for epoch in (0, 20, 29, 35, 50, 70):
        module.progress = epoch / EPOCHS
        target, figures = module(texts, videos, Target(positives))
        for ours, theirs in (('omega', 'omega_dyn'), ('tau', 'tau_dyn'), ('static', 'tau_static')):
            expected = golden[f'beta={beta}.m_{theirs}_mean'].item()
            assert figures[f'margin_{ours}'].item() == pytest.approx(expected, abs=1e-5)
        margins = dict(zip(('omega_dyn', 'tau_dyn', 'tau_static'), target.extras['hinges'][1:]))
        for theirs, hinge in margins.items():
            expected = golden[f'beta={beta}.m_{theirs}_std'].item()
            assert hinge.margins.std().item() == pytest.approx(expected, abs=1e-5)
        for negatives, theirs in (('all', 'sum_over_negatives'), ('hardest', 'hardest')):
            loss = SeveralHingesLoss(negatives=negatives, average='matrix', loss_weight=2.0)
            found = loss(scores, target, 1.0)
            expected = golden[f'loss.beta={beta}.{theirs}.epoch={epoch}']
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


OWNERS = [0, 0, 1, 2, 3, 4, 9]  # the last text's video is not in the batch
T, V = 7, 5


class Linear(nn.Module):
    dim = 6
    level_names = ('global',)

    def __init__(self):
        super().__init__()
        self.video, self.text = nn.Linear(4, 6), nn.Linear(4, 6)

    def encode_video(self, video, frame_mask):
        return {'global': Embedding(self.video(video.mean(1)))}

    def encode_text(self, text, text_mask):
        return {'global': Embedding(self.text(text.mean(1)))}


def make_model(loss=None, **kwargs):
    torch.manual_seed(0)
    how = dict(sentences='s', project=dict(in_dim=6, dim=8, dropout=0.5), ramp=(0, 1))
    model = VideoTextRetriever(
        encoder=Linear(),
        similarity=CosineSimilarity(),
        supervision=CMGSDSupervision(**{**how, **kwargs}),
        losses=dict(hinges=SeveralHingesLoss(**(loss or {}))),
    ).double()
    model.supervision.progress = 0.4
    return model


def make_batch(videos=slice(0, V), texts=slice(0, T)):
    generator = torch.Generator().manual_seed(1)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    video, text, sentences = draw(V, 2, 4), draw(T, 3, 4), draw(T, 1, 5).float()
    inputs = dict(
        video=video[videos],
        frame_mask=torch.ones(V, 2, dtype=torch.bool)[videos],
        text=text[texts],
        text_mask=torch.ones(T, 3, dtype=torch.bool)[texts],
    )
    samples = dict(
        video_idx=torch.arange(V)[videos],
        text_videos=torch.tensor(OWNERS)[texts, None],
        video_ids=[f'v{i}' for i in range(V)][videos],
        text_ids=[f't{i}' for i in range(T)][texts],
        text_vectors=dict(s=sentences[texts]),
    )
    return inputs, samples


def run(model, batch):
    module = getattr(model, 'module', model)
    losses = model(*batch, mode='loss')
    losses['loss_hinges'].backward()
    grads = {name: p.grad for name, p in module.named_parameters() if p.grad is not None}
    return {name: value.detach() for name, value in losses.items()}, grads


PROCESSES = dict(all={}, hardest=dict(loss=dict(negatives='hardest'), over='negatives'))


def worker(rank, folder):
    dist.init_process_group('gloo', init_method=f'file://{folder}/store', rank=rank, world_size=2)
    try:
        own = (slice(0, 3), slice(0, 2)) if rank == 0 else (slice(3, 5), slice(2, 7))
        for name, how in PROCESSES.items():
            model = DistributedDataParallel(make_model(**how))
            torch.save(run(model, make_batch(*own)), f'{folder}/{name}{rank}')
        dist.barrier()
    finally:
        dist.destroy_process_group()


def test_two_processes_equal_one(tmp_path):
    """Dropout included: the margins are those of one joint batch."""
    mp.start_processes(worker, (str(tmp_path),), nprocs=2, start_method='forkserver')
    for name, how in PROCESSES.items():
        expected = run(make_model(**how), make_batch())
        assert {'supervision.project.text.linear.weight'} < {*expected[1]}
        for rank in range(2):
            same(torch.load(tmp_path / f'{name}{rank}'), expected)


def same(found, expected):
    for mine, theirs in zip(found, expected):
        assert mine.keys() == theirs.keys()
        for name, x in theirs.items():
            torch.testing.assert_close(mine[name], x, rtol=1e-11, atol=1e-12, msg=name)


@pytest.mark.parametrize(
    'videos, texts',
    [
        (slice(0, 0), slice(0, 0)),
        (slice(0, 0), slice(0, 3)),
        (slice(0, V), slice(6, 7)),
        (slice(0, V), slice(0, 1)),
    ],
    ids=['nothing', 'no video', 'no pair', 'videos without a text'],
)
def test_what_a_batch_may_lack(videos, texts):
    batch = make_batch(videos, texts)
    for side, names in (('video', ('video', 'frame_mask')), ('text', ('text', 'text_mask'))):
        if not len(batch[0][side]):
            for name in names:
                del batch[0][name]
    for negatives in ('all', 'hardest'):
        losses, grads = run(make_model(dict(negatives=negatives)), batch)
        assert all(x.isfinite() for x in losses.values())
        assert all(grad.isfinite().all() for grad in grads.values())


@pytest.mark.parametrize('over', ['matrix', 'negatives'])
@pytest.mark.parametrize('unbiased', [True, False])
def test_margins_are_those_of_the_whole_matrices(over, unbiased):
    """Mean and deviation come from vectors here, there from all entries; gradients too."""
    inputs = [draw(T, 6, seed=1), draw(V, 6, seed=2), draw(T, 5, seed=3)]
    positives = torch.tensor(OWNERS)[:, None] == torch.arange(V)
    positives[1, 3] = True
    positives[6, 0] = False
    module = CMGSDSupervision(sentences='s', over=over, unbiased=unbiased, ramp=(0, 0))

    def ours(t, v, s):
        texts = {'global': Embedding(t), 'vectors.s': Embedding(s)}
        target, _ = module(texts, {'global': Embedding(v)}, Target(positives))
        return [hinge.margins for hinge in target.extras['hinges'][1:]]

    def theirs(t, v, s):
        t, v, s = (x / x.norm(dim=1, keepdim=True) for x in (t, v, s))
        omega, tau = dissimilarities(t @ t.t(), v @ v.t(), positives)
        static = text_dissimilarities(s @ s.t(), positives)
        entries = torch.ones_like(positives) if over == 'matrix' else ~positives
        how = dict(alpha=0.2, beta=1.0, unbiased=unbiased)
        return [adaptive_margin(x, entries, **how) for x in (omega, tau, static)]

    found, expected = ours(*inputs), theirs(*inputs)
    for kind, (mine, reference) in enumerate(zip(found, expected)):
        torch.testing.assert_close(mine, reference, rtol=1e-12, atol=1e-12)
        weights = draw(T, V, seed=4 + kind)
        grads = (
            torch.autograd.grad((x * weights).sum(), inputs, allow_unused=True)
            for x in (mine, reference)
        )
        for grad, known in zip(*grads):
            assert (grad is None) == (known is None)
            if known is not None:
                torch.testing.assert_close(grad, known, rtol=1e-10, atol=1e-12)


def draw(*shape, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()


def test_the_gradient_of_the_margins_is_an_option():
    """With it projections learn; without it only scores have one."""
    _, grads = run(make_model(), make_batch())
    learnt = [name for name, grad in grads.items() if 'project' in name and grad.abs().max() > 0]
    assert len(learnt) == 4
    plain, still = (make_model(project=None, gradient=gradient) for gradient in (True, False))
    found = [run(model, make_batch()) for model in (plain, still)]
    assert found[0][0]['loss_hinges'] == found[1][0]['loss_hinges']
    name = 'encoder.video.weight'
    assert not torch.allclose(found[0][1][name], found[1][1][name])
    target = still.supervision(
        *(
            {'global': Embedding(torch.randn(n, 6).requires_grad_()), 'vectors.s': Embedding(x)}
            for n, x in ((3, torch.randn(3, 5)), (3, torch.randn(3, 5)))
        ),
        Target(torch.eye(3, dtype=torch.bool)),
    )[0]
    assert not any(hinge.margins.requires_grad for hinge in target.extras['hinges'])


def test_the_older_supervision_is_its_mean():
    """Its margins, of the same numbers, as AdaptiveMarginSupervision puts them into one hinge."""
    generator = torch.Generator().manual_seed(0)
    texts, videos = ({'global': Embedding(torch.randn(n, 6, generator=generator))} for n in (T, V))
    target = Target(torch.tensor(OWNERS)[:, None] == torch.arange(V))
    how = dict(beta=0.1, gradient=False, over='negatives', unbiased=False, ramp=(0, 0))
    given, figures = CMGSDSupervision(**how)(texts, videos, target)
    assert [hinge.weight for hinge in given.extras['hinges']] == [1.0, 1.0, 1.0]
    mean = (given.extras['hinges'][1].margins + given.extras['hinges'][2].margins) / 2
    older, _ = AdaptiveMarginSupervision(beta=0.1)(texts, videos, target)
    torch.testing.assert_close(mean, older.margins)
    assert figures['lambda'] == 1
    scores = {'scores': torch.randn(T, V, generator=generator)}
    triplets = sum(
        margin_ranking(scores['scores'], target.positives, margin=hinge.margins)
        for hinge in given.extras['hinges']
    )
    torch.testing.assert_close(SeveralHingesLoss()(scores, given, 1.0), triplets)


def test_autocast_takes_no_digits_of_a_cosine():
    level = {'global': Embedding(torch.randn(9, 32, generator=torch.Generator().manual_seed(0)))}
    given = (level, level, Target(torch.eye(9, dtype=torch.bool)))
    expected, _ = CMGSDSupervision()(*given)
    with torch.autocast('cpu', dtype=torch.bfloat16):
        found, _ = CMGSDSupervision()(*given)
    for mine, theirs in zip(found.extras['hinges'], expected.extras['hinges']):
        torch.testing.assert_close(mine.margins, theirs.margins, rtol=0, atol=1e-6)


def test_what_is_wrong_is_said():
    for bad, message in (
        (dict(alpha=0.0), 'alpha must be positive, not 0.0'),
        (dict(beta=-1.0), 'beta must be at least 0, not -1.0'),
        (dict(over='rows'), "over must be one of .* not 'rows'"),
        (dict(ramp=(0.5, 0.2)), r'ramp must be \(start, end\)'),
        (dict(project=dict(in_dim=4), gradient=False), 'project is learnt through the margins'),
        (dict(project=dict(in_dim=4, dropout=1.0)), r'dropout must lie in \[0, 1\), not 1.0'),
    ):
        with pytest.raises(ValueError, match=message):
            MODELS.build(dict(type='mmvtr.CMGSDSupervision', **bad))
    for bad, message in (
        (dict(negatives='some'), "negatives must be one of .* not 'some'"),
        (dict(average='anchors'), "average must be one of .* not 'anchors'"),
    ):
        with pytest.raises(ValueError, match=message):
            MODELS.build(dict(type='mmvtr.SeveralHingesLoss', **bad))
    unread = dict(encoder=nn.Identity(), similarity=CosineSimilarity())
    with pytest.raises(ValueError, match='CMGSDSupervision fills target.hinges, .* SeveralHingesL'):
        VideoTextRetriever(
            **unread, supervision=CMGSDSupervision(), losses=dict(triplet=RankingLoss())
        )
    inputs, samples = make_batch()
    del samples['text_vectors']
    with pytest.raises(ValueError, match="CMGSDSupervision reads the vectors 's' of texts"):
        make_model()(inputs, samples, mode='loss')
    model = make_model()
    model.supervision = None
    with pytest.raises(ValueError, match='reads the hinges beside the target'):
        model(*make_batch(), mode='loss')
