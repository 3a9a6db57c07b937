"""Key encoders and memory banks against HiT's equations, written out item by item."""

import itertools
import math
from copy import deepcopy
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F
from mmengine.logging import MMLogger
from mmengine.optim import OptimWrapper
from mmengine.runner.checkpoint import load_state_dict
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import children  # noqa: F401 - the server that forks the processes has imported all
from mmvtr.engine.checks.set_checks import check_banks
from mmvtr.engine.hooks.step_hooks import MomentumHook
from mmvtr.errors import UserError
from mmvtr.models.bank import MemoryBank
from mmvtr.models.losses.matrix import ContrastiveLoss
from mmvtr.models.losses.objectives import KLToUnit
from mmvtr.models.momentum import MomentumRetriever
from mmvtr.models.similarities.cosine import CosineSimilarity
from mmvtr.models.similarities.token import TokenSimilarity
from mmvtr.models.supervisions.dvtr import DVTRSupervision
from mmvtr.models.supervisions.weights import RelevanceSupervision
from mmvtr.models.temperature import Temperature
from mmvtr.registry import MODELS
from mmvtr.storage.weights import check_weights
from mmvtr.structures import Embedding

LEVELS = ('feature', 'semantic')
K, D = 7, 6


class Tables(nn.Module):
    """Encodes item n as row n of a table a level; level ``'semantic'`` has two tokens for heads."""

    level_names, token_levels = LEVELS, ('semantic',)

    def __init__(self, items: int = 12, dim: int = D):
        super().__init__()
        self.dim = dim
        self.tables = nn.ParameterDict(
            {
                f'{side}_{level}': nn.Parameter(torch.randn(items, dim))
                for side in ('text', 'video')
                for level in LEVELS
            }
        )
        self.register_buffer('count', torch.zeros(()))
        self.noise = nn.Dropout(0.5)  # eval mode only, where values are compared

    def _encode(self, side, numbers):
        rows = numbers[:, 0].long()
        found = {level: self.noise(self.tables[f'{side}_{level}'][rows]) for level in LEVELS}
        tokens = torch.stack([found['feature'], found['semantic']], 1)
        mask = torch.ones(tokens.shape[:2], dtype=torch.bool)
        return {
            'feature': Embedding(F.normalize(found['feature'], dim=-1)),
            'semantic': Embedding(F.normalize(found['semantic'], dim=-1), tokens, mask),
        }

    def encode_video(self, video, frame_mask):
        return self._encode('video', video)

    def encode_text(self, text, text_mask):
        return self._encode('text', text)


def make(encoder=None, **kwargs):
    """HiT's losses; in eval mode of the dropout alone."""
    torch.manual_seed(0)
    settings = dict(
        encoder=encoder or Tables(),
        similarity=CosineSimilarity(levels=LEVELS),
        temperature=Temperature(init=0.07),
        losses={
            way: ContrastiveLoss(
                reads=tuple(f'{level}_{way}' for level in LEVELS), direction=way, loss_weight=2.0
            )
            for way in ('t2v', 'v2t')
        },
        bank_size=K,
        momentum=0.9,
    )
    model = MomentumRetriever(**{**settings, **kwargs}).double()
    model.encoder.noise.p = 0.0
    with torch.no_grad():  # the logarithm in float64, too
        model.temperature.log_scale.fill_(-math.log(0.07))
    return model


def dvtr(**kwargs):
    """With DVTR's weights, fully faded in."""
    return make(
        heads=dict(type='HierarchicalGaussianHead'),
        head_reads='semantic',
        supervision=DVTRSupervision(reference='mean', sharpness=2.0, floor=0.0),
        **kwargs,
    )


#: Batches: the numbers of texts and of videos, and the videos that they are of.
BATCHES = [
    ([0, 1, 2], [0, 1, 2], [5, 6, 7], [5, 6, 7]),
    ([3, 4, 5, 6], [3, 4, 5], [6, 8, 8, 5], [6, 8, 5]),  # two captions of video 8
    ([7, 8, 9], [6, 7, 8, 9], [8, 9, 5], [8, 9, 5, 8]),  # and the video twice
]


