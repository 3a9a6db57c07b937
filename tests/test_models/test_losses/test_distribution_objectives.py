import math

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributions import Normal, kl_divergence
from torch.nn.parallel import DistributedDataParallel

import children  # noqa: F401 - the server that forks the two processes has imported all
from mmvtr.dist import gather_levels
from mmvtr.functional.losses.set_contrast import multi_instance, soft_contrast
from mmvtr.functional.uncertainty.gaussian import sample
from mmvtr.functional.uncertainty.inclusion import inclusion_loss, inclusion_matrix
from mmvtr.models.heads import GaussianHead
from mmvtr.models.losses.objectives import (
    InclusionLoss,
    KLToUnit,
    MultiInstanceContrast,
    OfficialKLToUnit,
    SoftContrast,
)
from mmvtr.models.target import Target
from mmvtr.registry import MODELS
from mmvtr.structures import Embedding

D = 6
ALL = [InclusionLoss, KLToUnit, MultiInstanceContrast, OfficialKLToUnit, SoftContrast]
SAMPLED = [MultiInstanceContrast, OfficialKLToUnit, SoftContrast]


@pytest.fixture
def batch():
    """Gaussians of 4 texts and 3 videos, float64; texts 0 and 1 belong to video 0."""
    generator = torch.Generator().manual_seed(0)

    def gaussians(n):
        mean, log_std = 0.4 * torch.randn(2, n, D, generator=generator, dtype=torch.float64)
        return {'gaussian': Embedding(mean, log_std=log_std)}

    positives = torch.tensor([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]]).bool()
    return gaussians(4), gaussians(3), Target(positives)


def drawn(batch, step, num_samples):
    """The samples of a step: texts first, then videos."""
    generator = torch.Generator().manual_seed(step)
    return [
        sample(e.mean, e.log_std, num_samples, generator)
        for e in (side['gaussian'] for side in batch[:2])
    ]


def test_multi_instance_contrast(batch):
    weights = torch.rand(4, 3, generator=torch.Generator().manual_seed(3)).double()
    target = batch[2]._replace(weights=weights)
    objective = MODELS.build(
        dict(type='MultiInstanceContrast', num_samples=5, temperature=0.5, loss_weight=0.01)
    )
    for step in range(2):
        expected = multi_instance(
            *drawn(batch, step, 5), target.positives, temperature=0.5, weights=weights
        )
        value = objective(*batch[:2], target)
        torch.testing.assert_close(value, {'loss': 0.01 * expected})
    official = MultiInstanceContrast(temperature=1.0, normalise=False, form='outer_sum').double()
    expected = multi_instance(
        *drawn(batch, 0, 7), target.positives, normalise=False, form='outer_sum'
    )
    torch.testing.assert_close(official(*batch)['loss'], expected)


def test_kl_to_unit(batch):
    expected = 0.0
    for side in batch[:2]:
        mean, log_std = side['gaussian'].mean, side['gaussian'].log_std
        unit = Normal(torch.zeros_like(mean), torch.ones_like(mean))
        expected += kl_divergence(Normal(mean, log_std.exp()), unit).sum(-1).mean()
    out = MODELS.build(dict(type='KLToUnit', loss_weight=1e-4))(*batch)
    torch.testing.assert_close(out['loss'], 1e-4 * expected)
    rows = batch[0]['gaussian'].log_std.tolist()
    sigma = sum(math.prod(math.exp(x) for x in row) ** (1 / D) for row in rows) / 4
    assert out['sigma_text'].item() == pytest.approx(sigma)
    halves = [
        {'gaussian': e._replace(log_std=e.log_std / 2)}
        for e in (side['gaussian'] for side in batch[:2])
    ]
    halved = MODELS.build(dict(type='KLToUnit', halved=True))(*batch)['loss']
    torch.testing.assert_close(halved, KLToUnit()(*halves, batch[2])['loss'])


def test_inclusion_of_videos_in_their_texts(batch):
    """Over annotated pairs, of which texts 0 and 1 share video 0."""
    t, v = (side['gaussian'] for side in batch[:2])
    rows, columns = [0, 1, 2, 3], [0, 0, 1, 2]
    pair = v.mean[columns], v.log_std[columns], t.mean[rows], t.log_std[rows]
    for form in ('exact', 'official'):
        how = dict(scale=0.5, eps=-1.0, form=form)
        objective = MODELS.build(dict(type='InclusionLoss', loss_weight=0.1, **how))
        out = objective(*batch)
        torch.testing.assert_close(out['loss'], 0.1 * inclusion_loss(*pair, **how))
        within = inclusion_matrix(*pair, eps=-1.0, form=form).diagonal()
        without = inclusion_matrix(*pair[2:], *pair[:2], eps=-1.0, form=form).diagonal()
        torch.testing.assert_close(out['included'], (within > without).float().mean())
    for wrong in (dict(scale=0.0), dict(form='paper')):
        with pytest.raises(ValueError, match='scale must be|form must be'):
            InclusionLoss(**wrong)


def test_official_kl(batch):
    expected = 0.0
    for side, z in zip(batch[:2], drawn(batch, 0, 7)):
        log_sigma, m = side['gaussian'].log_std, z.mean(1)
        expected += -0.5 * (1 + log_sigma - m**2 - log_sigma.exp()).sum()
    out = MODELS.build(dict(type='OfficialKLToUnit'))(*batch)
    torch.testing.assert_close(out['loss'], expected)
    assert out.keys() == {'loss', 'sigma_text', 'sigma_video'}


