"""EarlyTeacher: an earlier model computes the weights of negatives."""

from copy import deepcopy
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from mmengine.runner.checkpoint import load_state_dict
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import children  # noqa: F401 - the server that forks the processes has imported all
from mmvtr.engine.hooks.step_hooks import ProgressHook
from mmvtr.models.annotation import match
from mmvtr.models.losses.matrix import ContrastiveLoss
from mmvtr.models.losses.ranking import RankingLoss
from mmvtr.models.retriever import VideoTextRetriever
from mmvtr.models.similarities.best_frame import BestFrameSimilarity
from mmvtr.models.similarities.cosine import CosineSimilarity
from mmvtr.models.supervisions.arl import ARLSupervision, Statistics
from mmvtr.models.supervisions.columns import ColumnSupervision
from mmvtr.models.supervisions.dvtr import DVTRSupervision
from mmvtr.models.supervisions.early_teacher import EarlyTeacher
from mmvtr.models.supervisions.pcme import PCMESupervision
from mmvtr.models.supervisions.relative_scores import RelativeScoreSupervision
from mmvtr.models.target import Target
from mmvtr.models.temperature import Temperature
from mmvtr.structures import Embedding
from tests.test_dist import TinyEncoder, make_batch
from tests.test_models import test_momentum

ALL = slice(0, 5), slice(0, 7)
SUPERVISIONS = dict(dvtr=DVTRSupervision, pcme=PCMESupervision, scores=RelativeScoreSupervision)


def make_model(teacher=None, supervision='dvtr', rows=None, losses=None):
    torch.manual_seed(0)
    pcme = supervision == 'pcme'
    how = {} if supervision == 'scores' else dict(floor=0.0, sharpness=2.0, ramp=(0.3, 0.6))
    model = VideoTextRetriever(
        encoder=TinyEncoder(),
        similarity=CosineSimilarity(levels=('global', 'aligned')),
        temperature=Temperature(init=0.07, learnable=True),
        heads=dict(type='PCMEGaussianHead' if pcme else 'HierarchicalGaussianHead'),
        supervision=SUPERVISIONS[supervision](**how),
        losses=losses or dict(contrastive=ContrastiveLoss(reads=('global', 'aligned'))),
        teacher=teacher,
        block_rows=rows,
    )
    with torch.no_grad():  # away from their first values, so that no gradient vanishes by chance
        for p in model.parameters():
            p.add_(0.1 * torch.randn_like(p))
    return model.double()


def steps(model, batches, progress, rate=0.3):
    """Train on batches; the losses and figures of each, and the last gradients."""
    module = getattr(model, 'module', model)
    optimizer = torch.optim.SGD([p for p in module.parameters() if p.requires_grad], lr=rate)
    logs = []
    for batch, share in zip(batches, progress):
        for part in module.modules():
            if hasattr(part, 'progress'):
                part.progress = share
        optimizer.zero_grad()
        losses = model(*batch, mode='loss')
        sum(value for name, value in losses.items() if 'loss' in name).backward()
        optimizer.step()
        logs.append({name: value.detach().clone() for name, value in losses.items()})
    grads = {n: p.grad.clone() for n, p in module.named_parameters() if p.grad is not None}
    return logs, grads


# -- what the losses read --------------------------------------------------------------------------


@pytest.mark.parametrize('supervision', [*SUPERVISIONS])
@pytest.mark.parametrize('rows', [None, 3], ids=['whole', 'blocks'])
def test_weights_are_those_of_the_model_as_it_was(supervision, rows):
    model = make_model(EarlyTeacher(at=0.5), supervision, rows)
    batch = make_batch(*ALL)
    steps(model, [batch] * 2, [0.0, 0.4])
    before = deepcopy(model)
    assert model.teacher.copy is None
    logs, _ = steps(model, [batch] * 3, [0.5, 0.6, 0.7])

    known = Target(match(batch[1], torch.device('cpu')))
    before.eval()
    with torch.no_grad():
        texts, videos = before(*batch, mode='tensor')
        before.supervision.progress = 1.0
        target, _ = before.supervision(texts, videos, known)
    now = deepcopy(model)
    found = {}
    now.losses['contrastive'].register_forward_pre_hook(lambda _, args: found.update(x=args[1]))
    now.block_rows = None
    now(*batch, mode='loss')
    torch.testing.assert_close(found['x'].weights, target.weights)
    assert (target.weights < 0.9).any() and not found['x'].weights.requires_grad
    negatives = ~known.positives
    share = (1 - target.weights)[negatives].mean()
    assert logs[-1]['down_weighted_share'].item() == pytest.approx(share.item())
    count = ((target.weights < 0.5) & negatives).sum().item() / len(negatives)
    assert logs[-1]['down_weighted_per_text'].item() == pytest.approx(count)