def batch(number, texts=slice(None), videos=slice(None)):
    t, v, of_t, of_v = (torch.tensor(part) for part in BATCHES[number])
    t, of_t, v, of_v = t[texts], of_t[texts], v[videos], of_v[videos]
    inputs = dict(
        text=t[:, None].double(),
        text_mask=torch.ones(len(t), 1, dtype=torch.bool),
        video=v[:, None].double(),
        frame_mask=torch.ones(len(v), 1, dtype=torch.bool),
    )
    samples = dict(
        text_idx=t,
        text_videos=of_t[:, None],
        video_idx=of_v,
        text_ids=[f't{i}' for i in t.tolist()],
        video_ids=[f'v{i}' for i in of_v.tolist()],
    )
    return inputs, samples


def total(losses):
    return sum(value for name, value in losses.items() if 'loss' in name)


# -- the equations ---------------------------------------------------------------------------------


def info_nce(query, keys, own, bank, bank_videos, video, weights, others=()):
    """One query: its pair's keys against the bank's, those of its own video left out."""
    at = lambda key: torch.exp(query @ key / 0.07)  # noqa: E731
    positive = sum(at(keys[k]) for k in own)
    negative = sum(
        (weights[k] * at(bank[k]) for k in range(len(bank)) if bank_videos[k] not in (-1, video)),
        start=torch.zeros((), dtype=torch.float64),
    )
    negative = negative + sum(weights[-1 - i] * at(keys[k]) for i, k in enumerate(others))
    return -torch.log(positive / (positive + negative))


def written_out(model, number, weights=None):
    """The four terms of a batch, from the tables and what the banks hold."""
    t, v, of_t, of_v = BATCHES[number]
    terms = {}
    for level in LEVELS:
        rows = {
            (who, side): F.normalize(encoder.tables[f'{side}_{level}'], dim=-1)
            for who, encoder in (('query', model.encoder), ('key', model.key_encoder))
            for side in ('text', 'video')
        }
        for way, one, other in (
            ('t2v', ('text', t, of_t), ('video', v, of_v)),
            ('v2t', ('video', v, of_v), ('text', t, of_t)),
        ):
            bank = model.banks[other[0]]
            keys = rows['key', other[0]][other[1]]
            losses = []
            for place, (item, video) in enumerate(zip(one[1], one[2])):
                own = [k for k, of in enumerate(other[2]) if of == video]
                if own:
                    weigh = torch.ones(K).double() if weights is None else weights[way][place]
                    query = rows['query', one[0]][item]
                    memory = getattr(bank, f'mean_{level}'), bank.video.tolist()
                    losses.append(info_nce(query, keys, own, *memory, video, weigh))
            terms[f'{level}_{way}'] = torch.stack(losses).mean()
    return terms


def test_hits_terms_over_three_batches():
    """Values and gradients; the bank is empty, half full, and has wrapped."""
    model = make()
    for number in range(3):
        expected = sum(written_out(model, number).values())
        model.zero_grad()
        expected.backward()
        grads = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
        model.zero_grad()
        found = total(model(*batch(number), mode='loss'))
        found.backward()
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
        assert number == 0 or found > 0.1
        assert len(grads) == 4
        for name, grad in grads.items():
            own = model.get_parameter(name).grad
            torch.testing.assert_close(own, grad, rtol=1e-10, atol=1e-10)
    assert [int(bank.pushed) for bank in model.banks.values()] == [10, 10]
    # Ten in seven rows: the first three have left, the last three took their places.
    assert model.banks['text'].video.tolist() == [8, 9, 5, 6, 8, 8, 5]
    assert model.banks['video'].video.tolist() == [9, 5, 8, 6, 8, 5, 8]


def test_gradcheck():
    model = make()
    model(*batch(0), mode='loss')
    model.eval()  # the bank stays
    table = model.encoder.tables['text_semantic']

    def loss(values):
        swapped = torch.func.functional_call(
            model, {'encoder.tables.text_semantic': values}, batch(1), dict(mode='loss')
        )
        return total(swapped)

    given = table.detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(loss, given)