def test_soft_contrast(batch):
    objective = MODELS.build(
        dict(type='SoftContrast', slope=3.0, bias=4.0, reduction='sum', loss_weight=2.0)
    ).double()
    expected = 2 * soft_contrast(
        *drawn(batch, 0, 7), batch[2].positives, slope=3.0, bias=4.0, reduction='sum'
    )
    loss = objective(*batch)['loss']
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)  # slope is stored in float32
    loss.backward()
    assert objective.raw_slope.grad != 0 and objective.bias.grad != 0
    fixed = SoftContrast(learnable=False)
    assert not any(p.requires_grad for p in fixed.parameters())


@pytest.mark.parametrize('objective', SAMPLED)
def test_noise_follows_the_training_step(objective, batch):
    objective = objective().double()
    first, second = objective(*batch)['loss'], objective(*batch)['loss']
    assert first != second and objective.step == 2
    objective.eval()
    assert objective(*batch)['loss'] == objective(*batch)['loss']
    objective.step.zero_()
    assert objective(*batch)['loss'] == first


@pytest.mark.parametrize('objective', ALL)
@pytest.mark.parametrize('log_std', [-7.0, 7.0])
def test_extreme_spread_stays_finite(objective, log_std):
    mean = torch.nn.functional.normalize(torch.randn(4, 32), dim=-1)
    sides = []
    for _ in range(2):
        spread = torch.full((4, 32), log_std, requires_grad=True)
        sides.append({'gaussian': Embedding(mean.clone().requires_grad_(), log_std=spread)})
    loss = objective()(*sides, Target(torch.eye(4).bool()))['loss']
    loss.backward()
    leaves = [x for side in sides for x in (side['gaussian'].mean, side['gaussian'].log_std)]
    assert loss.isfinite() and all(x.grad.isfinite().all() for x in leaves)


@pytest.mark.parametrize('objective', ALL)
def test_without_videos(objective, batch):
    texts, videos, target = batch
    none = {name: level.map(lambda x: x[:0]) for name, level in videos.items()}
    loss = objective().double()(texts, none, Target(target.positives[:, :0]))['loss']
    assert loss.isfinite()


@pytest.mark.parametrize('objective', ALL)
def test_a_model_without_heads(objective, batch):
    plain = {'global': Embedding(torch.ones(4, D))}
    with pytest.raises(KeyError, match="reads the Gaussian level 'gaussian'.*give it heads"):
        objective()(plain, plain, batch[2])
    with pytest.raises(KeyError, match="reads the Gaussian level 'global'"):
        objective(level='global')(plain, plain, batch[2])


@pytest.mark.parametrize('objective', SAMPLED)
def test_no_samples(objective):
    with pytest.raises(ValueError, match='num_samples must be at least 1, not 0'):
        objective(num_samples=0)


def test_bad_arguments():
    with pytest.raises(ValueError, match='temperature must be positive'):
        MultiInstanceContrast(temperature=0.0)
    with pytest.raises(ValueError, match=r"one of \['pooled', 'outer_sum'\]"):
        MultiInstanceContrast(form='own_pair')
    with pytest.raises(ValueError, match='slope must be positive'):
        SoftContrast(slope=0.0)
    with pytest.raises(ValueError, match='reduction must be one of'):
        SoftContrast(reduction='none')


class Net(nn.Module):
    """Heads on given features, and all objectives on the joint batch."""

    def __init__(self):
        super().__init__()
        self.text, self.video = GaussianHead(D), GaussianHead(D)
        self.objectives = nn.ModuleList(objective() for objective in ALL)

    def forward(self, texts, videos, positives):
        texts, videos = (
            gather_levels({'gaussian': head(Embedding(x))})
            for head, x in ((self.text, texts), (self.video, videos))
        )
        return torch.stack([o(texts, videos, Target(positives))['loss'] for o in self.objectives])


def run(texts, videos, wrap=lambda model: model):
    """Losses and gradients of two steps on slices of one joint batch."""
    torch.manual_seed(0)
    net = Net().double()
    model = wrap(net)
    x = torch.randn(9, D, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    positives = torch.tensor([0, 0, 1, 2, 3])[:, None] == torch.arange(4)
    losses = []
    for _ in range(2):
        losses.append(model(x[:5][texts], x[5:][videos], positives))
        losses[-1].sum().backward()
    return torch.stack(losses).detach(), [p.grad for p in net.parameters()]


def worker(rank, folder, split):
    dist.init_process_group('gloo', init_method=f'file://{folder}/store', rank=rank, world_size=2)
    try:
        torch.save(run(*split[rank], DistributedDataParallel), f'{folder}/rank{rank}.pt')
        dist.barrier()
    finally:
        dist.destroy_process_group()


def test_two_processes_equal_one(tmp_path):
    losses, grads = run(slice(0, 5), slice(0, 4))
    assert losses.shape == (2, 5) and (losses[0, 2:] != losses[1, 2:]).all()
    assert all(g is not None and g.abs().max() > 0 for g in grads)
    split = [(slice(0, 1), slice(0, 3)), (slice(1, 5), slice(3, 4))]
    mp.start_processes(worker, (tmp_path, split), nprocs=2, start_method='forkserver')
    for rank in range(2):
        found_losses, found_grads = torch.load(tmp_path / f'rank{rank}.pt')
        torch.testing.assert_close(found_losses, losses)
        torch.testing.assert_close(found_grads, grads)