def test_losses_of_the_supervision_stay_those_of_the_model_itself():
    """And its figures are told apart from those of what acts."""
    alone, both = make_model(), make_model(EarlyTeacher(at=0.0))
    batches, progress = [make_batch(*ALL)] * 2, [0.7, 0.7]
    (_, plain), _ = steps(alone, batches, progress, rate=0.0)
    (_, found), _ = steps(both, batches, progress, rate=0.0)
    for name in ('loss_match', 'loss_align', 'loss_contrastive', 'eta_negative'):
        torch.testing.assert_close(found[name], plain[name])  # nothing has moved
    for name in ('eta_negative', 'match_positive', 'match_negative', 'eta_ramp'):
        torch.testing.assert_close(found[f'live_{name}'], plain[name])
    assert not any('loss' in name and name.startswith('live') for name in found)


@pytest.mark.parametrize('momentum', [None, 0.9])
def test_blocks_equal_the_whole_matrix(momentum):
    batches, progress = [make_batch(*ALL)] * 5, [0.0, 0.1, 0.2, 0.6, 0.8]
    made = [
        steps(
            make_model(EarlyTeacher(at=0.2, momentum=momentum, share=0.05), rows=rows),
            batches,
            progress,
        )
        for rows in (None, 2)
    ]
    torch.testing.assert_close(made[1], made[0])


def test_parts_of_the_gradient_cache_equal_the_whole():
    batches, progress = [make_batch(*ALL)] * 4, [0.0, 0.2, 0.6, 0.8]
    whole, parts = make_model(EarlyTeacher(at=0.2)), make_model(EarlyTeacher(at=0.2))
    parts.micro_batch = 2
    torch.testing.assert_close(steps(parts, batches, progress), steps(whole, batches, progress))


def test_triplets_and_low_precision():
    losses = dict(triplet=RankingLoss(reads=('global', 'aligned'), margin=0.5))
    model = make_model(EarlyTeacher(at=0.2), losses=losses).float()
    inputs, samples = make_batch(*ALL)
    inputs = {k: x.float() if x.is_floating_point() else x for k, x in inputs.items()}
    with torch.autocast('cpu', dtype=torch.bfloat16):
        logs, grads = steps(model, [(inputs, samples)] * 4, [0.0, 0.2, 0.6, 0.8])
    assert logs[-1]['down_weighted_share'] > 0 and all(g.isfinite().all() for g in grads.values())
    assert not any(name.startswith('teacher.') for name in grads)


def test_average():
    model = make_model(EarlyTeacher(at=0.5, momentum=0.75))
    batch = make_batch(*ALL)
    names = [name for name, _ in model.named_parameters()]
    expected = None
    for share in (0.0, 0.2, 0.4, 0.6):
        now = {name: p.detach().clone() for name, p in model.named_parameters() if name in names}
        if expected is None:
            expected = now
        else:
            expected = {n: 0.75 * expected[n] + 0.25 * now[n] for n in names}
        logs, _ = steps(model, [batch], [share])
        assert ('down_weighted_share' in logs[0]) == (share >= 0.5)
    for name, value in model.teacher.copy.named_parameters():
        torch.testing.assert_close(value.detach(), expected[name])


class Drawn(nn.Module):
    """A supervision whose weights are drawn, some pairs' words surer than others'."""

    def __init__(self, surest, sure):
        super().__init__()
        self.surest, self.sure = surest, sure

    def forward(self, texts, videos, target):
        spared = self.surest * torch.rand(target.positives.shape) ** (1 / self.sure)
        return target._replace(weights=1 - spared), {}


def drawn_share(surest, sure, share, steps=120):
    """``down_weighted_share`` of each step, of batches of 40 texts."""
    torch.manual_seed(0)
    model = make_model(EarlyTeacher(at=0.0, share=share))
    model.supervision = Drawn(surest, sure)
    model.teacher.progress = 0.5
    known = Target(torch.eye(40).bool())
    model.teacher.own_levels({}, {})
    return torch.stack(
        [model.teacher({}, {}, known)[1]['down_weighted_share'] for _ in range(steps)]
    )