def by_hand(model, texts, videos, reference):
    """eta [T, V] of lists of (mean, log_std, video), the partners of each those of its video."""
    slope, bias = F.softplus(model.supervision.slope).detach(), model.supervision.bias.detach()

    def match(text, video):
        w = (text[0] - video[0]).square().sum() + (text[1].exp() - video[1].exp()).square().sum()
        return float(torch.sigmoid(bias - slope * w / len(text[0])))

    p = [[match(text, video) for video in videos] for text in texts]
    eta = torch.zeros(len(texts), len(videos)).double()
    for t, v in itertools.product(range(len(texts)), range(len(videos))):
        of_t = max(p[t][j] for j in range(len(videos)) if videos[j][2] == texts[t][2])
        of_v = max(p[i][v] for i in range(len(texts)) if texts[i][2] == videos[v][2])
        against = dict(max=max(of_t, of_v), mean=(of_t + of_v) / 2, min=min(of_t, of_v))
        against.update(text=of_t, video=of_v)
        eta[t, v] = max(0.0, 1 - (p[t][v] / against[reference]) ** 2)
    return eta


@pytest.mark.parametrize('reference', ['max', 'mean', 'min', 'text', 'video'])
def test_weights_of_dvtr_reach_the_bank(reference):
    """eta of (query, row) from the Gaussians that the rows had when they entered; p of a row with
    its own partners is that with the rows of its video on the other side, batch and bank."""
    model = dvtr()
    model.supervision.reference = reference
    rings = dict(text={}, video={})
    pushed = dict(text=0, video=0)
    for number in range(3):
        inputs, samples = batch(number)
        queries = {}
        for side, encode, of in (
            ('text', model.encode_text, BATCHES[number][2]),
            ('video', model.encode_video, BATCHES[number][3]),
        ):
            one = encode(inputs)['gaussian']
            queries[side] = [*zip(one.mean.detach(), one.log_std.detach(), of)]
        old = {side: [ring[place] for place in sorted(ring)] for side, ring in rings.items()}
        eta = by_hand(model, *(queries[side] + old[side] for side in queries), reference)
        count = {side: len(items) for side, items in queries.items()}
        weights = {}
        for way, side, found in (
            ('t2v', 'video', eta[: count['text'], count['video'] :]),
            ('v2t', 'text', eta[count['text'] :, : count['video']].t()),
        ):
            weights[way] = torch.zeros(len(found), K).double()
            weights[way][:, sorted(rings[side])] = found
        expected = written_out(model, number, weights)
        found = model(inputs, samples, mode='loss')
        assert found['loss_match'] > 0 and found['loss_match'].requires_grad
        for way in ('t2v', 'v2t'):
            both = sum(expected[f'{level}_{way}'] for level in LEVELS)
            torch.testing.assert_close(found[f'loss_{way}'], both, rtol=1e-10, atol=1e-10)
        if number:
            plain = sum(written_out(model, number).values()) if number == 1 else None
            assert plain is None or plain > sum(expected.values())
        for side, items in queries.items():
            for one in items:
                rings[side][pushed[side] % K] = one
                pushed[side] += 1


def test_each_reference_weighs_a_bank_otherwise():
    losses = {}
    for reference in ('max', 'mean', 'min', 'text', 'video'):
        model = dvtr()
        model.supervision.reference = reference
        model(*batch(0), mode='loss')
        found = model(*batch(1), mode='loss')
        losses[reference] = (round(float(found['loss_t2v']), 9), round(float(found['loss_v2t']), 9))
    assert len(set(losses.values())) == 5, losses


def test_pcme_weighs_a_bank_too():
    model = make(
        heads=dict(type='PCMEGaussianHead'),
        head_reads='semantic',
        supervision=MODELS.build(dict(type='mmvtr.PCMESupervision', floor=0.0)),
    )
    plain = make()
    for number in range(2):
        losses = [one(*batch(number), mode='loss') for one in (model, plain)]
    assert losses[0]['loss_t2v'] < losses[1]['loss_t2v']
    assert torch.isfinite(total(losses[0]))


