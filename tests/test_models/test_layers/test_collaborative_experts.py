"""NetVLAD, the gated embedding and collaborative gating: the official layers, and loops."""

import copy
from itertools import product

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from mmvtr.models.encoders.ce import UnitLinear
from mmvtr.models.layers.collaborative import MODES, CollaborativeGate, CollaborativeGating
from mmvtr.models.layers.experts import GatedEmbedding, NetVLAD

E, V, D = 3, 5, 4
#: [E, V]: expert 0 is alone in video 1, and expert 2 in no video but two.
THERE = torch.tensor([[1, 1, 0, 1, 1], [1, 0, 1, 1, 0], [1, 0, 0, 1, 0]]).bool()
TRAINING = pytest.mark.parametrize('training', [True, False], ids=['train', 'eval'])


def randomised(module, seed=0):
    """Float64, with nothing at its first value."""
    torch.manual_seed(seed)
    for name, x in module.state_dict().items():
        if x.is_floating_point():
            x.copy_(torch.rand_like(x) + 0.5 if 'running_var' in name else torch.randn_like(x))
    return module.double()


def normed(norm, x, counted, training):
    """x [N, C], of which the rows ``counted`` make the statistics, column by column."""
    y = torch.empty_like(x)
    for c in range(x.shape[1]):
        mean, variance = norm.running_mean[c], norm.running_var[c]
        mine = [x[n, c] for n in range(len(x)) if counted[n]]
        if training and len(mine) > 1:
            mean = sum(mine) / len(mine)
            variance = sum((value - mean) ** 2 for value in mine) / len(mine)
        y[:, c] = (x[:, c] - mean) / (variance + 1e-5).sqrt() * norm.weight[c] + norm.bias[c]
    return y


def length(x):
    return sum(value**2 for value in x.flatten()).sqrt()


# -- NetVLAD -----------------------------------------------------------------------------------

K, GHOSTS, LENGTHS = 3, 2, (4, 0, 1, 2)


def bag(seed=1):
    torch.manual_seed(seed)
    mask = torch.arange(4) < torch.tensor(LENGTHS)[:, None]
    return torch.randn(4, 4, D).double(), mask


def vlad_by_loops(module, x, mask, training):
    rows = torch.stack([x[i, j] for i in range(4) for j in range(4) if mask[i, j]])
    logits = normed(module.norm, rows @ module.clusters, [True] * len(rows), training)
    shares = [row.exp() / row.exp().sum() for row in logits]
    found = []
    for i in range(4):
        residuals = torch.zeros(D, K, dtype=torch.float64)
        for j in range(4):
            if mask[i, j]:
                share = shares[int(mask.flatten()[: 4 * i + j].sum())]
                for k in range(K):
                    residuals[:, k] += share[k] * (x[i, j] - module.centres[0, :, k])
        for k in range(K):
            if mask[i].any():
                residuals[:, k] /= length(residuals[:, k])
        flat = residuals.flatten()
        found.append(flat / length(flat) if mask[i].any() else flat)
    return torch.stack(found)


@TRAINING
@pytest.mark.parametrize('ghosts', [0, GHOSTS])
@torch.no_grad()
def test_netvlad_is_that_of_loops_whatever_padding_holds(ghosts, training):
    module = randomised(NetVLAD(D, K, ghosts=ghosts)).train(training)
    x, mask = bag()
    expected = vlad_by_loops(module, x, mask, training)
    found = module(x.masked_fill(~mask[..., None], torch.nan), mask)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    assert module.dim == found.shape[1] == D * K and (found[1] == 0).all()


@TRAINING
def test_gradients_of_netvlad(training):
    module, (x, mask) = randomised(NetVLAD(D, K, ghosts=1)).train(training), bag()
    some = torch.tensor([0, 2, 3])  # without the item that has no rows: no unit vector has one
    weights = [p.detach().requires_grad_() for p in module.parameters()]
    names = [name for name, _ in module.named_parameters()]

    def pooled(x, *weights):
        return torch.func.functional_call(module, dict(zip(names, weights)), (x[some], mask[some]))

    assert torch.autograd.gradcheck(pooled, (x.requires_grad_(), *weights))


def official(data, prefix, names):
    """``w.*`` of a golden file under our names."""
    state = {}
    for key in data.files:
        if key.startswith(f'w.{prefix}'):
            theirs, _, last = key[len(f'w.{prefix}') :].rpartition('.')
            if theirs in names:
                state[f'{names[theirs]}{last}'] = torch.from_numpy(data[key])
    return state