@pytest.mark.parametrize('surest, sure', [(0.3, 1.0), (0.999, 0.02), (0.9, 0.3), (0.05, 0.1)])
@pytest.mark.parametrize('share', [0.005, 0.1])
def test_as_much_is_spared_as_is_stated(surest, sure, share, monkeypatch):
    """Also where nothing is sure, and where few pairs are: never far more, and nothing next."""
    monkeypatch.setattr(VideoTextRetriever, 'encoded_by', lambda *_: {})
    found = drawn_share(surest, sure, share)
    for some in found[1:].split(24):
        assert some.mean().item() == pytest.approx(share, rel=0.25)
    assert found[1:].max() < 5 * share


def test_pairs_of_which_nothing_more_is_known_share_what_is_weighted(monkeypatch):
    """A tenth of the pairs are likelier than own ones, ten times what is stated."""
    monkeypatch.setattr(VideoTextRetriever, 'encoded_by', lambda *_: {})
    monkeypatch.setattr(Drawn, 'forward', lambda self, texts, videos, target: (
        target._replace(weights=(torch.rand(target.positives.shape) > 0.1).double()), {}
    ))  # fmt: skip
    assert drawn_share(1.0, 1.0, 0.01)[1:].mean().item() == pytest.approx(0.01, rel=0.1)


def test_what_is_spared_stands_beside_what_is_stated():
    batches = [make_batch(*ALL)] * 3
    logs, _ = steps(make_model(EarlyTeacher(at=0.0, share=0.02)), batches, [0.5] * 3, rate=0.0)
    assert [log['stated_share'].item() for log in logs] == pytest.approx([0.02] * 3)
    negatives = (~match(batches[0][1], torch.device('cpu'))).sum(1).double().mean().item()
    assert logs[-1]['stated_per_text'].item() == pytest.approx(0.02 * negatives)
    assert logs[0]['weight_power'] == 1.0 != logs[-1]['weight_power']
    assert logs[-1]['down_weighted_share'].item() == pytest.approx(0.02, rel=0.05)
    assert abs(logs[0]['down_weighted_share'].item() - 0.02) > 0.002
    logs, _ = steps(make_model(EarlyTeacher(at=0.0)), batches, [0.5] * 3, rate=0.0)
    assert not {'stated_share', 'weight_power'} & logs[-1].keys()


def test_a_bank_is_weighed_by_the_copied_supervision():
    model = test_momentum.dvtr(teacher=EarlyTeacher(at=0.0))
    loose = test_momentum.dvtr()
    for one in (model, loose):
        one.train()
        one.encoder.noise.eval()
    model.teacher.progress = 0.5
    seen = []
    model.losses['t2v'].register_forward_pre_hook(lambda _, args: seen.append(args[1]))
    loose.losses['t2v'].register_forward_pre_hook(lambda _, args: seen.append(args[1]))
    key = 'feature_t2v'
    for number in (0, 1):  # nothing has moved but the key encoders: both say the same
        for one in (model, loose):
            one.temperature.log_scale.requires_grad_(False)
            one(*test_momentum.batch(number), mode='loss')
        torch.testing.assert_close(seen[-2][key].weights, seen[-1][key].weights)
    with torch.no_grad():  # the heads have learnt by heart; the copy has not
        for one in (model, loose):
            one.supervision.bias.add_(3.0)
    for one in (model, loose):
        one(*test_momentum.batch(2), mode='loss')
    assert (seen[-1][key].weights - seen[-2][key].weights).abs().max() > 0.1


class Branches(TinyEncoder):
    """Two branches with tokens, as ARL's encoder has."""

    def _levels(self, tower, x, mask):
        whole = super()._levels(tower, x, mask)['global']
        other = whole._replace(mean=whole.mean.flip(-1), tokens=whole.tokens.flip(-1))
        return {'a': whole, 'b': other}