def test_other_keys_of_the_batch_are_negatives_where_asked_for():
    model, other = make(in_batch=True), make()
    first = model(*batch(0), mode='loss'), other(*batch(0), mode='loss')
    assert first[1]['loss_t2v'] == 0 < first[0]['loss_t2v']  # an empty bank
    expected = 0.0
    for level in LEVELS:
        t = F.normalize(model.encoder.tables[f'text_{level}'][:3], dim=-1)
        v = F.normalize(model.key_encoder.tables[f'video_{level}'][:3], dim=-1)
        expected += F.cross_entropy(t @ v.t() / 0.07, torch.arange(3))
    torch.testing.assert_close(first[0]['loss_t2v'], expected, rtol=1e-10, atol=1e-10)


def test_golden_equations(shared):
    """Values as stored (float32), and the bank after them."""
    golden = dict(np.load(shared / 'golden' / 'hit_equations.npz', allow_pickle=False))
    bank_videos = torch.from_numpy(golden['bank_video_ids'])
    for left_out in (False, True):
        encoder = Tables(items=5, dim=8)
        model = make(encoder, bank_size=12)
        with torch.no_grad():
            for level in LEVELS:
                for side in ('text', 'video'):
                    name, given = f'{side}_{level}', f'{level}.{{}}_{side}'
                    for who, one in (('query', model.encoder), ('key', model.key_encoder)):
                        one.tables[name].copy_(torch.from_numpy(golden[given.format(who)]))
                    bank = model.banks[side]
                    getattr(bank, f'mean_{level}').copy_(
                        torch.from_numpy(golden[given.format('bank')])
                    )
                    bank.video.copy_(bank_videos if left_out else bank_videos + 1000)
                    bank.pushed.fill_(12 + 3)
        numbers = torch.arange(5)
        inputs, _ = batch(0)
        mask = torch.ones(5, 1, dtype=torch.bool)
        inputs = dict(
            text=numbers[:, None].double(),
            text_mask=mask,
            video=numbers[:, None].double(),
            frame_mask=mask,
        )
        ids = torch.from_numpy(golden['video_ids'])
        samples = dict(text_videos=ids[:, None], video_idx=ids, text_ids=[], video_ids=[])
        losses = model(inputs, samples, mode='loss')
        stem = 'loss_same_video_left_out' if left_out else 'loss'
        for way in ('t2v', 'v2t'):
            expected = sum(float(golden[f'{stem}.{level}.{way}']) for level in LEVELS)
            assert losses[f'loss_{way}'].item() == pytest.approx(expected, abs=2e-6)
        assert total(losses).item() == pytest.approx(float(golden[f'{stem}.sum_of_four']), abs=4e-6)
        for level in LEVELS:
            for side in ('text', 'video'):
                after = torch.from_numpy(golden[f'{level}.bank_{side}_after']).double()
                found = getattr(model.banks[side], f'mean_{level}')
                torch.testing.assert_close(found, after, rtol=0, atol=1e-6)


@pytest.mark.parametrize('momentum', [0.9, 0.999])
def test_golden_moving_average(shared, momentum):
    golden = dict(np.load(shared / 'golden' / 'hit_equations.npz', allow_pickle=False))
    model = make(momentum=momentum)
    query, key = (torch.from_numpy(golden[f'ema.{who}']).double() for who in ('query', 'key'))
    for one, values in ((model.encoder, query), (model.key_encoder, key)):
        one.tables['text_feature'] = nn.Parameter(values.clone())
    model.follow()
    found = model.key_encoder.tables['text_feature']
    after = momentum * key + (1 - momentum) * query
    torch.testing.assert_close(found.data, after, rtol=1e-12, atol=1e-12)
    stored = torch.from_numpy(golden[f'ema.key_after.m={momentum}']).double()
    torch.testing.assert_close(found.data, stored, rtol=0, atol=1e-6)


# -- the bank --------------------------------------------------------------------------------------