def test_official_netvlad(shared):
    with np.load(shared / 'golden/ce_netvlad.npz') as data:
        x, (dim, kept) = torch.from_numpy(data['x']), data['w.clusters2'].shape[1:]
        module = NetVLAD(dim, kept, ghosts=data['w.clusters'].shape[1] - kept)
        state = official(data, '', {'': '', 'batch_norm': 'norm.'})
        state['centres'] = state.pop('clusters2')
        module.load_state_dict(state)
        mask = torch.ones(x.shape[:2], dtype=torch.bool)
        for mode in ('eval', 'train'):
            module.train(mode == 'train')
            expected = torch.from_numpy(data[f'out_{mode}'])
            torch.testing.assert_close(module(x, mask), expected, rtol=0, atol=1e-5)
        for name in ('running_mean', 'running_var'):
            expected = torch.from_numpy(data[f'after_train.batch_norm.{name}'])
            torch.testing.assert_close(getattr(module.norm, name), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize('settings', [(0, 0), (2, -1)])
def test_clusters_that_are_refused(settings):
    with pytest.raises(ValueError, match='NetVLAD needs a cluster and no negative ghosts, got'):
        NetVLAD(D, settings[0], ghosts=settings[1])


# -- gated embeddings --------------------------------------------------------------------------


@TRAINING
@torch.no_grad()
def test_gated_embedding_is_that_of_loops(training):
    module = randomised(GatedEmbedding(3, D, norm=True)).train(training)
    x, counted = torch.randn(V, 3).double(), torch.tensor([1, 1, 0, 1, 0]).bool()
    z = x @ module.linear.weight.t() + module.linear.bias
    gate = normed(module.norm, z @ module.gate.weight.t() + module.gate.bias, counted, training)
    expected = z / (1 + (-gate).exp())
    expected = torch.stack([row / length(row) for row in expected])
    found = module(x, counted)
    torch.testing.assert_close(found[counted], expected[counted], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize('mode', ['eval', 'train'])
def test_official_units(shared, mode):
    with np.load(shared / 'golden/ce_units.npz') as data:
        x, y, opinion = (torch.from_numpy(data[name]) for name in ('x', 'y', 'mask'))
        wide, dim = x.shape[1], y.shape[1]
        gated = {'fc': 'linear.', 'cg.fc': 'gate.', 'cg.batch_norm': 'norm.'}
        reason = {'cg.fc': 'linear.', 'cg.batch_norm': 'norm_opinion.'}
        cases = {
            'geu': (GatedEmbedding(wide, dim, norm=True), gated, (x,)),
            'geu_nobn': (GatedEmbedding(wide, dim), gated, (x,)),
            'reason': (
                CollaborativeGate(dim), {**reason, 'cg.batch_norm2': 'norm_own.'}, (y, opinion)
            ),
            'reduce': (UnitLinear(wide, dim), {'fc': ''}, (x,)),
        }  # fmt: skip
        for name, (module, names, inputs) in cases.items():
            state = official(data, f'{name}.', names)
            module.load_state_dict({k: v for k, v in state.items() if k in module.state_dict()})
            found = module.train(mode == 'train')(*inputs)
            expected = torch.from_numpy(data[f'{name}.{mode}'])
            torch.testing.assert_close(found, expected, rtol=0, atol=1e-5, msg=name)
        # The gate alone, which is no unit vector: behind a linear map that does nothing.
        alone = GatedEmbedding(dim, dim, norm=True)
        with torch.no_grad():
            alone.linear.weight.copy_(torch.eye(dim))
            alone.linear.bias.zero_()
        state = official(data, 'gate.', {'fc': 'gate.', 'batch_norm': 'norm.'})
        alone.load_state_dict(state, strict=False)
        expected = F.normalize(torch.from_numpy(data[f'gate.{mode}']), dim=-1)
        found = alone.train(mode == 'train')(y)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)
        mish = F.mish(torch.from_numpy(data['mish_in']))
        torch.testing.assert_close(mish, torch.from_numpy(data['mish']), rtol=0, atol=1e-5)


# -- collaborative gating ----------------------------------------------------------------------


def layers(module, x, counted, training):
    for norm, linear in zip(module.norms, module.linears):
        x = normed(norm, x, counted, training)
        x = x * torch.tanh((1 + x.exp()).log())
        x = x @ linear.weight.t() + linear.bias
    return x


def opinion(module, i, vectors, star, counted, training):
    """T_i [V, D] before h, one group of partners and one video at a time."""
    mode, total, count = module.mode, torch.zeros(V, D).double(), torch.zeros(V)
    if mode not in ('pairwise', 'triplet'):
        if mode == 'pairwise-star-specific':
            x = module.own[i](torch.cat([vectors[i], star], 1))
        elif mode == 'pairwise-star-tensor':
            mine, whole = module.reduce(vectors[i]), module.reduce(star)
            x = module.first(
                torch.stack([torch.outer(*pair).flatten() for pair in zip(mine, whole)])
            )
        else:
            x = module.first(torch.cat([vectors[i], star], 1))
        return layers(module.deeper, x, counted[i], training) * THERE[i][:, None]
    for others in product(range(E), repeat=2 if mode == 'triplet' else 1):
        group = (i, *others)
        if not module.include_self and len(set(group)) < len(group):
            continue
        x = module.first(torch.cat([vectors[j] for j in group], 1))
        together = [all(counted[j, v] for j in group) for v in range(V)]
        x = layers(module.deeper, x, together, training)
        for v in range(V):
            if all(THERE[j, v] for j in group):
                total[v] += x[v]
                count[v] += 1
    return total / count.clamp(min=1)[:, None]


def gating_by_loops(module, vectors, counted, training):
    vectors, found = [*vectors], []
    star = torch.stack(
        [sum(vectors[e][v] for e in range(E) if THERE[e, v]) / THERE[:, v].sum() for v in range(V)]
    )
    for i in range(E):
        heard = opinion(module, i, vectors, star, counted, training)
        heard = layers(module.after, heard, counted[i], training)
        gate = module.gates[i]
        own = vectors[i] @ gate.linear.weight.t() + gate.linear.bias
        logits = normed(gate.norm_opinion, heard, counted[i], training)
        logits = logits + normed(gate.norm_own, own, counted[i], training)
        y = vectors[i] / (1 + (-logits).exp())
        found.append(torch.stack([row / length(row) for row in y]))
        if module.sequential:
            vectors[i] = found[-1]
    return torch.stack(found)


SETTINGS = [dict(), dict(include_self=False, g_layers=1, h_layers=2), dict(sequential=True)]


@TRAINING
@pytest.mark.parametrize('settings', SETTINGS, ids=['plain', 'noself_h2', 'sequential'])
@pytest.mark.parametrize('mode', MODES)
@pytest.mark.parametrize('padded', [False, True])
@torch.no_grad()
def test_gating_is_that_of_loops(mode, settings, training, padded):
    module = randomised(CollaborativeGating(E, D, mode=mode, **settings)).train(training)
    torch.manual_seed(2)
    vectors = torch.randn(E, V, D).double()
    counted = torch.ones_like(THERE) if padded else THERE
    expected = gating_by_loops(module, vectors, counted, training)
    before = copy.deepcopy(module)
    found = module(vectors, THERE, counted)
    torch.testing.assert_close(found[THERE], expected[THERE], rtol=1e-8, atol=1e-10)
    if not padded:  # what a missing expert says is no matter
        other = torch.where(THERE[..., None], vectors, torch.randn(E, V, D).double())
        again = before(other, THERE)
        torch.testing.assert_close(again[THERE], expected[THERE], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize('mode', MODES)
def test_gradients_of_gating(mode):
    settings = dict(g_layers=2, h_layers=1, sequential=mode == 'triplet')
    module = randomised(CollaborativeGating(2, 2, mode=mode, **settings))
    there = torch.tensor([[1, 1, 1, 1], [1, 0, 1, 1]]).bool()
    vectors = torch.randn(2, 4, 2).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: module(x, there)[there], vectors)
    module(vectors, there)[there].square().sum().backward()
    assert (vectors.grad[~there] == 0).all()


def test_one_expert_alone_hears_nobody():
    module = randomised(CollaborativeGating(1, D, include_self=False)).eval()
    vectors = torch.randn(1, V, D).double()
    gate = module.gates[0]
    expected = gate(vectors[0], torch.zeros(V, D).double())
    found = module(vectors, torch.ones(1, V, dtype=torch.bool))
    torch.testing.assert_close(found[0], expected)
    module.train()(vectors, torch.ones(1, V, dtype=torch.bool))
    assert all(norm.num_batches_tracked == 0 for norm in module.deeper.norms)


def test_settings_that_are_refused():
    with pytest.raises(ValueError, match="gating must be one of .*or None for MoEE, not 'star'"):
        CollaborativeGating(E, D, mode='star')
    for wrong in (dict(g_layers=0), dict(h_layers=-1)):
        with pytest.raises(ValueError, match='needs g_layers >= 1 and h_layers >= 0, got'):
            CollaborativeGating(E, D, **wrong)


def test_layers_are_nn_modules_that_a_state_dict_knows():
    module = CollaborativeGating(E, D, h_layers=1)
    assert isinstance(module.deeper, nn.Module)
    names = {name.rpartition('.')[0] for name in module.state_dict()}
    assert {'first', 'deeper.norms.0', 'deeper.linears.1', 'after.norms.0'} <= names