def test_sets_of_arl_are_those_of_the_model_as_it_was():
    """The copy is taken as soon as there are thresholds."""
    torch.manual_seed(0)
    supervision = ARLSupervision(dim=8, warmup=0.0, cap=None, u_spread=-3.0)
    model = VideoTextRetriever(
        encoder=Branches(),
        similarity=BestFrameSimilarity(levels=('a', 'b')),
        losses=dict(contrastive=ContrastiveLoss(reads=('a', 'b'), form='own_pair')),
        supervision=supervision,
        teacher=EarlyTeacher(at=0.2),
    )
    inputs, samples = make_batch(*ALL)
    inputs = {k: x.float() if x.is_floating_point() else x for k, x in inputs.items()}
    batch, known = (inputs, samples), Target(match(samples, torch.device('cpu')))
    steps(model, [batch], [0.4])
    assert model.teacher.copy is None  # no thresholds
    statistics = {level: Statistics.empty(8, torch.device('cpu')) for level in ('a', 'b')}
    texts, videos = model(*batch, mode='tensor')
    for level, one in statistics.items():
        one.add(texts[level], videos[level], known.positives)
    supervision.refresh(statistics)
    before = deepcopy(model).eval()
    steps(model, [batch] * 8, [0.5] * 8, rate=3.0)
    with torch.no_grad():
        before.supervision.progress = 1.0
        before.supervision(*before(*batch, mode='tensor'), known)
    model(*batch, mode='loss')
    assert {n: x.tolist() for n, x in model.teacher.found.items()} == {
        n: x.tolist() for n, x in before.supervision.found.items()
    }
    assert any(x.any() for x in model.teacher.found.values())
    assert any(not x.equal(model.teacher.found[n]) for n, x in supervision.found.items())
    with pytest.raises(ValueError, match='not of an average'):
        VideoTextRetriever(
            encoder=Branches(),
            similarity=BestFrameSimilarity(levels=('a', 'b')),
            losses=dict(contrastive=ContrastiveLoss(reads=('a', 'b'), form='own_pair')),
            supervision=ARLSupervision(dim=8),
            teacher=EarlyTeacher(momentum=0.9),
        )


# -- checkpoints, processes ------------------------------------------------------------------------


@pytest.mark.parametrize('momentum', [None, 0.9])
@pytest.mark.parametrize('stop', [1, 4])
@pytest.mark.parametrize('load', [nn.Module.load_state_dict, load_state_dict])
def test_resumed_training_is_the_same(momentum, stop, load):
    """By torch, and by the function of mmengine's runner."""
    batches = [make_batch(slice(0, 5), slice(i % 2, 7)) for i in range(6)]
    progress = [i / 6 for i in range(6)]
    make = lambda: make_model(EarlyTeacher(at=0.3, momentum=momentum, share=0.05))  # noqa: E731
    whole, first = make(), make()
    expected, grads = steps(whole, batches, progress)
    steps(first, batches[:stop], progress[:stop])
    state = deepcopy(first.state_dict())
    assert any('copy' in name for name in state) == (stop > 1 or momentum is not None)
    second = make()
    load(second, state, strict=True)
    found, again = steps(second, batches[stop:], progress[stop:])
    torch.testing.assert_close(found, expected[stop:])
    torch.testing.assert_close(again, grads)
    load(second, make().state_dict(), strict=True)  # and weights from before it was taken
    assert second.teacher.copy is None


def worker(rank, folder, split):
    dist.init_process_group('gloo', init_method=f'file://{folder}/store', rank=rank, world_size=2)
    try:
        for rows in (None, 2):
            model = make_model(EarlyTeacher(at=0.4, share=0.05), rows=rows)
            wrapped = DistributedDataParallel(model, broadcast_buffers=False)
            made = steps(wrapped, [make_batch(*split[rank])] * 4, [0.0, 0.4, 0.6, 0.8])
            torch.save((made, model.teacher.state_dict()), f'{folder}/rank{rank}_{rows}.pt')
        dist.barrier()
    finally:
        dist.destroy_process_group()


def test_two_processes_equal_one(tmp_path):
    split = [(slice(0, 3), slice(0, 2)), (slice(3, 5), slice(2, 7))]
    model = make_model(EarlyTeacher(at=0.4, share=0.05))
    expected = steps(model, [make_batch(*ALL)] * 4, [0.0, 0.4, 0.6, 0.8])
    mp.start_processes(worker, (tmp_path, split), nprocs=2, start_method='forkserver')
    for rows in (None, 2):
        for rank in range(2):
            made, teacher = torch.load(tmp_path / f'rank{rank}_{rows}.pt')
            torch.testing.assert_close(made, expected)
            torch.testing.assert_close(teacher, model.teacher.state_dict())