def test_a_bank_is_first_in_first_out():
    bank = MemoryBank(4, dict(a=1))
    assert len(bank) == 0

    def push(*x):
        video = torch.tensor(x, dtype=torch.long)
        bank.push({'a': Embedding(video[:, None].float())}, video)

    push(1, 2, 3)
    assert len(bank) == 3 and bank.video.tolist() == [1, 2, 3, -1]
    push(4, 5)
    assert bank.video.tolist() == [5, 2, 3, 4] == bank.levels['a'].mean.flatten().tolist()
    push(*range(10, 16))  # more than it holds: the last four, as if one by one
    assert len(bank) == 4 and bank.video.tolist() == [13, 14, 15, 12]
    push()
    assert bank.video.tolist() == [13, 14, 15, 12] and int(bank.pushed) == 11
    with pytest.raises(ValueError, match='size must be at least 1, not 0'):
        MemoryBank(0, dict(a=1))


# -- key encoders ----------------------------------------------------------------------------------


def test_key_encoders_learn_nothing_by_themselves():
    model = make()
    model.encoder.noise.p = 0.5  # the copy has .5 from the start
    assert model.training and model.encoder.training and not model.key_encoder.training
    model.train()
    assert not model.key_encoder.training
    for stage in (None, 'retrieval', 'uncertainty', None):
        model.stage = stage
        assert not any(p.requires_grad for p in model.key_encoder.parameters())
    for number in range(3):
        total(model(*batch(number), mode='loss')).backward()
    assert all(p.grad is None for p in model.key_encoder.parameters())
    bank = model.banks['text'].mean_feature[4]  # text 4, as it is without dropout
    expected = F.normalize(model.key_encoder.tables['text_feature'][4], dim=-1)
    torch.testing.assert_close(bank, expected)


def test_an_evaluation_changes_no_bank_and_reads_no_key():
    model = make()
    model(*batch(0), mode='loss')
    before = deepcopy(model.state_dict())
    model.eval()
    model(*batch(1), mode='loss')
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)
    samples = model(*batch(1), mode='predict')
    with torch.no_grad():
        for p in model.key_encoder.parameters():
            p.fill_(0.0)
    again = model(*batch(1), mode='predict')
    assert all(torch.equal(a.scores, b.scores) for a, b in zip(samples, again))


def test_the_uncertainty_stage_leaves_banks_alone():
    model = dvtr()
    model.stage = 'uncertainty'
    losses = model(*batch(0), mode='loss')
    assert 'loss_match' in losses and 'loss_t2v' not in losses and len(model.banks['text']) == 0
    model.stage = 'retrieval'
    losses = model(*batch(0), mode='loss')
    assert 'loss_t2v' in losses and 'loss_match' not in losses and len(model.banks['text']) == 3


def train(model, optimizer, numbers):
    wrapper = OptimWrapper(optimizer)
    hook = MomentumHook()
    hook.before_train(SimpleNamespace(model=model, optim_wrapper=wrapper))
    for number in numbers:
        losses = model(*batch(number), mode='loss')
        wrapper.update_params(total(losses))
    hook.after_train(None)


def sgd(model):
    return torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.01)


def test_a_resumed_training_is_exact():
    numbers = [0, 1, 2, 0, 2, 1]
    whole, half, rest = dvtr(), dvtr(), dvtr()
    train(whole, sgd(whole), numbers)
    optimizer = sgd(half)
    train(half, optimizer, numbers[:3])
    assert not torch.equal(
        half.key_encoder.tables['text_feature'], half.encoder.tables['text_feature']
    )
    rest.load_state_dict(half.state_dict())
    resumed = sgd(rest)
    resumed.load_state_dict(optimizer.state_dict())
    train(rest, resumed, numbers[3:])
    torch.testing.assert_close(rest.state_dict(), whole.state_dict(), rtol=0, atol=0)


def test_keys_follow_after_each_step_of_the_optimizer_and_only_then():
    model = make(momentum=0.5)
    wrapper = OptimWrapper(torch.optim.SGD(model.encoder.parameters(), 0.1), accumulative_counts=2)
    hook = MomentumHook()
    hook.before_train(SimpleNamespace(model=model, optim_wrapper=wrapper))
    wrapper.initialize_count_status(model, 0, 4)
    key = model.key_encoder.tables['text_feature']
    start, moved = key.clone(), []
    for number in (1, 1, 2, 2):
        wrapper.update_params(total(model(*batch(number), mode='loss')))
        moved.append(float((key - start).abs().max()))
    assert moved[0] == 0 < moved[1] == moved[2] < moved[3]
    hook.after_train(None)
    wrapper.step()
    assert float((key - start).abs().max()) == moved[3]
    other = SimpleNamespace(model=nn.Linear(2, 2), optim_wrapper=wrapper)
    with pytest.raises(ValueError, match='Linear has no key encoder that could follow'):
        hook.before_train(other)


def test_a_bank_longer_than_the_data_is_refused():
    loader = SimpleNamespace(dataset=range(5))
    check_banks(SimpleNamespace(model=make(bank_size=5), train_dataloader=loader))
    check_banks(SimpleNamespace(model=nn.Linear(2, 2)))
    with pytest.raises(UserError, match='bank of 6 keys is longer .* 5 items: .* at most 5'):
        check_banks(SimpleNamespace(model=make(bank_size=6), train_dataloader=loader))


def test_the_bank_of_another_model_is_refused():
    """As ``--resume`` reads it."""
    message = r'(?s)a.pth does not fit this MomentumRetriever:.*another shape .*: banks.text.video'
    with pytest.raises(RuntimeError, match=message):
        check_weights(make(bank_size=4), make(bank_size=6).state_dict(), 'a.pth')
    with pytest.raises(RuntimeError, match=r'unexpected \(4\): banks.text.mean_gaussian'):
        check_weights(make(), dvtr().state_dict(), 'a.pth', ['banks.'])


def test_keys_that_stay_behind_are_an_error():
    model = make()
    optimizer = sgd(model)
    total(model(*batch(1), mode='loss')).backward()
    model(*batch(1), mode='loss')  # gradients that are accumulated: nothing has moved
    optimizer.step()
    with pytest.raises(RuntimeError, match='has not followed: add .*MomentumHook'):
        model(*batch(1), mode='loss')


def test_the_version_in_a_checkpoint_is_of_the_class_not_of_its_weights():
    model = make()
    keys = [*model.state_dict()]
    train(model, sgd(model), [1, 2])
    assert model.state_dict()._metadata['']['version'] == type(model)._version == 1
    assert [*model.state_dict()] == keys


def test_keys_that_have_followed_may_be_averaged():
    """An EMAHook moves the weights there and back, also between steps that are skipped."""
    model = make()
    optimizer = sgd(model)
    for _ in range(2):
        train(model, optimizer, [1])
        model(*batch(1), mode='loss')
        with torch.no_grad():
            for p in model.encoder.parameters():
                p.mul_(1)
    assert model(*batch(1), mode='loss')['loss_t2v'] > 0


@pytest.mark.parametrize('prefix', ['encoder.', 'encoder.tables.text_feature'])
def test_keys_start_from_a_part_of_a_checkpoint(prefix):
    """As load_from_prefixes has it: the key encoders are in no such part."""
    part = {n: x + 1 for n, x in make().state_dict().items() if n.startswith(prefix)}
    model = make()
    load_state_dict(model, dict(part))
    torch.testing.assert_close(
        model.encoder.tables['text_feature'], part['encoder.tables.text_feature']
    )
    torch.testing.assert_close(model.key_encoder.state_dict(), model.encoder.state_dict())
    trained = make()  # of a checkpoint that has both each keeps its own
    train(trained, sgd(trained), [0, 1])
    load_state_dict(model, trained.state_dict())
    torch.testing.assert_close(model.state_dict(), trained.state_dict())
    key = model.key_encoder.tables['text_feature']
    assert not torch.equal(key, model.encoder.tables['text_feature'])


def test_keys_start_from_what_init_cfg_makes(monkeypatch):
    # mmengine writes to the file of the last logger, which another test may have closed.
    monkeypatch.setattr(MMLogger, '_instance_dict', type(MMLogger._instance_dict)())
    encoder = Tables()
    encoder.linear = nn.Linear(2, 2)
    model = make(encoder, init_cfg=dict(type='Normal', layer='Linear', std=3.0))
    before = model.encoder.linear.weight.clone()
    model.init_weights()
    assert not torch.equal(model.encoder.linear.weight, before)
    torch.testing.assert_close(model.key_encoder.state_dict(), model.encoder.state_dict())