# -- a model that learns by heart ------------------------------------------------------------------


class Towers(nn.Module):
    """MLPs on features: enough capacity to learn a few pairs by heart."""

    dim = 32

    def __init__(self):
        super().__init__()
        for side in ('video', 'text'):
            tower = nn.Sequential(nn.Linear(48, 96), nn.ReLU(), nn.Linear(96, self.dim))
            setattr(self, side, tower)

    def encode_video(self, video, frame_mask):
        return self._levels(self.video(video[:, 0]))

    def encode_text(self, text, text_mask):
        return self._levels(self.text(text[:, 0]))

    def _levels(self, x):
        unit = F.normalize(x, dim=-1)
        return {'global': Embedding(unit, unit[:, None], unit.new_ones(len(x), 1).bool())}


def learnt_by_heart(teacher):
    """Mean eta of false and of true negatives at the end; 40 contents, three clips each."""
    torch.manual_seed(0)
    content = torch.randn(40, 12).repeat_interleave(3, 0)
    sides = [
        torch.tanh(content @ torch.randn(12, 48) / 12**0.5) + 0.4 * torch.randn(120, 48)
        for _ in range(2)
    ]
    model = VideoTextRetriever(
        encoder=Towers(),
        similarity=CosineSimilarity(levels=('global',)),
        temperature=Temperature(init=0.07),
        heads=dict(type='HierarchicalGaussianHead'),
        supervision=DVTRSupervision(floor=0.0, sharpness=2.0, ramp=(0.33, 0.67)),
        losses=dict(contrastive=ContrastiveLoss(reads=('global',))),
        teacher=teacher,
    )
    weights = {}
    model.losses['contrastive'].register_forward_pre_hook(
        lambda _, args: weights.update(eta=args[1].weights)
    )
    parts = [model.encoder, model.heads, model.supervision]
    optimizer = torch.optim.AdamW(
        [dict(params=p.parameters(), lr=lr) for p, lr in zip(parts, (3e-3, 1e-3, 2e-2))]
    )
    mask, places = torch.ones(120, 1, dtype=torch.bool), torch.arange(120)
    inputs = dict(text=sides[0][:, None], video=sides[1][:, None], text_mask=mask, frame_mask=mask)
    ids = [str(i) for i in range(120)]
    samples = dict(
        text_idx=places, video_idx=places, text_videos=places[:, None], text_ids=ids, video_ids=ids
    )
    for step in range(80):
        for part in model.modules():
            if hasattr(part, 'progress'):
                part.progress = step / 80
        losses = model(inputs, samples, mode='loss')
        optimizer.zero_grad()
        sum(value for name, value in losses.items() if 'loss' in name).backward()
        optimizer.step()
    true = places[:, None] // 3 == places // 3
    own = torch.eye(120, dtype=torch.bool)
    return weights['eta'][true & ~own].mean().item(), weights['eta'][~true].mean().item()


def test_false_negatives_are_not_learnt_by_heart():
    false, true = learnt_by_heart(None)
    assert false > 0.8
    false, true = learnt_by_heart(EarlyTeacher(at=0.15))
    assert false < 0.5 and true > 0.8


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    'arguments, message',
    [
        (dict(at=1.0), 'at must lie in'),
        (dict(momentum=1.0), 'momentum must lie in'),
        (dict(share=0.0), 'share must lie'),
    ],
)
def test_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        EarlyTeacher(**arguments)


def test_what_it_does_not_suit():
    parts = dict(
        encoder=TinyEncoder(),
        similarity=CosineSimilarity(),
        losses=dict(contrastive=ContrastiveLoss()),
    )
    with pytest.raises(ValueError, match='the retriever has none'):
        VideoTextRetriever(**parts, teacher=EarlyTeacher())
    with pytest.raises(ValueError, match='ColumnSupervision fills columns'):
        VideoTextRetriever(**parts, supervision=ColumnSupervision(), teacher=EarlyTeacher())
    model = make_model(EarlyTeacher())
    with pytest.raises(RuntimeError, match='set model.teacher.progress'):
        model(*make_batch(*ALL), mode='loss')
    hook = SimpleNamespace(model=model, iter=1, max_iters=4)
    ProgressHook().before_train_iter(hook, 0)
    assert model.teacher.progress == 0.25 and 'down_weighted_share' in model(
        *make_batch(*ALL), mode='loss'
    )