def test_a_batch_of_nothing_is_no_error():
    """All of its videos were broken."""
    _, samples = batch(0, slice(0, 0), slice(0, 0))
    samples['text_videos'] = torch.empty(0, 0, dtype=torch.int64)  # as collated
    for model in (make(), dvtr()):
        losses = model({}, samples, mode='loss')
        assert float(total(losses).detach()) == 0
        total(losses).backward()


# -- several processes -----------------------------------------------------------------------------


def run(model, parts):
    """Three batches with a step each: losses, gradients and banks of all."""
    module = getattr(model, 'module', model)
    optimizer, found = sgd(module), []
    for number, part in enumerate(parts):
        optimizer.zero_grad()
        losses = model(*batch(number, *part), mode='loss')
        total(losses).backward()
        grads = {n: p.grad.clone() for n, p in module.named_parameters() if p.requires_grad}
        optimizer.step()
        module.follow()
        found.append(({k: x.detach() for k, x in losses.items()}, grads))
    return found, module.state_dict()


def worker(rank, folder, parts):
    dist.init_process_group('gloo', init_method=f'file://{folder}/store', rank=rank, world_size=2)
    try:
        model = dvtr()
        model.temperature.log_scale.requires_grad_(False)
        model.micro_batch = 2 if rank else None
        wrapped = DistributedDataParallel(model, broadcast_buffers=False)
        torch.save(run(wrapped, parts[rank]), f'{folder}/rank{rank}.pt')
        dist.barrier()
    finally:
        dist.destroy_process_group()


def test_two_processes_equal_one(tmp_path):
    """Unequal shares, one of no text and one of nothing."""
    parts = [
        [(slice(0, 1), slice(0, 2)), (slice(0, 4), slice(0, 3)), (slice(0, 0), slice(0, 3))],
        [(slice(1, 3), slice(2, 3)), (slice(4, 4), slice(3, 3)), (slice(0, 3), slice(3, 4))],
    ]
    model = dvtr()
    expected, state = run(model, [(slice(None), slice(None))] * 3)
    assert expected[2][0]['loss_t2v'] > 0.1
    mp.start_processes(worker, (tmp_path, parts), nprocs=2, start_method='forkserver')
    for rank in range(2):
        found, own = torch.load(tmp_path / f'rank{rank}.pt')
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(own, state)
        assert own['banks.text.video'].tolist() == state['banks.text.video'].tolist()


# -- what is refused -------------------------------------------------------------------------------


def test_what_is_refused():
    with pytest.raises(ValueError, match='block_rows=64: .* leave it away'):
        make(block_rows=64)
    model = make()
    with pytest.raises(ValueError, match='columns of a bank'):
        model.block_rows = 2
    model.block_rows = None
    for outside in (1.0, -0.1):
        with pytest.raises(ValueError, match=rf'momentum must lie in \[0, 1\), not {outside}'):
            make(momentum=outside)
    with pytest.raises(ValueError, match='size must be at least 1, not 0'):
        make(bank_size=0)
    with pytest.raises(ValueError, match='TokenSimilarity reads tokens'):
        make(similarity=TokenSimilarity())
    with pytest.raises(ValueError, match='RelevanceSupervision cannot weigh the items of a bank'):
        make(supervision=RelevanceSupervision())
    with pytest.raises(ValueError, match='DVTRSupervision cannot weigh .* takes heads'):
        make(supervision=DVTRSupervision())
    with pytest.raises(ValueError, match=r"objectives \['kl'\] read a target of the batch alone"):
        make(objectives=dict(kl=KLToUnit()))
    inputs, samples = batch(0)
    samples['text_videos'] = torch.tensor([[5, -1], [6, 7], [7, -1]])
    with pytest.raises(ValueError, match=r'text 1 of the batch belongs to videos \[6, 7\]'):
        make()(inputs, samples, mode='loss')
    samples['text_videos'] = torch.tensor([[5, -1], [6, -1], [7, -1]])  # padded only
    make()(inputs, samples, mode='loss')
